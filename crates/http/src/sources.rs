//! The cells of a selector: what each sample counted, and in which time.
//!
//! Invariants: a sample at u contributes one [`Cell`], whose interval ends at u: a delta cell itself, a cumulative
//! sample what it added to the one before. The first sample of a cumulative series contributes only where it says that
//! it began to count inside of the range. A staleness marker contributes nothing.

use ogive_hist::{Count, CounterReset, Histogram};
use ogive_model::{
    HistogramColumn, HistogramValue, Matcher, Ms, STALE, Select, Selection, SeriesData, Temporality, TimeRange, WallMs,
};

use super::ask::Cancel;
use super::classic_buckets;
use super::error::ApiError;
use super::merged::{BINS_READ_MAX, Merged, Units};
use super::source_cells::{Cell, LOOKBACK, MappedSources, Source, Sources, Span, at_share, cancelled, spacing};

/// Reads the cells of a selector: of its histograms, or if there are none, of the classic buckets with its name.
pub(super) fn read(store: &dyn Select, matchers: &[Matcher], span: Span, cancel: &Cancel) -> Result<Sources, ApiError> {
    let mut selection = Selection {
        samples_max: BINS_READ_MAX,
        resolution: span.resolution,
        ..Selection::new(matchers.to_vec(), TimeRange { start: span.from, end: span.end })
    };
    let (mut partial, mut held) = cancel.read(store, &selection)?;
    if partial.series.iter().any(|series| series.meta.temporality == Temporality::Cumulative) {
        selection.range.start = span.from.saturating_sub(LOOKBACK);
        drop((partial, held));
        (partial, held) = cancel.read(store, &selection)?;
    }
    // Their cells take about as much memory, as long as a response is made from them.
    held.keep();
    let mut out = Sources { warnings: partial.warnings, ..Sources::default() };
    let mut units = Units::default();
    for series in partial.series {
        cancelled(cancel)?;
        if series.histograms.times.last().is_none_or(|last| *last <= span.from.0) {
            out.numbers += usize::from(!series.floats.times.is_empty());
            continue;
        }
        units.add(&series.meta.unit);
        out.list.push(source(series, span));
    }
    out.unit = units.common();
    if out.list.is_empty()
        && let Some(matchers) = classic_buckets::matchers(matchers)
    {
        let found = classic_buckets::read(store, matchers, span, cancel)?;
        if !found.list.is_empty() {
            return Ok(found);
        }
    }
    Ok(out)
}

/// As [`read`], but each series is only held until `map` has made something of it, which it does on `threads` threads.
pub(super) fn map<T: Send>(
    store: &dyn Select,
    matchers: &[Matcher],
    span: Span,
    cancel: &Cancel,
    threads: usize,
    map: &(dyn Fn(&Source) -> T + Sync),
) -> Result<MappedSources<T>, ApiError> {
    let selection = Selection {
        matchers: matchers.to_vec(),
        // Cumulative series may be among them.
        range: TimeRange { start: span.from.saturating_sub(LOOKBACK), end: span.end },
        samples_max: BINS_READ_MAX,
        labels_only: false,
        resolution: span.resolution,
    };
    let (all, warnings) = cancel.map_series(store, &selection, threads, &|series| {
        let is_there = series.histograms.times.last().is_some_and(|last| *last > span.from.0);
        is_there.then(|| (series.meta.unit.clone(), map(&source(series, span))))
    })?;
    let (mut list, mut units) = (Vec::new(), Units::default());
    for (unit, mapped) in all.into_iter().flatten() {
        units.add(&unit);
        list.push(mapped);
    }
    if list.is_empty()
        && let Some(matchers) = classic_buckets::matchers(matchers)
    {
        let found = classic_buckets::read(store, matchers, span, cancel)?;
        let list = found.list.iter().map(map).collect();
        return Ok(MappedSources { list, unit: found.unit, warnings: found.warnings });
    }
    Ok(MappedSources { list, unit: units.common(), warnings })
}

/// The cells of one series that end in the span.
pub(super) fn source(series: SeriesData, span: Span) -> Source {
    let width = width_of(&series);
    let cumulative = series.meta.temporality == Temporality::Cumulative;
    let mut cells = if cumulative { increases(series.histograms, span.from) } else { deltas(series.histograms, width) };
    cells.retain(|cell| span.from < cell.to && cell.to <= span.end);
    Source { labels: series.labels, width, cells }
}

