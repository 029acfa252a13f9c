//! Merges one series from several sources, blocks and heads.
//!
//! Invariants: the result depends neither on how samples were spread over the sources nor on the order of the sources,
//! except for the last bits of float sums. `order` decides between two values at one time. A delta column with known
//! starts has a row for each whole point, so that repetitions are recognised, in the order of (time, start, value), and
//! before them one row for each time for all fragments. The columns of a series are of one length, or empty where
//! nothing is known, and each row of both sources has its turn. `collapse` reduces them to one row for each time; after
//! that nothing is merged any more.

use std::cmp::Ordering;

use ogive_model::{
    Aggregate, FloatColumn, HistogramColumn, HistogramValue, Kind, Labels, SeriesData, SeriesMeta, Temporality,
    TextColumn,
};

use crate::order;

/// What a merge could not keep, or could not make sense of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Clash {
    /// Cells of which one part is missing: its scheme does not merge with that of the other.
    pub cells: u64,
    /// The parts have different temporalities and are read as the greater one.
    pub temporalities: bool,
}

/// Merges `sources`, each ascending by (labels, kind); so is the answer.
#[must_use]
pub fn merge(sources: Vec<Vec<SeriesData>>) -> Vec<SeriesData> {
    merge_telling(sources, |_, _| {})
}

/// As [`merge`]; `tell` hears of each series of which something is not in the answer.
pub(crate) fn merge_telling(sources: Vec<Vec<SeriesData>>, mut tell: impl FnMut(&Labels, Clash)) -> Vec<SeriesData> {
    let mut sources: Vec<Vec<SeriesData>> = sources.into_iter().filter(|source| !source.is_empty()).collect();
    if sources.len() <= 1 {
        return sources.pop().unwrap_or_default();
    }
    let mut all: Vec<SeriesData> = sources.into_iter().flatten().collect();
    // Stable, so that float sums add in the order of the sources, and quick on runs that are sorted already.
    all.sort_by(|a, b| (&a.labels, a.meta.kind).cmp(&(&b.labels, b.meta.kind)));
    let mut merged: Vec<SeriesData> = Vec::with_capacity(all.len());
    for next in all {
        match merged.last_mut() {
            Some(last) if last.meta.kind == next.meta.kind && last.labels == next.labels => {
                let clash = add(last, next);
                if clash != Clash::default() {
                    tell(&last.labels, clash);
                }
            }
            _ => merged.push(next),
        }
    }
    debug_assert!(
        merged.is_sorted_by(|one, next| (&one.labels, one.meta.kind) < (&next.labels, next.meta.kind)),
        "each series of the {} is there once, ascending",
        merged.len()
    );
    merged
}

/// Adds the samples of another source to those of a series.
pub fn add(one: &mut SeriesData, other: SeriesData) -> Clash {
    debug_assert_eq!(one.meta.kind, other.meta.kind, "the samples of one kind are merged");
    let temporalities = one.meta.temporality != other.meta.temporality;
    let mut cells = 0;
    let delta = other.meta.temporality == Temporality::Delta;
    let width_ms = if one.rollup_ms == other.rollup_ms { None } else { Some(other.meta.width_ms) };
    merge_meta(&mut one.meta, other.meta);
    // Where cells of two widths meet, the later ones show how wide the newest is.
    one.meta.width_ms = width_ms.unwrap_or(one.meta.width_ms);
    one.rollup_ms = one.rollup_ms.max(other.rollup_ms);
    match one.meta.kind {
        Kind::Float => add_floats(&mut one.floats, other.floats, delta),
        Kind::Histogram => cells = add_histograms(&mut one.histograms, other.histograms, delta),
        Kind::Text => add_texts(&mut one.texts, other.texts),
    }
    Clash { cells, temporalities }
}

/// What is known beside the samples, when sources differ: the greater temporality, unit and width.
pub(crate) fn merge_meta(one: &mut SeriesMeta, other: SeriesMeta) {
    let key = |meta: &SeriesMeta| (meta.temporality as u8, meta.width_ms);
    if (key(one), &one.unit) < (key(&other), &other.unit) {
        *one = other;
    }
}

/// Whose row is next, and whether the other's at the same time joins it.
enum Turn {
    Earlier,
    Later,
    Both,
}

