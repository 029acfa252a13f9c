//! Numbers as Go's `strconv` writes and reads them.

use ogive_model::float;

/// A number with the verb `e`, `f` or `g` and a precision; `None` gives the fewest digits that read back the same.
#[must_use]
pub(crate) fn float_text(value: f64, verb: char, precision: Option<usize>) -> String {
    if let Some(word) = float::word(value) {
        return word.to_owned();
    }
    match verb {
        'e' | 'E' => {
            let text = precision.map_or_else(|| format!("{value:e}"), |precision| format!("{value:.precision$e}"));
            with_exponent(&text, verb)
        }
        'f' | 'F' => precision.map_or_else(|| format!("{value}"), |precision| format!("{value:.precision$}")),
        _ => shorter_form(value, verb, precision),
    }
}

/// `%g`: `%e` for large exponents, `%f` otherwise, without trailing zeros.
fn shorter_form(value: f64, verb: char, precision: Option<usize>) -> String {
    let precision = precision.map(|precision| precision.max(1));
    let text = precision.map_or_else(|| format!("{value:e}"), |precision| format!("{value:.*e}", precision - 1));
    let (mantissa, exponent) = text.split_once('e').expect("the text of {:e} has an exponent");
    let exponent: i32 = exponent.parse().expect("the exponent of {:e} is a number");
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let digits = digits.trim_end_matches('0');
    let count = i32::try_from(digits.len().max(1)).expect("few digits");
    let mut threshold = precision.map_or(6, |precision| i32::try_from(precision).unwrap_or(i32::MAX));
    if precision.is_some() && threshold > count && count > exponent {
        threshold = count;
    }
    if exponent < -4 || exponent >= threshold {
        let trimmed = format!("{value:.*e}", usize::try_from(count - 1).unwrap_or(0));
        return with_exponent(&trimmed, if verb == 'G' { 'E' } else { 'e' });
    }
    format!("{value:.*}", usize::try_from((count - 1 - exponent).max(0)).unwrap_or(0))
}

/// Rust's `1e6` as Go's `1e+06`.
fn with_exponent(text: &str, verb: char) -> String {
    let (mantissa, exponent) = text.split_once('e').expect("the text of {:e} has an exponent");
    let exponent: i32 = exponent.parse().expect("the exponent of {:e} is a number");
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}{verb}{sign}{:02}", exponent.unsigned_abs())
}

/// A number as `strconv.ParseFloat` reads it.
pub(crate) fn parse_float(text: &str) -> Option<f64> {
    let lower = text.to_ascii_lowercase();
    let (negative, digits) = match lower.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, lower.strip_prefix('+').unwrap_or(&lower)),
    };
    let value = match digits {
        "inf" | "infinity" => f64::INFINITY,
        "nan" => f64::NAN,
        _ if digits.starts_with("0x") => parse_hex(&digits[2..])?,
        _ if digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') => digits.parse().ok()?,
        _ => return None,
    };
    Some(if negative { -value } else { value })
}

fn parse_hex(digits: &str) -> Option<f64> {
    let (mantissa, exponent) = digits.split_once('p').unwrap_or((digits, "0"));
    Some(u64::from_str_radix(mantissa, 16).ok()? as f64 * f64::from(exponent.parse::<i32>().ok()?).exp2())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_go_does() {
        let check =
            |value, verb, precision, expected| assert_eq!(float_text(value, verb, precision), expected, "{value}");
        check(1_000_000.0, 'g', None, "1e+06");
        check(123_456.0, 'g', None, "123456");
        check(1_234_567.0, 'g', None, "1.234567e+06");
        check(0.000_012_5, 'g', None, "1.25e-05");
        check(0.000_125, 'g', None, "0.000125");
        check(100.0, 'g', None, "100");
        check(0.0, 'g', None, "0");
        check(-2.5, 'g', None, "-2.5");
        check(12_345.678, 'g', Some(4), "1.235e+04");
        check(1000.0, 'g', Some(4), "1000");
        check(10_000.0, 'g', Some(4), "1e+04");
        check(1.048_576, 'g', Some(4), "1.049");
        check(100_000.0, 'g', Some(10), "100000");
        check(2.0, 'f', Some(2), "2.00");
        check(1234.5, 'e', Some(2), "1.23e+03");
        check(f64::INFINITY, 'g', None, "+Inf");
        check(f64::NAN, 'f', Some(1), "NaN");
    }

    #[test]
    fn numbers_are_read_as_go_does() {
        assert_eq!(parse_float("1.5e3"), Some(1500.0));
        assert_eq!(parse_float("-Inf"), Some(f64::NEG_INFINITY));
        assert_eq!(parse_float("0x10"), Some(16.0));
        assert_eq!(parse_float("ten"), None);
        assert_eq!(parse_float(""), None);
    }
}
