//! The page where the calibrator publishes segments and every thread reads them: a latch of two slots.
//!
//! *Threads*: one writer; any number of readers, who never wait for it: the writer fills the slot that no reader is
//! sent to and then moves the index. A reader tries again only when an index moved under it, once a publication.
//!
//! *Format* (64-byte lines; native byte order): line 0 = index u64, shift u64; lines 1 and 2 = slots 0 and 1, each the
//! eight words of a segment. The slot in force is `index & 1`.

use super::segment::Segment;
use crate::memory::{Machine, Memory, Word};
use std::sync::atomic::{AtomicU64, Ordering};

#[repr(C, align(64))]
struct Header<M: Memory> {
    index: M::U64,
    shift: M::U64,
}

#[repr(C, align(64))]
struct Slot<M: Memory> {
    words: [M::U64; Segment::WORDS],
}

/// The two-slot latch; also the middle of a page that is shared with other processes (docs/formats/clock-page.md).
#[repr(C, align(64))]
pub(crate) struct Latch<M: Memory> {
    header: Header<M>,
    slots: [Slot<M>; 2],
}

const _: () = assert!(size_of::<Latch<Machine>>() == 3 * 64);

impl Latch<Machine> {
    /// A latch in the operating system's mode with floor 0. For statics.
    pub(crate) const fn for_static() -> Self {
        const fn slot() -> Slot<Machine> {
            // All zeros is `Segment::os(0, 0, 0)`; the test below holds it to that.
            Slot { words: [const { AtomicU64::new(0) }; Segment::WORDS] }
        }
        Self { header: Header { index: AtomicU64::new(0), shift: AtomicU64::new(0) }, slots: [slot(), slot()] }
    }
}

impl<M: Memory> Latch<M> {
    /// A latch that holds `segment`.
    #[cfg(test)]
    pub(crate) fn new(segment: &Segment) -> Self {
        let slot = |words: [u64; Segment::WORDS]| Slot { words: words.map(M::U64::new) };
        Self {
            header: Header { index: M::U64::new(0), shift: M::U64::new(0) },
            slots: [slot(segment.to_words()), slot([0; Segment::WORDS])],
        }
    }

    /// Number of publications so far.
    pub(crate) fn index(&self) -> u64 {
        // ORDERING: Relaxed, and the Acquire fence pairs with the Release of the index in `publish`, so that what was
        // written before a publication is seen by whoever sees the publication.
        let index = self.header.index.load(Ordering::Relaxed);
        M::fence(Ordering::Acquire);
        index
    }

    /// By how much ticks are shifted left before they are multiplied; see [`super::segment`].
    #[inline(always)]
    pub(crate) fn shift(&self) -> u32 {
        if cfg!(target_arch = "x86_64") {
            return 0; // Every invariant TSC is above 1 GHz; the calibration thread refuses another.
        }
        // ORDERING: Relaxed; it is written once, before the first counter segment, whose publication orders it.
        self.header.shift.load(Ordering::Relaxed) as u32 & 31 // A page may come from outside.
    }

    /// Sets the shift. Only the writer, and only while the mode is the operating system's.
    pub(crate) fn set_shift(&self, shift: u32) {
        // ORDERING: Relaxed; the Release in the next `publish` orders it before the segments that need it.
        self.header.shift.store(u64::from(shift), Ordering::Relaxed);
    }

    /// Publishes `segment`. Only the writer calls this.
    pub(crate) fn publish(&self, segment: &Segment) {
        // ORDERING: Relaxed; this thread alone writes the index.
        let next = self.header.index.load(Ordering::Relaxed).wrapping_add(1);
        let slot = &self.slots[(next & 1) as usize];
        // ORDERING: Release; pairs with the Acquire fence in `load`: a reader that sees a word of this slot then sees
        // that the index has moved to `next - 1` at least, and drops what it read under an older index.
        M::fence(Ordering::Release);
        for (word, value) in slot.words.iter().zip(segment.to_words()) {
            // ORDERING: Relaxed; the fence above and the Release store below order the words.
            word.store(value, Ordering::Relaxed);
        }
        // ORDERING: Release; pairs with the Acquire in `load`; publishes the words.
        self.header.index.store(next, Ordering::Release);
    }

    /// The segment in force.
    pub(crate) fn load(&self) -> Segment {
        self.load_with(|| ()).0
    }