/// The turns in which two ascending columns become one; `order` is that of rows at one time.
fn turns<T>(earlier: (&[i64], &[T]), later: (&[i64], &[T]), order: impl Fn(&T, &T) -> Ordering) -> Vec<Turn> {
    assert_eq!(earlier.0.len(), earlier.1.len(), "each time of the earlier column has its row");
    assert_eq!(later.0.len(), later.1.len(), "each time of the later column has its row");
    let mut turns = Vec::with_capacity(earlier.0.len() + later.0.len());
    let (mut a, mut b) = (0, 0);
    while a < earlier.0.len() || b < later.0.len() {
        let order = match (earlier.0.get(a), later.0.get(b)) {
            (Some(time), Some(other)) => time.cmp(other).then_with(|| order(&earlier.1[a], &later.1[b])),
            (Some(_), None) => Ordering::Less,
            _ => Ordering::Greater,
        };
        turns.push(match order {
            Ordering::Less => Turn::Earlier,
            Ordering::Greater => Turn::Later,
            Ordering::Equal => Turn::Both,
        });
        a += usize::from(order.is_le());
        b += usize::from(order.is_ge());
    }
    turns
}

fn follows(earlier: &[i64], later: &[i64]) -> bool {
    match (earlier.last(), later.first()) {
        (Some(last), Some(first)) => last < first,
        _ => true,
    }
}

fn add_floats(one: &mut FloatColumn, mut other: FloatColumn, delta: bool) {
    if follows(&other.times, &one.times) {
        // Blocks are in the order of their making, which compaction makes another one than that of time.
        std::mem::swap(one, &mut other);
    }
    if follows(&one.times, &other.times) {
        one.starts = joined_starts((&one.times, &one.starts), (&other.times, &other.starts));
        if !one.aggregates.is_empty() || !other.aggregates.is_empty() {
            fill_aggregates(one);
            fill_aggregates(&mut other);
            one.aggregates.append(&mut other.aggregates);
        }
        one.times.extend(other.times);
        one.values.extend(other.values);
        assert_eq!(one.times.len(), one.values.len(), "each time has its float");
        assert!(one.aggregates.is_empty() || one.aggregates.len() == one.times.len(), "each cell has its aggregate");
        return;
    }
    if !one.aggregates.is_empty() || !other.aggregates.is_empty() {
        return add_aggregated(one, other, delta);
    }
    let join = |a: (f64, i64), b: (f64, i64)| match delta {
        true if a.1 != 0 => a,
        true => (a.0 + b.0, 0),
        false => greater(a, b, |a, b| order::floats(*a, *b)),
    };
    let at_once = |a: &(f64, i64), b: &(f64, i64)| match delta {
        true => order::points((a.1, &a.0), (b.1, &b.0), |a, b| order::floats(*a, *b)),
        false => Ordering::Equal,
    };
    let other = rows(&mut other.times, &mut other.values, &mut other.starts);
    let (times, rows) = zip(rows(&mut one.times, &mut one.values, &mut one.starts), other, at_once, join);
    one.times = times;
    (one.values, one.starts) = rows.into_iter().unzip();
    forget_unknown(&mut one.starts);
}

/// Makes one row a time of the points and fragments of a delta series: what is read. Its start is the earliest, 0 when
/// not all are known.
pub fn collapse(data: &mut SeriesData) -> Clash {
    let mut clash = Clash::default();
    if data.meta.temporality == Temporality::Delta {
        collapse_floats(&mut data.floats);
        clash.cells = collapse_histograms(&mut data.histograms);
    }
    clash
}

fn collapse_floats(column: &mut FloatColumn) {
    if is_collapsed(&column.times) {
        return;
    }
    if column.aggregates.is_empty() {
        let (times, all) = rows(&mut column.times, &mut column.values, &mut column.starts);
        let (times, all) = collapsed(times, all, |a, b| (a.0 + b.0, a.1.min(b.1)));
        column.times = times;
        (column.values, column.starts) = all.into_iter().unzip();
    } else {
        let (times, all) = aggregated(column);
        let (times, all) = collapsed(times, all, |a, b| meet(a, b, true));
        put_aggregated(column, times, all);
    }
    forget_unknown(&mut column.starts);
}

