//! Traces of messages, measuring every one: the stamps travel inside the message, and the thread that finishes it
//! counts each stage.
//!
//! A path ([`trace_path!`](crate::trace_path)) names the points of a message; each stage is the time from the point
//! before and belongs to the class infrastructure or logic. A [`TraceWriter`] counts each finished message into one
//! histogram per stage, one per class, one for the total, and one for the gap since its last message: a stall shows
//! there even when no message was in flight. Only a message slower than the [`Threshold`] is kept whole, in a ring from
//! which [`TraceRecorder::drain`] makes [`SlowTrace`]s.
//!
//! *Invariants*, in every [`TraceCell`] and so in any sum of them, under load, when threads end and at shutdown:
//! `total.count + straddled + incomplete == finished`; each class's count + `partial` == `total.count`;
//! gap counts + `gaps_skipped` == `finished`. Of the ring: `dumped == read + overwritten + unfinished`. The stages of a
//! slow trace add up to its total exactly. Stamping and finishing take no lock, allocate nothing and wait for nobody.
//!
//! What a message does a changing number of times, such as publish, is marked on a [`MarkList`]: any number of marks,
//! each added, and a histogram of the times between two of one name ([`TraceWriter::finish_listed`]).
//!
//! *What is counted instead of measured*: a message without its first or last stamp is `incomplete`; one that began in
//! another epoch of the clock is `straddled` (a break is known to the clock up to a second late, so a message that was
//! finished before that is measured across the break); one that lacks a stamp in between is `partial`: its total
//! counts, and the stages both of whose ends are known; a stamp before an earlier one is `clamped` to it; a point that
//! is stamped again keeps its first stamp and is `repeated`.
//!
//! *Threads*: a [`TraceWriter`] belongs to one thread at a time and is one publisher; a [`TraceRecorder`] may be used
//! from any. A message may be stamped in many threads in turn.
//!
//! *Limits*: 12 points. Where a reading of the counter costs 16 ns (a Xeon VM), a message of eight points costs 1.4 to
//! 1.6 times its eight bare readings, the more the busier the machine: `finish` takes 32 ns for eleven histograms, and
//! nothing of it hides behind the readings. On eight stages of 100 ns, of which each step waits for the one before, the
//! bare readings add 14 % and the trace 6 % more (`cargo bench -p ogive-probe --bench trace`). Tried: to keep the ticks
//! of 16 or 32 messages and to count those together, with AVX-512. Back to back that is 7 % less, but on stages 4 %
//! more: one `finish` in 32 takes 600 ns, which no stage hides, where 32 small ones overlap with the stages after them.
//! A writer takes two sides of 7.2 KiB for each stage and four more: 160 KiB for eight points. The ring takes 512 KiB a
//! recorder. 1,024 publishers; further ones share the name `(other)`. After fork, the child's first snapshot holds what
//! the parent had not taken; a recorder may be used there if no other thread was in one of its methods or in a snapshot
//! of any recorder.
//!
//! *Failure*: as of [`Recorder`](crate::Recorder): a writer that is held up inside `finish` keeps its side until the
//! next snapshot.

mod cell;
mod in_flight;
mod line;
mod list;
mod names;
mod path;
mod ring;
mod slow;
mod table;

pub use cell::{MarkCell, PublisherCell, StageCell, TraceCell, TraceCounts};
pub use in_flight::{IN_FLIGHT_MAX, InFlight, ListedPath, MessageInFlight, PATHS_MAX, each_in_flight};
pub use list::{MARK_NAME_BYTES_MAX, MARKERS_MAX, MARKS_MAX, MarkList, MarkName, Marker, SLOW_MARKS_MAX};
pub use names::{MARK_NAMES_MAX, PUBLISHERS_MAX};
pub use path::{Class, POINTS_MAX, Point, PointDef, Stamps, TickSource, TracePath};
pub use slow::{ClockNote, SlowMark, SlowStage, SlowTrace};

