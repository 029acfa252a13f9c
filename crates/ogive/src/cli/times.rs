//! Times of the command line as a server takes them.

use std::time::Duration;

use ogive_probe::Clock;
use ogive_text::instant::relative_ms;

/// Milliseconds since 1970.
pub(super) fn now_ms() -> i64 {
    Clock::global().wall().div_euclid(1_000_000)
}

/// `now-7d` and `-1h` as Unix seconds; a text that is not relative unchanged, for the server to judge.
pub(super) fn absolute(text: &str) -> String {
    relative_ms(text, now_ms()).map_or_else(|| text.to_owned(), seconds)
}

/// The value parser of `--start` and its like: [`absolute`] of the moment at which the command began.
pub(super) fn parse(text: &str) -> Result<String, String> {
    let is_relative = text.starts_with("now") || text.starts_with('-') && text.parse::<f64>().is_err();
    if is_relative && relative_ms(text, 0).is_none() {
        return Err("write a time such as -1h, now-7d, 1795485000 or 2026-11-23T12:00:00Z".into());
    }
    Ok(absolute(text))
}

/// Unix seconds, to the millisecond.
#[allow(clippy::cast_precision_loss, reason = "milliseconds of this millennium are exact")]
pub(super) fn seconds(ms: i64) -> String {
    format!("{:.3}", ms as f64 / 1e3)
}

/// How long ago `ms` is, in the largest unit that fits: `3h`, `45s`.
pub(super) fn ago(ms: i64) -> String {
    let passed = Duration::from_millis(u64::try_from(now_ms().saturating_sub(ms)).unwrap_or(0)).as_secs();
    let (width, unit) = match passed {
        0..60 => (1, "s"),
        60..3_600 => (60, "m"),
        3_600..172_800 => (3_600, "h"),
        _ => (86_400, "d"),
    };
    format!("{}{unit} ago", passed / width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_relative_or_for_the_server() {
        let near = |text: &str, ago_s: f64| {
            let found: f64 = parse(text).unwrap().parse().unwrap();
            let expected = now_ms() as f64 / 1e3 - ago_s;
            assert!((found - expected).abs() < 60.0, "{text}: {found}, not {expected}");
        };
        near("-1h", 3_600.0);
        near("now-7d", 604_800.0);
        near("now", 0.0);
        for text in ["1795485000.5", "2026-11-23T12:00:00Z", "soon", "-3.5"] {
            assert_eq!(parse(text).as_deref(), Ok(text));
        }
        for text in ["now-7x", "-soon", "nowadays"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn passed_time_is_in_its_largest_unit() {
        for (passed_ms, expected) in
            [(0, "0s ago"), (59_000, "59s ago"), (61_000, "1m ago"), (7_300_000, "2h ago"), (200_000_000, "2d ago")]
        {
            assert_eq!(ago(now_ms() - passed_ms), expected, "{passed_ms}");
        }
    }
}
