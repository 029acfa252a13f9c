//! Where series go: the cells of an exporter, which sends them exactly once, or those of a server itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ogive_export::{Cells, Error};

/// Where series go. Clones are the same.
#[derive(Clone)]
pub(super) struct Export {
    pub(super) cells: Cells,
    /// Series that were refused: too many.
    refused: Arc<AtomicU64>,
}

impl std::fmt::Debug for Export {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Export").field("refused", &self.refused).finish_non_exhaustive()
    }
}

impl Export {
    pub(super) fn new(cells: Cells) -> Self {
        let export = Self { cells, refused: Arc::default() };
        // If there is no room for this one either, it cannot be reported.
        let _ = export.counter("ogive_wire_refused_series_total", &[], &export.refused);
        export
    }

    /// Counts a series that was refused.
    pub(super) fn note(&self, outcome: Result<(), Error>) {
        // ORDERING: Relaxed; a counter on its own.
        self.refused.fetch_add(u64::from(outcome.is_err()), Ordering::Relaxed);
    }

    /// Sends a counter.
    pub(super) fn counter(&self, name: &str, labels: &[(&str, &str)], counter: &Arc<AtomicU64>) -> Result<(), Error> {
        let counter = counter.clone();
        // ORDERING: Relaxed; a counter on its own.
        self.cells.counter(name, labels, move || counter.load(Ordering::Relaxed))
    }
}
