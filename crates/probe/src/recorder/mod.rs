//! A recorder of durations: each thread writes its own table, and a snapshot takes what all of them wrote since the
//! last.
//!
//! *Invariants*: every record is in exactly one snapshot. The sum over all snapshots equals the number of records,
//! under load, when threads end and at shutdown; each snapshot's count, sum, least and greatest belong together. A
//! writer never waits: not for a snapshot, not for another writer.
//!
//! *Threads*: a [`Writer`] belongs to one thread at a time; the [`Recorder`] may be used from any. Snapshots of a
//! process take turns. See [`turnstile`] for how a buffer changes hands.
//!
//! *Limits*: a writer takes 14.7 KB; a recorder that was used without a writer, or lost one since its last snapshot,
//! 14.5 KB more. A sparse writer takes 0.6 KB and 0.26 KB for each page of 64 bins that it used of late, on each of its
//! two sides: 100,000 recorders with one each take 85 MB idle and 170 MB when all values of each lie within a factor of
//! five. A record costs two or three nanoseconds (1.7 times the plain `FlatRecorder` of `ogive-hist`) and touches five
//! cache lines, six in a sparse writer. A snapshot costs one barrier across the process's running threads and 2 us for
//! each writer that recorded (4 us with one, 14 us with eight, on a Xeon VM: `cargo bench -p ogive-probe`), and 0.1 us
//! when nothing was recorded. Making and dropping a writer takes the recorder's lock. After fork, the child must not
//! use recorders that other threads were using.
//!
//! *Failure*: a writer that the system holds up in the middle of a record keeps its buffer: the buffer comes with the
//! next snapshot, and [`Recorder::deferred`] counts that.

pub(crate) mod buffer;
pub(crate) mod handover;
mod pages;
pub(crate) mod turnstile;

use crate::memory::{Machine, Memory};
use crate::threads;
use buffer::{Buffer, Counts, Flat, Totals};
use handover::{Entry, Sides};
use ogive_hist::Histogram;
use pages::Pages;
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use turnstile::Turnstile;

/// Snapshots in a process are serialised, so that one barrier can serve many recorders.
static TURN: Mutex<()> = Mutex::new(());

/// Waits for the turn to take snapshots.
pub(crate) fn take_turn() -> MutexGuard<'static, ()> {
    lock(&TURN)
}

/// Records one series from many threads. Clones are the same recorder.
#[derive(Clone, Default)]
pub struct Recorder {
    shared: Arc<Mutex<State>>,
}

/// A thread's writer for a [`Recorder`]. What it recorded is kept when it is dropped.
///
/// It may be sent to another thread, but not shared: keep it in the thread, or in a `thread_local`.
pub struct Writer(Hand<Flat>);

/// As [`Writer`], for one of very many recorders: it allocates memory for the values that it sees, and frees it when
/// they no longer occur.
///
/// A record costs a tenth more than a [`Writer`]'s. The first within 64 neighbouring bins (two thirds of a
/// decade) allocates 260 bytes; they go after eight snapshots without a record there.
pub struct SparseWriter(Hand<Pages>);

struct Hand<C: Counts> {
    table: Arc<Table<C>>,
    shared: Arc<Mutex<State>>,
    /// No barrier comes from other threads: execute one.
    fence: bool,
    _not_sync: PhantomData<Cell<()>>,
}

struct Table<C> {
    turnstile: Turnstile<Machine>,
    buffers: [Buffer<C>; 2],
}

/// 16 KiB is the limit for an idle writer; the reader's side and the list take the rest.
const _: () = assert!(size_of::<Table<Flat>>() <= 14_720);
const _: () = assert!(size_of::<Table<Pages>>() <= 600);

/// What a recorder's entries have in common.
trait Columns: Sides<Totals = Totals> + Send + Sync {
    fn add_counts_to(&self, totals: &mut Totals);
}

#[derive(Default)]
struct State {
    writers: Vec<Entry<dyn Columns>>,
    /// Records of writers that were dropped, and those made without a writer.
    rest: Option<Totals>,
    /// Sparse writers that were dropped: most recorders have one at a time, and `rest` would be larger.
    gone: Vec<Arc<dyn Columns>>,
    deferred: u64,
    straddled: u64,
}

/// How many sparse tables of dropped writers a recorder keeps until its next snapshot; further ones are added to a flat
/// table.
const GONE_MAX: usize = 8;

impl<C: Counts> Table<C> {
    fn new() -> Self {
        Self { turnstile: Turnstile::new(), buffers: [Buffer::new(), Buffer::new()] }
    }
}

impl Sides for Table<Flat> {
    type Totals = Totals;

    fn turnstile(&self) -> &Turnstile<Machine> {
        &self.turnstile
    }

