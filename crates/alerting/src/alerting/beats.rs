//! Counts of signs of life.

/// How signs of life went since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Beats {
    /// Accepted by their receivers.
    pub(super) sent: u64,
    /// Not accepted.
    pub(super) failed: u64,
    /// Not sent, because evaluation or delivery is behind.
    pub(super) withheld: u64,
}
