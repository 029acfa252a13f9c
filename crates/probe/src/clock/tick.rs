//! Ticks of the counter, what they are worth, and readings with a bound.

use super::segment::Mode;
use crate::counter::{self, Source};

/// A reading with a bound on its error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounded {
    /// Nanoseconds on the CLOCK_MONOTONIC line.
    pub ns: u64,
    /// CLOCK_MONOTONIC was within this of `ns`.
    pub err_ns: u64,
    /// An interval between readings of different epochs is meaningless: the line was broken in between.
    pub epoch: u16,
    /// The origin of the reading.
    pub mode: Mode,
}

/// The value of a tick: nanoseconds for each tick, 32.32 fixed point, accurate to 0.4 parts per billion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TickRate(pub(super) u64);

impl TickRate {
    /// Ticks that are nanoseconds.
    pub const NANOSECONDS: Self = Self(1 << 32);

    pub(crate) fn new(ns_per_tick: f64) -> Self {
        Self(((ns_per_tick * 4_294_967_296.0).round() as u64).max(1))
    }

    /// Ticks in nanoseconds, rounded down; one multiplication.
    #[inline(always)]
    #[must_use]
    pub const fn ns(self, ticks: u64) -> u64 {
        ((ticks as u128 * self.0 as u128) >> 32) as u64
    }

    /// Ticks in nanoseconds and fractions.
    #[must_use]
    pub fn ns_f64(self, ticks: u64) -> f64 {
        ticks as f64 * (self.0 as f64 / 4_294_967_296.0)
    }
}

/// The counter after all earlier instructions. `source` is a counter, which detection has found.
#[inline(always)]
pub(super) fn order(source: Source) -> u64 {
    if source == Source::TscRdtscp { counter::read_rdtscp() } else { counter::read_fenced() }
}