    fn drain(&self, side: usize, totals: &mut Totals) {
        self.buffers[side].drain_into(totals);
    }
}

impl Sides for Table<Pages> {
    type Totals = Totals;

    fn turnstile(&self) -> &Turnstile<Machine> {
        &self.turnstile
    }

    fn drain(&self, side: usize, totals: &mut Totals) {
        self.buffers[side].drain_into(totals);
    }

    fn is_sparse(&self) -> bool {
        true
    }

    #[allow(unsafe_code)]
    unsafe fn trim(&self, side: usize, idle: bool) {
        // SAFETY: the caller has this side alone.
        unsafe { self.buffers[side].counts.trim(idle) };
    }
}

impl<C: Counts> Columns for Table<C>
where
    Self: Sides<Totals = Totals>,
{
    fn add_counts_to(&self, totals: &mut Totals) {
        self.buffers.iter().for_each(|buffer| buffer.add_counts_to(totals));
    }
}

impl Recorder {
    /// An empty recorder.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A new writer. Making one takes some microseconds: make one per thread, not one per record.
    #[must_use]
    pub fn handle(&self) -> Writer {
        Writer(self.hand())
    }

    /// A new writer that uses little memory until it has much to count.
    #[must_use]
    pub fn handle_sparse(&self) -> SparseWriter {
        SparseWriter(self.hand())
    }

    fn hand<C>(&self) -> Hand<C>
    where
        C: Counts + 'static,
        Table<C>: Sides<Totals = Totals>,
    {
        let table = Arc::new(Table::new());
        let mut state = self.state();
        if state.writers.is_empty() {
            state.writers.reserve_exact(1);
        }
        state.writers.push(Entry::new(table.clone()));
        drop(state);
        Hand { table, shared: self.shared.clone(), fence: !threads::has_process_barrier(), _not_sync: PhantomData }
    }

    /// Records where there is no writer, such as in a task that moves between threads. It takes a lock (some 20 ns
    /// when uncontended).
    pub fn record_ns(&self, ns: u64) {
        self.state().rest.get_or_insert_with(Totals::new).add(ns);
    }

    /// What was recorded since the last snapshot, in seconds, with exact count, sum, minimum and maximum.
    ///
    /// Once every writer is dropped (or its thread is known to have stopped), it contains everything.
    #[must_use]
    pub fn snapshot(&self) -> Histogram {
        snapshot_all([self]).pop().expect("one recorder gives one histogram")
    }

    /// What was recorded since the last snapshot, without resetting it. The counts of concurrent records
    /// may or may not be included; sum, minimum and maximum are not available.
    #[must_use]
    pub fn live(&self) -> Histogram {
        let state = self.state();
        let mut totals = Totals::new();
        let tables = state.writers.iter().map(|entry| &entry.table).chain(&state.gone);
        tables.for_each(|table| table.add_counts_to(&mut totals));
        if let Some(rest) = &state.rest {
            totals.add_counts(rest);
        }
        totals.histogram_of_counts()
    }

    /// How often a writer was interrupted inside a record, so that a buffer was part of a later snapshot.
    #[must_use]
    pub fn deferred(&self) -> u64 {
        self.state().deferred
    }

    /// Operations timed by a [`Stopwatch`](crate::Stopwatch) that were not recorded, because the clock's line was
    /// broken while they were running; since the recorder was made.
    #[must_use]
    pub fn straddled(&self) -> u64 {
        self.state().straddled
    }

    /// Writers that are there now.
    #[must_use]
    pub fn writers(&self) -> usize {
        self.state().writers.len()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.shared)
    }
}

/// Snapshots of many recorders for the price of one barrier, in their order.
#[must_use]
pub fn snapshot_all<'a>(recorders: impl IntoIterator<Item = &'a Recorder>) -> Vec<Histogram> {
    let recorders: Vec<&Recorder> = recorders.into_iter().collect();
    let _turn = take_turn();
    let mut sent = false;
    for recorder in &recorders {
        for entry in &mut recorder.state().writers {
            sent |= entry.send_away();
        }
    }
    let settled = !sent || Machine::heavy_fence();
    recorders.iter().map(|recorder| recorder.state().take(settled)).collect()
}

impl State {
    /// Collects what is available; the buffers that writers have been switched away from only after a barrier.
    fn take(&mut self, settled: bool) -> Histogram {
        let mut totals = self.rest.take();
        for table in self.gone.drain(..) {
            let totals = totals.get_or_insert_with(Totals::new);
            (0..2).for_each(|side| table.drain(side, totals));
        }
        self.gone.shrink_to_fit();
        for entry in self.writers.iter_mut().filter(|entry| entry.is_leaving()) {
            let taken = settled && entry.take(totals.get_or_insert_with(Totals::new));
            self.deferred += u64::from(!taken);
        }
        totals.map_or_else(Histogram::log_linear, |totals| totals.histogram())
    }
}

