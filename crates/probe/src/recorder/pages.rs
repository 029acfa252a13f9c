//! Counts of bins in pages that are there when they are needed, for many recorders most of which have little to count.
//!
//! *Invariants*: a page, once there, stays until [`Pages::trim`] finds that nothing was counted in it for
//! [`IDLE_CELLS`] cells, or until the end. No count moves when a page comes or goes: an empty page is like none.
//!
//! *Limits*: 232 bytes without a page; a page is 260 bytes for 64 bins, two thirds of a decade: a latency that stays
//! within a factor of ten takes two or three. All 29 pages take a little more than the flat table.
//!
//! *Threads*: one writer at a time; readers at any time but for [`Pages::trim`], which has the pages alone.
#![allow(unsafe_code)]

use super::buffer::{BINS, Counts, increment};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// Bins of a page: four cache lines.
const PAGE_BINS: usize = 64;
const PAGES: usize = BINS.div_ceil(PAGE_BINS);

/// Cells without a count after which a page is freed: with cells of a second, an hourly outlier does not keep its page.
pub(crate) const IDLE_CELLS: u32 = 8;

struct Page {
    counts: [AtomicU32; PAGE_BINS],
    /// Cells in a row in which nothing was counted here.
    idle: AtomicU32,
}

/// Counts in pages.
pub(crate) struct Pages([AtomicPtr<Page>; PAGES]);

const _: () = assert!(size_of::<Pages>() == 232 && size_of::<Page>() == 260);

impl Pages {
    #[inline(always)]
    fn page(&self, at: usize) -> Option<&Page> {
        // ORDERING: Acquire; pairs with the Release in `make`: the page's zeros are seen.
        let page = self.0[at].load(Ordering::Acquire);
        // SAFETY: a pointer that is not null came from a box in `make`, and only `trim` and `drop` free it, which are
        // alone with the pages.
        unsafe { page.as_ref() }
    }

    #[cold]
    fn make(&self, at: usize) -> &Page {
        let page = Page { counts: [const { AtomicU32::new(0) }; PAGE_BINS], idle: AtomicU32::new(0) };
        let page = Box::into_raw(Box::new(page));
        // ORDERING: AcqRel; Release pairs with the Acquire in `page`; Acquire, as there, when another was first.
        match self.0[at].compare_exchange(null_mut(), page, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: as in `page`.
            Ok(_) => unsafe { &*page },
            Err(other) => {
                // SAFETY: `page` came from the box above, and nobody else has seen it.
                drop(unsafe { Box::from_raw(page) });
                // SAFETY: as in `page`; the exchange fails only when there is one.
                unsafe { &*other }
            }
        }
    }

    fn iter(&self) -> impl Iterator<Item = (usize, &Page)> {
        (0..PAGES).filter_map(|at| self.page(at).map(|page| (at, page)))
    }

    /// How many pages there are.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.iter().count()
    }

    /// Frees pages without a count in the last [`IDLE_CELLS`] calls, or all of them if they are known to be `idle`.
    /// Called before the counts of a cell are cleared.
    ///
    /// # Safety
    /// No other thread is in a method of these pages, nor will be before this returns.
    pub(crate) unsafe fn trim(&self, idle: bool) {
        for at in 0..PAGES {
            let Some(page) = self.page(at) else { continue };
            let used = page.counts.iter().any(|word| word.load(Ordering::Relaxed) != 0);
            let cells = if used { 0 } else { page.idle.load(Ordering::Relaxed) + 1 };
            page.idle.store(cells, Ordering::Relaxed);
            if !used && (idle || cells >= IDLE_CELLS) {
                // ORDERING: Relaxed; whoever comes next is ordered by what made us alone.
                let page = self.0[at].swap(null_mut(), Ordering::Relaxed);
                // SAFETY: it came from a box in `make`; the caller says that nobody else has it.
                drop(unsafe { Box::from_raw(page) });
            }
        }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        for page in &mut self.0 {
            if !page.get_mut().is_null() {
                // SAFETY: it came from a box in `make`, and `self` is borrowed by nobody else.
                drop(unsafe { Box::from_raw(*page.get_mut()) });
            }
        }
    }
}

impl Counts for Pages {
    fn new() -> Self {
        Self([const { AtomicPtr::new(null_mut()) }; PAGES])
    }

    #[inline(always)]
    fn increment(&self, bin: usize) -> bool {
        let at = bin.min(BINS - 1) / PAGE_BINS;
        let page = self.page(at).unwrap_or_else(|| self.make(at));
        increment(&page.counts[bin % PAGE_BINS])
    }

    fn add_to(&self, totals: &mut [u64]) {
        for (at, page) in self.iter() {
            for (total, word) in totals[at * PAGE_BINS..].iter_mut().zip(&page.counts) {
                *total += u64::from(word.load(Ordering::Relaxed));
            }
        }
    }

    fn clear(&self) {
        for (_, page) in self.iter() {
            page.counts.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::buffer::{Buffer, Flat, Totals};

    #[test]
    fn pages_count_as_the_flat_table_does() {
        let (flat, pages) = (Buffer::<Flat>::new(), Buffer::<Pages>::new());
        let mut value = 1_u64;
        for round in 0..2_000_u64 {
            value = value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let ns = value >> (round % 64);
            flat.add(ns);
            pages.add(ns);
        }
        flat.add(u64::MAX);
        pages.add(u64::MAX);
        let (mut of_flat, mut of_pages) = (Totals::new(), Totals::new());
        flat.drain_into(&mut of_flat);
        pages.drain_into(&mut of_pages);
        assert_eq!(of_flat.histogram(), of_pages.histogram());
        let mut again = Totals::new();
        pages.drain_into(&mut again);
        assert_eq!(again.histogram().count, 0, "it was emptied");
    }

    #[test]
    fn a_page_goes_after_some_cells_without_a_count() {
        let (pages, mut totals) = (Buffer::<Pages>::new(), Totals::new());
        let cell = |values: &[u64], idle: bool, totals: &mut Totals| {
            values.iter().for_each(|ns| pages.add(*ns));
            // SAFETY: this thread alone has the pages.
            unsafe { pages.counts.trim(idle) };
            pages.drain_into(totals);
            pages.counts.count()
        };
        assert_eq!(cell(&[], false, &mut totals), 0);
        assert_eq!(cell(&[1_000, 1_100, 1_000_000], false, &mut totals), 2);
        for _ in 1..IDLE_CELLS {
            assert_eq!(cell(&[1_000], false, &mut totals), 2);
        }
        assert_eq!(cell(&[1_000], false, &mut totals), 1, "that of 1 ms is gone");
        assert_eq!(cell(&[1_000_000], false, &mut totals), 2, "and comes again");
        assert_eq!(cell(&[1_000_000], true, &mut totals), 1, "but one that is in use stays");
        assert_eq!(totals.histogram().count, 3 + u64::from(IDLE_CELLS) + 2);
    }
}
