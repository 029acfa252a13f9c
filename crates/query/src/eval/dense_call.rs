//! Rates and increases of histograms whose bins are columns.
//!
//! Everything except the bins comes from the functions that evaluate any series, over histograms without bins. The bins
//! of an increase are then combined column by column: sums of cells as differences of running sums, those of counters
//! from the rows that the increase is made of.
//!
//! Invariant: a row equals, bit for bit, what [`RangeCall::any_row`] makes of the same samples.

use std::ops::Range;
use std::sync::Arc;

use ogive_model::{BinColumns, BinStretch, HistogramValue, SeriesColumns, Temporality};

use super::dense_row::{DenseBins, DenseRow, Spans};
use super::float_row::AnyRow;
use super::functions::{RateKind, Site, Trace, traced_rate};
use super::histogram::Hist;
use super::joined::JoinedSeries;
use super::range_call::RangeCall;
use super::relations::{Histograms, Relations};
use super::rows::Row;
use super::window::{RangeSeries, Windows, columns};
use crate::ast::Edges;
use crate::value::Point;
use crate::{Annotations, Error};

/// 2^53: counts below it are the same as floats.
const EXACT_MAX: u64 = 1 << 53;
/// A matrix may have so many times the bins of a series that are filled at any time.
const SPREAD_MAX: usize = 8;

/// Whether a function combines the histograms of a window, so that it is worth having their bins as columns.
pub(super) fn combines(name: &str) -> bool {
    matches!(name, "rate" | "increase" | "delta" | "sum_over_time")
}

/// The bins of one sign.
type Sign = fn(&BinStretch) -> &BinColumns;

const NEGATIVE: Sign = |stretch| &stretch.negative;
const POSITIVE: Sign = |stretch| &stretch.positive;

/// What is known before a row is made of columns.
struct Plan {
    spans: Spans,
    /// Of a counter: its function, and which histograms have a bin that holds less than in the one before.
    counter: Option<(RateKind, Vec<bool>)>,
}

/// The sum of the cells of an instant.
struct CellSum {
    step: usize,
    rows: Range<usize>,
    factor: f64,
}

/// The increase of a counter up to an instant.
struct Increase {
    step: usize,
    /// Number of the first row of the window.
    first: usize,
    trace: Trace,
}

impl RangeCall<'_> {
    /// As [`RangeCall::any_row`].
    pub(super) fn row_of_columns(
        &self,
        windows: Windows,
        found: SeriesColumns,
        start_times: bool,
        notes: &mut Annotations,
    ) -> Result<Option<AnyRow>, Error> {
        let Some(plan) = self.plan(windows, &found) else {
            return self.any_row(windows, columns(JoinedSeries::from(found.into_series()), start_times), notes);
        };
        let SeriesColumns { series, stretches, .. } = found;
        let mut heads = columns(JoinedSeries::from(series), start_times);
        let mut site = Site { span: self.span, notes };
        let row = match &plan.counter {
            None => self.dense_cells(windows, &heads, &stretches, plan.spans, &mut site)?,
            Some((kind, fell)) => {
                let (times, starts) = (&heads.histogram_times, &heads.histogram_starts);
                heads.relations = Relations::from_heads(Histograms { times, starts, values: &heads.histograms }, fell);
                self.dense_counter((windows, *kind), &heads, &stretches, plan.spans, &mut site)?
            }
        };
        Ok((!row.is_blank()).then_some(AnyRow::Dense(row)))
    }

    /// None when the functions over any series are to be used.
    fn plan(&self, windows: Windows, found: &SeriesColumns) -> Option<Plan> {
        let heads = &found.series.histograms.values;
        let spans = spans(&found.stretches)?;
        if heads.is_empty() || self.looked.is_some() || windows.edges != Edges::Plain || !spans.fit(self.grid) {
            return None;
        }
        if found.series.meta.temporality == Temporality::Delta {
            let is_sum = matches!(self.name, "rate" | "increase" | "sum_over_time");
            return (is_sum && have_small_counts(heads)).then_some(Plan { spans, counter: None });
        }
        let kind = RateKind::named(self.name).filter(|_| have_plain_zero(heads))?;
        let fell = falls(&found.stretches, heads.len())?;
        Some(Plan { spans, counter: Some((kind, fell)) })
    }

    fn dense_cells(
        &self,
        windows: Windows,
        heads: &RangeSeries,
        stretches: &[BinStretch],
        spans: Spans,
        site: &mut Site<'_>,
    ) -> Result<DenseRow, Error> {
        self.look(windows, heads, site);
        let per_second = self.name == "rate";
        let mut sums = Vec::with_capacity(self.grid.count);
        for (step, window) in windows.of(heads, self.grid).enumerate() {
            let Some(window) = window else { continue };
            let seconds = if per_second { window.seconds() } else { 1.0 };
            let factor = if seconds == 1.0 { 1.0 } else { 1.0 / seconds };
            sums.push(CellSum { step, rows: window.histograms, factor });
        }
        let out = self.row_of_cells(windows, heads, site)?.map_or_else(|| vec![None; self.grid.count], heads_of);
        let mut row = self.dense(out, heads, spans)?;
        let rows = heads.cells.len();
        for (of, bins) in [(NEGATIVE, &mut row.negative), (POSITIVE, &mut row.positive)] {
            fill_cells(stretches, of, rows, &sums, bins);
        }
        Ok(row)
    }

    fn dense_counter(
        &self,
        (windows, kind): (Windows, RateKind),
        heads: &RangeSeries,
        stretches: &[BinStretch],
        spans: Spans,
        site: &mut Site<'_>,
    ) -> Result<DenseRow, Error> {
        self.look(windows, heads, site);
        let (mut out, mut increases) = (vec![None; self.grid.count], Vec::with_capacity(self.grid.count));
        for (step, window) in windows.of(heads, self.grid).enumerate() {
            let Some(window) = window else { continue };
            if let Some((head, trace)) = traced_rate(&window, kind, site) {
                out[step] = Some(head);
                increases.push(Increase { step, first: window.histograms.start, trace });
            }
        }
        let mut row = self.dense(out, heads, spans)?;
        let rows = heads.histograms.len();
        for (of, bins) in [(NEGATIVE, &mut row.negative), (POSITIVE, &mut row.positive)] {
            fill_increases(stretches, of, rows, &increases, bins);
        }
        Ok(row)
    }

    fn dense(&self, heads: Vec<Option<Hist>>, series: &RangeSeries, spans: Spans) -> Result<DenseRow, Error> {
        DenseRow::new(self.memory, series.labels.clone(), series.drop_name, heads, spans)
    }
}

