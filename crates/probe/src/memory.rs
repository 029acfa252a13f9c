//! The few atomic operations that the protocols of this crate use, as traits, so that one source runs on the
//! machine's memory and, in tests, on loom's model of it.

use crate::threads;
use std::sync::atomic::{AtomicU64, Ordering, compiler_fence, fence};

/// One 64-bit atomic word.
pub(crate) trait Word: Send + Sync {
    fn new(value: u64) -> Self;
    fn load(&self, ordering: Ordering) -> u64;
    fn store(&self, value: u64, ordering: Ordering);
    fn fetch_add(&self, value: u64, ordering: Ordering) -> u64;
    /// Compares and exchanges: true when the word was `current` and is now `new`. A failure has no ordering.
    fn exchange_if(&self, current: u64, new: u64, success: Ordering) -> bool;
}

/// A memory: its words, its fence, and how to wait for another thread.
pub(crate) trait Memory {
    type U64: Word;
    fn fence(ordering: Ordering);
    /// A full barrier between earlier stores and later loads: executed when `execute`, otherwise only the compiler is
    /// held to it and [`Memory::heavy_fence`] of another thread makes the machine do it.
    fn light_fence(execute: bool);
    /// A full barrier here and in every other thread of the process that executes a light one; false when the system
    /// refused, which it does not where light fences are said not to execute.
    fn heavy_fence() -> bool;
    /// Lets the other threads run; called in each iteration of a spin loop.
    fn pause();
}

/// The machine's memory.
pub(crate) enum Machine {}

impl Word for AtomicU64 {
    #[inline(always)]
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
    #[inline(always)]
    fn fetch_add(&self, value: u64, ordering: Ordering) -> u64 {
        AtomicU64::fetch_add(self, value, ordering)
    }
    #[inline(always)]
    fn exchange_if(&self, current: u64, new: u64, success: Ordering) -> bool {
        AtomicU64::compare_exchange(self, current, new, success, Ordering::Relaxed).is_ok()
    }
}

impl Memory for Machine {
    type U64 = AtomicU64;
    #[inline(always)]
    fn fence(ordering: Ordering) {
        fence(ordering);
    }
    #[inline(always)]
    fn light_fence(execute: bool) {
        if execute {
            // ORDERING: SeqCst; pairs with the SeqCst fence beside the process-wide barrier of a reader.
            fence(Ordering::SeqCst);
        } else {
            compiler_fence(Ordering::SeqCst);
        }
    }
    fn heavy_fence() -> bool {
        // ORDERING: SeqCst; pairs with the executed light fences where there is no process-wide barrier.
        fence(Ordering::SeqCst);
        !threads::has_process_barrier() || threads::process_barrier()
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
    fn fetch_add(&self, value: u64, ordering: Ordering) -> u64 {
        loom::sync::atomic::AtomicU64::fetch_add(self, value, ordering)
    }
    fn exchange_if(&self, current: u64, new: u64, success: Ordering) -> bool {
        loom::sync::atomic::AtomicU64::compare_exchange(self, current, new, success, Ordering::Relaxed).is_ok()
    }
}

#[cfg(test)]
impl Memory for Model {
    type U64 = loom::sync::atomic::AtomicU64;
    fn fence(ordering: Ordering) {
        loom::sync::atomic::fence(ordering);
    }
    fn light_fence(_execute: bool) {
        loom::sync::atomic::fence(Ordering::SeqCst);
    }
    fn heavy_fence() -> bool {
        loom::sync::atomic::fence(Ordering::SeqCst);
        true
    }
    fn pause() {
        loom::thread::yield_now();
    }
}
