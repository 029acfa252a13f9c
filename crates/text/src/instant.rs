//! Instants as people write them on a command line: beside Unix seconds and RFC 3339 those that are relative to now.
//!
//! Format: `now`, `now-7d`, `now+5m`, `-1h`, with durations as in [`crate::duration`], or what
//! [`crate::calendar::instant_ms`] reads.

use crate::calendar::instant_ms;
use crate::duration;

/// Milliseconds of `now`, `now-7d`, `now+5m` or `-1h`; None for a text that is not a time of this kind.
#[must_use]
pub fn relative_ms(text: &str, now_ms: i64) -> Option<i64> {
    let span = match text.strip_prefix("now") {
        Some("") => return Some(now_ms),
        Some(rest) => rest.trim_start(),
        None => text,
    };
    let (is_before, span) = match (span.strip_prefix('-'), span.strip_prefix('+')) {
        (Some(rest), _) => (true, rest),
        // `+5m` alone may also be a duration with another meaning.
        (None, Some(rest)) if span.len() < text.len() => (false, rest),
        _ => return None,
    };
    let ms = duration::parse_ms(span.trim_start()).ok().and_then(|ms| i64::try_from(ms).ok())?;
    if is_before { now_ms.checked_sub(ms) } else { now_ms.checked_add(ms) }
}

/// Milliseconds of an instant: relative to now, Unix seconds, or RFC 3339.
#[must_use]
pub fn parse_ms(text: &str, now_ms: i64) -> Option<i64> {
    relative_ms(text, now_ms).or_else(|| instant_ms(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_relative_or_absolute() {
        let now = 1_700_000_000_000;
        for (text, expected) in [
            ("now", Some(now)),
            ("now-7d", Some(now - 7 * 86_400_000)),
            ("now - 90s", Some(now - 90_000)),
            ("now+5m", Some(now + 300_000)),
            ("-1h", Some(now - 3_600_000)),
            ("-1h30m", Some(now - 5_400_000)),
            ("1699999999.5", Some(now - 500)),
            ("-3", Some(-3_000)),
            ("2023-11-14T22:13:20Z", Some(now)),
            ("+5m", None),
            ("now7d", None),
            ("now-", None),
            ("-", None),
            ("soon", None),
            ("", None),
            ("-9223372036854775807ms", Some(now - i64::MAX)),
            ("-99999999999999999999d", None),
        ] {
            assert_eq!(parse_ms(text, now), expected, "{text:?}");
        }
    }
}
