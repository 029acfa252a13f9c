//! The rows of range functions: a kernel over the windows of one series.

use std::sync::Arc;

use ogive_model::{Labels, Memory, SeriesColumns, SeriesSet};

use super::annotate;
use super::delta;
use super::float_row::{AnyRow, FloatRow};
use super::float_runs::FloatIncreases;
use super::functions::{self, RangeKernel, RateKind, Site};
use super::histogram::is_stale;
use super::looked::SampleCounter;
use super::memory::Numbers;
use super::rollups;
use super::rows::{Cell, Grid, Row};
use super::window::{RangeSeries, Window, Windows};
use crate::ast::{Edges, Span};
use crate::value::Point;
use crate::{Annotations, Error};

/// Makes the result for one series; None when it is blank.
pub(crate) type MakeRange<T> = fn(&RangeCall<'_>, Windows, RangeSeries, &mut Annotations) -> Result<Option<T>, Error>;

/// As [`MakeRange`], of histograms as columns, with or without the start times of samples.
pub(crate) type MakeDense<T> =
    fn(&RangeCall<'_>, Windows, SeriesColumns, bool, &mut Annotations) -> Result<Option<T>, Error>;

/// As [`MakeRange`], of a row of floats.
pub(crate) type MakeFloats<T> = fn(&Arc<Memory>, FloatRow) -> Result<T, Error>;

/// How the result for a series is made.
pub(crate) struct RangeMakers<T> {
    pub(crate) whole: MakeRange<T>,
    /// Of histograms, where they are wanted as columns.
    pub(crate) dense: Option<MakeDense<T>>,
    pub(crate) floats: MakeFloats<T>,
}

/// A range function with its other arguments, and the instants of its evaluation.
pub(crate) struct RangeCall<'p> {
    pub(super) memory: &'p Arc<Memory>,
    pub(super) kernel: RangeKernel,
    pub(super) name: &'static str,
    pub(super) span: Span,
    pub(super) parameters: &'p [Numbers],
    pub(super) grid: Grid,
    pub(super) looked: Option<SampleCounter>,
}

impl RangeCall<'_> {
    /// The result for one series; None when it is blank.
    pub(super) fn row(
        &self,
        windows: Windows,
        series: RangeSeries,
        notes: &mut Annotations,
    ) -> Result<Option<Row>, Error> {
        let mut site = Site { span: self.span, notes };
        self.look(windows, &series, &mut site);
        self.row_of_cells(windows, &series, &mut site)
    }

    /// As [`RangeCall::row`], but a row of floats where there are only floats.
    pub(super) fn any_row(
        &self,
        windows: Windows,
        series: RangeSeries,
        notes: &mut Annotations,
    ) -> Result<Option<AnyRow>, Error> {
        let mut site = Site { span: self.span, notes };
        self.look(windows, &series, &mut site);
        let is_plain = series.histogram_times.is_empty() && !series.floats_delta && !series.histograms_delta;
        if is_plain && let Some(row) = self.row_of_floats(windows, &series, &mut site)? {
            return Ok((!row.is_blank()).then_some(AnyRow::Floats(row)));
        }
        Ok(self.row_of_cells(windows, &series, &mut site)?.map(AnyRow::Cells))
    }

    /// What [`RangeCall::row_of_runs`] does with windows; None when it has to see every sample.
    pub(super) fn ends_kind(&self, windows: Windows) -> Option<RateKind> {
        let is_plain = windows.edges == Edges::Plain && self.looked.is_none();
        RateKind::named(self.name).filter(|_| is_plain)
    }

    /// The result for a series of floats as they are stored: how many those are, and the row unless it is blank. None
    /// where the series is not to be had as such.
    pub(super) fn row_of_runs(
        &self,
        (windows, kind): (Windows, RateKind),
        (set, number): (&dyn SeriesSet, usize),
        notes: &mut Annotations,
    ) -> Result<Option<(usize, Option<FloatRow>)>, Error> {
        let mut increases = FloatIncreases::new(self.memory, windows, self.grid, kind)?;
        let Some(head) = set.take_floats(number, &mut |run| increases.add(run))? else { return Ok(None) };
        let row = increases.finish(self.memory, head.series.labels)?;
        if row.is_blank() {
            return Ok(Some((head.samples, None)));
        }
        self.check_name(&row.labels, &mut Site { span: self.span, notes });
        Ok(Some((head.samples, Some(row))))
    }

    /// Annotates and counts the samples looked at.
    pub(super) fn look(&self, windows: Windows, series: &RangeSeries, site: &mut Site<'_>) {
        if !rollups::windows_are_exact(series, windows, self.name, self.grid) {
            site.note(annotate::from_rollup(self.span, series.labels.metric_name(), series.rollup_ms));
        }
        if let Some(looked) = &self.looked {
            looked.windows(windows, series, self.grid);
        }
    }

    pub(super) fn row_of_cells(
        &self,
        windows: Windows,
        series: &RangeSeries,
        site: &mut Site<'_>,
    ) -> Result<Option<Row>, Error> {
        let differ = series.floats_delta != series.histograms_delta;
        let mut row = Row::reserved(self.memory, series.labels.clone(), series.drop_name, self.grid.count)?;
        if differ && delta::merges(self.name) {
            self.cells_of_parts(windows, series, &mut row, site)?;
        } else {
            self.cells(windows, series, &mut row, site)?;
        }
        Ok((!row.is_blank()).then_some(row))
    }

    /// The results for a series of floats that are not cells; None when one of them is not a float that such a row can
    /// hold.
    fn row_of_floats(
        &self,
        windows: Windows,
        series: &RangeSeries,
        site: &mut Site<'_>,
    ) -> Result<Option<FloatRow>, Error> {
        let mut row = FloatRow::reserved(self.memory, series.labels.clone(), series.drop_name, self.grid.count)?;
        let kernel = self.kernel_of(series);
        let mut at = vec![0.0; self.parameters.len()];
        for (step, window) in windows.of(series, self.grid).enumerate() {
            match self.answer(kernel, step, window, &mut at, site)? {
                None => row.push(None),
                Some(Point::Float(value)) if !is_stale(value) => row.push(Some(value)),
                Some(_) => return Ok(None),
            }
        }
        if !row.is_blank() {
            self.check_name(&series.labels, site);
        }
        Ok(Some(row))
    }

    fn kernel_of(&self, series: &RangeSeries) -> RangeKernel {
        functions::rolled_kernel(self.name).filter(|_| !series.aggregates.is_empty()).unwrap_or(self.kernel)
    }

    /// The result of `kernel` at an instant; `at` is scratch space for its parameters there.
    fn answer(
        &self,
        kernel: RangeKernel,
        step: usize,
        window: Option<Window<'_>>,
        at: &mut [f64],
        site: &mut Site<'_>,
    ) -> Result<Cell, Error> {
        for (value, column) in at.iter_mut().zip(self.parameters) {
            *value = column[step];
        }
        window.map_or(Ok(None), |window| kernel(&window, at, site))
    }

    /// Annotates a counter whose name is not that of one.
    fn check_name(&self, labels: &Labels, site: &mut Site<'_>) {
        let metric = labels.metric_name();
        if matches!(self.name, "rate" | "increase") && !metric.is_empty() {
            note_suspicious_name(metric, site);
        }
    }

    /// Adds the results for a series whose floats and histograms are both cells, or both not, where that matters.
    fn cells(&self, windows: Windows, series: &RangeSeries, row: &mut Row, site: &mut Site<'_>) -> Result<(), Error> {
        let Self { name, grid, .. } = *self;
        if series.floats_delta
            && series.histograms_delta
            && delta::merged_cells(windows, series, name, grid, row, site)?
        {
            return Ok(());
        }
        let kernel = self.kernel_of(series);
        // Other functions use each cell separately, with float counts.
        let floats = (!series.cells.is_empty()).then(|| delta::with_floats(series));
        let series = floats.as_ref().unwrap_or(series);
        let mut at = vec![0.0; self.parameters.len()];
        for (step, window) in windows.of(series, grid).enumerate() {
            row.push(self.answer(kernel, step, window, &mut at, site)?)?;
        }
        if row.cells.iter().any(|cell| matches!(cell, Some(Point::Float(_)))) {
            self.check_name(&series.labels, site);
        }
        Ok(())
    }

    /// Adds the results for a series of which one kind is cells and the other is not: each kind is evaluated as what it
    /// is, and a window that contains both has no result.
    fn cells_of_parts(
        &self,
        windows: Windows,
        series: &RangeSeries,
        row: &mut Row,
        site: &mut Site<'_>,
    ) -> Result<(), Error> {
        let blank = || Row::reserved(self.memory, series.labels.clone(), false, self.grid.count);
        let (floats, histograms) = series.parts();
        let (mut of_floats, mut of_histograms) = (blank()?, blank()?);
        self.cells(windows, &floats, &mut of_floats, site)?;
        self.cells(windows, &histograms, &mut of_histograms, site)?;
        let answers = of_floats.cells.into_iter().zip(of_histograms.cells);
        for (window, (float, histogram)) in windows.of(series, self.grid).zip(answers) {
            let mixed = window.is_some_and(|window| !window.floats.is_empty() && !window.histograms.is_empty());
            if mixed {
                site.note(annotate::mixed_floats_histograms(site.span, series.labels.metric_name()));
            }
            row.push(if mixed { None } else { float.or(histogram) })?;
        }
        Ok(())
    }
}

fn note_suspicious_name(metric: &str, site: &mut Site<'_>) {
    let usual = ["_total", "_sum", "_count", "_bucket"];
    if !usual.iter().any(|ending| metric.ends_with(ending)) {
        site.note(annotate::maybe_not_a_counter(site.span, metric));
    }
}
