//! Durations as people write them.
//!
//! Format: that of Prometheus, whole numbers with the units y w d h m s ms in falling order, each at most once; a year
//! is 365 days. On the command line also one number with a fraction and one unit: `1.5ms`.

use std::time::Duration;

use crate::calendar::milliseconds;

/// The units of Prometheus in milliseconds, the largest first.
const UNITS: [(&str, u64); 7] = [
    ("y", 365 * 86_400_000),
    ("w", 7 * 86_400_000),
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

/// Units of one number with a fraction, in seconds; longer names before those that are their suffixes.
pub const DECIMAL_UNITS: [(&str, f64); 8] =
    [("ns", 1e-9), ("us", 1e-6), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3_600.0), ("d", 86_400.0)];

/// Why a text is no duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It is not written as one.
    #[error("it is not written as a duration; write one such as 5m or 1h30m")]
    Syntax,
    /// It is one, of more than `i64::MAX` milliseconds.
    #[error("the duration is too long")]
    TooLong,
}

/// Milliseconds of a duration as Prometheus writes it.
///
/// # Errors
/// When the text is no duration, or one of more than `i64::MAX` milliseconds.
pub fn parse_ms(text: &str) -> Result<u64, Error> {
    let (mut rest, mut units, mut total) = (text, UNITS.iter(), Some(0_u64));
    if text.is_empty() {
        return Err(Error::Syntax);
    }
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit()).filter(|at| *at > 0).ok_or(Error::Syntax)?;
        let (number, behind) = rest.split_at(digits);
        let letters = behind.find(|letter: char| letter.is_ascii_digit()).unwrap_or(behind.len());
        let (unit, after) = behind.split_at(letters);
        let (_, width) = units.find(|(name, _)| *name == unit).ok_or(Error::Syntax)?;
        let part = number.parse::<u64>().ok().and_then(|number| number.checked_mul(*width));
        // A duration that is too long is still parsed to its end: the text may not be a duration at all.
        total = total.zip(part).and_then(|(total, part)| total.checked_add(part));
        rest = after;
    }
    total.filter(|total| i64::try_from(*total).is_ok()).ok_or(Error::TooLong)
}

/// A duration as Prometheus writes it; a bare `0` is one.
#[must_use]
pub fn parse(text: &str) -> Option<Duration> {
    let ms = if text == "0" { 0 } else { parse_ms(text).ok()? };
    Some(Duration::from_millis(ms))
}

/// Milliseconds of a number of seconds, or of a duration as Prometheus writes it.
#[must_use]
pub fn seconds_or_units_ms(text: &str) -> Option<i64> {
    match text.parse::<f64>() {
        Ok(seconds) => milliseconds(seconds),
        Err(_) => parse_ms(text).ok().and_then(|ms| i64::try_from(ms).ok()),
    }
}

/// Seconds of one number that may have a fraction, with a unit from ns to d or without: `1.5ms`, `15m`, `3`. From 0 to
/// `most`.
#[must_use]
pub fn parse_decimal(text: &str, most: f64) -> Option<Duration> {
    let is_number = |rest: &str| rest.parse::<f64>().is_ok();
    let found = DECIMAL_UNITS.iter().find(|(unit, _)| text.strip_suffix(unit).is_some_and(is_number));
    let (unit, width) = found.copied().unwrap_or(("", 1.0));
    let number: f64 = text.strip_suffix(unit)?.parse().ok()?;
    let seconds = Some(number * width).filter(|seconds| (0.0..=most).contains(seconds))?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// The duration as [`parse`] reads it.
#[must_use]
pub fn write(duration: Duration) -> String {
    write_ms(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

/// Milliseconds as [`parse_ms`] reads them.
#[must_use]
pub fn write_ms(mut ms: u64) -> String {
    if ms == 0 {
        return "0s".to_owned();
    }
    let mut out = String::new();
    for (unit, width) in UNITS {
        // Weeks and years only when nothing is left: 1y1d is harder to read than 366d.
        let exact_only = matches!(unit, "y" | "w");
        if ms >= width && (!exact_only || ms.is_multiple_of(width)) {
            out += &format!("{}{unit}", ms / width);
            ms %= width;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_written() {
        for (text, ms) in
            [("15s", 15_000), ("1m30s", 90_000), ("500ms", 500), ("1h", 3_600_000), ("1d1ms", 86_400_001), ("0", 0)]
        {
            assert_eq!(parse(text), Some(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "15", "s", "1s1m", "1m1m", "-1s", "1.5s", "1 s", "99999999999999999999s", "1x", "1é", "é1s"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
        for text in ["15s", "1m30s", "500ms", "1d1h", "2w"] {
            assert_eq!(write(parse(text).unwrap()), text);
        }
    }

    #[test]
    fn too_long_is_told_from_what_is_no_duration() {
        assert_eq!(parse_ms("99999999999y"), Err(Error::TooLong));
        assert_eq!(parse_ms("99999999999999999999s"), Err(Error::TooLong));
        assert_eq!(parse_ms("99999999999y1x"), Err(Error::Syntax));
        assert_eq!(parse_ms("5"), Err(Error::Syntax));
    }

    #[test]
    fn durations_are_seconds_or_units() {
        let check = |text: &str, expected: Option<i64>| assert_eq!(seconds_or_units_ms(text), expected, "{text}");
        check("15", Some(15_000));
        check("0.5", Some(500));
        check("5m", Some(300_000));
        check("1h30m", Some(5_400_000));
        check("1d2ms", Some(86_400_002));
        for text in ["", "m", "5", "30m1h", "5m5m", "5x", "99999999999y"] {
            check(text, if text == "5" { Some(5_000) } else { None });
        }
    }

    #[test]
    fn one_number_may_have_a_fraction() {
        let check = |text: &str, expected: Option<f64>| {
            assert_eq!(parse_decimal(text, 1e9), expected.map(Duration::from_secs_f64), "{text}");
        };
        check("1.5ms", Some(0.0015));
        check("15m", Some(900.0));
        check("3", Some(3.0));
        check("7us", Some(7e-6));
        check("7µs", Some(7e-6));
        check("2d", Some(172_800.0));
        for text in ["", "s", "-1s", "infs", "nan", "1e300", "5x", "1h30m"] {
            check(text, None);
        }
    }
}