/// Gives the number of cells of which a part is missing.
fn collapse_histograms(column: &mut HistogramColumn) -> u64 {
    if is_collapsed(&column.times) {
        return 0;
    }
    let mut lost = 0;
    let (times, all) = rows(&mut column.times, &mut column.values, &mut column.starts);
    let (times, all) = collapsed(times, all, |mut a, b| {
        lost += u64::from(!order::merge_cell(&mut a.0, b.0));
        (a.0, a.1.min(b.1))
    });
    column.times = times;
    (column.values, column.starts) = all.into_iter().unzip();
    forget_unknown(&mut column.starts);
    lost
}

fn is_collapsed(times: &[i64]) -> bool {
    times.windows(2).all(|pair| pair[0] < pair[1])
}

/// One row a time.
fn collapsed<T>(times: Vec<i64>, rows: Vec<T>, mut add: impl FnMut(T, T) -> T) -> (Vec<i64>, Vec<T>) {
    let mut out: (Vec<i64>, Vec<T>) = (Vec::with_capacity(times.len()), Vec::with_capacity(times.len()));
    for (time, row) in times.into_iter().zip(rows) {
        match out.1.pop_if(|_| out.0.last() == Some(&time)) {
            Some(before) => out.1.push(add(before, row)),
            None => {
                out.0.push(time);
                out.1.push(row);
            }
        }
    }
    debug_assert!(is_collapsed(&out.0), "each time has one row");
    out
}

/// Makes the aggregate of each sample that stands for itself.
pub(crate) fn fill_aggregates(column: &mut FloatColumn) {
    for at in column.aggregates.len()..column.times.len() {
        let (time, value) = (column.times[at], column.values[at]);
        let start = column.starts.get(at).copied().unwrap_or(0);
        let of = if order::is_stale(value) { Aggregate::default() } else { Aggregate::from_sample(time, value, start) };
        column.aggregates.push(of);
    }
}

/// A value with its start and what it stands for.
type Aggregated = ((f64, i64), Aggregate);

/// Rows of rollups among samples.
fn add_aggregated(one: &mut FloatColumn, mut other: FloatColumn, delta: bool) {
    let stands_for_many = |row: &Aggregated| row.1.count > 1;
    let at_once = |a: &Aggregated, b: &Aggregated| match delta && !stands_for_many(a) && !stands_for_many(b) {
        true => order::points((a.0.1, &a.0.0), (b.0.1, &b.0.0), |a, b| order::floats(*a, *b)),
        false => Ordering::Equal,
    };
    let join = |a: Aggregated, b: Aggregated| {
        let point = delta && a.0.1 != 0 && !stands_for_many(&a) && !stands_for_many(&b);
        if point { a } else { meet(a, b, delta) }
    };
    let (times, merged) = zip(aggregated(one), aggregated(&mut other), at_once, join);
    put_aggregated(one, times, merged);
    forget_unknown(&mut one.starts);
}

/// Takes a column apart.
fn aggregated(column: &mut FloatColumn) -> (Vec<i64>, Vec<Aggregated>) {
    fill_aggregates(column);
    let (times, rows) = rows(&mut column.times, &mut column.values, &mut column.starts);
    assert_eq!(rows.len(), column.aggregates.len(), "each row has its aggregate");
    (times, rows.into_iter().zip(std::mem::take(&mut column.aggregates)).collect())
}

fn put_aggregated(column: &mut FloatColumn, times: Vec<i64>, rows: Vec<Aggregated>) {
    let (columns, aggregates): (Vec<(f64, i64)>, Vec<Aggregate>) = rows.into_iter().unzip();
    assert_eq!(times.len(), aggregates.len(), "each cell has its aggregate");
    (column.times, column.aggregates) = (times, aggregates);
    (column.values, column.starts) = columns.into_iter().unzip();
}

/// What two rows at one time come to. Of two of which one stands for many samples, the one that stands for more stays.
fn meet(a: Aggregated, b: Aggregated, delta: bool) -> Aggregated {
    if a.1.count > 1 || b.1.count > 1 {
        return if a.1.count >= b.1.count { a } else { b };
    }
    let row = match delta {
        true => (a.0.0 + b.0.0, a.0.1.min(b.0.1)),
        false => greater(a.0, b.0, |a, b| order::floats(*a, *b)),
    };
    let time = a.1.first_time.max(b.1.first_time);
    (row, if order::is_stale(row.0) { Aggregate::default() } else { Aggregate::from_sample(time, row.0, row.1) })
}

