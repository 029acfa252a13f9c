//! How many names of publishers and marks a recorder keeps, and what stands for the others.

/// Names of publishers that a recorder keeps: each has a histogram of 14 KiB in a snapshot, 14 MiB in all.
pub const PUBLISHERS_MAX: usize = 1_024;

/// Names of marks of a recorder: each takes two tables of 7.2 KiB in each writer that has seen it twice in a message.
pub const MARK_NAMES_MAX: usize = 64;

/// The publisher beyond [`PUBLISHERS_MAX`], the mark beyond [`MARK_NAMES_MAX`].
pub(super) const OTHER: &str = "(other)";
