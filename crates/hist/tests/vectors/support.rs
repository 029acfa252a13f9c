//! Reading records, and comparing.

use ogive_hist::{DecimalBin, Histogram};
use serde_json::Value;

/// `Ok(true)` when the record was held to Ogive's rule instead of the library's answer.
pub(crate) type Outcome = Result<bool, String>;

/// A bin with its count.
pub(crate) type Counted = (DecimalBin, u64);

/// Fails with a message that shows both sides.
pub(crate) fn expect<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("{what}: found {found:?}, expected {expected:?}")) }
}

/// A double, which may be spelled "NaN", "Infinity" or "-Infinity".
pub(crate) fn number(value: &Value) -> f64 {
    match value {
        Value::Number(number) => number.as_f64().expect("a number is a double"),
        Value::String(text) => text.parse().unwrap_or_else(|_| panic!("{text:?} is not a number")),
        other => panic!("{other} is not a number"),
    }
}

/// Doubles.
pub(crate) fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().expect("a list of numbers").iter().map(number).collect()
}

/// A 64-bit count, a decimal string or a number.
pub(crate) fn count(value: &Value) -> u64 {
    match value {
        Value::String(text) => text.parse().unwrap_or_else(|_| panic!("{text:?} is not a count")),
        other => other.as_u64().unwrap_or_else(|| panic!("{other} is not a count")),
    }
}

/// `[val, exp]`.
pub(crate) fn bin(value: &Value) -> DecimalBin {
    let part = |at: usize| i8::try_from(value[at].as_i64().expect("a bin's part is a number")).expect("and fits i8");
    DecimalBin { val: part(0), exp: part(1) }
}

/// `[val, exp, count]`s.
pub(crate) fn bins(value: &Value) -> Vec<Counted> {
    let list = value.as_array().expect("bins are a list");
    list.iter().map(|entry| (bin(entry), count(&entry[2]))).collect()
}

/// A histogram of bins.
pub(crate) fn histogram(bins: &[Counted]) -> Histogram {
    let mut histogram = Histogram::log_linear();
    for (bin, count) in bins {
        histogram.record_bin(*bin, *count);
    }
    histogram
}

/// The filled bins of a histogram in the order of the format.
pub(crate) fn bins_of(histogram: &Histogram) -> Vec<Counted> {
    let side = |positive: bool| {
        let bins = if positive { &histogram.positive } else { &histogram.negative };
        bins.iter().map(move |(index, count)| (DecimalBin::from_index(positive, index), count)).collect::<Vec<_>>()
    };
    let mut all = vec![(DecimalBin::NAN, histogram.nan)];
    all.extend(side(false).into_iter().rev());
    all.push((DecimalBin::ZERO, histogram.zero));
    all.extend(side(true));
    all.retain(|(_, count)| *count > 0);
    all
}

/// Bins as a canonical writer would leave them: equal bins added up, zero counts dropped, in order.
pub(crate) fn canonical(bins: &[Counted]) -> Vec<Counted> {
    let mut sums = std::collections::BTreeMap::new();
    for (bin, count) in bins {
        let bin = if bin.val == 0 { DecimalBin::ZERO } else { *bin };
        let sum: &mut u64 = &mut sums.entry(order(bin)).or_insert((bin, 0)).1;
        *sum = sum.saturating_add(*count);
    }
    sums.into_values().filter(|(_, count)| *count > 0).collect()
}

/// A key that sorts bins as the format does: NaN, then ascending on the real axis.
pub(crate) fn order(bin: DecimalBin) -> (i32, i32) {
    let (val, exp) = (i32::from(bin.val), i32::from(bin.exp));
    match val {
        -1 => (-2, 0),
        0 => (0, 0),
        1.. => (1, exp * 1000 + val),
        _ => (-1, -(exp * 1000 - val)),
    }
}

/// 10^exponent, read from its decimal form.
pub(crate) fn power(exponent: i32) -> f64 {
    format!("1e{exponent}").parse().expect("a power of ten parses")
}

/// A bin's edges on the real axis, as the library computes them.
pub(crate) fn edges(bin: DecimalBin) -> (f64, f64) {
    if bin.val == 0 {
        return (0.0, 0.0);
    }
    let near = f64::from(bin.val) / 10.0 * power(i32::from(bin.exp));
    let width = power(i32::from(bin.exp)) / 10.0;
    if bin.val > 0 { (near, near + width) } else { (near - width, near) }
}

/// Equal up to `tolerance`; NaN equals NaN, infinities equal themselves.
pub(crate) fn close(what: &str, found: f64, expected: f64, tolerance: f64) -> Result<(), String> {
    let same = found == expected || (found.is_nan() && expected.is_nan()) || (found - expected).abs() <= tolerance;
    if same { Ok(()) } else { Err(format!("{what}: found {found:e}, expected {expected:e} within {tolerance:e}")) }
}

/// Bytes of a hexadecimal text.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("two hexadecimal digits");
    (0..text.len()).step_by(2).map(digits).collect()
}
