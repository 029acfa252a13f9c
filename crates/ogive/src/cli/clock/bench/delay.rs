//! Delays that are known: what does each clock say of some 25, 100 and 800 ns?
//!
//! A delay is a chain of multiplications, each of which waits for the one before, so that no processor can shorten it.
//! Its true length is that of hundreds of them in a row, measured as a whole. *Invariants*: truth and readings are
//! taken in turn, so that a change of the processor's speed changes both.

use std::hint::black_box;

use ogive_hist::{FlatRecorder, Histogram};
use ogive_probe::Clock;

use ogive_observe::clock::read::{ClockVisitor, TimeSource};

/// The lengths aimed at, nanoseconds.
pub(super) const TARGETS_NS: [f64; 3] = [25.0, 100.0, 800.0];
/// Rounds, in each of which the reference and all clocks take turns.
const ROUNDS: usize = 40;
const SAMPLES: usize = 250;

/// One clock's idea of a delay.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) read: TimeSource,
    pub(super) reported: Histogram,
}

/// A delay, and each clock's measurement of it.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) true_ns: f64,
    pub(super) rows: Vec<Row>,
}

/// Measures a delay of about `target_ns` with each of `reads`.
pub(super) fn run(clock: Clock, reads: &[TimeSource], target_ns: f64) -> Table {
    let step_ns = (0..9).map(|_| truth(clock, 20_000, 1)).fold(f64::MAX, f64::min) / 20_000.0;
    let steps = (target_ns / step_ns).round().max(1.0) as u32;
    let (mut truths, mut recorders) = (Vec::new(), vec![FlatRecorder::new(); reads.len()]);
    for _ in 0..ROUNDS {
        truths.push(truth(clock, steps, 400));
        for (read, recorder) in reads.iter().zip(&mut recorders) {
            read.visit(clock, Samples { clock, read: *read, steps, recorder });
        }
    }
    truths.sort_by(f64::total_cmp);
    let row = |(read, recorder): (&TimeSource, FlatRecorder)| Row { read: *read, reported: recorder.snapshot() };
    Table { true_ns: truths[truths.len() / 2], rows: reads.iter().zip(recorders).map(row).collect() }
}

/// Nanoseconds of one delay, from `times` repetitions.
fn truth(clock: Clock, steps: u32, times: u32) -> f64 {
    let start = clock.now();
    let mut value = 1;
    for _ in 0..times {
        value = chain(value, steps);
    }
    black_box(value);
    clock.now().saturating_sub(start) as f64 / f64::from(times)
}

/// A linear congruential generator (Knuth's constants): each step depends on the previous result.
#[inline(always)]
fn chain(mut value: u64, steps: u32) -> u64 {
    for _ in 0..steps {
        value = value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    }
    value
}

struct Samples<'a> {
    clock: Clock,
    read: TimeSource,
    steps: u32,
    recorder: &'a mut FlatRecorder,
}

impl ClockVisitor for Samples<'_> {
    type Output = ();
    fn visit<F: Fn() -> u64 + Sync>(self, read: F) {
        let (mut differences, mut value) = ([0; SAMPLES], 1);
        for difference in &mut differences {
            let start = read();
            value = black_box(chain(black_box(value), self.steps));
            *difference = read().saturating_sub(start);
        }
        differences.iter().for_each(|difference| self.recorder.record(self.read.ns(self.clock, *difference)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_delay_is_longer_as_every_clock_says() {
        let clock = Clock::global();
        let reads = [TimeSource::TicksOrdered, TimeSource::Now];
        let [short, long] = [25.0, 20_000.0].map(|target| run(clock, &reads, target));
        assert!(long.true_ns > short.true_ns);
        for (short, long) in short.rows.iter().zip(&long.rows) {
            assert_eq!(short.reported.count, (ROUNDS * SAMPLES) as u64);
            let median = |row: &Row| row.reported.quantile(0.5).unwrap().value;
            assert!(median(long) > median(short), "{short:?} {long:?}");
        }
    }
}
