//! Cells: samples that cover one interval and nothing before it.
//!
//! The increase over a window is the exact merge of the cells that end in it, without extrapolation; the rate is the
//! increase divided by the seconds of the window. Integer counts are added when a cell enters the window and subtracted
//! when it leaves; both are exact. Sum, minimum and maximum are merged by a queue of two stacks, which never subtracts.
//!
//! Invariants: counts of all cells of a series together fit u64, otherwise the slower float path is taken.

use std::ops::Range;
use std::sync::Arc;

use ogive_hist::{Bins, CounterReset, Histogram};

use super::annotate;
use super::functions::{self, Site};
use super::histogram::{Hist, scale};
use super::kernel::{FloatSum, kahan_add};
use super::rows::{Grid, Row};
use super::window::{RangeSeries, Window, Windows};
use crate::Error;
use crate::value::Point;

/// Whether a function merges cells, so that it matters whether samples are cells.
pub(crate) fn merges(function: &str) -> bool {
    matches!(function, "rate" | "increase" | "sum_over_time" | "irate")
}

/// Appends the result of a function that merges cells to `row`; false when it is not one.
pub(crate) fn merged_cells(
    windows: Windows,
    series: &RangeSeries,
    function: &str,
    grid: Grid,
    row: &mut Row,
    site: &mut Site<'_>,
) -> Result<bool, Error> {
    let per_second = match function {
        "rate" => true,
        "increase" | "sum_over_time" => false,
        "irate" => return last_cells(windows, series, grid, row),
        _ => return Ok(false),
    };
    let mut slow: Option<RangeSeries> = None;
    let mut merge = Merge::new(&series.cells);
    if merge.is_none() && !series.cells.is_empty() {
        slow = Some(with_floats(series));
    }
    let source = slow.as_ref().unwrap_or(series);
    let Some(sum) = functions::range_kernel("sum_over_time") else { return Ok(false) };
    for window in windows.of(source, grid) {
        let Some(window) = window else {
            row.push(None)?;
            continue;
        };
        let merged = match &mut merge {
            _ if !window.floats.is_empty() && !window.histograms.is_empty() => {
                site.note(annotate::mixed_floats_histograms(site.span, window.metric()));
                None
            }
            _ if window.histograms.is_empty() => Some(Point::Float(FloatSum::total_of(window.float_values()))),
            Some(merge) => Some(Point::Histogram(Arc::new(merge.to(&series.cells, window.histograms.clone())))),
            None => sum(&window, &[], site).ok().flatten(),
        };
        let seconds = if per_second { window.seconds() } else { 1.0 };
        row.push(merged.map(|point| gauge(point, seconds)))?;
    }
    Ok(true)
}

/// The newest cell of each window divided by the seconds that it covers (the distance to the previous one when its
/// width is not known).
fn last_cells(windows: Windows, series: &RangeSeries, grid: Grid, row: &mut Row) -> Result<bool, Error> {
    let floats = with_floats(series);
    let cell = |window: Window<'_>| {
        let (times, point) = if window.float_times().last() > window.histogram_times().last() {
            (window.float_times(), Point::Float(*window.float_values().last()?))
        } else {
            (window.histogram_times(), Point::Histogram(window.histogram_values().last()?.clone()))
        };
        let millis = match (series.width_ms, times) {
            (0, [.., before, last]) => last - before,
            (0, _) => return None,
            (width, _) => i64::from(width),
        };
        Some(gauge(point, millis as f64 / 1000.0))
    };
    windows.of(&floats, grid).try_for_each(|window| row.push(window.and_then(cell)))?;
    Ok(true)
}

/// A merge divided by seconds; the result is no longer a counter.
fn gauge(point: Point, seconds: f64) -> Point {
    match point {
        Point::Float(value) => Point::Float(value / seconds),
        Point::Histogram(mut histogram) => {
            let inner = Arc::make_mut(&mut histogram);
            if seconds != 1.0 {
                scale(inner, 1.0 / seconds);
            }
            inner.reset = CounterReset::Gauge;
            Point::Histogram(histogram)
        }
    }
}

/// The series with its cells converted to float histograms.
pub(crate) fn with_floats(series: &RangeSeries) -> RangeSeries {
    if series.cells.is_empty() {
        return series.clone();
    }
    let histograms = series.cells.iter().map(|cell| Arc::new(cell.to_float())).collect();
    RangeSeries { histograms, cells: Vec::new(), ..series.clone() }
}

/// A merge of consecutive cells of one layout, over a range whose ends only move forward.
struct Merge {
    layout: Histogram<u64>,
    held: Range<usize>,
    positive: Dense,
    negative: Dense,
    zero: u64,
    nan: u64,
    count: u64,
    extremes: TwoStacks,
}