/// Gives the number of cells of which a part is missing.
fn add_histograms(one: &mut HistogramColumn, mut other: HistogramColumn, delta: bool) -> u64 {
    if follows(&other.times, &one.times) {
        std::mem::swap(one, &mut other);
    }
    if follows(&one.times, &other.times) {
        one.starts = joined_starts((&one.times, &one.starts), (&other.times, &other.starts));
        one.times.extend(other.times);
        one.values.extend(other.values);
        assert_eq!(one.times.len(), one.values.len(), "each time has its histogram");
        return 0;
    }
    let mut lost = 0;
    let join = |mut a: (HistogramValue, i64), b: (HistogramValue, i64)| match delta {
        true if a.1 != 0 => a,
        true => {
            lost += u64::from(!order::merge_cell(&mut a.0, b.0));
            a
        }
        false => greater(a, b, order::histograms),
    };
    let at_once = |a: &(HistogramValue, i64), b: &(HistogramValue, i64)| match delta {
        true => order::points((a.1, &a.0), (b.1, &b.0), order::histograms),
        false => Ordering::Equal,
    };
    let (times, rows) = zip(
        rows(&mut one.times, &mut one.values, &mut one.starts),
        rows(&mut other.times, &mut other.values, &mut other.starts),
        at_once,
        join,
    );
    one.times = times;
    (one.values, one.starts) = rows.into_iter().unzip();
    forget_unknown(&mut one.starts);
    lost
}

/// Of two values with their starts the greater one; of equal values the one that started later.
fn greater<T>(a: (T, i64), b: (T, i64), order: impl Fn(&T, &T) -> Ordering) -> (T, i64) {
    if order(&a.0, &b.0).then(a.1.cmp(&b.1)).is_ge() { a } else { b }
}

/// Takes a column apart: its times, and each value with its start.
fn rows<T>(times: &mut Vec<i64>, values: &mut Vec<T>, starts: &mut Vec<i64>) -> (Vec<i64>, Vec<(T, i64)>) {
    assert_eq!(times.len(), values.len(), "each time has its value");
    assert!(starts.len() <= times.len(), "{} starts of {} times", starts.len(), times.len());
    starts.resize(times.len(), 0);
    let rows = std::mem::take(values).into_iter().zip(std::mem::take(starts)).collect();
    (std::mem::take(times), rows)
}

/// Starts of which none is known are not kept.
pub fn forget_unknown(starts: &mut Vec<i64>) {
    if starts.iter().all(|start| *start == 0) {
        starts.clear();
    }
}

/// Both columns as one; `join` makes one row of two that are at one time and `at_once` in the order.
fn zip<T>(
    earlier: (Vec<i64>, Vec<T>),
    later: (Vec<i64>, Vec<T>),
    at_once: impl Fn(&T, &T) -> Ordering,
    mut join: impl FnMut(T, T) -> T,
) -> (Vec<i64>, Vec<T>) {
    let turns = turns((&earlier.0, &earlier.1), (&later.0, &later.1), at_once);
    let (mut times, mut values) = (Vec::with_capacity(turns.len()), Vec::with_capacity(turns.len()));
    let mut earlier = earlier.0.into_iter().zip(earlier.1);
    let mut later = later.0.into_iter().zip(later.1);
    for turn in turns {
        let (time, value) = match turn {
            Turn::Earlier => earlier.next().expect("a turn of the earlier column"),
            Turn::Later => later.next().expect("a turn of the later column"),
            Turn::Both => {
                let (time, a) = earlier.next().expect("a turn of both columns");
                let (_, b) = later.next().expect("a turn of both columns");
                (time, join(a, b))
            }
        };
        times.push(time);
        values.push(value);
    }
    assert!(earlier.next().is_none() && later.next().is_none(), "each row of both columns has its turn");
    debug_assert!(times.is_sorted(), "two columns that ascend come to one that does");
    (times, values)
}

