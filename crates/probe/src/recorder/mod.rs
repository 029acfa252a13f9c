//! A recorder of durations: each thread writes its own table, and a snapshot takes what all of them wrote since the last.
//!
//! *Invariants*: every record is in exactly one snapshot. The sum over all snapshots equals the number of records, under
//! load, when threads end and at shutdown; each snapshot's count, sum, least and greatest belong together. A writer never
//! waits: not for a snapshot, not for another writer.
//!
//! *Threads*: a [`Writer`] belongs to one thread at a time; the [`Recorder`] may be used from any. Snapshots of a process
//! take turns. See [`turnstile`] for how a buffer changes hands.
//!
//! *Limits*: a writer takes 14.7 KB; a recorder that was used without a writer, or lost one since its last snapshot, 14.5 KB
//! more. A record costs two or three nanoseconds (1.5 times the plain `FlatRecorder` of `ogive-hist`) and touches five
//! cache lines. A snapshot costs one barrier across the process's running threads and 2 us for each writer that recorded
//! (4 us with one, 14 us with eight, on a Xeon VM: `cargo bench -p ogive-probe`), and 0.1 us when nothing was recorded.
//! Making and dropping a writer takes the recorder's lock. After fork, the child must not use recorders that other
//! threads were using.
//!
//! *Failure*: a writer that the system holds up in the middle of a record keeps its buffer: the buffer comes with the next
//! snapshot, and [`Recorder::deferred`] counts that.

pub(crate) mod buffer;
pub(crate) mod handover;
pub(crate) mod turnstile;

use crate::memory::{Machine, Memory};
use crate::threads;
use buffer::{Buffer, Totals};
use handover::{Entry, Sides};
use ogive_hist::Histogram;
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use turnstile::Turnstile;

/// Snapshots of the process take turns, so that one barrier can serve many recorders.
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

/// A thread's hand in a [`Recorder`]. What it recorded stays when it is dropped.
///
/// It may be sent to another thread, but not shared: keep it in the thread, or in a `thread_local`.
pub struct Writer {
    table: Arc<Table>,
    shared: Arc<Mutex<State>>,
    /// No barrier comes from outside: execute one.
    fence: bool,
    _not_sync: PhantomData<Cell<()>>,
}

struct Table {
    turnstile: Turnstile<Machine>,
    buffers: [Buffer; 2],
}

/// 16 KiB is what an idle writer may take; the reader's side and the list take the rest.
const _: () = assert!(size_of::<Table>() <= 14_700);

#[derive(Default)]
struct State {
    writers: Vec<Entry<Table>>,
    /// Records of writers that are gone, and those made without a writer.
    rest: Option<Totals>,
    deferred: u64,
}

impl Sides for Table {
    type Totals = Totals;

    fn turnstile(&self) -> &Turnstile<Machine> {
        &self.turnstile
    }

    fn drain(&self, side: usize, totals: &mut Totals) {
        self.buffers[side].drain_into(totals);
    }
}

impl Recorder {
    /// An empty recorder.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A new writer. It takes some microseconds: make one per thread, not one per record.
    #[must_use]
    pub fn handle(&self) -> Writer {
        let table = Arc::new(Table { turnstile: Turnstile::new(), buffers: [Buffer::new(), Buffer::new()] });
        self.state().writers.push(Entry::new(table.clone()));
        Writer { table, shared: self.shared.clone(), fence: !threads::has_process_barrier(), _not_sync: PhantomData }
    }

    /// Records from a place that has no writer, such as a task that moves between threads. It takes a lock (some 20 ns
    /// when nobody else holds it).
    pub fn record_ns(&self, ns: u64) {
        self.state().rest.get_or_insert_with(Totals::new).add(ns);
    }

    /// What was recorded since the last snapshot, in seconds, with exact count, sum, least and greatest.
    ///
    /// Once every writer is dropped (or its thread is known to have stopped), it holds everything.
    #[must_use]
    pub fn snapshot(&self) -> Histogram {
        snapshot_all([self]).pop().expect("one recorder gives one histogram")
    }

    /// What was recorded since the last snapshot, as seen now, which changes nothing. The counts of records made
    /// meanwhile may or may not be there; sum, least and greatest are not given.
    #[must_use]
    pub fn live(&self) -> Histogram {
        let state = self.state();
        let mut totals = Totals::new();
        for entry in &state.writers {
            entry.table.buffers.iter().for_each(|buffer| buffer.add_counts_to(&mut totals));
        }
        if let Some(rest) = &state.rest {
            totals.add_counts(rest);
        }
        totals.histogram_of_counts()
    }

    /// How often a writer was held up inside a record, so that a buffer came with a later snapshot.
    #[must_use]
    pub fn deferred(&self) -> u64 {
        self.state().deferred
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
    /// Takes what is there; the buffers that writers have been sent from only after a barrier.
    fn take(&mut self, settled: bool) -> Histogram {
        let mut totals = self.rest.take();
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
        let (buffer, entered) = self.table.turnstile.enter(self.fence);
        self.table.buffers[buffer].add(ns);
        self.table.turnstile.leave(entered);
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let mut state = lock(&self.shared);
        state.writers.retain(|entry| !Arc::ptr_eq(&entry.table, &self.table));
        // This thread is the writer, and it is not inside: both buffers are its own.
        let rest = state.rest.get_or_insert_with(Totals::new);
        self.table.buffers.iter().for_each(|buffer| buffer.drain_into(rest));
    }
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.state();
        f.debug_struct("Recorder").field("writers", &state.writers.len()).field("deferred", &state.deferred).finish()
    }
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").finish_non_exhaustive()
    }
}

/// Every state under these locks is whole between statements that can panic, so a panic elsewhere spoils nothing.
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
        let (buffer, entered) = writer.table.turnstile.enter(writer.fence);
        other.record_ns(1_000);
        for deferred in 1..4 {
            let cell = recorder.snapshot();
            assert_eq!((cell.count, recorder.deferred()), (u64::from(deferred == 1), deferred), "the other is taken");
        }
        writer.table.buffers[buffer].add(7);
        writer.table.turnstile.leave(entered);
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
        writer.fence = true;
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
}
