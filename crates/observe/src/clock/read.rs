//! The clocks that are compared: ours, the system's, and those of other crates.
//!
//! A read is chosen at run time and runs without a branch: [`TimeSource::visit`] hands each visitor a closure of its
//! own.

use std::sync::OnceLock;

#[cfg(feature = "fastant")]
use fastant::Instant as FastInstant;
use ogive_probe::{Clock, SystemClock};

/// One way to ask for the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimeSource {
    /// The counter, as it comes.
    Ticks,
    /// The counter, ordered with what stands before it.
    TicksOrdered,
    /// Our clock without that order.
    NowUnordered,
    /// Our clock.
    Now,
    /// A clock of the system.
    System(SystemClock),
    /// The crate `quanta`.
    Quanta,
    /// The crate `fastant`.
    #[cfg(feature = "fastant")]
    Fastant,
}

/// What is done with a clock.
pub trait ClockVisitor {
    /// What comes of it.
    type Output;
    /// `read` gives ticks for [`TimeSource::Ticks`] and [`TimeSource::TicksOrdered`], else nanoseconds.
    fn visit<F: Fn() -> u64 + Sync>(self, read: F) -> Self::Output;
}

impl TimeSource {
    /// What `ogive clock` and the server's series give the cost of.
    pub const COSTS: [Self; 9] = [
        Self::Ticks,
        Self::TicksOrdered,
        Self::NowUnordered,
        Self::Now,
        Self::System(SystemClock::Monotonic),
        Self::System(SystemClock::Realtime),
        Self::System(SystemClock::MonotonicCoarse),
        Self::System(SystemClock::StdInstant),
        Self::System(SystemClock::MonotonicCall),
    ];

    /// What `ogive clock bench` compares.
    pub fn all() -> Vec<Self> {
        let mut all = Self::COSTS.to_vec();
        all.insert(6, Self::System(SystemClock::MonotonicRaw));
        all.push(Self::Quanta);
        #[cfg(feature = "fastant")]
        all.push(Self::Fastant);
        all
    }

    /// The name in keys of JSON and in the label `clock`.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Ticks => "ticks",
            Self::TicksOrdered => "ticks_ordered",
            Self::NowUnordered => "now_unordered",
            Self::Now => "now",
            Self::System(SystemClock::Monotonic) => "monotonic",
            Self::System(SystemClock::Realtime) => "realtime",
            Self::System(SystemClock::MonotonicRaw) => "monotonic_raw",
            Self::System(SystemClock::MonotonicCoarse) => "monotonic_coarse",
            Self::System(SystemClock::MonotonicCall) => "monotonic_syscall",
            Self::System(SystemClock::StdInstant) => "std_instant",
            Self::System(_) => "system",
            Self::Quanta => "quanta",
            #[cfg(feature = "fastant")]
            Self::Fastant => "fastant",
        }
    }

    /// The name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ticks => "ogive ticks",
            Self::TicksOrdered => "ogive ticks_ordered",
            Self::NowUnordered => "ogive now_unordered",
            Self::Now => "ogive now",
            Self::System(SystemClock::Monotonic) => "CLOCK_MONOTONIC",
            Self::System(SystemClock::Realtime) => "CLOCK_REALTIME",
            Self::System(SystemClock::MonotonicRaw) => "CLOCK_MONOTONIC_RAW",
            Self::System(SystemClock::MonotonicCoarse) => "CLOCK_MONOTONIC_COARSE",
            Self::System(SystemClock::MonotonicCall) => "MONOTONIC by system call",
            Self::System(SystemClock::StdInstant) => "std::time::Instant",
            Self::System(_) => "system",
            Self::Quanta => "quanta",
            #[cfg(feature = "fastant")]
            Self::Fastant => "fastant",
        }
    }

    /// Whether readings are ticks, which [`Clock::tick_rate`] turns into nanoseconds.
    pub const fn is_ticks(self) -> bool {
        matches!(self, Self::Ticks | Self::TicksOrdered)
    }

    /// Nanoseconds of a difference of two readings.
    pub fn ns(self, clock: Clock, difference: u64) -> u64 {
        if self.is_ticks() { clock.tick_rate().ns(difference) } else { difference }
    }

    /// Runs `visitor` with this clock.
    pub fn visit<V: ClockVisitor>(self, clock: Clock, visitor: V) -> V::Output {
        match self {
            Self::Ticks => visitor.visit(move || clock.ticks()),
            Self::TicksOrdered => visitor.visit(move || clock.ticks_ordered()),
            Self::NowUnordered => visitor.visit(move || clock.now_unordered()),
            Self::Now => visitor.visit(move || clock.now()),
            Self::System(SystemClock::Monotonic) => visitor.visit(|| SystemClock::Monotonic.ns()),
            Self::System(SystemClock::Realtime) => visitor.visit(|| SystemClock::Realtime.ns()),
            Self::System(SystemClock::MonotonicRaw) => visitor.visit(|| SystemClock::MonotonicRaw.ns()),
            Self::System(SystemClock::MonotonicCoarse) => visitor.visit(|| SystemClock::MonotonicCoarse.ns()),
            Self::System(SystemClock::MonotonicCall) => visitor.visit(|| SystemClock::MonotonicCall.ns()),
            Self::System(SystemClock::StdInstant) => visitor.visit(|| SystemClock::StdInstant.ns()),
            Self::System(other) => visitor.visit(move || other.ns()),
            Self::Quanta => {
                let (quanta, first) = quanta_clock();
                visitor.visit(|| quanta.now().duration_since(*first).as_nanos() as u64)
            }
            #[cfg(feature = "fastant")]
            Self::Fastant => {
                let first = *FASTANT_FIRST.get_or_init(FastInstant::now);
                visitor.visit(move || FastInstant::now().duration_since(first).as_nanos() as u64)
            }
        }
    }
}

#[cfg(feature = "fastant")]
static FASTANT_FIRST: OnceLock<FastInstant> = OnceLock::new();

/// Quanta's clock and the instant that its readings count from; made at the first use, which takes up to 200 ms.
fn quanta_clock() -> &'static (quanta::Clock, quanta::Instant) {
    static QUANTA: OnceLock<(quanta::Clock, quanta::Instant)> = OnceLock::new();
    QUANTA.get_or_init(|| {
        let clock = quanta::Clock::new();
        let first = clock.now();
        (clock, first)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Twice;

    impl ClockVisitor for Twice {
        type Output = (u64, u64);
        fn visit<F: Fn() -> u64 + Sync>(self, read: F) -> (u64, u64) {
            let first = read();
            // Longer than the longest tick of a kernel, 10 ms.
            std::thread::sleep(std::time::Duration::from_millis(21));
            (first, read())
        }
    }

    #[test]
    fn every_clock_tells_about_how_long_a_sleep_took() {
        let clock = Clock::global();
        let mut keys = std::collections::BTreeSet::new();
        for read in TimeSource::all() {
            let (first, second) = read.visit(clock, Twice);
            let ns = read.ns(clock, second - first);
            // The coarse clock is up to a tick of 10 ms behind, at both ends.
            assert!((10_000_000..20_000_000_000).contains(&ns), "{read:?} {ns}");
            assert!(keys.insert(read.key()), "{read:?} has the key of another");
        }
    }
}