use crate::memory::{Machine, Memory};
use crate::recorder::handover::{Entry, Sides};
use crate::recorder::{lock, take_turn};
use crate::{Clock, TickRate, threads};
use list::{Lists, Scratch, SlowList};
use names::OTHER;
use ring::{Reader, Ring};
use std::cell::Cell;
use std::collections::HashSet;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use table::{Collected, Side, Table};

/// Which messages are kept completely.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Threshold {
    /// Those that took longer than this.
    Fixed {
        /// Nanoseconds.
        ns: u64,
    },
    /// Those that took longer than `times` the 99.9 % quantile of the last snapshot with messages, and longer than
    /// `floor_ns`; before the first such snapshot, `floor_ns` alone.
    Tail {
        /// The factor; 2 or 3 keeps a handful a second.
        times: f64,
        /// Nanoseconds.
        floor_ns: u64,
    },
}

impl Threshold {
    /// Messages that took longer than `ns`.
    #[must_use]
    pub const fn fixed_ns(ns: u64) -> Self {
        Self::Fixed { ns }
    }

    fn first_ns(self) -> u64 {
        match self {
            Self::Fixed { ns } => ns,
            Self::Tail { floor_ns, .. } => floor_ns,
        }
    }

    /// The limit after a cell with this 99.9 % quantile; `None` when it is unchanged.
    fn next_ns(self, p999_seconds: Option<f64>) -> Option<u64> {
        let (Self::Tail { times, floor_ns }, Some(p999)) = (self, p999_seconds) else { return None };
        // A product beyond u64 becomes u64::MAX, a NaN 0: `as` does both.
        Some(((p999 * times * 1e9) as u64).max(floor_ns))
    }
}

/// The outcomes of the messages above the threshold. `dumped == read + overwritten + unfinished`, once drained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DumpCounts {
    /// Messages above the threshold.
    pub dumped: u64,
    /// Those that [`TraceRecorder::drain`] returned.
    pub read: u64,
    /// Those that were overwritten in the ring before they were read.
    pub overwritten: u64,
    /// Those that were incomplete in the ring when last read: a writer was interrupted, or ended there.
    pub unfinished: u64,
}

/// Records the messages of one path from many threads. Clones are the same recorder.
pub struct TraceRecorder<P, T = Clock> {
    shared: Arc<Shared>,
    source: T,
    _path: PhantomData<fn(P)>,
}

/// One publisher's writer for a [`TraceRecorder`]. What it counted is kept when it is dropped.
///
/// It may be sent to another thread, but not shared.
pub struct TraceWriter<P> {
    table: Arc<Table>,
    shared: Arc<Shared>,
    clock: Clock,
    /// The epoch of `table.published`; None before the first message. A cell, so that a writer is not shared.
    published_epoch: Cell<Option<u32>>,
    /// No barrier comes from other threads: execute one.
    fence: bool,
    scratch: Scratch,
    _path: PhantomData<fn(P)>,
}

struct Shared {
    lists: Arc<Lists>,
    limit_ns: AtomicU64,
    threshold: Threshold,
    ring: Ring<Machine>,
    reader: Mutex<Readers>,
    state: Mutex<State>,
    points: usize,
}

/// The reader's place in the ring of messages and in that of their lists.
#[derive(Default)]
struct Readers {
    messages: Reader,
    lists: Reader,
    /// Parts of lists that arrived before their messages, kept until the next drain.
    early: Vec<[u64; ring::WORDS]>,
}

#[derive(Default)]
struct State {
    writers: Vec<Entry<Table>>,
    publishers: Vec<Arc<str>>,
    /// What dropped writers had counted.
    rest: Option<Collected>,
    deferred: u64,
}

impl<P, T: Clone> Clone for TraceRecorder<P, T> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), source: self.source.clone(), _path: PhantomData }
    }
}

impl<P: TracePath, T: TickSource> TraceRecorder<P, T> {
    /// A recorder of messages that are stamped from `source`.
    #[must_use]
    pub fn new(source: T, threshold: Threshold) -> Self {
        const { path::check_names::<P>() };
        let shared = Shared {
            lists: Arc::new(Lists::new()),
            limit_ns: AtomicU64::new(threshold.first_ns()),
            threshold,
            ring: Ring::new(ring::SLOTS),
            reader: Mutex::default(),
            state: Mutex::default(),
            points: P::POINTS.len(),
        };
        Self { shared: Arc::new(shared), source, _path: PhantomData }
    }

