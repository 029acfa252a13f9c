//! Durations, sizes and near misses in words.

use std::time::Duration;

use crate::http::params::{DURATION_UNITS, prometheus_duration_ms};

/// A duration as Prometheus writes it.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let ms = if text == "0" { 0 } else { prometheus_duration_ms(text)? };
    u64::try_from(ms).ok().map(Duration::from_millis)
}

/// The duration in words, as [`duration`] reads them.
pub(crate) fn duration_text(duration: Duration) -> String {
    let mut ms = duration.as_millis() as i64;
    if ms == 0 {
        return "0s".into();
    }
    let mut out = String::new();
    // Years and weeks only where nothing is left over, as people would write it.
    for (name, unit) in DURATION_UNITS {
        let is_exact = !matches!(name, "y" | "w") || ms % unit == 0;
        if ms >= unit && is_exact {
            out.push_str(&format!("{}{name}", ms / unit));
            ms %= unit;
        }
    }
    out
}

/// A number of bytes: a unit stands for a power of 1024, with or without an i.
pub(super) fn bytes(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim().to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "KB" | "KIB" => 10,
        "MB" | "MIB" => 20,
        "GB" | "GIB" => 30,
        "TB" | "TIB" => 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// The one of `known` that `word` was probably meant to be.
pub(crate) fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let near = known.iter().map(|known| (distance(word, known), *known)).min()?;
    // A third of the word wrong is a slip; more is another word.
    (near.0 * 3 <= word.len().max(3)).then_some(near.1)
}

/// Letters to insert, leave out or change.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, other) in b.iter().enumerate() {
            let change = diagonal + usize::from(letter != *other);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_written() {
        for (text, ms) in
            [("15s", 15_000), ("1m30s", 90_000), ("500ms", 500), ("1h", 3_600_000), ("1d1ms", 86_400_001), ("0", 0)]
        {
            assert_eq!(duration(text), Some(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "15", "s", "1s1m", "1m1m", "-1s", "1.5s", "1 s", "99999999999999999999s", "1x"] {
            assert_eq!(duration(text), None, "{text}");
        }
        for text in ["15s", "1m30s", "500ms", "1d1h", "2w"] {
            assert_eq!(duration_text(duration(text).unwrap()), text);
        }
    }

    #[test]
    fn sizes_are_powers_of_1024() {
        for (text, size) in
            [("0", Some(0)), ("10", Some(10)), ("1KB", Some(1024)), ("10MiB", Some(10 << 20)), ("1GB", Some(1 << 30))]
        {
            assert_eq!(bytes(text), size, "{text}");
        }
        assert_eq!((bytes("x"), bytes("1EB"), bytes("99999999999TB")), (None, None, None));
    }

    #[test]
    fn slips_are_told_from_other_words() {
        let known = ["scrape_interval", "scrape_timeout", "job_name", "scheme"];
        assert_eq!(nearest("scrape_intervall", &known), Some("scrape_interval"));
        assert_eq!(nearest("jobname", &known), Some("job_name"));
        assert_eq!(nearest("schema", &known), Some("scheme"));
        assert_eq!(nearest("something", &known), None);
    }
}
