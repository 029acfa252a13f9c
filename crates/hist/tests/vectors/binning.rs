//! Doubles and integers to bins.

use ogive_hist::openhistogram::{bin_of_label, label_of_bin};
use ogive_hist::{DecimalBin, Scheme};
use serde_json::Value;

use crate::support::{Outcome, bin, close, expect, number, power};

/// A double to its bin, and that bin's label, edges and midpoint.
pub(crate) fn double_to_bin(_: &str, record: &Value) -> Outcome {
    let bits = record["bits"].as_str().expect("bits are a text");
    let value = f64::from_bits(u64::from_str_radix(bits, 16).expect("bits are hexadecimal"));
    let library = bin(&record["bin"]);
    let found = DecimalBin::from_value(value);
    let by_rule = found != library;
    if by_rule {
        let exact = record.get("exact_bin").map(bin);
        let loses_finite = library == DecimalBin::NAN && value.abs() < power(128);
        let rounds_up = is_first_of_next_decade(found, library) && exact == Some(found);
        if !(loses_finite || rounds_up) || !just_below_power(value, found) {
            return Err(format!("{value:e}: found {found:?}, expected {library:?}"));
        }
        if let Some(exact) = exact.filter(|exact| *exact != found) {
            // The slack of 1e-13 may move a value up that exact arithmetic leaves in the last bin of a decade.
            expect("bin of a value the library loses", is_first_of_next_decade(exact, found), true)?;
        }
    }
    if library == DecimalBin::NAN {
        expect("label", label_of_bin(library).as_str(), record["str"].as_str().expect("a label"))?;
        return Ok(by_rule);
    }
    expect("bin of the label", bin_of_label(record["str"].as_str().expect("a label")), Ok(library))?;
    let (near, width, middle) = edges(library);
    let (expected_near, expected_width) = (number(&record["lo"]), number(&record["width"]));
    // The library's edges carry up to two roundings; ours are the nearest doubles.
    close("edge", near, expected_near, near.abs() * 4.5e-16)?;
    close("width", width, expected_width, near.abs() * 9e-16)?;
    close("midpoint", middle, number(&record["mid"]), near.abs() * 9e-16)?;
    Ok(by_rule)
}

/// An integer and a scale to their bin.
pub(crate) fn intscale_to_bin(_: &str, record: &Value) -> Outcome {
    let value: i64 = record["value"].as_str().expect("a value").parse().expect("a 64-bit integer");
    let scale = i32::try_from(record["scale"].as_i64().expect("a scale")).expect("a 32-bit scale");
    expect(&format!("bin of {value}e{scale}"), DecimalBin::from_integer(value, scale), bin(&record["bin"]))?;
    Ok(false)
}

/// Signed edge nearer zero, width, and midpoint of a bin, through the scheme.
fn edges(bin: DecimalBin) -> (f64, f64, f64) {
    let Some(index) = bin.index() else { return (0.0, 0.0, 0.0) };
    let (lo, hi) = Scheme::LogLinear10.bounds(bin.val > 0, index);
    let near = if bin.val > 0 { lo } else { hi };
    (near, hi - lo, Scheme::LogLinear10.midpoint(bin.val > 0, index))
}

/// True when `upper` is (±10, e+1) and `lower` is (±99, e), or the zero bin below the first decade.
fn is_first_of_next_decade(lower: DecimalBin, upper: DecimalBin) -> bool {
    if lower == DecimalBin::ZERO {
        // What is nearer zero than the first decade.
        return upper.exp == -128 && matches!(upper.val, 10 | -10);
    }
    let exponents = i32::from(lower.exp) + 1 == i32::from(upper.exp);
    exponents && matches!((lower.val, upper.val), (99, 10) | (-99, -10))
}

/// True when a value lies within 3e-13 below a power of ten: all that a rounded logarithm can move.
fn just_below_power(value: f64, found: DecimalBin) -> bool {
    let exponent = match found {
        DecimalBin::ZERO => -128,
        DecimalBin { val: 99 | -99, exp } => i32::from(exp) + 1,
        DecimalBin { exp, .. } => i32::from(exp),
    };
    let power = power(exponent);
    value.abs() < power && value.abs() >= power * (1.0 - 3e-13)
}
