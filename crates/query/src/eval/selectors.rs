//! Instant selectors: the newest sample at or before each instant, within the lookback.
//!
//! Invariants: the store is read once for all instants; a staleness marker ends its series until the next sample.

use std::sync::Arc;

use ogive_model::{Memory, Ms, Resolution, Selection, SeriesData, SeriesSet, TimeRange};

use super::annotate;
use super::evaluator::{Evaluator, Sink};
use super::fetched::{Fetched, FetchedSeries, hint_resets, matchers_key};
use super::float_row::{AnyRow, FloatRow, Streamed};
use super::float_runs::NewestFloats;
use super::histogram::{Hist, is_stale, is_stale_histogram, to_float};
use super::joined::{JoinedSeries, joined};
use super::memory::series_bytes;
use super::parallel::{self, EvaluateFloats, TakenFloats};
use super::places::TimeCursor;
use super::range_call::MakeFloats;
use super::rollups;
use super::rows::{Cell, Grid, Output, Row};
use super::shift::Shift;
use super::smoothing::{Problem, Smoothing};
use crate::Error;
use crate::annotations::{Annotation, Annotations, Level};
use crate::ast::{Edges, Span, VectorSelector};
use crate::value::Point;

/// 1 Mi samples, 16 MiB: a selector that occurs several times is read once if it has no more; otherwise it is read each
/// time, one series at a time.
const HELD_SAMPLES_MAX: usize = 1 << 20;

/// Series of a selector: read, or to be read.
pub(crate) enum Source<'a> {
    Held(Fetched),
    Open(Box<dyn SeriesSet + 'a>),
}

impl Source<'_> {
    /// Width of the coarsest cells that may be among the samples; 0 when there are none.
    fn rollup_ms(&self) -> i64 {
        match self {
            Self::Held(fetched) => fetched.series.iter().map(|series| series.rollup_ms).max().unwrap_or(0).into(),
            Self::Open(set) => set.rollup_ms().into(),
        }
    }
}

/// How the row of the newest samples of a series is made.
pub(crate) struct MakePicked<'m, T> {
    /// From a series, with a lookback in milliseconds.
    pub(crate) whole: &'m (dyn Fn(&SeriesData, i64) -> Result<T, Error> + Sync + 'm),
    /// From the values of floats, where these are wanted.
    pub(crate) floats: Option<MakeFloats<T>>,
}

/// What an instant selector returns of the sample that it finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PickedField {
    /// Its value.
    Value,
    /// Its time in seconds.
    Time,
    /// When its counting began, in seconds.
    Start,
}

impl<'a> Evaluator<'a> {
    /// The request to the store for `selector` in `window`.
    pub(crate) fn selection(&self, selector: &VectorSelector, window: TimeRange, resolution: Resolution) -> Selection {
        Selection {
            samples_max: self.options.samples_read_max,
            resolution,
            ..Selection::new(selector.matchers.clone(), window)
        }
    }

    /// Reads the series of `selector` with their samples in `window`.
    pub(crate) fn fetch(
        &mut self,
        selector: &VectorSelector,
        window: TimeRange,
        resolution: Resolution,
    ) -> Result<Fetched, Error> {
        let key = self.read_key(selector, window, resolution);
        if let Some(found) = self.read.get(&key) {
            return Ok(found.clone());
        }
        let set = self.open(selector, window, resolution)?;
        let fetched = self.held(&*set)?;
        if self.is_shared(selector) {
            self.read.insert(key, fetched.clone());
        }
        Ok(fetched)
    }

