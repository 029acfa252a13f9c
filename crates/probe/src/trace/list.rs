//! Lists of marks: any number of stamps of one message, under names that may come again and again.
//!
//! A path has at most twelve points, each stamped once. What a message does a changing number of times, such as
//! publish, is marked on its [`MarkList`] instead: sixteen bytes in the message, which lead to the newest mark of a
//! chain. The marks themselves are in a ring of the thread that made them, a [`Marker`]; each knows the mark before it,
//! also where that is in another thread's ring. [`TraceWriter::finish_listed`](super::TraceWriter::finish_listed) walks
//! the chain and counts the time between two marks of one name: for publications the inter-publish time inside a
//! message.
//!
//! *Invariants*: of the lists of finished messages, in every snapshot: `listed == intervals + listed_first +
//! listed_straddled + listed_lost`. What is read of a ring is what its thread wrote for that mark. Marking takes no
//! lock and allocates nothing.
//!
//! *Limits*: [`MARKS_MAX`] marks a thread are kept; older ones are overwritten, and a list that reaches back to them is
//! counted in `listed_lost` from there on. [`MARKERS_MAX`] markers of a recorder exist at a time; the marks of others
//! are all lost and counted so. [`MARK_NAMES_MAX`] names; later ones share the name `(other)`.

use super::names::{MARK_NAMES_MAX, OTHER};
use super::path::{TickSource, TracePath, beginning};
use super::ring::Ring;
use super::table::Side;
use crate::TickRate;
use crate::memory::Machine;
use crate::recorder::lock;
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// Marks in a thread's ring: 8,192 of 64 bytes are 512 KiB, eight thousand publications of one message.
pub const MARKS_MAX: usize = 8_192;

/// Markers of a recorder at a time: a list's link has eight bits for the ring.
pub const MARKERS_MAX: usize = 64;

/// Marks that a slow trace keeps, the first ones: four slots of the ring of lists.
pub const SLOW_MARKS_MAX: usize = LIST_SLOTS * MARKS_A_SLOT;

/// Bytes of a mark's name, at most: 52 of them, escaped, leave room for a path of twelve points in a line of 16 KiB.
pub const MARK_NAME_BYTES_MAX: usize = 32;

/// Slots of a slow message's list.
const LIST_SLOTS: usize = 4;
const MARKS_A_SLOT: usize = super::ring::WORDS - 2;

/// 2,048 slots of 128 bytes are 256 KiB: the lists of 512 slow messages of 40 marks or more, more of shorter ones.
const SLOW_SLOTS: usize = 2_048;

/// A mark's words: ticks; the link to the mark before; name and epoch.
const MARK_WORDS: usize = 3;

const TICKET_BITS: u32 = 56;
const OFFSET_BITS: u32 = 56;

const _: () = assert!(MARKERS_MAX < 1 << (64 - TICKET_BITS) && MARK_NAMES_MAX <= 1 << (64 - OFFSET_BITS));
const _: () = assert!(MARK_NAMES_MAX <= u64::BITS as usize, "a mask of names is one word");

/// A name of marks of path `P`; see [`TraceRecorder::mark_name`](super::TraceRecorder::mark_name).
#[derive(Debug)]
pub struct MarkName<P> {
    index: u8,
    _path: PhantomData<fn(P)>,
}

impl<P> Clone for MarkName<P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for MarkName<P> {}

/// The marks of one message: travels along with its stamps. All zeros is an empty list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct MarkList {
    /// The newest mark: its ring, from 1, in the upper eight bits and its ticket below; 0 for none.
    last: u64,
    marks: u64,
}

const _: () = assert!(size_of::<MarkList>() == 16);

/// One thread's hand for marks. It may be sent to another thread, but not shared.
pub struct Marker<P> {
    lists: Arc<Lists>,
    /// The ring's number, from 1; None when all were taken.
    ring: Option<usize>,
    _not_sync: PhantomData<Cell<()>>,
    _path: PhantomData<fn(P)>,
}

/// State shared by the markers and writers of a recorder.
pub(super) struct Lists {
    rings: [OnceLock<Ring<Machine, MARK_WORDS>>; MARKERS_MAX],
    /// Rings that belong to a marker.
    taken: Mutex<u64>,
    names: Mutex<Vec<Arc<str>>>,
    /// The lists of slow messages; made with the first marker.
    pub(super) slow: OnceLock<Ring<Machine>>,
    /// Lists of slow messages so far.
    kept: AtomicU64,
}

/// A mark that was read back.
#[derive(Clone, Copy)]
struct FoundMark {
    ticks: u64,
    name: usize,
    epoch: u64,
}

