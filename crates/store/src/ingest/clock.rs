//! Time as the store sees it: an argument, so that tests control it.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// Where the store gets its time from.
pub trait Clock: Send + Sync {
    /// Nanoseconds since some instant; never falls.
    fn now_ns(&self) -> u64;
    /// Nanoseconds since the Unix epoch.
    fn wall_ns(&self) -> i64;
}

/// A clock that moves when it is instructed to.
#[derive(Debug, Default)]
pub struct ManualClock {
    now_ns: AtomicU64,
    wall_ns: AtomicI64,
}

impl ManualClock {
    /// A clock that stands at `wall_ns`.
    #[must_use]
    pub const fn new(wall_ns: i64) -> Self {
        Self { now_ns: AtomicU64::new(0), wall_ns: AtomicI64::new(wall_ns) }
    }

    /// Moves both times on.
    pub fn advance(&self, by_ns: u64) {
        // ORDERING: Relaxed; a time is a number by itself and publishes nothing.
        self.now_ns.fetch_add(by_ns, Ordering::Relaxed);
        self.wall_ns.fetch_add(by_ns.cast_signed(), Ordering::Relaxed);
    }
}

impl ManualClock {
    /// Sets the wall clock forward or back by `by_ns`, with no time passing.
    pub fn set(&self, by_ns: i64) {
        // ORDERING: Relaxed, as in `advance`.
        self.wall_ns.fetch_add(by_ns, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now_ns(&self) -> u64 {
        // ORDERING: Relaxed, as in `advance`.
        self.now_ns.load(Ordering::Relaxed)
    }

    fn wall_ns(&self) -> i64 {
        // ORDERING: Relaxed, as in `advance`.
        self.wall_ns.load(Ordering::Relaxed)
    }
}