/// The histograms of a row that has no floats.
fn heads_of(row: Row) -> Vec<Option<Hist>> {
    let (_, cells, _) = row.into_parts();
    let head = |point| match point {
        Point::Histogram(head) => Arc::unwrap_or_clone(head),
        Point::Float(value) => unreachable!("{value} of histograms alone"),
    };
    cells.into_iter().map(|cell| cell.map(head)).collect()
}

/// Whether the sums of all counts, and so those of any, fit their type.
fn have_small_counts(heads: &[HistogramValue]) -> bool {
    let count = |value: &HistogramValue| match value {
        HistogramValue::Integer(histogram) => u128::from(histogram.count),
        HistogramValue::Float(_) => u128::MAX,
    };
    heads.iter().map(count).fold(0, u128::saturating_add) <= u128::from(u64::MAX)
}

/// Whether nothing, which is subtracted where a counter was reset, has no wider zero bin than the histograms.
fn have_plain_zero(heads: &[HistogramValue]) -> bool {
    match heads.first() {
        Some(HistogramValue::Integer(first)) => Hist::new(first.scheme.clone()).zero_threshold <= first.zero_threshold,
        _ => false,
    }
}

/// The bins that any histogram may have; None when there is an unusual number of them.
fn spans(stretches: &[BinStretch]) -> Option<Spans> {
    let of = |sign: Sign| {
        let ends = stretches.iter().filter_map(|stretch| {
            let indexes = sign(stretch).indexes();
            Some((*indexes.first()?, *indexes.last()?))
        });
        let Some((first, last)) = ends.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))) else { return Some((0, 0)) };
        let width = usize::try_from(i64::from(last) - i64::from(first) + 1).ok()?;
        // Far apart, the bins that are filled take less than all between them.
        let filled = stretches.iter().map(|stretch| sign(stretch).indexes().len()).max().unwrap_or(0);
        (width <= SPREAD_MAX * filled).then_some((first, width))
    };
    Some(Spans { negative: of(NEGATIVE)?, positive: of(POSITIVE)? })
}

