//! Statistics of a histogram.
//!
//! What is authoritative, field by field: `ref_mean` and `ref_stddev` (exact rationals over the same midpoints) before
//! `mean` and `stddev`; `sum`, `moment`, `quantile1`, `quantile7` and `inverse_quantile` as the library gives them; the
//! counts as the library gives them, except that samples in the NaN bin are not above a threshold, that counts saturate
//! where the library's wrap around at 2^64, and that a value is near itself also where the library's edge is a rounding
//! off.

use ogive_hist::{DecimalBin, Histogram};
use serde_json::Value;

use crate::support::{Counted, Outcome, bins, close, count, edges, expect, histogram, number, numbers, order};

/// All statistics of one histogram.
pub(crate) fn stats(_: &str, record: &Value) -> Outcome {
    let counted = bins(&record["bins"]);
    let histogram = histogram(&counted);
    expect("sample count", histogram.count, count(&record["sample_count"]))?;
    let filled = counted.iter().filter(|(_, count)| *count > 0).count();
    let found = histogram.negative.len()
        + histogram.positive.len()
        + usize::from(histogram.zero > 0)
        + usize::from(histogram.nan > 0);
    expect("bins", found, filled)?;
    moments(&histogram, &counted, record)?;
    quantiles(&histogram, record)?;
    let overflow = inverse_quantiles(&histogram, &counted, record)?;
    let by_rule = counts(&histogram, &counted, record)?;
    Ok(overflow || by_rule)
}

/// Mean, deviation, sum and moments. Tolerances are relative to what is added up, since sums of both signs cancel.
fn moments(histogram: &Histogram, counted: &[Counted], record: &Value) -> Result<(), String> {
    let middle = |bin: DecimalBin| {
        let (lo, hi) = edges(bin);
        if lo == hi { 0.0 } else { 2.0 * lo * (hi / (lo + hi)) }
    };
    let values: Vec<(f64, f64)> = counted
        .iter()
        .filter(|(bin, _)| *bin != DecimalBin::NAN)
        .map(|(bin, count)| (middle(*bin), *count as f64))
        .collect();
    let total: f64 = values.iter().map(|(_, count)| count).sum();
    let size = |k: i32| values.iter().map(|(middle, count)| middle.abs().powi(k) * count).sum::<f64>();
    let nan_if_none = |value: Option<f64>| value.unwrap_or(f64::NAN);
    close("mean", nan_if_none(histogram.mean()), number(&record["ref_mean"]), 1e-13 * size(1) / total)?;
    close("sum", histogram.sum_or_estimate(), number(&record["sum"]), 1e-13 * size(1))?;
    let deviation = number(&record["ref_stddev"]);
    close("stddev", nan_if_none(histogram.stddev()), deviation, 1e-12 * deviation)?;
    for (at, expected) in numbers(&record["moment"]).into_iter().enumerate() {
        let k = at as i32 + 1;
        let found = histogram.openhistogram_moment(k);
        if expected.is_finite() {
            close(&format!("moment {k}"), found, expected, 1e-12 * size(k) / total.powi(k))?;
        } else {
            expect(&format!("moment {k} is finite"), found.is_finite(), false)?;
        }
    }
    Ok(())
}

/// Both kinds of quantile; a list that the library refuses has nothing to compare but what lies outside 0..=1.
fn quantiles(histogram: &Histogram, record: &Value) -> Result<(), String> {
    let q = numbers(&record["q"]);
    for (kind, find) in [
        ("quantile1", Histogram::quantile_type1 as fn(&Histogram, f64) -> f64),
        ("quantile7", Histogram::quantile_type7),
    ] {
        if record[format!("{kind}_rc")] == 0 {
            for (q, expected) in q.iter().zip(numbers(&record[kind])) {
                close(&format!("{kind} {q}"), find(histogram, *q), expected, 1e-13 * expected.abs())?;
            }
        }
        for q in q.iter().filter(|q| !(0.0..=1.0).contains(*q)) {
            expect(&format!("{kind} {q} is NaN"), find(histogram, *q).is_nan(), true)?;
        }
    }
    // The bounds of the bin hold the library's type 1 answer (the ranks may differ by a rounding, never by a bin here).
    for q in q.iter().filter(|q| (0.0..=1.0).contains(*q)) {
        let value = histogram.quantile_type1(*q);
        match histogram.quantile(*q) {
            Some(found) => {
                let within = found.lo <= found.value && found.value <= found.hi;
                expect(&format!("quantile {q} within its bounds"), within, true)?;
                close(&format!("quantile {q}"), found.value, value, (found.hi - found.lo).max(1e-12 * value.abs()))?;
            }
            None => expect("no quantile without samples", value.is_nan(), true)?,
        }
    }
    Ok(())
}

