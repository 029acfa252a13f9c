//! Reading another process' clock page.
//!
//! *Invariants*: as for [`super::Clock`], within one [`SharedClock`]. *Failure*: when the publisher is gone the segment
//! in force ends within two seconds, and the operating system's clock answers; so it does where this process may not
//! read the counter. Nothing blocks. A file that is truncated under its readers kills them (SIGBUS), as with every
//! mapped file: publishers never do. *Limits*: one machine, and one time namespace: in another one CLOCK_MONOTONIC is
//! shifted.

use super::page::{Identity, Page, figure};
use super::reading;
use super::segment::Mode;
use super::tick::{Bounded, TickRate, order};
use crate::counter::{self, Source};
use crate::mapping::Mapping;
use crate::{Error, os};
use std::path::Path;

/// The clock that another process calibrates.
#[derive(Debug)]
pub struct SharedClock {
    page: Mapping,
    identity: Identity,
    /// The source that is read here.
    source: Source,
}

/// The state of a shared clock.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SharedStatus {
    /// The current origin of readings: [`Mode::Os`] also when the publisher has gone.
    pub mode: Mode,
    /// The source of ticks.
    pub source: Source,
    /// The publishing process.
    pub process: u32,
    /// Ticks a second; 0 before it is known.
    pub frequency_hz: u64,
    /// The smallest possible difference of two readings; 0 before it is known.
    pub quantum_ns: f64,
    /// Bound on |now - CLOCK_MONOTONIC|.
    pub err_ns: u64,
    /// Breaks of the line so far.
    pub epoch: u16,
    /// Publications so far.
    pub published: u64,
    /// Time since the publisher's last calibration sample.
    pub age_ns: u64,
    /// As in [`super::Status`].
    pub calibrations: u64,
    /// As in [`super::Status`].
    pub fallbacks: u64,
    /// As in [`super::Status`].
    pub backsteps: u64,
    /// As in [`super::Status`].
    pub cpu_offset_ns: u64,
}

impl SharedClock {
    /// Maps the page at `path`.
    ///
    /// # Errors
    /// [`Error::Share`] when the file does not exist or cannot be mapped, [`Error::Page`] when it is not a clock page.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let page = Mapping::open(path).map_err(|source| Error::Share { path: path.to_owned(), source })?;
        let identity = page.page().identity()?;
        // The counter is read in the publisher's way, if this process may read it at all.
        let source = if counter::detect() == identity.source { identity.source } else { Source::Os };
        Ok(Self { page, identity, source })
    }

    fn page(&self) -> &Page {
        self.page.page()
    }

    /// As [`super::Clock::ticks`].
    #[inline]
    #[must_use]
    pub fn ticks(&self) -> u64 {
        if self.source.is_counter() { counter::read() } else { os::monotonic_ns() }
    }

    /// As [`super::Clock::ticks_ordered`].
    #[inline]
    #[must_use]
    pub fn ticks_ordered(&self) -> u64 {
        if self.source.is_counter() { order(self.source) } else { os::monotonic_ns() }
    }

    /// As [`super::Clock::now`]; monotonic across all processes that read the page.
    #[inline]
    #[must_use]
    pub fn now(&self) -> u64 {
        if self.source as u8 == Source::FENCED
            && let Some(ns) = self.page().latch.line(counter::read_fenced)
        {
            return ns;
        }
        self.now_otherwise()
    }

    /// As [`super::Clock::now_unordered`].
    #[inline]
    #[must_use]
    pub fn now_unordered(&self) -> u64 {
        if self.source.is_counter()
            && let Some(ns) = self.page().latch.line(counter::read)
        {
            return ns;
        }
        self.now_otherwise()
    }

    #[inline(never)]
    fn now_otherwise(&self) -> u64 {
        if self.source.is_counter() { reading::now(&self.page().latch, self.source) } else { os::monotonic_ns() }
    }

    /// As [`super::Clock::wall`].
    #[must_use]
    pub fn wall(&self) -> i64 {
        if self.source.is_counter() { reading::wall(&self.page().latch, self.source) } else { os::realtime_ns() }
    }

    /// As [`super::Clock::now_bounded`].
    #[must_use]
    pub fn now_bounded(&self) -> Bounded {
        let latch = &self.page().latch;
        let bounded = if self.source.is_counter() { reading::bounded(latch, self.source) } else { None };
        bounded.unwrap_or_else(|| reading::bounded_os(self.now_otherwise(), latch.epoch()))
    }

    /// As [`super::Clock::ns_between`].
    #[inline]
    #[must_use]
    pub fn ns_between(&self, from: u64, to: u64) -> u64 {
        let ticks = to.saturating_sub(from);
        if self.source.is_counter() { TickRate(self.page().figure(figure::TICK_RATE)).ns(ticks) } else { ticks }
    }

    /// As [`super::Clock::epoch`].
    #[inline]
    #[must_use]
    pub fn epoch(&self) -> u16 {
        self.page().latch.epoch()
    }

    /// The state of the clock.
    #[must_use]
    pub fn status(&self) -> SharedStatus {
        let page = self.page();
        let bounded = self.now_bounded();
        let frequency_hz = page.figure(figure::FREQUENCY_HZ);
        let quantum_ticks = page.figure(figure::QUANTUM_TICKS) as f64;
        SharedStatus {
            mode: bounded.mode,
            source: self.source,
            process: self.identity.process,
            frequency_hz,
            quantum_ns: if frequency_hz == 0 { 0.0 } else { quantum_ticks * 1e9 / frequency_hz as f64 },
            err_ns: bounded.err_ns,
            epoch: bounded.epoch,
            published: page.latch.index(),
            age_ns: bounded.ns.saturating_sub(page.figure(figure::CALIBRATED_AT_NS).max(self.identity.made_at_ns)),
            calibrations: page.figure(figure::CALIBRATIONS),
            fallbacks: page.figure(figure::FALLBACKS),
            backsteps: page.figure(figure::BACKSTEPS),
            cpu_offset_ns: page.figure(figure::CPU_OFFSET_NS),
        }
    }
}
