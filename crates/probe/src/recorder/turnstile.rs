//! Who may write where: a writer of two buffers who never waits, and a reader who takes the buffer that it left.
//!
//! The writer makes its sequence number odd, looks which buffer is active, writes there, and makes the number even. The
//! reader makes the other buffer active, has every thread pass a full barrier, and then looks at the number. If it is
//! even, or another than the odd one seen first, the writer has left the old buffer and will not come back.
//!
//! *Why it holds*: the writer stores the number and then loads which buffer is active; the reader stores which is
//! active and then loads the number. With a full barrier between the two on both sides, at least one sees the other's
//! store: the writer goes to the new buffer, or the reader sees it inside. The writer's barrier would cost twenty times
//! the record itself; membarrier(2) puts it into the writer's instruction stream from outside, once a snapshot. Where
//! the kernel has no membarrier, the writer does execute the fence.

use crate::memory::{Memory, Word};
use std::sync::atomic::Ordering;

pub(crate) struct Turnstile<M: Memory> {
    /// Odd while the writer is inside a buffer.
    sequence: M::U64,
    /// The buffer, 0 or 1, for the writer's next entry.
    active: M::U64,
}

/// The even number that the writer leaves with: kept in a register, since loading it again would wait for the store.
#[derive(Debug)]
pub(crate) struct Entered(u64);

/// The odd number at which a reader saw the writer inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inside(u64);

impl<M: Memory> Turnstile<M> {
    pub(crate) fn new() -> Self {
        Self { sequence: M::U64::new(0), active: M::U64::new(0) }
    }

    /// The writer enters; returns the buffer to write and the argument of [`Turnstile::leave`]. `fence` is true where
    /// no barrier comes from other threads.
    #[inline(always)]
    pub(crate) fn enter(&self, fence: bool) -> (usize, Entered) {
        // ORDERING: Relaxed; the writer alone stores it.
        let sequence = self.sequence.load(Ordering::Relaxed);
        // ORDERING: Release; pairs with the Acquire in `look`: a reader that sees this odd number, having waited for
        // the record before, sees that record whole.
        self.sequence.store(sequence.wrapping_add(1), Ordering::Release);
        M::light_fence(fence);
        // ORDERING: Acquire; pairs with the Release in `swap`: the buffer given was emptied before it was made active.
        ((self.active.load(Ordering::Acquire) & 1) as usize, Entered(sequence.wrapping_add(2)))
    }

    /// The writer leaves.
    #[inline(always)]
    pub(crate) fn leave(&self, entered: Entered) {
        // ORDERING: Release; pairs with the Acquire in `look`: publishes what was written inside.
        self.sequence.store(entered.0, Ordering::Release);
    }

    /// How often the writer entered and left; equal even numbers mean that nothing was written in between.
    pub(crate) fn sequence(&self) -> u64 {
        // ORDERING: Acquire; pairs with the Releases of the writer.
        self.sequence.load(Ordering::Acquire)
    }

    /// The reader switches the writer to the other buffer and gets the old one, which it must have emptied before.
    ///
    /// Between this and the first [`Turnstile::look`] comes [`Memory::heavy_fence`].
    pub(crate) fn swap(&self) -> usize {
        // ORDERING: Relaxed; readers take turns under a lock, and they alone store it.
        let old = self.active.load(Ordering::Relaxed);
        // ORDERING: Release; pairs with the Acquire in `enter`: publishes that the buffer is empty.
        self.active.store(old ^ 1, Ordering::Release);
        (old & 1) as usize
    }

    /// After a swap and a barrier: `None` when the writer has left the old buffer for good.
    ///
    /// `before` is the result of an earlier look after the same swap.
    pub(crate) fn look(&self, before: Option<Inside>) -> Option<Inside> {
        // ORDERING: Acquire; pairs with the Releases of the writer: what it wrote before is seen.
        let sequence = self.sequence.load(Ordering::Acquire);
        match before {
            Some(Inside(seen)) if seen != sequence => None,
            _ => (sequence & 1 == 1).then_some(Inside(sequence)),
        }
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::memory::Model;
    use loom::sync::Arc;

    type Cell = loom::sync::atomic::AtomicU64;

    struct Shared {
        turnstile: Turnstile<Model>,
        buffers: [Cell; 2],
    }

    impl Shared {
        fn new() -> Arc<Self> {
            Arc::new(Self { turnstile: Turnstile::new(), buffers: [Cell::new(0), Cell::new(0)] })
        }

        fn record(&self, fence: bool) {
            let (buffer, entered) = self.turnstile.enter(fence);
            let buffer = &self.buffers[buffer];
            buffer.store(buffer.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            self.turnstile.leave(entered);
        }

        fn take(&self, buffer: usize) -> u64 {
            let count = self.buffers[buffer].load(Ordering::Relaxed);
            self.buffers[buffer].store(0, Ordering::Relaxed);
            count
        }

        /// One snapshot that looks at most twice; a writer still inside is left to the next.
        fn snapshot(&self, draining: &mut Option<(usize, Option<Inside>)>) -> u64 {
            let (old, before) = draining.take().unwrap_or_else(|| (self.turnstile.swap(), None));
            Model::heavy_fence();
            let Some(inside) = self.turnstile.look(before) else { return self.take(old) };
            loom::thread::yield_now();
            match self.turnstile.look(Some(inside)) {
                None => self.take(old),
                still => {
                    *draining = Some((old, still));
                    0
                }
            }
        }
    }

    fn conserve(records: u64, snapshots: u64) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(move || {
            let shared = Shared::new();
            let writer = {
                let shared = shared.clone();
                loom::thread::spawn(move || (0..records).for_each(|_| shared.record(true)))
            };
            let mut draining = None;
            let seen: u64 = (0..snapshots).map(|_| shared.snapshot(&mut draining)).sum();
            writer.join().expect("the writer only writes");
            let rest = shared.take(0) + shared.take(1);
            assert_eq!(seen + rest, records, "every record is in exactly one snapshot");
        });
    }

    /// Allowed: a record is in any one snapshot. Forbidden: a record lost (written into a buffer after it was taken and
    /// emptied) or counted twice.
    #[test]
    fn model_every_record_is_in_exactly_one_snapshot() {
        conserve(2, 2);
        conserve(3, 1);
        conserve(1, 3);
    }
}
