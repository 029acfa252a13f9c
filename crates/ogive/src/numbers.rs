//! Numbers for batches whose senders give them none.
//!
//! Invariants: no two batches of this process get the same (source, sequence); a number is given once and may stay unused.
//! A request that comes again gets another number: what makes its samples count once is their own identity, not this.

use std::sync::atomic::{AtomicU64, Ordering};

use ogive_export::random_source;
use ogive_model::SourceId;

/// Where they come from. One serves every listener.
pub(crate) struct Numbers {
    source: SourceId,
    next: AtomicU64,
}

impl Numbers {
    pub(crate) fn new() -> Self {
        Self { source: random_source(), next: AtomicU64::new(0) }
    }

    /// The source and the sequence of the next batch.
    pub(crate) fn next(&self) -> (SourceId, u64) {
        // ORDERING: Relaxed; only that no two get the same number matters.
        (self.source, self.next.fetch_add(1, Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_are_the_same() {
        let (one, other) = (Numbers::new(), Numbers::new());
        let all = [one.next(), one.next(), other.next(), other.next()];
        assert!((1..all.len()).all(|at| !all[..at].contains(&all[at])), "{all:?}");
    }
}
