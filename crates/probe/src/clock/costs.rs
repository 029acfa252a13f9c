//! What readings cost on this machine, and the step of its counter.

use super::figures::Figures;
use super::tick::order;
use crate::counter::Source;
use crate::os;

/// Batches of a measurement and reads in a batch: 31 * 32 * 5 reads of about 25 ns are 125 us a minute.
const BATCHES: usize = 31;
const READS: u32 = 32;
/// An ordered read of the counter this many percent of the system clock's cost is emulated...
const EMULATED_PERCENT: f64 = 200.0;
/// ...and stays so until it is below this, so that noise does not flip it.
const EMULATED_STILL_PERCENT: f64 = 120.0;
/// Reads in the search for the counter's step.
const QUANTUM_READS: usize = 1_000;

/// The cost of one reading, nanoseconds: medians of small interleaved batches, measured again every minute; 0 before
/// that.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ReadCosts {
    /// [`crate::Clock::ticks`].
    pub ticks_ns: f64,
    /// [`crate::Clock::ticks_ordered`].
    pub ticks_ordered_ns: f64,
    /// [`crate::Clock::now_unordered`].
    pub now_unordered_ns: f64,
    /// [`crate::Clock::now`].
    pub now_ns: f64,
    /// The operating system's `clock_gettime(CLOCK_MONOTONIC)`. Some 25 ns is usual; a microsecond or more means that
    /// the kernel's clock source is slow, which affects every program that reads the time.
    pub os_ns: f64,
}

/// Medians of small interleaved batches, so that a disturbance affects all alike.
/// `reads` are in the order of [`ReadCosts`].
pub(super) fn measure(reads: [&dyn Fn() -> u64; 5]) -> ReadCosts {
    let mut costs = [const { [0.0; BATCHES] }; 5];
    for batch in 0..BATCHES {
        for (read, costs) in reads.iter().zip(&mut costs) {
            let start = os::monotonic_ns();
            for _ in 0..READS {
                std::hint::black_box(read());
            }
            costs[batch] = (os::monotonic_ns() - start) as f64 / f64::from(READS);
        }
    }
    let [ticks_ns, ticks_ordered_ns, now_unordered_ns, now_ns, os_ns] = costs.map(|mut costs| {
        costs.sort_unstable_by(f64::total_cmp);
        costs[BATCHES / 2]
    });
    ReadCosts { ticks_ns, ticks_ordered_ns, now_unordered_ns, now_ns, os_ns }
}

/// Whether an ordered read costs clearly more than the system's clock: then something traps it (valgrind, rr, gVisor,
/// some hypervisors). Between the two thresholds the previous result stays.
pub(super) fn is_emulated(costs: &ReadCosts, before: bool) -> bool {
    let percent = costs.ticks_ordered_ns / costs.os_ns.max(0.1) * 100.0;
    percent > if before { EMULATED_STILL_PERCENT } else { EMULATED_PERCENT }
}

/// Shows the costs.
pub(super) fn show(costs: &ReadCosts, figures: &Figures) {
    figures.cost_ticks.set_f64(costs.ticks_ns);
    figures.cost_ticks_ordered.set_f64(costs.ticks_ordered_ns);
    figures.cost_now_unordered.set_f64(costs.now_unordered_ns);
    figures.cost_now.set_f64(costs.now_ns);
    figures.cost_os.set_f64(costs.os_ns);
}

/// The step of the counter, ticks: the greatest common divisor of differences. Some machines count by 26 at a time.
pub(super) fn quantum_ticks(source: Source) -> u64 {
    let mut last = order(source);
    let mut quantum = 0;
    for _ in 0..QUANTUM_READS {
        let now = order(source);
        quantum = greatest_common_divisor(now.wrapping_sub(last), quantum);
        last = now;
    }
    quantum.max(1)
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_divisors() {
        for (a, b, divisor) in [(0, 0, 0), (5, 0, 5), (26, 52, 26), (52, 78, 26), (7, 3, 1)] {
            assert_eq!(greatest_common_divisor(a, b), divisor);
        }
    }

    #[test]
    fn an_emulated_counter_is_found_and_taken_back_with_hysteresis() {
        let costs = |ticks_ordered_ns| ReadCosts { ticks_ordered_ns, os_ns: 25.0, ..ReadCosts::default() };
        for (cost, before, emulated) in [
            (20.0, false, false),
            (50.0, false, false),
            (51.0, false, true),
            (1_000.0, false, true),
            (31.0, true, true),
            (30.0, true, false),
            (17.0, true, false),
        ] {
            assert_eq!(is_emulated(&costs(cost), before), emulated, "{cost} ns, emulated before: {before}");
        }
        assert!(!is_emulated(&ReadCosts::default(), false), "nothing measured says nothing");
    }

    #[test]
    fn costs_are_measured() {
        let source = crate::counter::detect();
        if source.is_counter() {
            let clock = crate::Clock::global();
            let costs = measure([
                &|| clock.ticks(),
                &|| order(source),
                &|| clock.now_unordered(),
                &|| clock.now(),
                &os::monotonic_ns,
            ]);
            for cost in [costs.ticks_ns, costs.ticks_ordered_ns, costs.now_unordered_ns, costs.now_ns, costs.os_ns] {
                assert!(cost > 0.0, "{costs:?}");
            }
        }
    }
}
