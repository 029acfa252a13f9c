//! What became of the lines of a rule for sessions, counted.
//!
//! Invariants: each line counts once, however often its batch comes: twice `Matched`, and every other outcome, and the
//! lines that are open, are together the lines that begin or end a session. Only `IdInvalid` counts again.

use std::sync::atomic::{AtomicU64, Ordering};

/// What can become of a line that begins or ends a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionOutcome {
    /// Two lines became a duration.
    Matched,
    /// A begin whose end did not come within the timeout.
    Expired,
    /// An end whose begin did not come within the timeout.
    Unmatched,
    /// It was the oldest when there was no room for another one.
    Evicted,
    /// A second begin, or a second end, of an open session: the later one stays.
    Repeated,
    /// An end before its begin.
    Reversed,
    /// A line without an id, or with one that is too long.
    IdInvalid,
}

impl SessionOutcome {
    /// Every one.
    pub const ALL: [Self; 7] =
        [Self::Matched, Self::Expired, Self::Unmatched, Self::Evicted, Self::Repeated, Self::Reversed, Self::IdInvalid];

    /// The value of the label `outcome`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Matched => "matched",
            Self::Expired => "expired",
            Self::Unmatched => "unmatched",
            Self::Evicted => "evicted",
            Self::Repeated => "repeated",
            Self::Reversed => "reversed",
            Self::IdInvalid => "id_invalid",
        }
    }
}

/// The counts of one rule.
#[derive(Debug, Default)]
pub struct SessionTally([AtomicU64; SessionOutcome::ALL.len()]);

impl SessionTally {
    pub(super) fn add(&self, outcome: SessionOutcome) {
        // ORDERING: Relaxed; figures for people.
        self.0[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How often it happened.
    #[must_use]
    pub fn get(&self, outcome: SessionOutcome) -> u64 {
        // ORDERING: Relaxed; figures for people.
        self.0[outcome as usize].load(Ordering::Relaxed)
    }
}
