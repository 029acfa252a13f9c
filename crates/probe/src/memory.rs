//! The few atomic operations that the protocols of this crate use, as traits, so that one source runs on the
//! machine's memory and, in tests, on loom's model of it.

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// One 64-bit atomic word.
pub(crate) trait Word: Send + Sync {
    #[cfg(test)]
    fn new(value: u64) -> Self;
    fn load(&self, ordering: Ordering) -> u64;
    fn store(&self, value: u64, ordering: Ordering);
}

/// A memory: its words, its fence, and how to wait for another thread.
pub(crate) trait Memory {
    type U64: Word;
    fn fence(ordering: Ordering);
    /// Lets the other threads run; called in each turn of a waiting loop.
    fn pause();
}

/// The machine's memory.
pub(crate) enum Machine {}

impl Word for AtomicU64 {
    #[cfg(test)]
    fn new(value: u64) -> Self {
        AtomicU64::new(value)
    }
    #[inline(always)]
    fn load(&self, ordering: Ordering) -> u64 {
        AtomicU64::load(self, ordering)
    }
    #[inline(always)]
    fn store(&self, value: u64, ordering: Ordering) {
        AtomicU64::store(self, value, ordering);
    }
}

impl Memory for Machine {
    type U64 = AtomicU64;
    #[inline(always)]
    fn fence(ordering: Ordering) {
        fence(ordering);
    }
    fn pause() {
        std::hint::spin_loop();
    }
}

/// Loom's memory: every interleaving, and every value that a weak machine may show.
#[cfg(test)]
pub(crate) enum Model {}

#[cfg(test)]
impl Word for loom::sync::atomic::AtomicU64 {
    fn new(value: u64) -> Self {
        loom::sync::atomic::AtomicU64::new(value)
    }
    fn load(&self, ordering: Ordering) -> u64 {
        loom::sync::atomic::AtomicU64::load(self, ordering)
    }
    fn store(&self, value: u64, ordering: Ordering) {
        loom::sync::atomic::AtomicU64::store(self, value, ordering);
    }
}

#[cfg(test)]
impl Memory for Model {
    type U64 = loom::sync::atomic::AtomicU64;
    fn fence(ordering: Ordering) {
        loom::sync::atomic::fence(ordering);
    }
    fn pause() {
        loom::thread::yield_now();
    }
}