    /// The segment in force, and the result of `read` while it was.
    pub(crate) fn load_with<T>(&self, read: impl Fn() -> T) -> (Segment, T) {
        let (words, value) = self.words(std::array::from_fn(|at| at), read);
        (Segment::from_words(words), value)
    }

    /// The line at the ticks that `read` returns, while a correction lasts; otherwise `None`, and [`Latch::load_with`]
    /// must be called. Nearly every reading is within a correction, and this loads half of the words.
    #[inline(always)]
    pub(crate) fn line(&self, read: impl Fn() -> u64) -> Option<u64> {
        let (words, ticks) = self.words(Segment::LINE_WORDS, read);
        Segment::line_of(words, ticks, self.shift())
    }

    /// As [`Latch::line`], on the wall clock.
    #[inline(always)]
    pub(crate) fn wall(&self, read: impl Fn() -> u64) -> Option<i64> {
        let [a, b, c, d] = Segment::LINE_WORDS;
        let ([a, b, c, d, offset], ticks) = self.words([a, b, c, d, Segment::WALL_WORD], read);
        let ns = Segment::line_of([a, b, c, d], ticks, self.shift())?;
        Some((ns as i64).wrapping_add(offset as i64))
    }

    /// The epoch of the segment in force.
    #[inline(always)]
    pub(crate) fn epoch(&self) -> u16 {
        let ([word], ()) = self.words([Segment::EPOCH_WORD], || ());
        Segment::epoch_of(word)
    }

    /// Words of the segment in force, and the result of `read` while it was.
    ///
    /// The counter is read between the words and the second look at the index, not before them: an ordered read has
    /// waited for the loads anyway, and a thread that is interrupted before its reading does not apply an old segment
    /// to it.
    #[inline(always)]
    fn words<const N: usize, T>(&self, wanted: [usize; N], read: impl Fn() -> T) -> ([u64; N], T) {
        loop {
            // ORDERING: Relaxed, and the Acquire fence pairs with the Release store in `publish`; the words below are
            // those of this index or of a later one. A fence, because of all atomic loads only relaxed ones may be of
            // memory that is mapped read-only, as a shared page is.
            let index = self.header.index.load(Ordering::Relaxed);
            M::fence(Ordering::Acquire);
            let slot = &self.slots[(index & 1) as usize];
            // ORDERING: Relaxed; checked by the second look at the index.
            let words = wanted.map(|at| slot.words[at].load(Ordering::Relaxed));
            let value = read();
            // ORDERING: Acquire; pairs with the Release fence in `publish`: if any word came from a later publication
            // into the same slot, the index below is seen to have moved.
            M::fence(Ordering::Acquire);
            // ORDERING: Relaxed; the fence above orders it after the words.
            if self.header.index.load(Ordering::Relaxed) == index {
                return (words, value);
            }
            M::pause();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Model;

    fn numbered(number: u64) -> Segment {
        Segment { base_ticks: number, base_ns: number, rate: number, max_age: number, ..Segment::os(0, 0, 0) }
    }

    #[test]
    fn a_static_latch_reads_the_clock_of_the_system() {
        assert_eq!(Latch::<Machine>::for_static().load(), Segment::os(0, 0, 0));
    }

    #[test]
    fn the_last_publication_is_read() {
        let latch = Latch::<Machine>::new(&numbered(1));
        for number in 1..10 {
            latch.publish(&numbered(number));
            assert_eq!(latch.load(), numbered(number));
            assert_eq!(latch.index(), number);
        }
    }

    /// Allowed: a reader sees publications 1, 2 or 3, whole, in order. Forbidden: words of two publications, an
    /// older publication after a newer one.
    #[test]
    #[cfg(not(miri))]
    fn model_no_reader_sees_a_mixture() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(|| {
            let latch = loom::sync::Arc::new(Latch::<Model>::new(&numbered(1)));
            let reader = {
                let latch = latch.clone();
                loom::thread::spawn(move || {
                    let first = latch.load();
                    let second = latch.load();
                    assert_eq!(first, numbered(first.base_ns), "a mixture");
                    assert_eq!(second, numbered(second.base_ns), "a mixture");
                    assert!(first.base_ns <= second.base_ns, "an older publication after a newer one");
                })
            };
            latch.publish(&numbered(2));
            latch.publish(&numbered(3));
            reader.join().expect("the reader saw what it may");
        });
    }
}
