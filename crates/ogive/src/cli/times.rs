//! Times of the command line as a server takes them.

use ogive_model::{WallMs, WallNs};
use ogive_probe::Clock;
use ogive_text::instant::relative_ms;

/// The current millisecond of the wall clock.
pub(super) fn now() -> WallMs {
    WallNs(Clock::global().wall()).to_ms()
}

/// `now-7d` and `-1h` as Unix seconds; a text that is not relative unchanged, for the server to judge.
pub(super) fn absolute(text: &str) -> String {
    relative_ms(text, now().0).map(WallMs).map_or_else(|| text.to_owned(), seconds)
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
pub(super) fn seconds(time: WallMs) -> String {
    format!("{:.3}", time.0 as f64 / 1e3)
}

/// How long ago `time` was, in the largest unit that fits: `3h`, `45s`.
pub(super) fn ago(time: WallMs) -> String {
    let passed = now().since(time).to_duration().as_secs();
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
    use ogive_model::Ms;

    use super::*;

    #[test]
    fn times_are_relative_or_for_the_server() {
        let near = |text: &str, ago_s: f64| {
            let found: f64 = parse(text).unwrap().parse().unwrap();
            let expected = now().0 as f64 / 1e3 - ago_s;
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
        for (passed, expected) in
            [(0, "0s ago"), (59, "59s ago"), (61, "1m ago"), (7_300, "2h ago"), (200_000, "2d ago")]
        {
            assert_eq!(ago(now() - Ms::from_secs(passed)), expected, "{passed}");
        }
    }
}