    /// As [`Evaluator::fetch`] where another node reads the same and it is small; otherwise opened, to be read one
    /// series at a time.
    pub(crate) fn source(
        &mut self,
        selector: &VectorSelector,
        window: TimeRange,
        resolution: Resolution,
    ) -> Result<Source<'a>, Error> {
        if !self.is_shared(selector) {
            return Ok(Source::Open(self.open(selector, window, resolution)?));
        }
        let key = self.read_key(selector, window, resolution);
        if let Some(found) = self.read.get(&key) {
            return Ok(Source::Held(found.clone()));
        }
        let set = self.open(selector, window, resolution)?;
        if set.samples_about() > HELD_SAMPLES_MAX {
            return Ok(Source::Open(set));
        }
        let fetched = self.held(&*set)?;
        self.read.insert(key, fetched.clone());
        Ok(Source::Held(fetched))
    }

    /// All series of `set`.
    fn held(&mut self, set: &dyn SeriesSet) -> Result<Fetched, Error> {
        let mut held = self.memory.charge(set.count() * size_of::<SeriesData>())?;
        let mut all = Vec::with_capacity(set.count());
        for number in 0..set.count() {
            self.check_cancelled()?;
            for mut series in joined(set.take(number)?) {
                self.stats.rollup_ms = self.stats.rollup_ms.max(series.rollup_ms);
                self.stats.series_read += 1;
                self.stats.samples_read += series.floats.times.len() + series.histograms.times.len();
                if self.detects() {
                    hint_resets(&mut series.data);
                }
                held.grow(series_bytes(&series))?;
                all.push(series);
            }
        }
        set.warnings().into_iter().for_each(|warning| self.note_gap(warning));
        Ok(Arc::new(FetchedSeries { series: all, held }))
    }

    /// Adds an annotation that the store's result is incomplete.
    pub(crate) fn note_gap(&mut self, message: String) {
        self.note(Annotation { level: Level::Warning, message, span: None, tally: None });
    }

    /// Whether another node reads what `selector` reads.
    pub(crate) fn is_shared(&self, selector: &VectorSelector) -> bool {
        self.shared.contains(&matchers_key(selector))
    }

    pub(crate) fn detects(&self) -> bool {
        self.detect_resets && !self.bins_needed
    }

    fn read_key(&self, selector: &VectorSelector, window: TimeRange, resolution: Resolution) -> String {
        let (detects, matchers) = (self.detects(), matchers_key(selector));
        format!("{resolution:?} {detects} {} {}{matchers}", window.start, window.end)
    }

    /// The value of an instant selector at `span`.
    pub(crate) fn instant_selector(
        &mut self,
        selector: &VectorSelector,
        span: Span,
        grid: Grid,
    ) -> Result<Output, Error> {
        if selector.edges == Edges::Smoothed {
            return self.smoothed_selector(selector, span, grid).map(Output::Vector);
        }
        self.picked(selector, grid, PickedField::Value).map(Output::Vector)
    }

    /// One row for each series with what `give` chooses of each sample found.
    pub(crate) fn picked(
        &mut self,
        selector: &VectorSelector,
        grid: Grid,
        give: PickedField,
    ) -> Result<Vec<Row>, Error> {
        let shift = self.shift(&selector.shift)?;
        self.picked_at(selector, shift, grid, give)
    }

    /// As [`Evaluator::picked`], at the times that `shift` determines.
    pub(crate) fn picked_at(
        &mut self,
        selector: &VectorSelector,
        shift: Shift,
        grid: Grid,
        give: PickedField,
    ) -> Result<Vec<Row>, Error> {
        let mut rows = Vec::new();
        let mut samples = 0;
        let memory = Arc::clone(&self.memory);
        let make = |series: &SeriesData, lookback| instant_row(&memory, series, grid, shift, lookback, give);
        let floats: MakeFloats<Row> = |memory, row| row.into_row(memory);
        let make = MakePicked { whole: &make, floats: (give == PickedField::Value).then_some(floats) };
        self.each_picked(selector, shift, grid, &make, &mut |evaluator, row: Row| {
            samples += row.samples();
            rows.push(row);
            evaluator.check_samples(samples)
        })?;
        Ok(rows)
    }

    /// As [`Evaluator::picked_at`], one row at a time, made by `make` from a series and the lookback.
    pub(crate) fn each_picked<T: Streamed>(
        &mut self,
        selector: &VectorSelector,
        shift: Shift,
        grid: Grid,
        make: &MakePicked<'_, T>,
        sink: &mut Sink<'_, 'a, T>,
    ) -> Result<(), Error> {
        let lookback = self.options.lookback.0;
        let window = TimeRange::from_ms(shift.apply(grid.start).saturating_sub(lookback), shift.apply(grid.end()));
        let resolution = rollups::for_instants(shift, grid);
        let wider = |coarsest: i64| {
            // The newest cell may end longer ago than the lookback for samples.
            let start = window.start.saturating_sub(Ms(coarsest - lookback));
            (coarsest > lookback).then_some(TimeRange { start, ..window })
        };
        let looked = self.looked.clone();
        let evaluate = |series: &JoinedSeries, notes: &mut Annotations| -> Result<Option<T>, Error> {
            let lookback = lookback.max(i64::from(series.rollup_ms));
            let row = (make.whole)(series, lookback)?;
            if !rollups::instants_are_exact(series, resolution) {
                let metric = series.labels.metric_name();
                notes.add(annotate::from_rollup(Span::default(), metric, series.rollup_ms));
            }
            if let Some(looked) = &looked {
                looked.row(grid, &row);
            }
            Ok((!row.is_blank()).then_some(row))
        };
        let mut source = self.source(selector, window, resolution)?;
        if let Some(window) = wider(source.rollup_ms()) {
            source = self.source(selector, window, resolution)?;
        }
        let fetched = match source {
            Source::Open(set) => {
                let read = parallel::SeriesRead { hinted: self.detects(), samples_max: usize::MAX };
                let whole = |series, notes: &mut Annotations| evaluate(&series, notes);
                let (memory, looked) = (Arc::clone(&self.memory), self.looked.clone());
                let of_floats = |set: &dyn SeriesSet, number, _: &mut Annotations| {
                    let Some(make) = make.floats else { return Ok(None) };
                    let Some((samples, row)) = row_of_runs(&memory, (set, number), grid, shift, lookback)? else {
                        return Ok(None);
                    };
                    let row = row.map(|row| make(&memory, row)).transpose()?;
                    if let (Some(looked), Some(row)) = (&looked, &row) {
                        looked.row(grid, row);
                    }
                    Ok(Some(TakenFloats { samples, row }))
                };
                let floats: Option<&EvaluateFloats<'_, T>> = Some(&of_floats);
                let evaluate = parallel::Evaluate { whole: &whole, columns: None, floats };
                return self.each_evaluated(&*set, &read, &evaluate, sink);
            }
            Source::Held(fetched) => fetched,
        };
        for series in &fetched.series {
            self.check_cancelled()?;
            if let Some(row) = evaluate(series, self.notes_mut())? {
                sink(self, row)?;
            }
        }
        Ok(())
    }

    /// A `smoothed` instant selector: values between two samples are interpolated, and the last one continues.
    fn smoothed_selector(&mut self, selector: &VectorSelector, span: Span, grid: Grid) -> Result<Vec<Row>, Error> {
        let shift = self.shift(&selector.shift)?;
        let lookback = self.options.lookback.0;
        let window = TimeRange::from_ms(
            shift.apply(grid.start).saturating_sub(lookback),
            shift.apply(grid.end()).saturating_add(lookback),
        );
        let fetched = self.fetch(selector, window, Resolution::Finest)?;
        let mut rows = Vec::with_capacity(fetched.series.len());
        for series in &fetched.series {
            self.check_cancelled()?;
            let _held = self.memory.charge(series_bytes(series))?;
            let samples = Smoothing::new(series);
            let mut row = Row::reserved(&self.memory, series.labels.clone(), false, grid.count)?;
            for time in grid.times() {
                let (cell, problem, reconciled) = samples.at(shift.apply(time), lookback);
                reconciled.note(span, self.notes_mut());
                match problem {
                    Some(Problem::Mixed) => {
                        self.note(annotate::mixed_floats_histograms(span, series.labels.metric_name()));
                    }
                    Some(Problem::Schemes(why)) => {
                        self.note(annotate::mixed_schemes(span, series.labels.metric_name(), why));
                    }
                    None => {}
                }
                row.push(cell)?;
            }
            if !row.is_blank() {
                rows.push(row);
            }
        }
        self.check_size(&rows)?;
        Ok(rows)
    }
}

