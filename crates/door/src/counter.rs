//! A number that only grows.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `more`.
    pub fn add(&self, more: u64) {
        // ORDERING: Relaxed; counters are read on their own and order nothing.
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// The number now.
    pub fn get(&self) -> u64 {
        // ORDERING: Relaxed; as in `add`.
        self.0.load(Ordering::Relaxed)
    }
}