/// The usual width of a series' cells.
fn width_of(series: &SeriesData) -> Ms {
    if series.rollup_ms > 0 {
        return Ms::from(series.rollup_ms);
    }
    let cumulative = series.meta.temporality == Temporality::Cumulative;
    if !cumulative && series.meta.width_ms > 0 {
        return Ms::from(series.meta.width_ms);
    }
    let HistogramColumn { times, starts, .. } = &series.histograms;
    if !cumulative {
        let reported = times.iter().zip(starts).filter(|pair| *pair.1 > 0);
        let reported = reported.map(|(time, start)| Ms(time - start)).collect();
        if let Some(width) = at_share(reported, 0.5) {
            return width;
        }
    }
    // Empty delta cells are often not sent, and their neighbours then look wider than they are.
    spacing(times, if cumulative { 0.5 } else { 0.25 })
}

fn merged(value: HistogramValue) -> Merged {
    match value {
        HistogramValue::Integer(value) => Merged::Integer(value),
        HistogramValue::Float(value) => Merged::Float(value),
    }
}

/// Each sample is a cell.
fn deltas(column: HistogramColumn, width: Ms) -> Vec<Cell> {
    let starts = column.starts.into_iter().chain(std::iter::repeat(0));
    let samples = column.times.into_iter().zip(column.values).zip(starts);
    samples
        .filter(|((_, value), _)| !is_stale(value))
        .map(|((time, value), start)| {
            let to = WallMs(time);
            let from = if 0 < start && start < time { WallMs(start) } else { to - width };
            Cell { from, to, value: merged(value) }
        })
        .collect()
}

/// What each sample added to the previous one.
fn increases(column: HistogramColumn, range_start: WallMs) -> Vec<Cell> {
    let mut out = Vec::with_capacity(column.times.len());
    let mut before: Option<(WallMs, Merged)> = None;
    let starts = column.starts.into_iter().chain(std::iter::repeat(0));
    for ((time, value), start) in column.times.into_iter().zip(column.values).zip(starts) {
        if is_stale(&value) {
            continue;
        }
        let (to, start) = (WallMs(time), WallMs(start));
        let value = merged(value);
        match &before {
            // A start after the previous sample means that the counter was reset.
            Some((time, _)) if start > *time => out.push(Cell { from: start, to, value: value.clone() }),
            Some((time, before)) => out.push(Cell { from: *time, to, value: value.since(before) }),
            None if start > range_start => out.push(Cell { from: start, to, value: value.clone() }),
            None => {}
        }
        before = Some((to, value));
    }
    out
}

fn is_stale(value: &HistogramValue) -> bool {
    let sum = match value {
        HistogramValue::Integer(value) => value.sum,
        HistogramValue::Float(value) => value.sum,
    };
    sum.is_some_and(|sum| sum.to_bits() == STALE)
}

impl Merged {
    /// The increase since `before`: all of it when the counter was reset.
    fn since(&self, before: &Self) -> Self {
        match (self, before) {
            (Self::Integer(now), Self::Integer(before)) => Self::Integer(difference(now, before)),
            _ => Self::Float(difference(&self.clone().into_float(), &before.clone().into_float())),
        }
    }
}

fn difference<C: Count>(now: &Histogram<C>, before: &Histogram<C>) -> Histogram<C> {
    let mut out = now.clone();
    if now.reset == CounterReset::Reset || now.count < before.count {
        return out;
    }
    match out.subtract(before) {
        Ok(underflow) if underflow.is_none() && !has_negative(&out) => {
            out.compact();
            out
        }
        _ => now.clone(),
    }
}

/// Float counts become negative where the counter was reset.
fn has_negative<C: Count>(histogram: &Histogram<C>) -> bool {
    // A billionth of the total is the rounding error of float differences.
    let least = -1e-9 * histogram.count.to_f64().abs();
    let counts = histogram.positive.counts().iter().chain(histogram.negative.counts());
    counts.chain([&histogram.zero]).any(|count| count.to_f64() < least)
}