/// The newest samples of a label set of floats as they are stored: how many it has, and the row unless it is blank.
/// None where it is not to be had as such.
fn row_of_runs(
    memory: &Arc<Memory>,
    (set, number): (&dyn SeriesSet, usize),
    grid: Grid,
    shift: Shift,
    lookback: i64,
) -> Result<Option<(usize, Option<FloatRow>)>, Error> {
    let mut newest = NewestFloats::new(memory, grid, shift, lookback)?;
    let Some(head) = set.take_floats(number, &mut |run| newest.add(run))? else { return Ok(None) };
    let row = newest.finish(head.series.labels)?;
    Ok(Some((head.samples, (!row.is_blank()).then_some(row))))
}

/// The newest samples of `series` at the instants of `grid`, as a row of floats where it has only floats.
pub(super) fn any_instant_row(
    memory: &Arc<Memory>,
    series: &SeriesData,
    grid: Grid,
    shift: Shift,
    lookback: i64,
) -> Result<AnyRow, Error> {
    if series.histograms.times.is_empty() {
        return FloatRow::newest(memory, series, grid, shift, lookback).map(AnyRow::Floats);
    }
    instant_row(memory, series, grid, shift, lookback, PickedField::Value).map(AnyRow::Cells)
}

/// What `give` chooses of the newest samples of `series` at the instants of `grid`, within the last `lookback`
/// milliseconds.
pub(super) fn instant_row(
    memory: &Arc<Memory>,
    series: &SeriesData,
    grid: Grid,
    shift: Shift,
    lookback: i64,
    give: PickedField,
) -> Result<Row, Error> {
    let (mut float_place, mut histogram_place) = (TimeCursor::default(), TimeCursor::default());
    let mut converted: Option<(usize, Arc<Hist>)> = None;
    let mut row = Row::reserved(memory, series.labels.clone(), false, grid.count)?;
    for time in grid.times() {
        let reference = shift.apply(time);
        let float = float_place.to(&series.floats.times, reference).checked_sub(1);
        let histogram = histogram_place.to(&series.histograms.times, reference).checked_sub(1);
        let float_time = float.map(|index| series.floats.times[index]);
        let histogram_time = histogram.map(|index| series.histograms.times[index]);
        let newest = float_time.max(histogram_time);
        let Some(found) = newest.filter(|found| *found > reference.saturating_sub(lookback)) else {
            row.push(None)?;
            continue;
        };
        let cell = if histogram_time == newest {
            let index = histogram.expect("its time was found");
            histogram_cell(series, index, found, give, &mut converted)
        } else {
            let index = float.expect("its time was found");
            float_cell(series, index, found, give)
        };
        row.push(cell)?;
    }
    Ok(row)
}

