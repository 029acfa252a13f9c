//! The contention experiment: how long is it from one call of a clock to the next, while other threads call it too?
//!
//! It has the shape of nanotiming, LMAX's experiment of 2016 (github.com/epickrram/nanotiming): threads beside the
//! measuring one do nothing but read the clock; the measuring one takes the difference of each two readings in a row.
//! Where nanotiming prints an integer mean, each difference goes into a histogram here, since on a shared machine the
//! mean shows preemption alone. *Invariants*: every difference is counted once; the clocks take turns in slices of
//! [`SLICE`], so that what disturbs one disturbs all; recording happens outside of the measured differences. *Limits*:
//! a clock too coarse to see its own cost shows its step (COARSE: 0, and now and then a whole tick of the kernel).

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use ogive_hist::{FlatRecorder, Histogram};
use ogive_probe::Clock;

use super::host::CpuTimes;
use super::progress::Progress;
use ogive_observe::clock::read::{ClockVisitor, TimeSource};

/// 10 ms: longer than a scheduler's time slice, so that the other threads do run in it.
const SLICE: Duration = Duration::from_millis(10);
/// Differences measured between two checks of the time.
const BLOCK: usize = 512;

/// The measurements of one clock with a given number of threads.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) read: TimeSource,
    /// Seconds between two calls.
    pub(super) between: Histogram,
    /// Calls a second of the measuring thread, while it called.
    pub(super) rate: f64,
    /// Readings below the one before them.
    pub(super) backward: u64,
}

/// One number of threads, all clocks.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) threads: usize,
    pub(super) rows: Vec<Row>,
    /// The share of all CPUs' time that the hypervisor gave to other guests meanwhile; `None` where the kernel does not
    /// report it.
    pub(super) steal: Option<f64>,
}

/// Steps of progress that [`run`] reports.
pub(super) fn steps(seconds: f64) -> usize {
    (seconds / SLICE.as_secs_f64()).ceil().max(1.0) as usize
}

/// Measures every clock of `reads` for `seconds` each, beside `threads` threads.
pub(super) fn run(clock: Clock, reads: &[TimeSource], threads: usize, seconds: f64, progress: &mut Progress) -> Table {
    let before = CpuTimes::now();
    let mut tallies: Vec<Tally> = reads.iter().map(|_| Tally::default()).collect();
    let (current, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                // ORDERING: Relaxed, here and below; it only shows which clock to read, and when to end.
                while !stop.load(Ordering::Relaxed) {
                    let at = current.load(Ordering::Relaxed);
                    reads[at].visit(clock, Hammer { at, current: &current, stop: &stop });
                }
            });
        }
        for _ in 0..steps(seconds) {
            for (at, (read, tally)) in reads.iter().zip(&mut tallies).enumerate() {
                current.store(at, Ordering::Relaxed);
                read.visit(clock, Slice { clock, read: *read, tally });
            }
            progress.step(&format!("contention, {threads} threads beside"));
        }
        stop.store(true, Ordering::Relaxed);
    });
    let rows = reads.iter().zip(tallies).map(|(read, tally)| tally.row(*read)).collect();
    let steal = before.zip(CpuTimes::now()).and_then(|(before, after)| after.steal_since(before));
    Table { threads, rows, steal }
}

#[derive(Default)]
struct Tally {
    recorder: FlatRecorder,
    calls: u64,
    measured_ns: u64,
    backward: u64,
}

impl Tally {
    fn row(self, read: TimeSource) -> Row {
        let rate = self.calls as f64 / (self.measured_ns.max(1) as f64 / 1e9);
        Row { read, between: self.recorder.snapshot(), rate, backward: self.backward }
    }

    fn count(&mut self, readings: &[u64], ns: impl Fn(u64) -> u64) {
        for pair in readings.windows(2) {
            self.backward += u64::from(pair[1] < pair[0]);
            self.recorder.record(ns(pair[1].saturating_sub(pair[0])));
        }
    }
}

/// A thread that competes with the measuring one.
struct Hammer<'a> {
    at: usize,
    current: &'a AtomicUsize,
    stop: &'a AtomicBool,
}

impl ClockVisitor for Hammer<'_> {
    type Output = ();
    fn visit<F: Fn() -> u64 + Sync>(self, read: F) {
        while self.current.load(Ordering::Relaxed) == self.at && !self.stop.load(Ordering::Relaxed) {
            for _ in 0..BLOCK {
                black_box(read());
            }
        }
    }
}

/// The measuring thread, for a slice.
struct Slice<'a> {
    clock: Clock,
    read: TimeSource,
    tally: &'a mut Tally,
}

impl ClockVisitor for Slice<'_> {
    type Output = ();
    fn visit<F: Fn() -> u64 + Sync>(self, read: F) {
        let mut readings = [0; BLOCK + 1];
        let end = self.clock.now() + SLICE.as_nanos() as u64;
        loop {
            let start = self.clock.now();
            for reading in &mut readings {
                *reading = read();
            }
            // A clock with coarse steps cannot measure its own rate; ours can.
            let now = self.clock.now();
            self.tally.measured_ns += now - start;
            self.tally.calls += readings.len() as u64;
            self.tally.count(&readings, |units| self.read.ns(self.clock, units));
            if now >= end {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_difference_is_counted_and_what_goes_back_is_told() {
        let mut tally = Tally::default();
        tally.count(&[10, 20, 15, 15, 45], |units| units);
        let row = tally.row(TimeSource::Now);
        assert_eq!((row.between.count, row.backward), (4, 1));
        assert_eq!(row.between.max, Some(30e-9));
    }

    #[test]
    fn all_clocks_are_measured_beside_other_threads() {
        let reads = TimeSource::all();
        let table = run(Clock::global(), &reads, 2, 0.001, &mut Progress::silent());
        assert_eq!(table.threads, 2);
        assert_eq!(table.rows.iter().map(|row| row.read).collect::<Vec<_>>(), reads);
        for row in table.rows {
            assert!(row.between.count >= BLOCK as u64 && row.rate > 0.0, "{row:?}");
            if row.read == TimeSource::Now {
                assert_eq!(row.backward, 0, "{row:?}");
            }
        }
    }
}
