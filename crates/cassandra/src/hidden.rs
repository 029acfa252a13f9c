//! Whether a sample was deleted.

use ogive_model::{TimeRange, WallMs};

/// Times of a series that are hidden, each with when it was deleted.
pub(crate) type Hidden = Vec<(TimeRange, i64)>;

/// Whether a sample that came at `arrived_us` is hidden.
pub(crate) fn is_hidden(hidden: &Hidden, time: WallMs, arrived_us: i64) -> bool {
    hidden.iter().any(|(range, at_us)| arrived_us <= *at_us && range.contains(time))
}
