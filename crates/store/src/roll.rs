//! Rolling up: the samples of one series as coarser cells.
//!
//! Invariants: a cell of width w ends at a multiple of w and stands for (end - w, end]; the rollup of a rollup equals
//! the rollup of the original. A delta histogram's cells are exact merges, so every quantile over them equals that over
//! the originals. The aggregates of the cells count each sample that they are made of.
//! - Delta histograms and floats: one row a cell, at its end.
//! - Gauge and cumulative floats: one row a cell, the last sample at its own time, with the aggregates of all; a
//!   staleness marker that ends a cell is a row of its own.
//! - Gauge and cumulative histograms: the first and the last sample of a cell, and both sides of each reset, at their
//!   own times.
//! - Texts are not rolled up.

use ogive_hist::{Count, CounterReset, Histogram};
use ogive_model::{
    Aggregate, CounterReading, FloatColumn, HistogramColumn, HistogramValue, Kind, Ms, SeriesData, Temporality, WallMs,
    restarted,
};

use crate::merge::Clash;
use crate::window::Window;
use crate::{merge, order};

/// `data` as cells of `width_ms`; `None` when nothing of it is rolled up. `clash` hears of what a cell cannot hold.
pub(crate) fn roll(mut data: SeriesData, width_ms: u32, clash: &dyn Fn(Clash)) -> Option<SeriesData> {
    assert!(width_ms > 0, "a cell has a width");
    let (width, delta) = (i64::from(width_ms), data.meta.temporality == Temporality::Delta);
    clash(merge::collapse(&mut data));
    match data.meta.kind {
        Kind::Text => return None,
        Kind::Float => data.floats = floats(data.floats, width, delta),
        Kind::Histogram if delta => data.histograms = cells(data.histograms, width, clash),
        Kind::Histogram => data.histograms = thinned(data.histograms, width),
    }
    if delta {
        data.meta.width_ms = width_ms;
    }
    data.rollup_ms = width_ms;
    Some(data)
}

fn end_of(time: i64, width: i64) -> i64 {
    Window::containing(WallMs(time), Ms(width)).end().0
}

fn cells(column: HistogramColumn, width: i64, clash: &dyn Fn(Clash)) -> HistogramColumn {
    let mut out = HistogramColumn::default();
    for (time, value) in column.times.into_iter().zip(column.values) {
        let end = end_of(time, width);
        match out.values.last_mut() {
            Some(cell) if out.times.last() == Some(&end) => {
                clash(Clash { cells: u64::from(!order::merge_cell(cell, value)), temporalities: false });
            }
            _ => {
                debug_assert!(out.times.last().is_none_or(|last| *last < end), "a cell that ends at {end} was closed");
                out.times.push(end);
                out.values.push(value);
            }
        }
    }
    out
}

fn thinned(column: HistogramColumn, width: i64) -> HistogramColumn {
    let HistogramColumn { times, values, starts } = column;
    assert_eq!(times.len(), values.len(), "each time has its histogram");
    assert!(starts.is_empty() || starts.len() == times.len(), "{} starts of {} times", starts.len(), times.len());
    let start = |at: usize| starts.get(at).copied().unwrap_or(0);
    let ends: Vec<i64> = times.iter().map(|time| end_of(*time, width)).collect();
    let reading = |at: usize| CounterReading { time: times[at], start: start(at) };
    let reset = |at: usize| {
        at > 0 && at < times.len() && (restarted(reading(at - 1), reading(at)) || shrank(&values[at - 1], &values[at]))
    };
    let keep = |at: usize| {
        let first = at == 0 || ends[at - 1] != ends[at];
        let last = at + 1 == ends.len() || ends[at + 1] != ends[at];
        first || last || reset(at) || reset(at + 1)
    };
    let kept: Vec<bool> = (0..times.len()).map(keep).collect();
    let known = !starts.is_empty();
    let mut out = HistogramColumn::default();
    for (at, (time, value)) in times.iter().zip(values).enumerate().filter(|(at, _)| kept[*at]) {
        out.times.push(*time);
        out.values.push(value);
        out.starts.extend(known.then(|| starts[at]));
    }
    out
}

