//! Counts the samples used at each instant of a query, as Prometheus does: once for each window that holds them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::float_row::Streamed;
use super::memory::histogram_size;
use super::rows::Grid;
use super::window::{RangeSeries, Windows};

/// Samples looked at, by instant; shared by the threads that evaluate.
#[derive(Clone, Debug)]
pub(crate) struct SampleCounter {
    frame: Grid,
    total: Arc<AtomicU64>,
    /// One for each instant of the query.
    steps: Arc<[AtomicU64]>,
}

impl SampleCounter {
    /// For a query at the instants of `frame`.
    pub(crate) fn new(frame: Grid) -> Self {
        let steps = (0..frame.count).map(|_| AtomicU64::new(0)).collect();
        Self { frame, total: Arc::default(), steps }
    }

    /// Adds `samples` at instant `step` of `grid`. Those at a subquery's own instants count only in the total.
    fn add(&self, grid: Grid, step: usize, samples: u64) {
        // ORDERING: Relaxed; sums that guard no other memory, read when the threads have ended.
        self.total.fetch_add(samples, Ordering::Relaxed);
        if grid == self.frame
            && let Some(count) = self.steps.get(step)
        {
            count.fetch_add(samples, Ordering::Relaxed);
        }
    }

    /// Counts the samples that an instant selector found.
    pub(crate) fn row(&self, grid: Grid, row: &impl Streamed) {
        row.each_filled(&mut |step, samples| self.add(grid, step, samples as u64));
    }

    /// Counts the samples in the windows of a series.
    pub(crate) fn windows(&self, windows: Windows, series: &RangeSeries, grid: Grid) {
        let cell_size = |cell: &ogive_hist::Histogram<u64>| 8 + cell.positive.len() + cell.negative.len();
        let sizes = series.cells.iter().map(cell_size).chain(series.histograms.iter().map(|one| histogram_size(one)));
        let mut before = vec![0_u64];
        for size in sizes {
            before.push(before[before.len() - 1] + size as u64);
        }
        for (step, window) in windows.of(series, grid).enumerate() {
            let Some(window) = window else { continue };
            let (floats, histograms) = (window.floats.len() as u64, window.histograms);
            self.add(grid, step, floats + before[histograms.end] - before[histograms.start]);
        }
    }

    /// The total, and the count of each instant.
    pub(crate) fn counts(&self) -> (u64, Vec<u64>) {
        // ORDERING: Relaxed; see above.
        let steps = self.steps.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        (self.total.load(Ordering::Relaxed), steps)
    }
}
