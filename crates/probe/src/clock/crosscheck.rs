//! Does a counter that the kernel has given up still keep time? A clock that nothing slews shows it.
//!
//! The kernel marks a counter as unstable for good when it once differed from a slow clock by 62.5 us in half a second,
//! which a busy host or hypervisor brings about by delaying the watchdog. The counter itself is then mostly sound, and
//! the host is the very one on which the system's clock has become slow. So its rate against CLOCK_MONOTONIC_RAW is
//! looked at here, from look to look, with a bracket around each reading; whether all CPUs show the same counter is
//! asked by [`super::cpus`].
//!
//! *Invariants*: pure. Only [`HOLDS_IN_A_ROW`] good looks in a row hold, and one doubt made sure by a second look ends
//! that. *Limits*: a difference of less than [`RATE_PPM`] and of less than the brackets is not seen.

/// The kernel's own threshold is 125 ppm; oscillators differ from their nominal rate by less, and the first checks
/// learn by how much.
const RATE_PPM: f64 = 100.0;
/// Checks every quarter of a second: one second before a counter is kept, or used again.
const HOLDS_IN_A_ROW: u32 = 4;
/// One check may be disturbed.
const FAILS_IN_A_ROW: u32 = 2;
/// Minimum nanoseconds between two checks that are compared: with less, the brackets dominate.
const APART_NS_MIN: u64 = 100_000_000;
/// The possible error of a reading of a slow clock source, in addition to its bracket.
const SLACK_NS: f64 = 2_000.0;

/// A bracketed reading of CLOCK_MONOTONIC_RAW.
#[derive(Clone, Copy, Debug)]
pub(super) struct RawReading {
    pub(super) ticks_before: u64,
    pub(super) raw_ns: u64,
    pub(super) ticks_after: u64,
}

impl RawReading {
    fn ticks(self) -> f64 {
        self.ticks_before as f64 + self.width() / 2.0
    }

    fn width(self) -> f64 {
        self.ticks_after.saturating_sub(self.ticks_before) as f64
    }
}

/// The evidence so far.
#[derive(Debug, Default)]
pub(super) struct CrossCheck {
    last: Option<RawReading>,
    /// Nanoseconds a tick, over everything since the evidence began.
    rate: Option<f64>,
    first: Option<RawReading>,
    held: u32,
    failed: u32,
    holds: bool,
}

impl CrossCheck {
    /// Evidence for a counter that was in use, and so was compared ten times a second until now.
    pub(super) fn new(holds: bool) -> Self {
        Self { holds, ..Self::default() }
    }

    /// `true` while the counter keeps time.
    pub(super) fn holds(&self) -> bool {
        self.holds
    }

    /// Processes a reading; returns `true` while the counter keeps time.
    pub(super) fn look(&mut self, reading: RawReading) -> bool {
        let Some(last) = self.last else {
            (self.first, self.last) = (Some(reading), Some(reading));
            return self.holds;
        };
        if reading.raw_ns.saturating_sub(last.raw_ns) < APART_NS_MIN {
            return self.holds;
        }
        self.last = Some(reading);
        if self.agrees(last, reading) {
            (self.held, self.failed) = (self.held + 1, 0);
            self.holds |= self.held >= HOLDS_IN_A_ROW;
        } else {
            (self.held, self.failed) = (0, self.failed + 1);
            if self.failed >= FAILS_IN_A_ROW {
                // Earlier evidence does not apply to the counter in its current state.
                *self = Self { last: Some(reading), first: Some(reading), failed: self.failed, ..Self::default() };
            }
        }
        self.holds
    }

    /// Whether the counter advanced from `last` to `reading` at the known rate, or for the first time.
    fn agrees(&mut self, last: RawReading, reading: RawReading) -> bool {
        let (ticks, ns) = (reading.ticks() - last.ticks(), (reading.raw_ns - last.raw_ns) as f64);
        if ticks <= 0.0 {
            return false;
        }
        let rate = *self.rate.get_or_insert(ns / ticks);
        let brackets_ns = (reading.width() + last.width()) / 2.0 * rate;
        let agrees = (ticks * rate - ns).abs() <= ns * RATE_PPM * 1e-6 + brackets_ns + SLACK_NS;
        if agrees && let Some(first) = self.first {
            self.rate = Some((reading.raw_ns - first.raw_ns) as f64 / (reading.ticks() - first.ticks()));
        }
        agrees
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A counter of 2 GHz, looked at each quarter of a second; `ppm` faster than that since the last look.
    struct World {
        check: CrossCheck,
        ticks: f64,
        raw_ns: u64,
    }

    impl World {
        fn new(holds: bool) -> Self {
            Self { check: CrossCheck::new(holds), ticks: 1e12, raw_ns: 77 }
        }

        fn look(&mut self, ppm: f64, width: u64) -> bool {
            self.raw_ns += 250_000_000;
            self.ticks += 500_000_000.0 * (1.0 + ppm * 1e-6);
            let before = self.ticks as u64 - width / 2;
            self.check.look(RawReading { ticks_before: before, raw_ns: self.raw_ns, ticks_after: before + width })
        }
    }

    #[test]
    fn a_sound_counter_is_kept_through_slow_and_wide_readings() {
        let mut world = World::new(true);
        for (look, width) in [2_000, 9_000, 3_000, 40_000, 2_000].into_iter().cycle().take(200).enumerate() {
            assert!(world.look(3.0 * (look % 2) as f64, width), "look {look}");
        }
    }

    #[test]
    fn a_counter_that_changes_its_rate_is_given_up_after_two_looks_and_taken_again_after_a_second() {
        let mut world = World::new(true);
        assert!((0..8).all(|_| world.look(0.0, 2_000)));
        assert!(world.look(5_000.0, 2_000), "one look may have been disturbed");
        assert!(!world.look(5_000.0, 2_000), "two have not");
        // It goes on at its new rate, evenly: that is a clock again.
        let looks: Vec<bool> = (0..6).map(|_| world.look(5_000.0, 2_000)).collect();
        assert_eq!(looks, [false, false, false, true, true, true]);
    }

    #[test]
    fn a_counter_that_jumps_about_never_holds() {
        let mut world = World::new(false);
        for look in 0..100 {
            assert!(!world.look(if look % 2 == 0 { 900.0 } else { -900.0 }, 2_000), "look {look}");
        }
    }

    #[test]
    fn a_counter_that_stands_or_goes_back_does_not_hold() {
        let mut world = World::new(true);
        assert!(world.look(0.0, 2_000));
        assert!(world.look(-1_000_000.0, 2_000));
        assert!(!world.look(-1_000_000.0, 2_000));
        assert!(!world.look(-3_000_000.0, 2_000));
    }
}