/// The result of walking a list, in marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) listed: u64,
    pub(super) first: u64,
    pub(super) straddled: u64,
    pub(super) lost: u64,
    pub(super) clamped: u64,
}

/// A slow message's list, as the reader puts it together.
#[derive(Clone, Debug, Default)]
pub(super) struct SlowList {
    pub(super) listed: u64,
    pub(super) lost: u64,
    /// Ticks since the message's first stamp, and the name's number.
    pub(super) marks: Vec<(u64, usize)>,
}

impl MarkList {
    /// An empty list.
    #[must_use]
    pub const fn new() -> Self {
        Self { last: 0, marks: 0 }
    }

    /// Adds a mark now, with an unordered reading of the counter ([`Clock::ticks`](crate::Clock::ticks)).
    #[inline]
    pub fn mark<P, T: TickSource>(&mut self, source: T, marker: &Marker<P>, name: MarkName<P>) {
        self.mark_at(source, marker, name, source.ticks());
    }

    /// Adds a mark with ticks that were read before, such as one reading for several publications.
    #[inline]
    pub fn mark_at<P, T: TickSource>(&mut self, source: T, marker: &Marker<P>, name: MarkName<P>, ticks: u64) {
        self.marks += 1;
        // Without a ring the mark is lost: the chain is shorter than the list then.
        let Some(ring) = marker.ring else { return };
        let what = u64::from(name.index) | u64::from(source.clock().epoch()) << 16;
        let words = marker.lists.rings[ring - 1].get().map(|slots| slots.push_alone([ticks, self.last, what]));
        debug_assert!(words.is_some(), "a marker's ring is made before the marker");
        if let Some(ticket) = words {
            debug_assert!(ticket < 1 << TICKET_BITS, "a mark each nanosecond for two years");
            self.last = (ring as u64) << TICKET_BITS | ticket;
        }
    }

    /// Marks that were made.
    #[must_use]
    pub const fn marks(&self) -> u64 {
        self.marks
    }
}

impl Lists {
    pub(super) fn new() -> Self {
        Self {
            rings: [const { OnceLock::new() }; MARKERS_MAX],
            taken: Mutex::default(),
            names: Mutex::default(),
            slow: OnceLock::new(),
            kept: AtomicU64::new(0),
        }
    }

    pub(super) fn marker<P: TracePath>(self: &Arc<Self>) -> Marker<P> {
        let mut taken = lock(&self.taken);
        let free = (0..MARKERS_MAX).find(|ring| *taken & 1 << ring == 0);
        if let Some(ring) = free {
            *taken |= 1 << ring;
            // Its tickets continue: a list of the previous marker of this ring does not confuse ours with its own.
            self.rings[ring].get_or_init(|| Ring::new(MARKS_MAX));
            self.slow.get_or_init(|| Ring::new(SLOW_SLOTS));
        }
        drop(taken);
        Marker { lists: self.clone(), ring: free.map(|ring| ring + 1), _not_sync: PhantomData, _path: PhantomData }
    }

    pub(super) fn name<P>(&self, name: &str) -> MarkName<P> {
        let name = beginning(name, MARK_NAME_BYTES_MAX);
        let mut names = lock(&self.names);
        let index = names.iter().position(|known| **known == *name).unwrap_or_else(|| {
            if names.len() == MARK_NAMES_MAX {
                return MARK_NAMES_MAX - 1;
            }
            let last = names.len() + 1 == MARK_NAMES_MAX;
            names.push(if last { OTHER.into() } else { name.into() });
            names.len() - 1
        });
        MarkName { index: index as u8, _path: PhantomData }
    }

    /// The names, in the order of their numbers.
    pub(super) fn names(&self) -> Vec<Arc<str>> {
        lock(&self.names).clone()
    }

    /// Passes on the marks of a list, newest first, as far back as they still exist; returns their number.
    #[inline]
    fn walk(&self, list: &MarkList, mut each: impl FnMut(u64, FoundMark)) -> u64 {
        let (mut link, mut walked) = (list.last, 0);
        while link != 0 && walked < list.marks {
            let (ring, ticket) = ((link >> TICKET_BITS) as usize, link & ((1 << TICKET_BITS) - 1));
            let ring = self.rings.get(ring.wrapping_sub(1)).and_then(OnceLock::get);
            let Some([ticks, before, what]) = ring.and_then(|ring| ring.words(ticket)) else { break };
            let name = (what as u8 as usize).min(MARK_NAMES_MAX - 1);
            each(walked, FoundMark { ticks, name, epoch: what >> 16 });
            link = before;
            walked += 1;
        }
        walked
    }