/// Calls `each` with every index that has a column, and the counts of all rows in it.
fn each_column(stretches: &[BinStretch], of: Sign, rows: usize, mut each: impl FnMut(i32, &[u64])) {
    debug_assert_eq!(stretches.iter().map(|stretch| stretch.rows).sum::<usize>(), rows, "each row is in one stretch");
    if let [stretch] = stretches {
        let columns = of(stretch);
        columns.indexes().iter().enumerate().for_each(|(at, index)| each(*index, columns.column(at)));
        return;
    }
    let mut next = vec![0; stretches.len()];
    let mut column = vec![0; rows];
    let index_of = |(stretch, at): (&BinStretch, &usize)| of(stretch).indexes().get(*at).copied();
    while let Some(index) = stretches.iter().zip(&next).filter_map(index_of).min() {
        let mut row = 0;
        for (stretch, at) in stretches.iter().zip(&mut next) {
            let (columns, to) = (of(stretch), &mut column[row..row + stretch.rows]);
            if columns.indexes().get(*at) == Some(&index) {
                to.copy_from_slice(columns.column(*at));
                *at += 1;
            } else {
                to.fill(0);
            }
            row += stretch.rows;
        }
        each(index, &column);
    }
}

fn fill_cells(stretches: &[BinStretch], of: Sign, rows: usize, sums: &[CellSum], bins: &mut DenseBins) {
    // Of all rows before each.
    let mut before = vec![0_u64; rows + 1];
    each_column(stretches, of, rows, |index, column| {
        let (places, stride) = bins.column_mut(index);
        if let [sum] = sums {
            let count = column[sum.rows.clone()].iter().fold(0_u64, |all, count| all.wrapping_add(*count));
            places[sum.step * stride] = count as f64 * sum.factor;
            return;
        }
        let mut all = 0_u64;
        for (before, count) in before[1..].iter_mut().zip(column) {
            all = all.wrapping_add(*count);
            *before = all;
        }
        for CellSum { step, rows, factor } in sums {
            let count = before[rows.end].wrapping_sub(before[rows.start]);
            places[step * stride] = count as f64 * factor;
        }
    });
}

fn fill_increases(stretches: &[BinStretch], of: Sign, rows: usize, increases: &[Increase], bins: &mut DenseBins) {
    each_column(stretches, of, rows, |index, column| {
        let (places, stride) = bins.column_mut(index);
        for Increase { step, first, trace } in increases {
            let count = |row: usize| column[first + row] as f64;
            let mut value = count(trace.last) - trace.base.map_or(0.0, count);
            trace.added.iter().for_each(|row| value += count(*row));
            if value != 0.0 {
                places[step * stride] = value * trace.factor;
            }
        }
    });
}

/// Which rows have a bin that holds less than in the row before; None when counts are too large to be exact as floats.
fn falls(stretches: &[BinStretch], rows: usize) -> Option<Vec<bool>> {
    // A negative difference sets the upper bit.
    let mut differences = vec![0_u64; rows];
    let mut any = 0;
    for of in [NEGATIVE, POSITIVE] {
        each_column(stretches, of, rows, |_, column| {
            let pairs = column.iter().zip(&column[1..]);
            for (all, (before, now)) in differences[1..].iter_mut().zip(pairs) {
                *all |= now.wrapping_sub(*before);
                any |= *now;
            }
            any |= column[0];
        });
    }
    (any < EXACT_MAX).then(|| differences.into_iter().map(|all| all >> 63 == 1).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretch(indexes: &[i32], counts: &[u64], rows: usize) -> BinStretch {
        let positive = BinColumns::new(indexes.to_vec(), counts.to_vec(), rows, rows);
        BinStretch { rows, negative: BinColumns::default(), positive }
    }

    #[test]
    fn a_bin_falls_within_a_stretch_and_from_one_to_the_next() {
        let stretches = [stretch(&[3, 5], &[1, 2, 9, 8], 2), stretch(&[5], &[8, 8, 9], 3)];
        // Bin 5 falls from 9 to 8, then bin 3 from 2 to nothing.
        assert_eq!(falls(&stretches, 5), Some(vec![false, true, true, false, false]));
        assert_eq!(falls(&[stretch(&[1], &[EXACT_MAX - 1, 0], 2)], 2), Some(vec![false, true]));
        assert_eq!(falls(&[stretch(&[1], &[EXACT_MAX, 0], 2)], 2), None, "as floats they may be equal");
    }

    #[test]
    fn each_index_has_its_counts_of_all_rows() {
        let stretches = [stretch(&[3, 5], &[1, 2, 9, 8], 2), stretch(&[], &[], 1), stretch(&[4, 5], &[6, 7], 1)];
        let mut found = Vec::new();
        each_column(&stretches, POSITIVE, 4, |index, counts| found.push((index, counts.to_vec())));
        assert_eq!(found, [(3, vec![1, 2, 0, 0]), (4, vec![0, 0, 0, 6]), (5, vec![9, 8, 0, 7])]);
        each_column(&stretches[..1], POSITIVE, 2, |index, counts| assert_eq!(counts.len(), 2, "{index}"));
    }
}
