//! The state of a process's clock: what readers read, what the calibration writes, and what a fork leaves behind.
//!
//! *Threads*: every field is an atomic or a latch; any thread reads, and only the calibration writes `latch`, `figures`
//! and `tick_rate`. *Failure*: a child of fork inherits the state without the calibration thread; [`CHILD`] marks it
//! until the first reader there starts another.

use super::figures::Figures;
use super::latch::Latch;
use super::policy::Policy;
use super::reading;
use super::share::Shares;
use super::tick::{TickRate, order};
use crate::counter::{self, Source};
use crate::memory::Machine;
use crate::os;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

/// The calibration thread of this process: not requested, or requested.
pub(super) const SERVICE_NONE: u8 = 0;
pub(super) const SERVICE_STARTED: u8 = 1;

pub(super) static GLOBAL: Inner = Inner::new();

/// Set in a child of fork, whose calibration thread is gone.
pub(super) static CHILD: AtomicBool = AtomicBool::new(false);
/// How many forks lie between this process and the one that first used the clock.
pub(super) static FORKS: AtomicU64 = AtomicU64::new(0);

extern "C" fn after_fork_in_child() {
    // ORDERING: Relaxed; the child has one thread, and thread creation orders the rest.
    CHILD.store(true, Ordering::Relaxed);
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// The state behind a [`super::Clock`].
pub(super) struct Inner {
    pub(super) latch: Latch<Machine>,
    pub(super) source: AtomicU8,
    pub(super) service: AtomicU8,
    /// Nanoseconds for each tick in the form of [`TickRate`]; 0 before it is requested or known.
    pub(super) tick_rate: AtomicU64,
    pub(super) figures: Figures,
    pub(super) shares: Shares,
    pub(super) manual_ns: AtomicU64,
    pub(super) manual_wall_offset_ns: AtomicU64,
    /// A [`Policy`].
    pub(super) policy: AtomicU8,
}

impl Inner {
    pub(super) const fn new() -> Self {
        Self {
            latch: Latch::for_static(),
            source: AtomicU8::new(Source::Undetected as u8),
            service: AtomicU8::new(SERVICE_NONE),
            tick_rate: AtomicU64::new(0),
            figures: Figures::new(),
            shares: Shares::new(),
            manual_ns: AtomicU64::new(0),
            manual_wall_offset_ns: AtomicU64::new(0),
            policy: AtomicU8::new(Policy::Auto as u8),
        }
    }

    #[inline(always)]
    pub(super) fn source_byte(&self) -> u8 {
        // ORDERING: Relaxed; whoever has the clock got it after the Acquire in `Clock::global`.
        self.source.load(Ordering::Relaxed)
    }

    pub(super) fn source(&self) -> Source {
        Source::from_u8(self.source_byte())
    }

    #[inline(always)]
    pub(super) fn is_fenced(&self) -> bool {
        self.source_byte() == Source::FENCED
    }

    /// Ordered ticks where the counter is not read by a fenced instruction, or does not exist.
    #[inline(never)]
    pub(super) fn ticks_otherwise(&self) -> u64 {
        match self.source() {
            source if source.is_counter() => order(source),
            // ORDERING: Relaxed; a clock publishes nothing but itself.
            Source::Manual => self.manual_ns.load(Ordering::Relaxed),
            _ => os::monotonic_ns(),
        }
    }

    #[inline(never)]
    pub(super) fn wall_otherwise(&self) -> i64 {
        let source = self.source();
        if source == Source::Manual {
            // ORDERING: Relaxed; as above.
            let offset = self.manual_wall_offset_ns.load(Ordering::Relaxed) as i64;
            return (self.manual_ns.load(Ordering::Relaxed) as i64).wrapping_add(offset);
        }
        if source.is_counter() { reading::wall(&self.latch, source) } else { os::realtime_ns() }
    }

    /// The current value of a tick.
    #[inline]
    pub(super) fn tick_rate(&self) -> TickRate {
        // ORDERING: Relaxed; one word, whole in itself.
        match self.tick_rate.load(Ordering::Relaxed) {
            0 => self.tick_rate_otherwise(),
            fixed => TickRate(fixed),
        }
    }

    /// When this clock uses the counter.
    pub(super) fn policy(&self) -> Policy {
        // ORDERING: Relaxed; one word, whole in itself.
        if self.policy.load(Ordering::Relaxed) == Policy::Force as u8 { Policy::Force } else { Policy::Auto }
    }

    /// The rate if none was published: ticks that are nanoseconds, or a guess until the calibration's first.
    #[cold]
    fn tick_rate_otherwise(&self) -> TickRate {
        let counter = self.source().is_counter();
        let guess = if counter { TickRate::new(counter::nominal_ns_per_tick()) } else { TickRate::NANOSECONDS };
        // ORDERING: Relaxed; one word, whole in itself; a calibrated rate that came meanwhile stays.
        match self.tick_rate.compare_exchange(0, guess.0, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => guess,
            Err(calibrated) => TickRate(calibrated),
        }
    }
}

/// True for one caller in a child of fork: the calibration is to be started again. The parent's pages remain the
/// parent's.
pub(super) fn is_orphaned() -> bool {
    // ORDERING: Relaxed; a child of fork sees its own flag, and swap lets one thread through.
    let orphaned = CHILD.swap(false, Ordering::Relaxed);
    if orphaned {
        GLOBAL.shares.forget();
    }
    orphaned
}

pub(super) fn detect(inner: &'static Inner) {
    if inner.source() == Source::Undetected {
        let source = counter::detect();
        if source.is_counter() {
            os::on_fork_in_child(after_fork_in_child);
        }
        // ORDERING: Relaxed; detection gives every thread the same answer, and `service` below publishes it.
        inner.source.store(source as u8, Ordering::Relaxed);
    }
}