/// Fractions below thresholds. `Ok(true)` when the library's total wrapped around.
fn inverse_quantiles(histogram: &Histogram, counted: &[Counted], record: &Value) -> Outcome {
    let total: u128 = real(counted).map(|(_, count)| u128::from(count)).sum();
    let wraps = total > u128::from(u64::MAX);
    if record["inverse_quantile_rc"] != 0 {
        return Ok(false);
    }
    let thresholds = numbers(&record["threshold"]);
    for (x, library) in thresholds.into_iter().zip(numbers(&record["inverse_quantile"])) {
        let expected = if wraps { fraction_below(counted, x, total) } else { library };
        close(&format!("fraction below {x:e}"), histogram.fraction_below(x), expected, 1e-12)?;
    }
    Ok(wraps)
}

/// The fraction below `x`, by its definition.
fn fraction_below(counted: &[Counted], x: f64, total: u128) -> f64 {
    let below = |(bin, count): Counted| {
        let (lo, hi) = edges(bin);
        let share = if bin.val == 0 { f64::from(x >= 1e-128) } else { ((x - lo) / (hi - lo)).clamp(0.0, 1.0) };
        share * count as f64
    };
    real(counted).map(below).sum::<f64>() / total as f64
}

/// Counts below, above and near thresholds. `Ok(true)` when one was held to the rule.
fn counts(histogram: &Histogram, counted: &[Counted], record: &Value) -> Outcome {
    let nan: u64 = counted.iter().filter(|(bin, _)| *bin == DecimalBin::NAN).map(|(_, count)| *count).sum();
    let wraps = counted.iter().map(|(_, count)| u128::from(*count)).sum::<u128>() > u128::from(u64::MAX);
    let mut by_rule = false;
    for (at, x) in numbers(&record["threshold"]).into_iter().enumerate() {
        let below = [histogram.count_below(x), histogram.count_below_exclusive(x)];
        let above = [histogram.count_above(x), histogram.count_above_exclusive(x)];
        for (kind, found, nan) in [
            ("below", below[0], 0),
            ("below_inclusive", below[0], 0),
            ("below_exclusive", below[1], 0),
            ("above", above[0], nan),
            ("above_inclusive", above[0], nan),
            ("above_exclusive", above[1], nan),
        ] {
            let library = count(&record["count"][kind][at]);
            let defined = by_definition(counted, kind, x);
            if wraps || x.abs() >= 1e128 {
                // Wrapped around, or a threshold that the library takes for NaN.
                by_rule = true;
                expect(&format!("{kind} {x:e} by definition"), found, defined)?;
            } else {
                expect(&format!("{kind} {x:e}"), found.saturating_add(nan), library)?;
                expect(&format!("{kind} {x:e} by definition"), found, defined)?;
            }
        }
        let near = histogram.count_nearby(x);
        if near != count(&record["count"]["nearby"][at]) {
            by_rule = true;
            expect(&format!("near {x:e} by definition"), near, by_definition(counted, "nearby", x))?;
        }
    }
    Ok(by_rule)
}

/// A count by its definition: bins in the wanted order to the bin of `x`, up to 2^64-1.
fn by_definition(counted: &[Counted], kind: &str, x: f64) -> u64 {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let wanted: &[std::cmp::Ordering] = match kind {
        "below" | "below_inclusive" => &[Less, Equal],
        "below_exclusive" => &[Less],
        "above" | "above_inclusive" => &[Greater, Equal],
        "above_exclusive" => &[Greater],
        _ => &[Equal],
    };
    let at = match DecimalBin::from_value(x) {
        DecimalBin::NAN if x > 0.0 => (i32::MAX, 0),
        DecimalBin::NAN => (i32::MIN, 0),
        bin => order(bin),
    };
    real(counted)
        .filter(|(bin, _)| wanted.contains(&order(*bin).cmp(&at)))
        .fold(0, |sum: u64, (_, count)| sum.saturating_add(count))
}

/// All bins but NaN.
fn real(counted: &[Counted]) -> impl Iterator<Item = Counted> + '_ {
    counted.iter().copied().filter(|(bin, _)| *bin != DecimalBin::NAN)
}
