//! Range vectors: for each instant the samples of a series in a window that ends there.
//!
//! Invariants: windows are left-open; both edges only move forward, so that a pass over all instants reads each
//! sample a bounded number of times. Staleness markers are left out.

use std::cell::Ref;
use std::ops::Range;
use std::sync::Arc;

use ogive_hist::{CounterReset, Histogram};
use ogive_model::{Aggregate, Charge, HistogramValue, Labels, Ms, Resolution, SeriesData};

use super::histogram::{Hist, into_float, is_stale, is_stale_histogram};
use super::joined::JoinedSeries;
use super::memory::histogram_size;
use super::places::TimeCursor;
use super::relations::{Histograms, Relation, Relations};
use super::rows::Grid;
use super::shift::Shift;
use crate::ast::Edges;
use crate::value::Point;

/// The samples of one series that range functions see.
#[derive(Clone, Debug)]
pub(crate) struct RangeSeries {
    pub(crate) labels: Labels,
    pub(crate) drop_name: bool,
    /// Floats are cells: what happened in an interval, not since some start.
    pub(crate) floats_delta: bool,
    /// Histograms are cells.
    pub(crate) histograms_delta: bool,
    /// Milliseconds that a cell covers; 0 when it is not known.
    pub(crate) width_ms: u32,
    pub(crate) float_times: Vec<i64>,
    pub(crate) floats: Vec<f64>,
    pub(crate) float_starts: Vec<i64>,
    pub(crate) histogram_times: Vec<i64>,
    pub(crate) histograms: Vec<Arc<Hist>>,
    pub(crate) histogram_starts: Vec<i64>,
    /// The relation of each histogram to the previous one.
    pub(crate) relations: Relations,
    /// The aggregate behind each float, where they come from a rollup; else empty.
    pub(crate) aggregates: Vec<Aggregate>,
    /// Width of the coarsest cells of a rollup among the samples; 0 when there is none.
    pub(crate) rollup_ms: u32,
    /// Delta histograms of integer counts stay as they are: their exact sums are integer sums.
    pub(crate) cells: Vec<Histogram<u64>>,
}

/// The geometry of the windows of a range vector.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Windows {
    /// Length of the windows.
    pub(super) range: Ms,
    pub(super) shift: Shift,
    pub(crate) edges: Edges,
    /// How far beyond the window the samples reach at its start and at its end.
    pub(super) before: Ms,
    pub(super) after: Ms,
    /// How the samples were requested.
    pub(super) resolution: Resolution,
}

impl RangeSeries {
    /// The relation of each histogram in `range` to the previous one.
    pub(crate) fn relations(&self, range: Range<usize>) -> Ref<'_, [Relation]> {
        let (times, starts, values) = (&*self.histogram_times, &*self.histogram_starts, &*self.histograms);
        self.relations.of(Histograms { times, starts, values }, range)
    }

    /// Only the floats and only the histograms, each as a series of its own.
    pub(crate) fn parts(&self) -> (Self, Self) {
        let (mut floats, mut histograms) = (self.clone(), self.clone());
        floats.histogram_times.clear();
        floats.histograms.clear();
        floats.histogram_starts.clear();
        floats.cells.clear();
        floats.histograms_delta = floats.floats_delta;
        histograms.float_times.clear();
        histograms.floats.clear();
        histograms.float_starts.clear();
        histograms.aggregates.clear();
        histograms.floats_delta = histograms.histograms_delta;
        (floats, histograms)
    }
}

/// One series at one instant.
pub(crate) struct Window<'a> {
    pub(crate) series: &'a RangeSeries,
    /// Which floats are inside.
    pub(crate) floats: Range<usize>,
    /// Which histograms (or cells) are inside.
    pub(crate) histograms: Range<usize>,
    /// The instant of evaluation.
    pub(crate) time: i64,
    /// Start of the window, excluded.
    pub(crate) start: i64,
    /// End of the window, included.
    pub(crate) end: i64,
    pub(crate) edges: Edges,
}

impl<'a> Window<'a> {
    /// The size of the histograms, as limits count them.
    pub(super) fn histogram_bins(&self) -> usize {
        let at = |index: usize| match self.series.histograms.get(index) {
            Some(histogram) => histogram_size(histogram),
            None => 8 + self.series.cells[index].positive.len() + self.series.cells[index].negative.len(),
        };
        self.histograms.clone().map(at).sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.floats.is_empty() && self.histograms.is_empty()
    }

    /// Its start and its end.
    pub(crate) const fn ends(&self) -> (i64, i64) {
        (self.start, self.end)
    }

    /// Length in seconds.
    pub(crate) fn seconds(&self) -> f64 {
        (self.end - self.start) as f64 / 1000.0
    }

    pub(crate) fn metric(&self) -> &'a str {
        self.series.labels.metric_name()
    }

    pub(crate) fn float_times(&self) -> &'a [i64] {
        &self.series.float_times[self.floats.clone()]
    }

    pub(crate) fn float_values(&self) -> &'a [f64] {
        &self.series.floats[self.floats.clone()]
    }

    /// The aggregate behind each float; empty when they are samples.
    pub(crate) fn aggregates(&self) -> &'a [Aggregate] {
        self.series.aggregates.get(self.floats.clone()).unwrap_or_default()
    }

    pub(crate) fn histogram_times(&self) -> &'a [i64] {
        &self.series.histogram_times[self.histograms.clone()]
    }

    pub(crate) fn histogram_values(&self) -> &'a [Arc<Hist>] {
        &self.series.histograms[self.histograms.clone()]
    }

    /// Start times of the floats; empty when none is known.
    pub(crate) fn float_starts(&self) -> &'a [i64] {
        self.series.float_starts.get(self.floats.clone()).unwrap_or_default()
    }

    /// Start times of the histograms; empty when none is known.
    pub(crate) fn histogram_starts(&self) -> &'a [i64] {
        self.series.histogram_starts.get(self.histograms.clone()).unwrap_or_default()
    }
}