/// The starts of a column and of one that follows it.
fn joined_starts(one: (&[i64], &[i64]), other: (&[i64], &[i64])) -> Vec<i64> {
    let mut starts = Vec::new();
    if one.1.is_empty() && other.1.is_empty() {
        return starts;
    }
    for (times, known) in [one, other] {
        assert!(known.len() <= times.len(), "{} starts of {} times", known.len(), times.len());
        let end = starts.len() + times.len();
        starts.extend_from_slice(known);
        starts.resize(end, 0);
    }
    starts
}

fn add_texts(one: &mut TextColumn, other: TextColumn) {
    let follow = follows(&one.times, &other.times);
    one.times.extend(other.times);
    one.values.extend(other.values);
    assert_eq!(one.times.len(), one.values.len(), "each time has its text");
    if !follow {
        order::sort_texts(one);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use ogive_hist::Histogram;

    use super::*;
    use crate::testing::{any_source, bits, empty};

    /// The merge, one sample after the other into a map.
    fn model(sources: &[Vec<SeriesData>]) -> Vec<SeriesData> {
        let mut all: BTreeMap<(Labels, Kind), SeriesData> = BTreeMap::new();
        for data in sources.iter().flatten() {
            let fresh = || empty(data.labels.clone(), data.meta.kind, data.meta.temporality);
            let held = all.entry((data.labels.clone(), data.meta.kind)).or_insert_with(fresh);
            merge_meta(&mut held.meta, data.meta.clone());
            let delta = data.meta.temporality == Temporality::Delta;
            for (at, (time, value)) in data.floats.times.iter().zip(&data.floats.values).enumerate() {
                let start = data.floats.starts.get(at).copied().unwrap_or(0);
                put(
                    &mut held.floats.times,
                    &mut held.floats.values,
                    &mut held.floats.starts,
                    (*time, *value, start),
                    delta,
                    |a, b| a + b,
                    |a, b| order::floats(*a, *b),
                );
            }
            for (at, (time, value)) in data.histograms.times.iter().zip(&data.histograms.values).enumerate() {
                let start = data.histograms.starts.get(at).copied().unwrap_or(0);
                let column = &mut held.histograms;
                put(
                    &mut column.times,
                    &mut column.values,
                    &mut column.starts,
                    (*time, value.clone(), start),
                    delta,
                    |mut a, b| {
                        order::merge_cell(&mut a, b);
                        a
                    },
                    order::histograms,
                );
            }
            for (time, value) in data.texts.times.iter().zip(&data.texts.values) {
                held.texts.times.push(*time);
                held.texts.values.push(value.clone());
            }
        }
        let mut merged: Vec<SeriesData> = all.into_values().collect();
        for data in &mut merged {
            let texts = data.texts.times.drain(..).zip(data.texts.values.drain(..));
            let mut texts: Vec<(i64, String)> = texts.collect();
            texts.sort();
            (data.texts.times, data.texts.values) = texts.into_iter().unzip();
            for starts in [&mut data.floats.starts, &mut data.histograms.starts] {
                if starts.iter().all(|start| *start == 0) {
                    starts.clear();
                }
            }
        }
        merged
    }

    fn put<T: Clone>(
        times: &mut Vec<i64>,
        values: &mut Vec<T>,
        starts: &mut Vec<i64>,
        (time, value, start): (i64, T, i64),
        delta: bool,
        join: impl Fn(T, T) -> T,
        order: impl Fn(&T, &T) -> std::cmp::Ordering,
    ) {
        let at_time = |at: &usize| times[*at] == time;
        let same = |at: &usize| starts[*at] == start && (start == 0 || order(&values[*at], &value).is_eq());
        let held = (0..times.len()).filter(at_time).find(|at| !delta || same(at));
        match held {
            Some(at) if delta && start == 0 => values[at] = join(values[at].clone(), value),
            Some(_) if delta => {}
            Some(at) => {
                if order(&value, &values[at]).then(start.cmp(&starts[at])).is_gt() {
                    (values[at], starts[at]) = (value, start);
                }
            }
            None => {
                let before = |at: usize| {
                    let by_value = || order(&values[at], &value);
                    times[at].cmp(&time).then_with(|| starts[at].cmp(&start)).then_with(by_value).is_lt()
                };
                let at = (0..times.len()).find(|at| !before(*at)).unwrap_or(times.len());
                times.insert(at, time);
                values.insert(at, value);
                starts.insert(at, start);
            }
        }
    }

    proptest! {
        #[test]
        fn sources_merge_as_one_sample_after_the_other_does(sources in proptest::collection::vec(any_source(8, 30), 0..5)) {
            let expected = model(&sources);
            prop_assert_eq!(bits(&merge(sources)), bits(&expected));
        }

        /// Values that add up exactly, so that not even the last bits of sums show the order.
        #[test]
        fn the_order_of_the_sources_does_not_matter(
            mut sources in proptest::collection::vec(any_source(8, 30), 2..5), turn in 0..4_usize,
        ) {
            for data in sources.iter_mut().flatten() {
                // Of one series all samples have one temporality: ingest sees to that.
                let delta = data.labels.metric_name() == "m1";
                data.meta.temporality = if delta { Temporality::Delta } else { Temporality::Cumulative };
                let dyadic = |value: f64| match value.is_finite() {
                    true => (value % 1024.0 * 8.0).round() / 8.0,
                    // Which payload a sum of two NaN has is up to the processor.
                    false => if delta { 1.0 } else { value },
                };
                data.floats.values.iter_mut().for_each(|value| *value = dyadic(*value));
                for value in &mut data.histograms.values {
                    let HistogramValue::Integer(histogram) = value else {
                        *value = HistogramValue::Integer(Histogram::log_linear());
                        continue;
                    };
                    histogram.sum = histogram.sum.map(dyadic).filter(|sum| sum.is_finite());
                    (histogram.min, histogram.max) = (Some(1.0), Some(2.0));
                    histogram.zero_threshold = Histogram::<u64>::new(histogram.scheme.clone()).zero_threshold;
                    histogram.reset = ogive_hist::CounterReset::Unknown;
                }
            }
            let expected = bits(&merge(sources.clone()));
            let turn = turn % sources.len();
            sources.rotate_left(turn);
            prop_assert_eq!(bits(&merge(sources.clone())), expected.clone());
            sources.reverse();
            prop_assert_eq!(bits(&merge(sources)), expected);
        }
    }

    fn cell(value: f64) -> HistogramValue {
        let mut histogram = Histogram::log_linear();
        histogram.record(value);
        HistogramValue::Integer(histogram)
    }

    #[test]
    fn two_parts_of_a_cell_count_once_each_and_a_cumulative_value_is_replaced() {
        let labels = || Labels::new([("__name__", "m")]).unwrap();
        let source = |temporality, value: f64| {
            let mut data = empty(labels(), Kind::Histogram, temporality);
            data.histograms.times = vec![1000];
            data.histograms.values = vec![cell(value)];
            vec![data]
        };
        let count = |temporality| {
            let merged = merge(vec![source(temporality, 1.0), source(temporality, 2.0)]);
            let HistogramValue::Integer(histogram) = &merged[0].histograms.values[0] else { panic!("integer counts") };
            histogram.total()
        };
        assert_eq!(count(Temporality::Delta), 2);
        assert_eq!(count(Temporality::Cumulative), 1);
    }

    #[test]
    fn parts_of_different_temporalities_are_reported() {
        let source = |temporality| {
            let mut data = empty(Labels::new([("__name__", "m")]).unwrap(), Kind::Float, temporality);
            (data.floats.times, data.floats.values) = (vec![1000], vec![1.0]);
            vec![data]
        };
        for (other, reported) in [(Temporality::Gauge, 1), (Temporality::Delta, 0)] {
            let mut clashes = Vec::new();
            let sources = vec![source(Temporality::Delta), source(other)];
            let merged = merge_telling(sources, |labels, clash| clashes.push((labels.clone(), clash)));
            assert_eq!(merged[0].meta.temporality, Temporality::Delta);
            let clash = Clash { cells: 0, temporalities: true };
            assert_eq!(clashes, vec![(merged[0].labels.clone(), clash); reported]);
        }
    }

    #[test]
    fn integer_and_float_parts_make_a_float_cell() {
        let HistogramValue::Integer(integer) = cell(1.0) else { unreachable!() };
        let float = HistogramValue::Float(integer.to_float());
        for (mut a, b) in [(cell(1.0), float.clone()), (float.clone(), cell(1.0)), (float.clone(), float)] {
            assert!(order::merge_cell(&mut a, b));
            let HistogramValue::Float(sum) = a else { panic!("float counts") };
            assert_eq!(sum.count, 2.0);
        }
    }
}
