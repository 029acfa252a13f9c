//! What live cells did so far, as numbers that others read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A number that other threads read.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Counts `more`.
    pub fn add(&self, more: u64) {
        // ORDERING: Relaxed; a number to look at.
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(super) fn set(&self, value: u64) {
        // ORDERING: Relaxed, as above.
        self.0.store(value, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        // ORDERING: Relaxed, as above.
        self.0.load(Ordering::Relaxed)
    }
}

/// The statistics of live cells.
#[derive(Clone, Debug, Default)]
pub struct Counts(Arc<Counted>);

/// See [`Counts`].
#[derive(Debug, Default)]
pub struct Counted {
    /// Columns that streams had from closed cells, and from the store.
    pub cells: Count,
    /// Columns that streams read from the store.
    pub requested: Count,
    /// Samples that were fed.
    pub(super) fed: Count,
    /// Fragments of cells that were emitted before.
    pub(super) late: Count,
    /// Samples that found a full ring, were refused, or may count twice: their second is read from the store.
    pub(super) doubts: Count,
    /// Series that are followed now.
    pub(super) series: Count,
}

impl std::ops::Deref for Counts {
    type Target = Counted;

    fn deref(&self) -> &Counted {
        &self.0
    }
}

impl Counts {
    /// Figures by name.
    pub fn figures(&self) -> [(&'static str, u64); 6] {
        [
            ("live_columns_from_cells_total", self.cells.get()),
            ("live_columns_from_store_total", self.requested.get()),
            ("live_fed_total", self.fed.get()),
            ("live_late_total", self.late.get()),
            ("live_doubts_total", self.doubts.get()),
            ("live_series", self.series.get()),
        ]
    }
}