    /// A writer for the publisher with that name (its first 64 bytes); one name may have many. Making one takes some
    /// tens of microseconds.
    #[must_use]
    pub fn handle(&self, publisher: &str) -> TraceWriter<P> {
        let publisher = path::beginning(publisher, path::NAME_BYTES_MAX);
        let mut state = self.state();
        let table = Arc::new(Table::new(self.shared.points, state.publisher(publisher)));
        state.writers.push(Entry::new(table.clone()));
        TraceWriter {
            table,
            shared: self.shared.clone(),
            clock: self.source.clock(),
            published_epoch: Cell::new(None),
            fence: !threads::has_process_barrier(),
            scratch: Scratch::new(),
            _path: PhantomData,
        }
    }

    /// A marker for one thread; see [`MarkList`]. It uses a ring of 512 KiB; the ring of a dropped marker is reused.
    #[must_use]
    pub fn marker(&self) -> Marker<P> {
        self.shared.lists.marker()
    }

    /// A name of marks (its first 32 bytes): equal names give the same marks. It takes a lock; keep the result.
    #[must_use]
    pub fn mark_name(&self, name: &str) -> MarkName<P> {
        self.shared.lists.name(name)
    }

    /// What was finished since the last snapshot; sets the threshold for later messages. Once a second, from one place.
    #[must_use]
    pub fn snapshot(&self) -> TraceCell {
        let _turn = take_turn();
        let mut state = self.state();
        let sent = state.writers.iter_mut().fold(false, |sent, entry| entry.send_away() | sent);
        let settled = !sent || Machine::heavy_fence();
        let mut collected = state.rest.take().unwrap_or_else(|| Collected::new(self.shared.points));
        let names = self.shared.lists.names();
        let State { writers, deferred, .. } = &mut *state;
        for entry in writers.iter_mut().filter(|entry| entry.is_leaving()) {
            let taken = settled && entry.take(&mut collected);
            *deferred += u64::from(!taken);
        }
        let cell = TraceCell::new::<P>(&collected, &state.publishers, &names, self.quiet(&state), self.limit_ns());
        drop(state);
        let p999 = cell.total.quantile(0.999).map(|quantile| quantile.value);
        if let Some(limit_ns) = self.shared.threshold.next_ns(p999) {
            // ORDERING: Relaxed; a limit stands for itself, and a writer may see it some messages late.
            self.shared.limit_ns.store(limit_ns, Ordering::Relaxed);
        }
        cell
    }

    /// The messages above the threshold since the last call, oldest first.
    ///
    /// Their wall times are exact when it is called in the clock's epoch in which they were finished.
    pub fn drain(&self) -> Vec<SlowTrace> {
        let mut readers = lock(&self.shared.reader);
        let Readers { messages, lists, early } = &mut *readers;
        let mut kept = Vec::new();
        messages.drain(&self.shared.ring, |words| kept.push(words));
        // A writer keeps a list before its message: whoever reads the message finds the list. Parts without a message
        // at the second drain belong to one that was overwritten.
        let mut parts = std::mem::take(early);
        if let Some(ring) = self.shared.lists.slow.get() {
            lists.drain(ring, |words| early.push(words));
        }
        parts.extend_from_slice(early);
        let numbers: HashSet<u16> = kept.iter().map(slow::list_number).collect();
        early.retain(|words| !numbers.contains(&(words[0] as u16)));
        drop(readers);
        if kept.is_empty() {
            return Vec::new();
        }
        let publishers = self.state().publishers.clone();
        let note = slow::Now::look(self.source);
        let names = self.shared.lists.names();
        let trace = |words: &[u64; ring::WORDS]| {
            let trace = SlowTrace::new::<P>(words, &publishers, &note);
            match slow::list_number(words) {
                0 => trace,
                number => trace.with_list(&SlowList::find(number, &parts), &names, &note),
            }
        };
        kept.iter().map(trace).collect()
    }

