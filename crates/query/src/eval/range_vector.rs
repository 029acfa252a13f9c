//! Range vectors: the samples read for them, and the windows over those.

use std::sync::Arc;

use ogive_model::{Charge, Ms, Resolution, TimeRange, WallMs};

use super::evaluator::Evaluator;
use super::fetched::{Fetched, size};
use super::joined::JoinedSeries;
use super::memory::SAMPLE_BYTES;
use super::rollups;
use super::rows::Grid;
use super::shift::Shift;
use super::window::{RangeSeries, Window, Windows, columns};
use crate::Error;
use crate::ast::{Edges, Expr, ExprKind, MatrixSelector};
use crate::value::Series;

/// The series of a range vector. Stored ones are converted to columns one by one, as they are needed.
pub(crate) enum RangeSource {
    Stored { series: std::vec::IntoIter<JoinedSeries>, start_times: bool, _held: Charge },
    Rows { rows: std::vec::IntoIter<RangeSeries>, _held: Charge },
}

impl Iterator for RangeSource {
    type Item = RangeSeries;

    fn next(&mut self) -> Option<RangeSeries> {
        match self {
            Self::Stored { series, start_times, .. } => series.next().map(|series| columns(series, *start_times)),
            Self::Rows { rows, .. } => rows.next(),
        }
    }
}

impl Evaluator<'_> {
    /// The range vector of a matrix selector or a subquery.
    /// `function` is the function that it is read for.
    pub(crate) fn range_vector(
        &mut self,
        expr: &Expr,
        function: &str,
        grid: Grid,
    ) -> Result<(Windows, RangeSource), Error> {
        match &expr.unparenthesised().kind {
            ExprKind::MatrixSelector(matrix) => self.matrix_selector(matrix, function, grid),
            ExprKind::Subquery(subquery) => self.subquery(subquery, grid),
            _ => Err(Error::Evaluate { message: "expected a range vector".to_owned(), span: Some(expr.span) }),
        }
    }

    fn matrix_selector(
        &mut self,
        matrix: &MatrixSelector,
        function: &str,
        grid: Grid,
    ) -> Result<(Windows, RangeSource), Error> {
        let (windows, read) = self.windows(matrix, function, grid)?;
        let fetched = self.fetch(&matrix.selector, read, windows.resolution)?;
        Ok((windows, self.stored(fetched)?))
    }

    /// The series that were read, one after the other as columns.
    pub(crate) fn stored(&self, fetched: Fetched) -> Result<RangeSource, Error> {
        self.check_samples(fetched.series.iter().map(|series| size(series)).sum())?;
        let (series, held) = match Arc::try_unwrap(fetched) {
            Ok(read) => (read.series, read.held),
            Err(shared) => {
                let held = self.memory.charge(shared.held.bytes())?;
                (shared.series.clone(), held)
            }
        };
        Ok(RangeSource::Stored { series: series.into_iter(), start_times: self.options.start_times, _held: held })
    }

    /// The windows of a matrix selector, and which samples are in any of them.
    pub(crate) fn windows(
        &self,
        matrix: &MatrixSelector,
        function: &str,
        grid: Grid,
    ) -> Result<(Windows, TimeRange), Error> {
        let range = self.positive(&matrix.range)?;
        let shift = self.shift(&matrix.selector.shift)?;
        let lookback = self.options.lookback;
        let edges = matrix.selector.edges;
        let (before, after) = match edges {
            Edges::Plain => (Ms::ZERO, Ms::ZERO),
            Edges::Anchored => (lookback, Ms::ZERO),
            Edges::Smoothed => (lookback, lookback),
        };
        let read = TimeRange {
            start: WallMs(shift.apply(grid.start)).saturating_sub(range + before),
            end: WallMs(shift.apply(grid.end())).saturating_add(after),
        };
        let resolution = match edges {
            Edges::Plain => rollups::for_windows(function, shift, grid, range),
            Edges::Anchored | Edges::Smoothed => Resolution::Finest,
        };
        Ok((Windows { range, shift, edges, before, after, resolution }, read))
    }

    /// The samples of a range vector as they are, for a query that consists of nothing else.
    pub(crate) fn top_level_range(&mut self, expr: &Expr, time: i64) -> Result<Vec<Series>, Error> {
        let grid = Grid::single(time);
        let (windows, source) = self.range_vector(expr, "", grid)?;
        let mut out = Vec::new();
        for series in source {
            if let Some(looked) = &self.looked {
                looked.windows(windows, &series, grid);
            }
            let Some(window) = windows.of(&series, grid).next().flatten() else { continue };
            let points = window.floats.len() + window.histogram_bins();
            self.memory.charge(size_of::<Series>() + series.labels.memory_bytes() + points * SAMPLE_BYTES)?.keep();
            let found = samples_of(&window);
            if !(found.floats.is_empty() && found.histograms.is_empty()) {
                out.push(found);
            }
        }
        out.sort_by(|a, b| a.labels.cmp(&b.labels));
        Ok(out)
    }
}

/// The samples of one window; those at its edges as the modifier defines them.
fn samples_of(window: &Window<'_>) -> Series {
    let series = window.series;
    let mut found = Series { labels: series.labels.clone(), floats: Vec::new(), histograms: Vec::new() };
    if window.edges != Edges::Plain {
        found.floats = super::functions::extended_floats(window);
        return found;
    }
    found.floats = window.float_times().iter().copied().zip(window.float_values().iter().copied()).collect();
    let histogram = |index: usize| {
        let value = series.histograms.get(index).cloned();
        (series.histogram_times[index], value.unwrap_or_else(|| Arc::new(series.cells[index].to_float())))
    };
    found.histograms = window.histograms.clone().map(histogram).collect();
    found
}

/// A range vector over the rows of a subquery.
pub(crate) fn from_subquery(series: Vec<RangeSeries>, held: Charge, range: Ms, shift: Shift) -> (Windows, RangeSource) {
    let (before, after) = (Ms::ZERO, Ms::ZERO);
    let windows = Windows { range, shift, edges: Edges::Plain, before, after, resolution: Resolution::Finest };
    (windows, RangeSource::Rows { rows: series.into_iter(), _held: held })
}
