//! Durations as rule files write them: `1h30m`.

/// Units from the longest to the shortest, with their milliseconds. A year is 365 days, as in Prometheus.
const UNITS: [(&str, i64); 7] = [
    ("y", 365 * 86_400_000),
    ("w", 7 * 86_400_000),
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1000),
    ("ms", 1),
];

/// Milliseconds of a duration: units descend, and each is there once. `0` needs no unit.
///
/// # Errors
/// What is wrong, as a sentence without a full stop.
pub fn parse_ms(text: &str) -> Result<i64, String> {
    let bad = || format!("not a valid duration string: {text:?}");
    match text {
        "" => return Err("empty duration string".to_owned()),
        "0" => return Ok(0),
        _ => {}
    }
    let (mut rest, mut units, mut total) = (text, &UNITS[..], 0_i64);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(bad)?;
        let letters = rest[digits..].find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len() - digits);
        let name = &rest[digits..digits + letters];
        let at = units.iter().position(|(unit, _)| *unit == name).ok_or_else(bad)?;
        let count: i64 = rest[..digits].parse().map_err(|_| bad())?;
        let part = count.checked_mul(units[at].1).and_then(|part| total.checked_add(part));
        total = part.filter(|total| *total <= i64::MAX / 1_000_000).ok_or("duration out of range")?;
        units = &units[at + 1..];
        rest = &rest[digits + letters..];
    }
    Ok(total)
}

/// As [`parse_ms`], with a minus in front where there is one.
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
    if ms == 0 {
        return "0s".to_owned();
    }
    let mut out = String::from(if ms < 0 { "-" } else { "" });
    let mut rest = ms.unsigned_abs();
    for (name, unit) in UNITS {
        let unit = unit.unsigned_abs();
        if matches!(name, "y" | "w") && !rest.is_multiple_of(unit) {
            continue;
        }
        if rest >= unit {
            out.push_str(&format!("{}{name}", rest / unit));
            rest %= unit;
        }
    }
    out
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