    /// The outcomes of the messages above the threshold, as of the last [`TraceRecorder::drain`].
    #[must_use]
    pub fn dumps(&self) -> DumpCounts {
        let reader = &lock(&self.shared.reader).messages;
        DumpCounts {
            dumped: self.shared.ring.taken(),
            read: reader.read,
            overwritten: reader.overwritten,
            unfinished: reader.unfinished(),
        }
    }

    /// Messages that take longer than this are kept completely now.
    #[must_use]
    pub fn limit_ns(&self) -> u64 {
        // ORDERING: Relaxed; see `snapshot`.
        self.shared.limit_ns.load(Ordering::Relaxed)
    }

    /// Writers that are there now.
    #[must_use]
    pub fn writers(&self) -> usize {
        self.state().writers.len()
    }

    /// How often a writer was interrupted inside `finish`, so that its side was part of a later snapshot.
    #[must_use]
    pub fn deferred(&self) -> u64 {
        self.state().deferred
    }

    /// How long each publisher has been silent: the shortest time of its writers.
    fn quiet(&self, state: &State) -> Vec<Option<u64>> {
        let (rate, now) = (self.source.clock().tick_rate(), self.source.ticks_ordered());
        let mut quiet = vec![None::<u64>; state.publishers.len()];
        for entry in &state.writers {
            // ORDERING: Relaxed; a figure for people.
            let published = entry.table.published.load(Ordering::Relaxed);
            if published > 0 {
                let ns = rate.ns(now.saturating_sub(published));
                let shortest = &mut quiet[entry.table.publisher];
                *shortest = Some(shortest.map_or(ns, |other| other.min(ns)));
            }
        }
        quiet
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.shared.state)
    }
}

impl State {
    fn publisher(&mut self, name: &str) -> usize {
        if let Some(at) = self.publishers.iter().position(|known| **known == *name) {
            return at;
        }
        match self.publishers.len() {
            PUBLISHERS_MAX => PUBLISHERS_MAX - 1,
            count => {
                self.publishers.push(if count + 1 == PUBLISHERS_MAX { OTHER.into() } else { name.into() });
                count
            }
        }
    }
}

impl<P: TracePath> TraceWriter<P> {
    const ALL: u32 = (1 << P::POINTS.len()) - 1;

    /// Counts a message. Its last point, stamped before, is when it was published.
    #[inline]
    pub fn finish(&self, message: &P) {
        self.finish_both::<false>(message, &MarkList::new());
    }

    /// Counts a message and its list of marks: the time between two marks of one name is added to that name's
    /// histogram.
    ///
    /// The first two marks of a name in a message that this writer meets make its table (7.2 KiB, on each of its two
    /// sides); nothing is allocated after that.
    #[inline]
    pub fn finish_listed(&self, message: &P, list: &MarkList) {
        self.finish_both::<true>(message, list);
    }

    #[inline(always)]
    fn finish_both<const LISTED: bool>(&self, message: &P, list: &MarkList) {
        let (stamps, seen) = (message.stamps(), message.seen());
        let rate = self.clock.tick_rate();
        let (side, entered) = self.table.turnstile.enter(self.fence);
        let side = &self.table.sides[side];
        side.count(table::FINISHED, 1);
        let epoch = u32::from(self.clock.epoch());
        if LISTED && list.marks() > 0 {
            self.count_list(list, side, rate);
        }
        if message.repeated() > 0 {
            side.count(table::REPEATED, u64::from(message.repeated()));
        }
        if seen != Self::ALL || message.epoch() != epoch {
            self.finish_otherwise(message, list, side, epoch);
            self.table.turnstile.leave(entered);
            return;
        }
        let times = side.add_whole::<P>(stamps, rate);
        let gap = self.gap(stamps[stamps.len() - 1], epoch, side, rate);
        if times.clamped > 0 {
            side.count(table::CLAMPED, times.clamped);
        }
        // ORDERING: Relaxed; see `snapshot`.
        let limit_ns = self.shared.limit_ns.load(Ordering::Relaxed);
        if rate.ns(times.total_ticks) > limit_ns {
            self.dump(message, list, side, gap, limit_ns);
        }
        self.table.turnstile.leave(entered);
    }