impl Windows {
    /// How the samples were requested.
    pub(crate) const fn resolution(&self) -> Resolution {
        self.resolution
    }

    /// Start and end of the window at an instant.
    pub(crate) fn ends(&self, time: i64) -> (i64, i64) {
        let end = self.shift.apply(time);
        (end.saturating_sub(self.range.0), end)
    }

    /// The windows of one series, instant by instant; None where it has no sample.
    pub(crate) fn of<'a>(self, series: &'a RangeSeries, grid: Grid) -> impl Iterator<Item = Option<Window<'a>>> + 'a {
        let mut floats = Slide::default();
        let mut histograms = Slide::default();
        grid.times().map(move |time| {
            let (start, end) = self.ends(time);
            let (from, to) = (start.saturating_sub(self.before.0), end.saturating_add(self.after.0));
            let window = Window {
                series,
                floats: floats.to(&series.float_times, from, to),
                histograms: histograms.to(&series.histogram_times, from, to),
                time,
                start,
                end,
                edges: self.edges,
            };
            (!window.is_empty()).then_some(window)
        })
    }
}

/// The run of indexes whose times are in a window that only moves forward.
#[derive(Default)]
struct Slide {
    from: TimeCursor,
    to: TimeCursor,
}

impl Slide {
    fn to(&mut self, times: &[i64], start: i64, end: i64) -> Range<usize> {
        let to = self.to.to(times, end);
        self.from.to(&times[..to], start)..to
    }
}

/// The columns of a stored series without staleness markers.
pub(crate) fn columns(series: JoinedSeries, start_times: bool) -> RangeSeries {
    let JoinedSeries { data, floats_delta, histograms_delta } = series;
    let SeriesData { labels, meta, mut floats, mut histograms, rollup_ms, .. } = data;
    if floats.values.iter().any(|value| is_stale(*value)) {
        let keep: Vec<bool> = floats.values.iter().map(|value| !is_stale(*value)).collect();
        retain(&mut floats.times, &keep);
        retain(&mut floats.values, &keep);
        retain(&mut floats.starts, &keep);
        retain(&mut floats.aggregates, &keep);
    }
    if histograms.values.iter().any(is_stale_histogram) {
        let keep: Vec<bool> = histograms.values.iter().map(|value| !is_stale_histogram(value)).collect();
        retain(&mut histograms.times, &keep);
        retain(&mut histograms.values, &keep);
        retain(&mut histograms.starts, &keep);
    }
    let exact = histograms_delta && histograms.values.iter().all(|value| matches!(value, HistogramValue::Integer(_)));
    let (mut values, mut cells) = (Vec::new(), Vec::new());
    for value in histograms.values {
        match value {
            HistogramValue::Integer(cell) if exact => cells.push(cell),
            value => values.push(Arc::new(into_float(value))),
        }
    }
    let starts = |starts: Vec<i64>, times: &[i64]| {
        if start_times && starts.len() == times.len() { starts } else { Vec::new() }
    };
    RangeSeries {
        labels,
        drop_name: false,
        floats_delta,
        histograms_delta,
        width_ms: meta.width_ms,
        float_starts: starts(floats.starts, &floats.times),
        aggregates: floats.aggregates,
        rollup_ms,
        float_times: floats.times,
        floats: floats.values,
        histogram_starts: starts(histograms.starts, &histograms.times),
        histogram_times: histograms.times,
        histograms: values,
        relations: Relations::default(),
        cells,
    }
}

/// Keeps the elements for which `keep` is true; a shorter column (one that is absent) is left unchanged.
fn retain<T>(column: &mut Vec<T>, keep: &[bool]) {
    let mut keep = keep.iter();
    column.retain(|_| keep.next().is_none_or(|keep| *keep));
}

/// A row as the samples of a range vector, and the instants of its cells.
pub(crate) fn row_columns(row: super::rows::Row, grid: Grid) -> (RangeSeries, Charge) {
    let drop_name = row.drop_name;
    let (labels, cells, held) = row.into_parts();
    let floats = cells.iter().filter(|cell| matches!(cell, Some(Point::Float(_)))).count();
    let mut out = RangeSeries {
        labels,
        drop_name,
        floats_delta: false,
        histograms_delta: false,
        width_ms: 0,
        float_times: Vec::with_capacity(floats),
        floats: Vec::with_capacity(floats),
        float_starts: Vec::new(),
        histogram_times: Vec::new(),
        histograms: Vec::new(),
        histogram_starts: Vec::new(),
        relations: Relations::default(),
        aggregates: Vec::new(),
        rollup_ms: 0,
        cells: Vec::new(),
    };
    for (time, cell) in grid.times().zip(cells) {
        match cell {
            None => {}
            Some(Point::Float(value)) => {
                out.float_times.push(time);
                out.floats.push(value);
            }
            Some(Point::Histogram(mut value)) => {
                // Between two instants resets may be missed or seen twice: the samples' hints do not apply.
                if matches!(value.reset, CounterReset::Reset | CounterReset::NotReset) {
                    Arc::make_mut(&mut value).reset = CounterReset::Unknown;
                }
                out.histogram_times.push(time);
                out.histograms.push(value);
            }
        }
    }
    (out, held)
}
