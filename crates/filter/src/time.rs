//! Times that lines have in them.
//!
//! Format: RFC 3339, or a number since 1970 whose digits before the point give its unit: up to 11 are seconds, 14
//! milliseconds, 17 microseconds, 19 nanoseconds. Only seconds have a fraction. Digits behind the ninth of a fraction
//! are dropped.

use ogive_model::WallNs;
use ogive_text::calendar::rfc3339_ms;

/// None when `text` is no time, or one that nanoseconds do not reach.
pub(crate) fn instant(text: &str) -> Option<WallNs> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let ns = if is_number { number_ns(text) } else { date_ns(text) };
    ns.map(WallNs)
}

fn number_ns(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let unit_ns: i64 = match whole.len() {
        1..=11 => 1_000_000_000,
        12..=14 => 1_000_000,
        15..=17 => 1_000,
        18..=19 => 1,
        _ => return None,
    };
    if whole.len() > 11 && whole.len() < text.len() {
        return None;
    }
    let whole: i64 = whole.parse().ok()?;
    whole.checked_mul(unit_ns)?.checked_add(fraction_ns(fraction)?)
}

fn date_ns(text: &str) -> Option<i64> {
    let seconds = rfc3339_ms(text)?.div_euclid(1_000);
    let fraction = text.get(19..)?.strip_prefix('.').unwrap_or("");
    let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
    seconds.checked_mul(1_000_000_000)?.checked_add(fraction_ns(&fraction[..digits])?)
}

/// Nanoseconds of the digits behind a point.
fn fraction_ns(digits: &str) -> Option<i64> {
    let digits = digits.get(..9).unwrap_or(digits);
    if digits.is_empty() {
        return Some(0);
    }
    let number: i64 = digits.parse().ok()?;
    Some(number * 10_i64.pow(9 - digits.len() as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_to_the_nanosecond() {
        let check = |text: &str, expected: Option<i64>| assert_eq!(instant(text), expected.map(WallNs), "{text}");
        check("1970-01-01T00:00:00.000000001Z", Some(1));
        check("2026-01-01T00:00:00.123456789Z", Some(1_767_225_600_123_456_789));
        check("2026-01-01T01:00:00.5+01:00", Some(1_767_225_600_500_000_000));
        check("2026-01-01T00:00:00.1234567891Z", Some(1_767_225_600_123_456_789));
        check("1969-12-31T23:59:59.25Z", Some(-750_000_000));
        check("0", Some(0));
        check("1767225600", Some(1_767_225_600_000_000_000));
        check("1767225600.125", Some(1_767_225_600_125_000_000));
        check("1767225600123", Some(1_767_225_600_123_000_000));
        check("1767225600123456", Some(1_767_225_600_123_456_000));
        check("1767225600123456789", Some(1_767_225_600_123_456_789));
        for wrong in ["", ".", ".5", "1.2.3", "99999999999", "9999999999999999999", "1767225600123.5", "now", "-1"] {
            check(wrong, None);
        }
        check("9999-12-31T23:59:59Z", None);
    }
}