impl Merge {
    /// None when the layouts differ, or when the sum of the counts exceeds u64.
    fn new(cells: &[Histogram<u64>]) -> Option<Self> {
        let first = cells.first()?;
        let same = |cell: &Histogram<u64>| cell.scheme == first.scheme && cell.zero_threshold == first.zero_threshold;
        let total: u128 = cells.iter().map(|cell| u128::from(cell.count)).sum();
        if total > u128::from(u64::MAX) || !cells.iter().all(same) {
            return None;
        }
        let mut layout = Histogram::new(first.scheme.clone());
        layout.zero_threshold = first.zero_threshold;
        Some(Self {
            layout,
            held: 0..0,
            positive: Dense::over(cells.iter().map(|cell| &cell.positive)),
            negative: Dense::over(cells.iter().map(|cell| &cell.negative)),
            zero: 0,
            nan: 0,
            count: 0,
            extremes: TwoStacks::default(),
        })
    }

    /// The merge of the cells in `range`, whose ends are at or after those of the previous call.
    fn to(&mut self, cells: &[Histogram<u64>], range: Range<usize>) -> Hist {
        if range.start >= self.held.end {
            // The windows do not overlap: start over rather than remove the cells one by one.
            for index in self.held.clone() {
                self.take_away(&cells[index]);
            }
            self.extremes = TwoStacks::default();
            self.held = range.start..range.start;
        }
        for cell in &cells[self.held.end..range.end] {
            self.put(cell);
        }
        for index in self.held.start..range.start {
            self.take_away(&cells[index]);
            self.extremes.pop(&cells[index + 1..range.end]);
        }
        self.held = range;
        self.result()
    }

    fn put(&mut self, cell: &Histogram<u64>) {
        self.positive.put(&cell.positive);
        self.negative.put(&cell.negative);
        self.zero += cell.zero;
        self.nan += cell.nan;
        self.count += cell.count;
        self.extremes.push(Summary::from_cell(cell));
    }

    fn take_away(&mut self, cell: &Histogram<u64>) {
        self.positive.take_away(&cell.positive);
        self.negative.take_away(&cell.negative);
        self.zero -= cell.zero;
        self.nan -= cell.nan;
        self.count -= cell.count;
    }

    fn result(&self) -> Hist {
        let summary = self.extremes.total();
        Hist {
            scheme: self.layout.scheme.clone(),
            zero_threshold: self.layout.zero_threshold,
            zero: self.zero as f64,
            nan: self.nan as f64,
            negative: self.negative.bins(),
            positive: self.positive.bins(),
            count: self.count as f64,
            sum: summary.sum.map(|(sum, lost)| sum + lost),
            min: summary.min,
            max: summary.max,
            reset: CounterReset::Gauge,
        }
    }
}

/// Counts by bin, over the span of indexes that a series uses.
struct Dense {
    first: i32,
    counts: Vec<u64>,
}

impl Dense {
    fn over<'a>(bins: impl Iterator<Item = &'a Bins<u64>>) -> Self {
        let ends = bins.filter_map(|bins| Some((*bins.indexes().first()?, *bins.indexes().last()?)));
        let span = ends.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        let Some((first, last)) = span else { return Self { first: 0, counts: Vec::new() } };
        let length = usize::try_from(i64::from(last) - i64::from(first) + 1).expect("last is at or after first");
        Self { first, counts: vec![0; length] }
    }

    fn at(&mut self, index: i32) -> &mut u64 {
        &mut self.counts[usize::try_from(i64::from(index) - i64::from(self.first)).expect("inside the span")]
    }

    fn put(&mut self, bins: &Bins<u64>) {
        for (index, count) in bins.iter() {
            *self.at(index) += count;
        }
    }

    fn take_away(&mut self, bins: &Bins<u64>) {
        for (index, count) in bins.iter() {
            *self.at(index) -= count;
        }
    }

    fn bins(&self) -> Bins<f64> {
        let mut out = Bins::with_capacity(self.counts.iter().filter(|count| **count != 0).count());
        for (index, count) in (self.first..).zip(&self.counts) {
            if *count != 0 {
                out.push(index, *count as f64);
            }
        }
        out
    }
}

/// What can be merged but not subtracted again.
#[derive(Clone, Copy, Debug)]
struct Summary {
    /// Sum and its rounding error; None when the sum of a cell is not known.
    sum: Option<(f64, f64)>,
    min: Option<f64>,
    max: Option<f64>,
    empty: bool,
}

