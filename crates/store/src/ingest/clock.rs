//! Time as the store sees it: an argument, so that tests control it.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use ogive_model::{MonoNs, Ns, WallNs};

/// Where the store gets its time from.
pub trait Clock: Send + Sync {
    /// Now, on a clock that never falls.
    fn now(&self) -> MonoNs;
    /// Now, on the wall clock, which may jump.
    fn wall(&self) -> WallNs;
}

/// A clock that moves when it is instructed to.
#[derive(Debug, Default)]
pub struct ManualClock {
    now_ns: AtomicU64,
    wall_ns: AtomicI64,
}

impl ManualClock {
    /// A clock that stands at `wall`.
    #[must_use]
    pub const fn new(wall: WallNs) -> Self {
        Self { now_ns: AtomicU64::new(0), wall_ns: AtomicI64::new(wall.0) }
    }

    /// Moves both times on.
    ///
    /// # Panics
    /// When `by` is negative.
    pub fn advance(&self, by: Ns) {
        assert!(by >= Ns::ZERO, "a clock that never falls moves by {by}");
        // ORDERING: Relaxed; a time is a number by itself and publishes nothing.
        self.now_ns.fetch_add(by.0.cast_unsigned(), Ordering::Relaxed);
        self.wall_ns.fetch_add(by.0, Ordering::Relaxed);
    }
}

impl ManualClock {
    /// Sets the wall clock forward or back by `by`, with no time passing.
    pub fn set(&self, by: Ns) {
        // ORDERING: Relaxed, as in `advance`.
        self.wall_ns.fetch_add(by.0, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> MonoNs {
        // ORDERING: Relaxed, as in `advance`.
        MonoNs(self.now_ns.load(Ordering::Relaxed))
    }

    fn wall(&self) -> WallNs {
        // ORDERING: Relaxed, as in `advance`.
        WallNs(self.wall_ns.load(Ordering::Relaxed))
    }
}
