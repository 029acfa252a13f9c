//! The counter, CLOCK_MONOTONIC and our own line, read at one moment: how do they step against each other?

use ogive_probe::{Clock, SystemClock};

/// Brackets, of which the tightest is used.
const BRACKETS: usize = 16;

/// Three readings, with the counter's in the middle of the bracket of each other clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    system_ticks: u64,
    system_ns: u64,
    own_ticks: u64,
    own_ns: u64,
}

/// Nanoseconds by which a clock ran ahead of the counter (or fell behind) between two points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Steps {
    pub(super) system_ns: f64,
    pub(super) own_ns: f64,
}

impl Point {
    /// The current time; `None` without a counter to compare with.
    pub(super) fn now(clock: Clock) -> Option<Self> {
        clock.status().source.is_counter().then(|| Self::bracketed(clock))
    }

    fn bracketed(clock: Clock) -> Self {
        let bracket = |_| {
            let first = clock.ticks_ordered();
            let system_ns = SystemClock::Monotonic.ns();
            let second = clock.ticks_ordered();
            let own_ns = clock.now();
            let third = clock.ticks_ordered();
            let (system_ticks, own_ticks) = (first.midpoint(second), second.midpoint(third));
            (third.saturating_sub(first), Self { system_ticks, system_ns, own_ticks, own_ns })
        };
        (0..BRACKETS).map(bracket).min_by_key(|(width, _)| *width).expect("there are brackets").1
    }

    /// How the clocks stepped from `before` to here.
    pub(super) fn since(self, before: Self, clock: Clock) -> Steps {
        let passed = |from: u64, to: u64| clock.tick_rate().ns_f64(to.saturating_sub(from));
        let moved = |from: u64, to: u64| to.wrapping_sub(from) as i64 as f64;
        Steps {
            system_ns: moved(before.system_ns, self.system_ns) - passed(before.system_ticks, self.system_ticks),
            own_ns: moved(before.own_ns, self.own_ns) - passed(before.own_ticks, self.own_ticks),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_what_the_counter_did_not_count() {
        // A manual clock's ticks are its nanoseconds.
        let clock = Clock::manual(0, 0);
        let before = Point { system_ticks: 1_000, system_ns: 50_000, own_ticks: 1_100, own_ns: 51_000 };
        let after = Point { system_ticks: 3_000, system_ns: 51_500, own_ticks: 3_100, own_ns: 53_000 };
        assert_eq!(after.since(before, clock), Steps { system_ns: -500.0, own_ns: 0.0 });
        assert!(Point::now(clock).is_none(), "a manual clock has no counter");
    }
}
