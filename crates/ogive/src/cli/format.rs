//! Numbers as people read them: thousands separators, three digits, a prefix that fits the unit.

use std::time::Duration;

use ogive_model::float;

/// `1234567` as `1,234,567`.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `value` with three significant digits in the prefix that fits: `12.3ms` for 0.0123 of unit `s`.
///
/// Seconds go below one by ms, µs and ns and above stay seconds; bytes and bare numbers go up by k, M, G, T.
pub(crate) fn human(value: f64, unit: &str) -> String {
    if let Some(word) = float::word(value) {
        return word.into();
    }
    if value == 0.0 {
        return format!("0{unit}");
    }
    let (digits, exponent) = significant(value.abs());
    let sign = if value < 0.0 { "-" } else { "" };
    let step = exponent.div_euclid(3) * 3;
    let (step, prefix) = match (unit, step) {
        ("s", -9) => (-9, "n"),
        ("s", -6) => (-6, "µ"),
        ("s", -3) => (-3, "m"),
        ("s", 0 | 3) => (0, ""),
        (_, 0) => (0, ""),
        ("s", _) => return format!("{sign}{}e{exponent}{unit}", decimals(digits, 0)),
        (_, 3) => (3, "k"),
        (_, 6) => (6, "M"),
        (_, 9) => (9, "G"),
        (_, 12) => (12, "T"),
        (_, -3) => (0, ""),
        _ => return format!("{sign}{}e{exponent}{unit}", decimals(digits, 0)),
    };
    format!("{sign}{}{prefix}{unit}", decimals(digits, exponent - step))
}

/// Three significant digits as an integer 100..=999, and the decimal exponent of the first one.
fn significant(value: f64) -> (u32, i32) {
    let text = format!("{value:.2e}");
    let (mantissa, exponent) = text.split_once('e').expect("{:e} writes an exponent");
    let digits = mantissa.bytes().filter(u8::is_ascii_digit).fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0'));
    (digits, exponent.parse().expect("{:e} writes a decimal exponent"))
}

/// `digits/100 * 10^exponent` without trailing zeros behind the point.
fn decimals(digits: u32, exponent: i32) -> String {
    let text = match exponent {
        ..=-1 => format!("0.{}{digits}", "0".repeat(-exponent as usize - 1)),
        0 => format!("{}.{:02}", digits / 100, digits % 100),
        1 => format!("{}.{}", digits / 10, digits % 10),
        _ => return format!("{digits}{}", "0".repeat(exponent as usize - 2)),
    };
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

/// `p99.9` for 0.999.
pub(crate) fn quantile_name(q: f64) -> String {
    let percent = format!("{:.6}", q * 100.0);
    format!("p{}", percent.trim_end_matches('0').trim_end_matches('.'))
}

/// Seconds that passed, by the two largest units that are not zero: `1d2h`, `12m5s`, `0.25s`.
pub(crate) fn passed(seconds: f64) -> String {
    if !(0.0..1e11).contains(&seconds) || seconds < 60.0 {
        return human(seconds, "s");
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
    let (whole, mut out) = (seconds as u64, String::new());
    let (mut left, mut parts) = (whole, 0);
    for (width, unit) in [(86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")] {
        let count = left / width;
        left %= width;
        if count > 0 && parts < 2 {
            out += &format!("{count}{unit}");
        }
        // The unit behind the first one counts as shown even where it is zero: `1d`, not `1d5s`.
        parts += u32::from(count > 0 || parts > 0);
    }
    out
}

/// A time such as 15m or 5ms, 30 years at most.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    ogive_text::duration::parse_decimal(text, 1e9).ok_or_else(|| "give a duration such as 15m or 5ms".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_separated() {
        for (number, expected) in [(0, "0"), (999, "999"), (1000, "1,000"), (12_345_678, "12,345,678")] {
            assert_eq!(thousands(number), expected);
        }
    }

    #[test]
    fn numbers_fit_their_unit() {
        let check = |value: f64, unit: &str, expected: &str| assert_eq!(human(value, unit), expected);
        check(0.0123, "s", "12.3ms");
        check(0.012, "s", "12ms");
        check(0.1, "s", "100ms");
        check(1.2e-6, "s", "1.2µs");
        check(999.6e-9, "s", "1µs");
        check(3.4e-12, "s", "3.4e-12s");
        check(1.0, "s", "1s");
        check(90.5, "s", "90.5s");
        check(12_345.0, "s", "12300s");
        check(-0.5, "s", "-500ms");
        check(4096.0, "B", "4.1kB");
        check(1.5, "", "1.5");
        check(0.012, "", "0.012");
        check(0.00012, "", "1.2e-4");
        check(1500.0, "", "1.5k");
        check(2.5e13, "", "25T");
        check(2.5e17, "", "2.5e17");
        check(0.0, "s", "0s");
        check(f64::NEG_INFINITY, "s", "-Inf");
    }

    #[test]
    fn passed_time_has_its_two_largest_units() {
        for (seconds, expected) in [
            (0.0, "0s"),
            (0.25, "250ms"),
            (59.0, "59s"),
            (725.0, "12m5s"),
            (86_405.0, "1d"),
            (90_061.0, "1d1h"),
            (-1.0, "-1s"),
        ] {
            assert_eq!(passed(seconds), expected);
        }
    }

    #[test]
    fn durations_are_numbers_with_a_unit() {
        let check = |text: &str, expected: Option<f64>| {
            assert_eq!(duration(text).ok().map(|duration| duration.as_secs_f64()), expected, "{text}");
        };
        check("90", Some(90.0));
        check("15m", Some(900.0));
        check("1.5ms", Some(0.0015));
        check("2d", Some(172_800.0));
        for wrong in ["", "m", "-1s", "1x", "nan", "1e99"] {
            check(wrong, None);
        }
    }
}