impl Summary {
    const NOTHING: Self = Self { sum: Some((0.0, 0.0)), min: None, max: None, empty: true };

    fn from_cell(cell: &Histogram<u64>) -> Self {
        if cell.count == 0 {
            return Self::NOTHING;
        }
        Self { sum: cell.sum.map(|sum| (sum, 0.0)), min: cell.min, max: cell.max, empty: false }
    }

    fn with(self, other: Self) -> Self {
        if self.empty {
            return other;
        }
        if other.empty {
            return self;
        }
        let both = |a: Option<f64>, b: Option<f64>, choose: fn(f64, f64) -> f64| Some(choose(a?, b?));
        let sum = self.sum.zip(other.sum).map(|((a, lost_a), (b, lost_b))| kahan_add(b, a, lost_a + lost_b));
        Self { sum, min: both(self.min, other.min, f64::min), max: both(self.max, other.max, f64::max), empty: false }
    }
}

/// A queue that keeps the merge of its contents: a stack to push to, and one with suffix merges to pop from.
#[derive(Default)]
struct TwoStacks {
    /// `front[0]` is the newest of the older half, the last is the oldest; each holds the merge of itself and those
    /// before it.
    front: Vec<Summary>,
    /// The merge of the newer half.
    back: Option<Summary>,
}

impl TwoStacks {
    fn push(&mut self, summary: Summary) {
        self.back = Some(self.back.map_or(summary, |back| back.with(summary)));
    }

    /// Removes the oldest; `rest` is what the queue then contains.
    fn pop(&mut self, rest: &[Histogram<u64>]) {
        if self.front.pop().is_some() {
            return;
        }
        self.back = None;
        let mut merge = Summary::NOTHING;
        for cell in rest.iter().rev() {
            merge = Summary::from_cell(cell).with(merge);
            self.front.push(merge);
        }
    }

    fn total(&self) -> Summary {
        let front = self.front.last().copied().unwrap_or(Summary::NOTHING);
        self.back.map_or(front, |back| front.with(back))
    }
}

#[cfg(test)]
mod tests {
    use ogive_hist::Scheme;
    use proptest::prelude::*;

    use super::*;

    fn cell(values: &[(i32, u64)], sum: f64) -> Histogram<u64> {
        let mut cell = Histogram::new(Scheme::LogLinear10);
        cell.positive = values.iter().copied().collect();
        cell.count = cell.positive.counts().iter().sum();
        cell.sum = Some(sum);
        cell.min = values.iter().map(|value| f64::from(value.0)).reduce(f64::min);
        cell.max = values.iter().map(|value| f64::from(value.0)).reduce(f64::max);
        cell
    }

    /// The merge, computed by adding all bins.
    fn direct(cells: &[Histogram<u64>]) -> (Bins<f64>, f64, Option<f64>, Option<f64>) {
        let bins = cells.iter().flat_map(|cell| cell.positive.iter()).map(|(index, count)| (index, count as f64));
        let full = || cells.iter().filter(|cell| cell.count > 0);
        (
            bins.collect(),
            full().filter_map(|cell| cell.sum).sum(),
            full().filter_map(|cell| cell.min).reduce(f64::min),
            full().filter_map(|cell| cell.max).reduce(f64::max),
        )
    }

    proptest! {
        #[test]
        fn a_sliding_merge_equals_the_direct_one(
            source in proptest::collection::vec(proptest::collection::vec((0..200_i32, 1..9_u64), 0..6), 1..60),
            moves in proptest::collection::vec((0..9_usize, 0..9_usize), 1..40),
        ) {
            let cells: Vec<Histogram<u64>> =
                source.iter().map(|values| cell(values, values.len() as f64)).collect();
            let mut merge = Merge::new(&cells).unwrap();
            let mut range = 0..0;
            for (start, end) in moves {
                range.end = (range.end + end).min(cells.len());
                range.start = (range.start + start).min(range.end);
                let found = merge.to(&cells, range.clone());
                let (bins, sum, min, max) = direct(&cells[range.clone()]);
                prop_assert_eq!(found.count, bins.counts().iter().sum::<f64>());
                prop_assert_eq!(&found.positive, &bins);
                prop_assert_eq!(found.sum, Some(sum));
                prop_assert_eq!((found.min, found.max), (min, max));
            }
        }
    }

    #[test]
    fn counts_that_leave_u64_take_the_other_path() {
        let mut huge = cell(&[(1, 1)], 1.0);
        huge.count = u64::MAX;
        assert!(Merge::new(&[huge.clone(), cell(&[(1, 1)], 1.0)]).is_none());
        assert!(Merge::new(&[huge]).is_some());
    }
}