    fn count_list(&self, list: &MarkList, side: &Side, rate: TickRate) {
        let counted = self.shared.lists.count(list, side, rate, &self.scratch);
        side.count(table::LISTED, counted.listed);
        side.count(table::LISTED_FIRST, counted.first);
        side.count(table::LISTED_STRADDLED, counted.straddled);
        side.count(table::LISTED_LOST, counted.lost);
        side.count(table::CLAMPED, counted.clamped);
    }

    /// Counts the gap between the publisher's last message and this one; returns it in ticks, less one for none.
    #[inline(always)]
    fn gap(&self, published: u64, epoch: u32, side: &Side, rate: TickRate) -> u64 {
        // ORDERING: Relaxed; this thread alone stores it.
        let before = self.table.published.load(Ordering::Relaxed);
        self.table.published.store(published, Ordering::Relaxed);
        if self.published_epoch.get() != Some(epoch) {
            self.published_epoch.set(Some(epoch));
            side.count(table::GAPS_SKIPPED, 1);
            return 0;
        }
        if published < before {
            side.count(table::CLAMPED, 1);
        }
        let ticks = published.saturating_sub(before);
        side.add(table::GAP, rate.ns(ticks));
        ticks + 1
    }

    /// A message that straddles epochs, or lacks stamps.
    #[cold]
    #[inline(never)]
    fn finish_otherwise(&self, message: &P, list: &MarkList, side: &Side, epoch: u32) {
        let (stamps, seen, rate) = (message.stamps(), message.seen(), self.clock.tick_rate());
        for index in (0..stamps.len()).filter(|index| seen & (1 << index) == 0) {
            side.count(table::MISSING + index, 1);
        }
        let (first, last) = (seen & 1 != 0, seen >> (stamps.len() - 1) & 1 != 0);
        // Without its first stamp, the epoch of a message is unknown; its last stamp was made just now.
        let straddled = first && message.epoch() != epoch;
        let gap = if last && !straddled {
            self.gap(stamps[stamps.len() - 1], epoch, side, rate)
        } else {
            side.count(table::GAPS_SKIPPED, 1);
            0
        };
        if straddled {
            side.count(table::STRADDLED, 1);
        } else if !first || !last {
            side.count(table::INCOMPLETE, 1);
        } else {
            side.count(table::PARTIAL, 1);
            let times = side.add_partial(stamps, seen, rate);
            side.count(table::CLAMPED, times.clamped);
            // ORDERING: Relaxed; see `snapshot`.
            let limit_ns = self.shared.limit_ns.load(Ordering::Relaxed);
            if rate.ns(times.total_ticks) > limit_ns {
                self.dump(message, list, side, gap, limit_ns);
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn dump(&self, message: &P, list: &MarkList, side: &Side, gap: u64, limit_ns: u64) {
        side.count(table::SLOW, 1);
        let list = self.shared.lists.keep(list, message.stamps()[0]);
        self.shared.ring.push(slow::pack(message, self.table.publisher, list, gap, limit_ns));
    }
}

impl<P> Drop for TraceWriter<P> {
    fn drop(&mut self) {
        let mut state = lock(&self.shared.state);
        state.writers.retain(|entry| !Arc::ptr_eq(&entry.table, &self.table));
        // This thread is the writer, and it is not inside: both sides are its own.
        let rest = state.rest.get_or_insert_with(|| Collected::new(self.shared.points));
        (0..2).for_each(|side| self.table.drain(side, rest));
    }
}

impl<P: TracePath, T: TickSource> std::fmt::Debug for TraceRecorder<P, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut f = f.debug_struct("TraceRecorder");
        f.field("path", &P::NAME).field("limit_ns", &self.limit_ns()).field("dumps", &self.dumps()).finish()
    }
}

impl<P: TracePath> std::fmt::Debug for TraceWriter<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TraceWriter").field("path", &P::NAME).finish_non_exhaustive()
    }
}
