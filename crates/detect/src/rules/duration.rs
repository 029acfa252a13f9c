//! Durations as rule files write them, `1h30m`, with the messages of Prometheus.

use ogive_text::duration::{self, Error};

/// Longest duration in milliseconds: `i64::MAX` nanoseconds, as in Prometheus.
const MS_MAX: i64 = i64::MAX / 1_000_000;

/// Milliseconds of a duration: units descend, and each occurs once. `0` needs no unit.
///
/// # Errors
/// What is wrong, as a sentence without a full stop.
pub fn parse_ms(text: &str) -> Result<i64, String> {
    match text {
        "" => return Err("empty duration string".to_owned()),
        "0" => return Ok(0),
        _ => {}
    }
    let ms = duration::parse_ms(text).map(|ms| i64::try_from(ms).ok().filter(|ms| *ms <= MS_MAX));
    match ms {
        Ok(Some(ms)) => Ok(ms),
        Ok(None) | Err(Error::TooLong) => Err("duration out of range".to_owned()),
        Err(_) => Err(format!("not a valid duration string: {text:?}")),
    }
}

/// As [`parse_ms`], with an optional minus in front.
///
/// # Errors
/// What is wrong, as a sentence without a full stop.
pub fn parse_signed_ms(text: &str) -> Result<i64, String> {
    match text.strip_prefix('-') {
        Some(rest) => parse_ms(rest).map(|ms| -ms),
        None => parse_ms(text),
    }
}

/// The text of a duration; weeks and years only where nothing is left over.
#[must_use]
pub fn text(ms: i64) -> String {
    format!("{}{}", if ms < 0 { "-" } else { "" }, duration::write_ms(ms.unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_written() {
        for (given, ms, written) in [
            ("0", 0, "0s"),
            ("5m", 300_000, "5m"),
            ("1h30m", 5_400_000, "1h30m"),
            ("1d", 86_400_000, "1d"),
            ("7d", 604_800_000, "1w"),
            ("1y2w3d4h5m6s7ms", 33_019_506_007, "382d4h5m6s7ms"),
            ("90s", 90_000, "1m30s"),
        ] {
            assert_eq!(parse_ms(given), Ok(ms), "{given}");
            assert_eq!(text(ms), written);
        }
        for bad in ["", "1", "m", "5m1h", "1m1m", "1.5h", "-5m", "1 m", "99999999999999999999y", "400y"] {
            assert!(parse_ms(bad).is_err(), "{bad}");
        }
        assert_eq!(parse_signed_ms("-2h"), Ok(-7_200_000));
    }
}