fn float_cell(series: &SeriesData, index: usize, time: i64, give: PickedField) -> Cell {
    let value = series.floats.values[index];
    if is_stale(value) {
        return None;
    }
    Some(Point::Float(match give {
        PickedField::Value => value,
        PickedField::Time => time as f64 / 1000.0,
        PickedField::Start => series.floats.starts.get(index).copied().unwrap_or(0) as f64 / 1000.0,
    }))
}

fn histogram_cell(
    series: &SeriesData,
    index: usize,
    time: i64,
    give: PickedField,
    converted: &mut Option<(usize, Arc<Hist>)>,
) -> Cell {
    let value = &series.histograms.values[index];
    if is_stale_histogram(value) {
        return None;
    }
    match give {
        PickedField::Value => {
            // With a step finer than the samples, the same one is found again.
            if converted.as_ref().is_none_or(|(at, _)| *at != index) {
                *converted = Some((index, Arc::new(to_float(value))));
            }
            converted.as_ref().map(|(_, histogram)| Point::Histogram(histogram.clone()))
        }
        PickedField::Time => Some(Point::Float(time as f64 / 1000.0)),
        PickedField::Start => {
            Some(Point::Float(series.histograms.starts.get(index).copied().unwrap_or(0) as f64 / 1000.0))
        }
    }
}