impl Writer {
    /// Records one duration.
    #[inline]
    pub fn record_ns(&self, ns: u64) {
        self.0.record_ns(ns);
    }

    /// Counts an operation of unknown duration. It takes the recorder's lock: a break of the clock is rare.
    #[cold]
    pub(crate) fn count_straddled(&self) {
        lock(&self.0.shared).straddled += 1;
    }
}

impl SparseWriter {
    /// Records one duration.
    #[inline]
    pub fn record_ns(&self, ns: u64) {
        self.0.record_ns(ns);
    }
}

impl<C: Counts> Hand<C> {
    #[inline(always)]
    fn record_ns(&self, ns: u64) {
        let (buffer, entered) = self.table.turnstile.enter(self.fence);
        self.table.buffers[buffer].add(ns);
        self.table.turnstile.leave(entered);
    }
}

impl<C: Counts> Drop for Hand<C> {
    fn drop(&mut self) {
        let mut state = lock(&self.shared);
        let ours = Arc::as_ptr(&self.table).cast::<()>();
        let at = state.writers.iter().position(|entry| Arc::as_ptr(&entry.table).cast::<()>() == ours);
        let entry = state.writers.swap_remove(at.expect("a writer has an entry while it is there"));
        // This thread is the writer, and it is not inside: both buffers are its own.
        if entry.table.is_sparse() && state.rest.is_none() && state.gone.len() < GONE_MAX {
            state.gone.reserve_exact(1);
            state.gone.push(entry.table);
            return;
        }
        let rest = state.rest.get_or_insert_with(Totals::new);
        (0..2).for_each(|side| entry.table.drain(side, rest));
    }
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.state();
        f.debug_struct("Recorder").field("writers", &state.writers.len()).field("deferred", &state.deferred).finish()
    }
}

impl std::fmt::Debug for SparseWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SparseWriter").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").finish_non_exhaustive()
    }
}

/// Every state under these locks is consistent between statements that can panic, so a panic elsewhere does no harm.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_writer_held_up_inside_a_record_keeps_its_buffer_until_the_next_snapshot() {
        let recorder = Recorder::new();
        let (writer, other) = (recorder.handle(), recorder.handle());
        writer.record_ns(5);
        let (buffer, entered) = writer.0.table.turnstile.enter(writer.0.fence);
        other.record_ns(1_000);
        for deferred in 1..4 {
            let cell = recorder.snapshot();
            assert_eq!((cell.count, recorder.deferred()), (u64::from(deferred == 1), deferred), "the other is taken");
        }
        writer.0.table.buffers[buffer].add(7);
        writer.0.table.turnstile.leave(entered);
        writer.record_ns(9);
        let cell = recorder.snapshot();
        assert_eq!((cell.count, cell.sum), (2, Some(12e-9)), "what was in the buffer, and the record that was held up");
        assert_eq!(recorder.snapshot().sum, Some(9e-9), "what came after is in the other buffer");
        assert_eq!((recorder.snapshot().count, recorder.deferred()), (0, 3));
    }

    /// Where there is no membarrier, writers execute the fence themselves.
    #[test]
    fn writers_that_execute_the_fence_lose_nothing_either() {
        const RECORDS: u64 = if cfg!(miri) { 200 } else { 300_000 };
        let (recorder, done) = (Recorder::new(), AtomicBool::new(false));
        let mut writer = recorder.handle();
        writer.0.fence = true;
        let mut seen = 0;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let writer = writer;
                (0..RECORDS).for_each(|ns| writer.record_ns(ns));
                done.store(true, Ordering::Release);
            });
            while !done.load(Ordering::Acquire) {
                seen += recorder.snapshot().count;
            }
        });
        assert_eq!(seen + recorder.snapshot().count, RECORDS);
    }

    /// For the machine's memory checker too: pages are made in the writer and freed in the reader.
    #[test]
    fn a_sparse_writer_loses_nothing_while_its_pages_come_and_go() {
        const RECORDS: u64 = if cfg!(miri) { 300 } else { 100_000 };
        let (recorder, done) = (Recorder::new(), AtomicBool::new(false));
        let (mut seen, mut live_max) = (0, 0);
        std::thread::scope(|scope| {
            let (writer, done) = (recorder.handle_sparse(), &done);
            scope.spawn(move || {
                (0..RECORDS).for_each(|record| writer.record_ns(1 << (record * 40 / RECORDS)));
                done.store(true, Ordering::Release);
            });
            while !done.load(Ordering::Acquire) {
                seen += recorder.snapshot().count;
                live_max = live_max.max(recorder.live().count);
            }
        });
        assert_eq!(seen + recorder.snapshot().count, RECORDS);
        assert!(live_max <= RECORDS);
    }
}
