//! Code shared by the rates of counters and the differences of gauges.

use super::Site;
use crate::eval::annotate::{self, Operation};
use crate::eval::histogram::{Combined, Incompatible};
use crate::eval::window::Window;

/// Which function it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    /// A counter: falling values are resets.
    pub(crate) counter: bool,
    /// Per second.
    pub(crate) per_second: bool,
}

impl Kind {
    pub(crate) const RATE: Self = Self { counter: true, per_second: true };
    pub(crate) const INCREASE: Self = Self { counter: true, per_second: false };
    pub(crate) const DELTA: Self = Self { counter: false, per_second: false };

    /// The function of this name, if it is one of these.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "rate" => Self::RATE,
            "increase" => Self::INCREASE,
            "delta" => Self::DELTA,
            _ => return None,
        })
    }
}

/// Adds the annotations of an addition or subtraction; None when the schemes do not mix.
pub(super) fn combined(
    outcome: Result<Combined, Incompatible>,
    operation: Operation,
    window: &Window<'_>,
    site: &mut Site<'_>,
) -> Option<()> {
    match outcome {
        Ok(combined) => {
            if combined.reconciled {
                site.note(annotate::reconciled_bounds(site.span, operation));
            }
            Some(())
        }
        Err(why) => {
            site.note(annotate::mixed_schemes(site.span, window.metric(), why));
            None
        }
    }
}
