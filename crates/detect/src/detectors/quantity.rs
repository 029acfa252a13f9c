//! A value with the unit of its series, as a sentence has it: `12 ms`, `1.5e6 bytes`, `42`.

use std::fmt;

use super::instant::Span;

/// A value and its series' unit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quantity<'a>(pub(crate) f64, pub(crate) &'a str);

impl fmt::Display for Quantity<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(value, unit) = *self;
        let seconds = match unit {
            "s" | "seconds" | "second" => value,
            "ms" | "milliseconds" => value * 1e-3,
            "us" | "microseconds" => value * 1e-6,
            "ns" | "nanoseconds" => value * 1e-9,
            _ => {
                let magnitude = value.abs();
                if magnitude != 0.0 && !(1e-3..1e6).contains(&magnitude) {
                    write!(f, "{value:.2e}")?;
                } else if magnitude >= 100.0 || value.fract() == 0.0 {
                    write!(f, "{value:.0}")?;
                } else {
                    write!(f, "{value:.3}")?;
                }
                return if unit.is_empty() { Ok(()) } else { write!(f, " {unit}") };
            }
        };
        if seconds < 0.0 {
            f.write_str("-")?;
        }
        write!(f, "{}", Span::from_seconds(seconds))
    }
}

/// A share as per cent: two digits that count.
pub(crate) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent >= 9.95 {
        format!("{percent:.0} %")
    } else if percent >= 0.095 {
        format!("{percent:.1} %")
    } else {
        format!("{percent:.2} %")
    }
}
