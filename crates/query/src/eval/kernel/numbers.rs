//! Numbers as texts, formatted as Prometheus formats them in labels and messages.

use ogive_model::float;

/// At most `digits` significant digits, with an exponent from `digits` on and below 1e-4.
pub(crate) fn general_to(value: f64, digits: usize) -> String {
    if !value.is_finite() {
        return float::plain(value);
    }
    let scientific = format!("{value:.*e}", digits.saturating_sub(1));
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..i32::try_from(digits).unwrap_or(i32::MAX)).contains(&exponent) {
        // The rounded number again, with its shortest digits.
        return scientific.parse().map_or(scientific, float::plain);
    }
    let mantissa = if mantissa.contains('.') { mantissa.trim_end_matches('0').trim_end_matches('.') } else { mantissa };
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

/// A float as `le` labels have it; None when the text is not one.
pub(crate) fn parse_float(text: &str) -> Option<f64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.len() > 2 && digits[..2].eq_ignore_ascii_case("0x") {
        let value = u64::from_str_radix(&digits[2..], 16).ok()? as f64;
        return Some(if text.starts_with('-') { -value } else { value });
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_rounded_numbers() {
        let check = |value: f64, expected: &str| assert_eq!(general_to(value, 2), expected);
        check(10.0, "10");
        check(0.125, "0.12");
        check(1.0, "1");
        check(99.9, "1e+02");
        check(123.0, "1.2e+02");
        check(0.000_012_3, "1.2e-05");
        check(f64::INFINITY, "+Inf");
    }

    #[test]
    fn bounds_are_read() {
        assert_eq!(parse_float("+Inf"), Some(f64::INFINITY));
        assert_eq!(parse_float("+inf"), Some(f64::INFINITY));
        assert_eq!(parse_float(".2"), Some(0.2));
        assert_eq!(parse_float("2.0e-1"), Some(0.2));
        assert_eq!(parse_float(""), None);
        assert_eq!(parse_float("Hello World"), None);
    }
}