    /// Counts the times between the marks of each name into `side`.
    pub(super) fn count(&self, list: &MarkList, side: &Side, rate: TickRate, scratch: &Scratch) -> Counted {
        let (mut known, mut counted) = (0_u64, Counted { listed: list.marks, ..Counted::default() });
        let walked = self.walk(list, |_, mark| {
            let later = &scratch.0[mark.name];
            if known & 1 << mark.name == 0 {
                known |= 1 << mark.name;
            } else if later.get().1 == mark.epoch {
                counted.clamped += u64::from(later.get().0 < mark.ticks);
                side.add_between(mark.name, rate.ns(later.get().0.saturating_sub(mark.ticks)));
            } else {
                counted.straddled += 1;
            }
            later.set((mark.ticks, mark.epoch));
        });
        counted.first = u64::from(known.count_ones());
        counted.lost = list.marks - walked;
        counted
    }

    /// Keeps the first marks of a slow message, which began at `first` ticks, under a non-zero number; 0 for none.
    pub(super) fn keep(&self, list: &MarkList, first: u64) -> u16 {
        let Some(ring) = self.slow.get().filter(|_| list.marks > 0) else { return 0 };
        let walked = self.walk(list, |_, _| {});
        let mut marks = [0_u64; SLOW_MARKS_MAX];
        let kept = walked.min(SLOW_MARKS_MAX as u64) as usize;
        // The marks may be overwritten meanwhile: a shorter second walk leaves zeros, which are cut off below.
        let again = self.walk(list, |back, mark| {
            let at = (walked - 1).wrapping_sub(back) as usize;
            if let Some(word) = marks.get_mut(at) {
                let offset = mark.ticks.saturating_sub(first).min((1 << OFFSET_BITS) - 1);
                *word = offset | (mark.name as u64) << OFFSET_BITS;
            }
        });
        let gone = (walked - again.min(walked)).min(kept as u64) as usize;
        let marks = &marks[gone..kept];
        let lost = list.marks - again.min(walked);
        // ORDERING: Relaxed; a number stands for itself. It comes again when the ring was filled 32 times.
        let number = (self.kept.fetch_add(1, Ordering::Relaxed) % u64::from(u16::MAX)) as u16 + 1;
        let slots = marks.chunks(MARKS_A_SLOT).chain(marks.is_empty().then_some(&[][..]));
        for (index, part) in slots.enumerate() {
            let mut words = [0; super::ring::WORDS];
            words[0] = u64::from(number) | (index as u64) << 16 | (part.len() as u64) << 32;
            words[1] = list.marks.min(u64::from(u32::MAX)) | lost.min(u64::from(u32::MAX)) << 32;
            words[2..][..part.len()].copy_from_slice(part);
            ring.push(words);
        }
        number
    }
}

/// The later mark of each name while a list is walked: ticks and epoch. Each writer has one, so that nothing needs
/// clearing.
pub(super) struct Scratch(Box<[Cell<(u64, u64)>; MARK_NAMES_MAX]>);

impl Scratch {
    pub(super) fn new() -> Self {
        Self(Box::new([const { Cell::new((0, 0)) }; MARK_NAMES_MAX]))
    }
}

impl SlowList {
    /// The lists by their numbers, assembled from the ring's slots.
    pub(super) fn find(number: u16, slots: &[[u64; super::ring::WORDS]]) -> Self {
        let mut list = Self::default();
        let mut parts: Vec<_> = slots.iter().filter(|words| words[0] as u16 == number).collect();
        parts.sort_by_key(|words| words[0] >> 16 & 0xffff);
        // After an overwritten part, marks would be mistaken for earlier ones.
        let whole = parts.into_iter().enumerate().take_while(|(index, words)| words[0] >> 16 & 0xffff == *index as u64);
        for (_, words) in whole {
            list.listed = words[1] & u64::from(u32::MAX);
            list.lost = words[1] >> 32;
            let marks = (words[0] >> 32) as usize;
            let offset = |word: &u64| (word & ((1 << OFFSET_BITS) - 1), (word >> OFFSET_BITS) as usize);
            list.marks.extend(words[2..].iter().take(marks).map(offset));
        }
        list
    }
}

impl<P> Drop for Marker<P> {
    fn drop(&mut self) {
        if let Some(ring) = self.ring {
            *lock(&self.lists.taken) &= !(1 << (ring - 1));
        }
    }
}

impl<P> std::fmt::Debug for Marker<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Marker").field("ring", &self.ring).finish_non_exhaustive()
    }
}