/// Whether a cumulative histogram may have begun anew between two samples: it says so, or something became less.
fn shrank(before: &HistogramValue, after: &HistogramValue) -> bool {
    fn less<C: Count>(before: &Histogram<C>, after: &Histogram<C>) -> bool {
        let bins = || {
            let sides = [(&before.negative, &after.negative), (&before.positive, &after.positive)];
            sides.iter().any(|(before, after)| before.iter().any(|(index, count)| after.get(index) < count))
        };
        after.reset == CounterReset::Reset
            || after.scheme != before.scheme
            || after.count < before.count
            || after.zero < before.zero
            || bins()
    }
    match (before, after) {
        (HistogramValue::Integer(before), HistogramValue::Integer(after)) => less(before, after),
        (HistogramValue::Float(before), HistogramValue::Float(after)) => less(before, after),
        _ => true,
    }
}

/// A sample and the start of what it covers.
struct FloatSample {
    time: i64,
    value: f64,
    start: i64,
}

/// A cell of floats that is being filled.
struct Cell {
    end: i64,
    /// The last sample.
    last: FloatSample,
    aggregate: Aggregate,
    /// Time of a staleness marker behind the last sample.
    stale: Option<i64>,
}

fn floats(mut column: FloatColumn, width: i64, delta: bool) -> FloatColumn {
    merge::fill_aggregates(&mut column);
    let mut out = FloatColumn::default();
    let mut open: Option<Cell> = None;
    for (at, aggregate) in column.aggregates.iter().enumerate() {
        let (time, value, start) = (column.times[at], column.values[at], column.starts.get(at).copied().unwrap_or(0));
        let row = FloatSample { time, value, start };
        let end = end_of(time, width);
        if let Some(cell) = open.take_if(|cell| cell.end != end) {
            cell.put(&mut out, delta);
        }
        match &mut open {
            Some(cell) => cell.add(row, aggregate),
            None if aggregate.count == 0 => {
                open = Some(Cell { end, last: row, aggregate: Aggregate::default(), stale: Some(time) });
            }
            None => open = Some(Cell { end, last: row, aggregate: *aggregate, stale: None }),
        }
    }
    if let Some(cell) = open {
        cell.put(&mut out, delta);
    }
    debug_assert_eq!(counted(&out), counted(&column), "a rollup counts each sample that it is made of");
    if out.starts.iter().all(|start| *start == 0) {
        out.starts.clear();
    }
    out
}

/// How many samples the aggregates of a column stand for.
fn counted(column: &FloatColumn) -> u64 {
    column.aggregates.iter().fold(0, |sum, one| sum.wrapping_add(one.count))
}
impl Cell {
    fn add(&mut self, row: FloatSample, of: &Aggregate) {
        if of.count == 0 {
            self.stale = Some(row.time);
            return;
        }
        let (next, last) = (row.time, self.last.time);
        debug_assert!(last <= next, "the sample at {next} of a cell follows the one at {last}");
        let FloatSample { time, value, start } = std::mem::replace(&mut self.last, row);
        self.stale = None;
        let one = &mut self.aggregate;
        if one.count == 0 {
            *one = *of;
            return;
        }
        one.count += of.count;
        one.sum += of.sum;
        one.min = if of.min < one.min || one.min.is_nan() { of.min } else { one.min };
        one.max = if of.max > one.max || one.max.is_nan() { of.max } else { one.max };
        let now = CounterReading { time: of.first_time, start: of.first_start };
        if of.first < value || restarted(CounterReading { time, start }, now) {
            one.resets += value;
        }
        one.resets += of.resets;
    }

    fn put(self, out: &mut FloatColumn, delta: bool) {
        if self.aggregate.count > 0 {
            let (time, value) = if delta { (self.end, self.aggregate.sum) } else { (self.last.time, self.last.value) };
            debug_assert!(
                out.times.last().is_none_or(|last| *last < time),
                "the cell at {time} follows {:?}",
                out.times.last()
            );
            out.times.push(time);
            out.values.push(value);
            // A cell of deltas begins where it begins.
            out.starts.push(if delta { 0 } else { self.last.start });
            out.aggregates.push(self.aggregate);
        }
        // What a series is worth after it ended matters where it is read as it stands.
        if let Some(time) = self.stale.filter(|_| !delta) {
            debug_assert!(
                out.times.last().is_none_or(|last| *last < time),
                "a marker follows the last sample of its cell"
            );
            out.times.push(time);
            out.values.push(f64::from_bits(ogive_model::STALE));
            out.starts.push(0);
            out.aggregates.push(Aggregate::default());
        }
    }
}
