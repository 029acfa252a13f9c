//! Publishing clock pages for other processes.
//!
//! *Threads*: any thread may add a page; the calibration alone writes to those that were added. *Limits*: four pages a process, each
//! 4,096 bytes for its life. *Failure*: a file that cannot be made is an error of the call; a publisher that dies leaves a page
//! whose segment ends within two seconds, after which its readers use the operating system's clock. A child of fork
//! forgets its parent's pages and never writes to them.

use super::latch::Latch;
use super::page::{Identity, Page, figure};
use super::segment::{Mode, Segment};
use super::{CHILD, Clock, GLOBAL, is_orphaned, service};
use crate::{Error, mapping, os};
use std::path::Path;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Pages that one process publishes: one for itself, one for a library in it, and as many again.
const SHARES_MAX: usize = 4;

/// The pages that this process publishes.
#[derive(Debug)]
pub(super) struct Shares([AtomicPtr<Page>; SHARES_MAX]);

impl Shares {
    pub(super) const fn new() -> Self {
        Self([const { AtomicPtr::new(std::ptr::null_mut()) }; SHARES_MAX])
    }

    /// False when there is no place.
    fn add(&self, page: &'static Page) -> bool {
        let new = std::ptr::from_ref(page).cast_mut();
        // ORDERING: Release; pairs with the Acquire in `pages`: the page is whole before it is written to.
        let taken = |place: &AtomicPtr<Page>| {
            place.compare_exchange(std::ptr::null_mut(), new, Ordering::Release, Ordering::Relaxed).is_ok()
        };
        self.0.iter().any(taken)
    }

    fn has_place(&self) -> bool {
        // ORDERING: Relaxed; `add` decides.
        self.0.iter().any(|place| place.load(Ordering::Relaxed).is_null())
    }

    /// Forgets all pages; in a child of fork, before its calibration begins.
    pub(super) fn forget(&self) {
        // ORDERING: Relaxed; the thread that will write to pages is not yet started.
        self.0.iter().for_each(|place| place.store(std::ptr::null_mut(), Ordering::Relaxed));
    }

    fn pages(&self) -> impl Iterator<Item = &'static Page> {
        // ORDERING: Acquire; pairs with the Release in `add`.
        self.0.iter().filter_map(|place| mapping::kept(place.load(Ordering::Acquire)))
    }

    /// Writes a segment to every page. Only the calibration calls this.
    pub(super) fn publish(&self, segment: &Segment, shift: u32) {
        for page in self.pages() {
            if page.latch.load().mode == Mode::Os {
                page.latch.set_shift(shift);
            }
            page.latch.publish(segment);
        }
    }

    /// Writes the figures to every page. Only the calibration calls this.
    pub(super) fn report(&self, clock: Clock) {
        self.pages().for_each(|page| write_figures(page, clock));
    }
}

fn write_figures(page: &Page, clock: Clock) {
    let figures = &clock.inner.figures;
    let frequency_hz = (figures.frequency_mhz.get_f64() * 1e6).round() as u64;
    for (at, value) in [
        (figure::TICK_RATE, clock.tick_rate().0),
        (figure::FREQUENCY_HZ, frequency_hz),
        (figure::QUANTUM_TICKS, figures.quantum_ticks.get()),
        (figure::CALIBRATIONS, figures.calibrations.get()),
        (figure::FALLBACKS, figures.fallbacks.get()),
        (figure::BACKSTEPS, figures.backsteps.get()),
        (figure::CPU_OFFSET_NS, figures.cpu_offset_ns.get()),
        (figure::CALIBRATED_AT_NS, figures.calibrated_at_ns.get()),
    ] {
        page.set_figure(at, value);
    }
}

impl Clock {
    /// Publishes the global clock as a file that other processes map read-only: [`crate::SharedClock`], `sdk/c/ogive_clock.h`, or any
    /// language by docs/formats/clock-page.md. A file that is there is replaced, readers of the old one keep the old one; the new
    /// one has mode 0644. Put it on a file system in memory: `/dev/shm`, `$XDG_RUNTIME_DIR`.
    ///
    /// The page lives as long as the process; the file stays behind, and its readers see that nobody publishes to it.
    ///
    /// # Errors
    /// [`Error::Share`] when the file cannot be made, or this process publishes four pages already.
    pub fn share(path: impl AsRef<Path>) -> Result<(), Error> {
        let clock = Self::global();
        // ORDERING: Relaxed; a child of fork sees its own flag.
        if CHILD.load(Ordering::Relaxed) && is_orphaned() {
            service::spawn(&GLOBAL);
        }
        let path = path.as_ref();
        let fail = |source| Error::Share { path: path.to_owned(), source };
        let full = || fail(std::io::Error::other(format!("this process publishes {SHARES_MAX} clock pages already")));
        if !GLOBAL.shares.has_place() {
            return Err(full());
        }
        let identity =
            Identity { source: clock.inner.source(), process: std::process::id(), made_at_ns: os::monotonic_ns() };
        let page = mapping::create(path, |page: &Page| {
            for (word, value) in page.identity.iter().zip(identity.to_words()) {
                // ORDERING: Relaxed; nobody can open the page before it has its name.
                word.store(value, Ordering::Relaxed);
            }
            let latch: &Latch<_> = &page.latch;
            latch.set_shift(clock.inner.latch.shift());
            latch.publish(&clock.inner.latch.load());
            write_figures(page, clock);
        })
        .map_err(fail)?;
        if GLOBAL.shares.add(page) { Ok(()) } else { Err(full()) }
    }
}
