//! Publishing clock pages for other processes.
//!
//! *Threads*: any thread may add a page; the calibration alone writes to those that were added. *Limits*: four pages a
//! process, each 4,096 bytes for its life. *Failure*: a file that cannot be made is an error of the call; a publisher
//! that dies leaves a page whose segment ends within two seconds, after which its readers use the operating system's
//! clock. A child of fork forgets its parent's pages and never writes to them.

use super::figures::Figures;
use super::page::{Page, figure};
use super::segment::{Mode, Segment};
use super::tick::TickRate;
use crate::mapping;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Pages that one process publishes: one for itself, one for a library in it, and two in reserve.
pub(super) const SHARES_MAX: usize = 4;

/// The pages that this process publishes.
#[derive(Debug)]
pub(super) struct Shares([AtomicPtr<Page>; SHARES_MAX]);

impl Shares {
    pub(super) const fn new() -> Self {
        Self([const { AtomicPtr::new(std::ptr::null_mut()) }; SHARES_MAX])
    }

    /// False when there is no free slot.
    pub(super) fn add(&self, page: &'static Page) -> bool {
        let new = std::ptr::from_ref(page).cast_mut();
        // ORDERING: Release; pairs with the Acquire in `pages`: the page is whole before it is written to.
        let taken = |place: &AtomicPtr<Page>| {
            place.compare_exchange(std::ptr::null_mut(), new, Ordering::Release, Ordering::Relaxed).is_ok()
        };
        self.0.iter().any(taken)
    }

    pub(super) fn has_place(&self) -> bool {
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
    pub(super) fn report(&self, figures: &Figures, tick_rate: TickRate) {
        self.pages().for_each(|page| write_figures(page, figures, tick_rate));
    }
}

pub(super) fn write_figures(page: &Page, figures: &Figures, tick_rate: TickRate) {
    let frequency_hz = (figures.frequency_mhz.get_f64() * 1e6).round() as u64;
    for (at, value) in [
        (figure::TICK_RATE, tick_rate.0),
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
