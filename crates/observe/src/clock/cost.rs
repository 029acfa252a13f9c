//! What a read of each clock costs, measured right now.
//!
//! Invariants: the clocks take turns in each round, so that what disturbs one disturbs all. A figure is the median over
//! the rounds of nanoseconds a call, with the tenth and the ninetieth percentile beside it.

use std::hint::black_box;

use ogive_probe::Clock;

use super::read::{ClockVisitor, TimeSource};

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Median of so many rounds.
    pub rounds: usize,
    /// Reads of a round.
    pub calls: u32,
}

impl Effort {
    /// 101 rounds of 200 reads: 0.5 ms for a clock of 25 ns, 20 ms for one of 1 us.
    pub const FULL: Self = Self { rounds: 101, calls: 200 };
    /// 15 rounds of 32 reads: 12 us for a clock of 25 ns, often enough repeated by those who watch.
    pub const GLANCE: Self = Self { rounds: 15, calls: 32 };
}

/// Nanoseconds a read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// What was read.
    pub read: TimeSource,
    /// Nanoseconds a read, the median of all rounds.
    pub median_ns: f64,
    /// Nanoseconds a read, the 10th percentile.
    pub p10_ns: f64,
    /// Nanoseconds a read, the 90th percentile.
    pub p90_ns: f64,
}

/// Measures each of `reads`.
pub fn measure(clock: Clock, reads: &[TimeSource], effort: Effort) -> Vec<Cost> {
    let mut rounds: Vec<Vec<f64>> = vec![Vec::with_capacity(effort.rounds); reads.len()];
    // One round more: the first finds cold caches and, with quanta, a calibration.
    for round in 0..=effort.rounds {
        for (read, found) in reads.iter().zip(&mut rounds) {
            let ns = read.visit(clock, Batch { clock, calls: effort.calls });
            if round > 0 {
                found.push(ns);
            }
        }
    }
    let of = |(read, mut found): (&TimeSource, Vec<f64>)| {
        found.sort_by(f64::total_cmp);
        let at = |q: f64| found[((found.len() - 1) as f64 * q).round() as usize];
        Cost { read: *read, median_ns: at(0.5), p10_ns: at(0.1), p90_ns: at(0.9) }
    };
    reads.iter().zip(rounds).map(of).collect()
}

struct Batch {
    clock: Clock,
    calls: u32,
}

impl ClockVisitor for Batch {
    type Output = f64;
    fn visit<F: Fn() -> u64 + Sync>(self, read: F) -> f64 {
        let start = self.clock.now();
        for _ in 0..self.calls {
            black_box(read());
        }
        self.clock.now().saturating_sub(start) as f64 / f64::from(self.calls)
    }
}

/// The median cost of `read` among `costs`.
pub fn median_of(costs: &[Cost], read: TimeSource) -> Option<f64> {
    costs.iter().find(|cost| cost.read == read).map(|cost| cost.median_ns)
}

#[cfg(test)]
mod tests {
    use ogive_probe::SystemClock;

    use super::*;

    #[test]
    fn each_clock_gets_its_figures_in_order() {
        let costs = measure(Clock::global(), &TimeSource::COSTS, Effort { rounds: 9, calls: 10 });
        assert_eq!(costs.iter().map(|cost| cost.read).collect::<Vec<_>>(), TimeSource::COSTS);
        for cost in &costs {
            assert!(cost.p10_ns <= cost.median_ns && cost.median_ns <= cost.p90_ns, "{cost:?}");
            assert!(cost.median_ns > 0.0, "{cost:?}");
        }
        assert_eq!(median_of(&costs, TimeSource::Now), Some(costs[3].median_ns));
        assert_eq!(median_of(&costs, TimeSource::System(SystemClock::MonotonicRaw)), None);
    }

    #[test]
    fn a_clock_that_stands_still_costs_nothing() {
        let costs = measure(Clock::manual(5, 5), &[TimeSource::Now], Effort::GLANCE);
        assert_eq!((costs[0].median_ns, costs[0].p90_ns), (0.0, 0.0));
    }
}
