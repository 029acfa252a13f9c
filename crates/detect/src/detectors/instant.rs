//! Instants and spans as people read them in a sentence: `12:04:17`, `1.5 s`, `3 d 4 h`. All instants are UTC.

use std::fmt;

use ogive_model::{Ms, WallMs};

/// A time of day in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Clock24(i64);

impl Clock24 {
    /// Of an instant.
    pub(crate) const fn from_ms(time: WallMs) -> Self {
        Self(time.to_secs().rem_euclid(86_400))
    }
}

impl fmt::Display for Clock24 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}:{:02}:{:02}", self.0 / 3_600, self.0 / 60 % 60, self.0 % 60)
    }
}

/// A span of time with the unit that fits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Span(f64);

impl Span {
    /// Of seconds.
    pub(crate) const fn from_seconds(seconds: f64) -> Self {
        Self(seconds)
    }

    /// Of milliseconds.
    #[expect(clippy::cast_precision_loss, reason = "spans are far below 2^53 ms")]
    pub(crate) const fn from_ms(span: Ms) -> Self {
        Self(span.0 as f64 / 1_000.0)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.abs();
        match seconds {
            _ if !seconds.is_finite() => write!(f, "forever"),
            _ if seconds >= 2.0 * 86_400.0 => write!(f, "{:.1} d", seconds / 86_400.0),
            _ if seconds >= 2.0 * 3_600.0 => write!(f, "{:.1} h", seconds / 3_600.0),
            _ if seconds >= 600.0 => write!(f, "{:.1} min", seconds / 60.0),
            _ if seconds >= 10.0 && seconds.fract() < 0.05 => write!(f, "{seconds:.0} s"),
            _ if seconds >= 0.95 => write!(f, "{}", Trimmed(seconds, "s")),
            _ if seconds >= 0.000_95 => write!(f, "{}", Trimmed(seconds * 1e3, "ms")),
            _ => write!(f, "{}", Trimmed(seconds * 1e6, "us")),
        }
    }
}

/// A number with one decimal, without `.0`.
struct Trimmed(f64, &'static str);

impl fmt::Display for Trimmed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{:.1}", self.0);
        write!(f, "{} {}", text.strip_suffix(".0").unwrap_or(&text), self.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_read_as_people_write_them() {
        for (seconds, text) in [
            (1.5, "1.5 s"),
            (60.0, "60 s"),
            (61.7, "61.7 s"),
            (0.012, "12 ms"),
            (0.000_4, "400 us"),
            (1_000.5, "16.7 min"),
            (200_000.0, "2.3 d"),
            (f64::INFINITY, "forever"),
        ] {
            assert_eq!(Span::from_seconds(seconds).to_string(), text);
        }
        assert_eq!(Span::from_ms(Ms(2_000)).to_string(), "2 s");
        assert_eq!(Clock24::from_ms(WallMs(1_764_000_257_000)).to_string(), "16:04:17");
        assert_eq!(Clock24::from_ms(WallMs(-1_000)).to_string(), "23:59:59");
    }
}
