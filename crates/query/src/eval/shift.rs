//! Resolves the modifiers `offset` and `@`, and the times that a query may reach.

/// 73 million years either side of 1970: a quarter of i64, so that 128 nested windows of at most 292 years each are
/// added and subtracted without a check.
pub(crate) const TIME_MS_MAX: i64 = i64::MAX / 4;

/// `offset` and `@`, resolved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shift {
    /// Milliseconds back.
    pub(crate) offset: i64,
    /// The instant that replaces the instants of the grid.
    pub(crate) at: Option<i64>,
}

impl Shift {
    /// The instant that a node reads at when it is evaluated at `time`.
    pub(crate) fn apply(self, time: i64) -> i64 {
        self.at.unwrap_or(time).saturating_sub(self.offset).clamp(-TIME_MS_MAX, TIME_MS_MAX)
    }
}
