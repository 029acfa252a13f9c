//! The same series from several sources becomes one: blocks in the order of their flushing, then heads.
//!
//! Invariants: the answer does not depend on how samples were spread over the sources, but for float sums, which
//! add in the order of the sources. At an equal time delta histograms merge exactly and delta floats add; of
//! gauge and cumulative values the later source's stays; texts are all kept, the earlier source's first.
//! Failure: histograms of one cell whose schemes do not merge cannot become one. Ingest refuses such a sample
//! while the cell is in the head; past that the later source's stays.

use ogive_hist::Histogram;
use ogive_model::{FloatColumn, HistogramColumn, HistogramValue, Kind, SeriesData, Temporality, TextColumn};

/// Merges `sources`, earliest first, each ascending by (labels, kind); so is the answer.
#[must_use]
pub fn merge(sources: Vec<Vec<SeriesData>>) -> Vec<SeriesData> {
    let mut sources: Vec<Vec<SeriesData>> = sources.into_iter().filter(|source| !source.is_empty()).collect();
    if sources.len() <= 1 {
        return sources.pop().unwrap_or_default();
    }
    let mut all: Vec<SeriesData> = sources.into_iter().flatten().collect();
    // Stable, so that of one series the earlier source comes first, and quick on runs that are sorted already.
    all.sort_by(|a, b| (&a.labels, a.meta.kind).cmp(&(&b.labels, b.meta.kind)));
    let mut merged: Vec<SeriesData> = Vec::with_capacity(all.len());
    for next in all {
        match merged.last_mut() {
            Some(last) if last.meta.kind == next.meta.kind && last.labels == next.labels => add(last, next),
            _ => merged.push(next),
        }
    }
    merged
}

/// Adds the `later` samples of a series to the `earlier` ones.
pub fn add(earlier: &mut SeriesData, later: SeriesData) {
    let delta = later.meta.temporality == Temporality::Delta;
    earlier.meta = later.meta;
    match earlier.meta.kind {
        Kind::Float => add_floats(&mut earlier.floats, later.floats, delta),
        Kind::Histogram => add_histograms(&mut earlier.histograms, later.histograms, delta),
        Kind::Text => add_texts(&mut earlier.texts, later.texts),
    }
}

/// Whose row is next, and whether the other's at the same time joins it.
enum Turn {
    Earlier,
    Later,
    Both,
}

/// The turns in which two ascending columns become one.
fn turns(earlier: &[i64], later: &[i64]) -> Vec<Turn> {
    let mut turns = Vec::with_capacity(earlier.len() + later.len());
    let (mut a, mut b) = (0, 0);
    while a < earlier.len() || b < later.len() {
        let order = match (earlier.get(a), later.get(b)) {
            (Some(earlier), Some(later)) => earlier.cmp(later),
            (Some(_), None) => std::cmp::Ordering::Less,
            _ => std::cmp::Ordering::Greater,
        };
        turns.push(match order {
            std::cmp::Ordering::Less => Turn::Earlier,
            std::cmp::Ordering::Greater => Turn::Later,
            std::cmp::Ordering::Equal => Turn::Both,
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

fn add_floats(earlier: &mut FloatColumn, later: FloatColumn, delta: bool) {
    let starts = merge_starts((&earlier.times, &earlier.starts), (&later.times, &later.starts));
    if follows(&earlier.times, &later.times) {
        earlier.times.extend(later.times);
        earlier.values.extend(later.values);
    } else {
        let join = |a: f64, b: f64| if delta { a + b } else { b };
        (earlier.times, earlier.values) = zip(
            (std::mem::take(&mut earlier.times), std::mem::take(&mut earlier.values)),
            (later.times, later.values),
            join,
        );
    }
    earlier.starts = starts;
}

fn add_histograms(earlier: &mut HistogramColumn, later: HistogramColumn, delta: bool) {
    let starts = merge_starts((&earlier.times, &earlier.starts), (&later.times, &later.starts));
    if follows(&earlier.times, &later.times) {
        earlier.times.extend(later.times);
        earlier.values.extend(later.values);
    } else {
        let join = |a: HistogramValue, b: HistogramValue| if delta { add_cell(a, b) } else { b };
        (earlier.times, earlier.values) = zip(
            (std::mem::take(&mut earlier.times), std::mem::take(&mut earlier.values)),
            (later.times, later.values),
            join,
        );
    }
    earlier.starts = starts;
}

/// Both columns as one; `join` makes one value of the two at an equal time.
fn zip<T>(
    earlier: (Vec<i64>, Vec<T>),
    later: (Vec<i64>, Vec<T>),
    mut join: impl FnMut(T, T) -> T,
) -> (Vec<i64>, Vec<T>) {
    let turns = turns(&earlier.0, &later.0);
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
    (times, values)
}

/// The starts of both columns as one; at an equal time the later one's when it is known.
fn merge_starts(earlier: (&[i64], &[i64]), later: (&[i64], &[i64])) -> Vec<i64> {
    if earlier.1.is_empty() && later.1.is_empty() {
        return Vec::new();
    }
    let full = |(times, starts): (&[i64], &[i64])| match starts.is_empty() {
        true => vec![0; times.len()],
        false => starts.to_vec(),
    };
    let join = |a: i64, b: i64| if b != 0 { b } else { a };
    zip((earlier.0.to_vec(), full(earlier)), (later.0.to_vec(), full(later)), join).1
}

/// Two parts of one delta cell. Integer counts stay integer; beside a float one they become floats.
fn add_cell(mut earlier: HistogramValue, later: HistogramValue) -> HistogramValue {
    let merged = match (&mut earlier, &later) {
        (HistogramValue::Integer(a), HistogramValue::Integer(b)) => a.merge(b).is_ok(),
        (HistogramValue::Float(a), HistogramValue::Float(b)) => a.merge(b).is_ok(),
        (HistogramValue::Float(a), HistogramValue::Integer(b)) => a.merge(&b.to_float()).is_ok(),
        (HistogramValue::Integer(a), HistogramValue::Float(b)) => {
            let mut sum: Histogram<f64> = a.to_float();
            let merged = sum.merge(b).is_ok();
            earlier = HistogramValue::Float(sum);
            merged
        }
    };
    if merged { earlier } else { later }
}

fn add_texts(earlier: &mut TextColumn, later: TextColumn) {
    if !follows(&earlier.times, &later.times) {
        let mut all: Vec<(i64, String)> = std::mem::take(&mut earlier.times)
            .into_iter()
            .zip(std::mem::take(&mut earlier.values))
            .chain(later.times.into_iter().zip(later.values))
            .collect();
        all.sort_by_key(|(time, _)| *time);
        (earlier.times, earlier.values) = all.into_iter().unzip();
        return;
    }
    earlier.times.extend(later.times);
    earlier.values.extend(later.values);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::testing::{any_source, bits, empty};
    use ogive_model::Labels;

    /// The merge, one sample after the other into a map.
    fn model(sources: &[Vec<SeriesData>]) -> Vec<SeriesData> {
        let mut all: BTreeMap<(Labels, Kind), SeriesData> = BTreeMap::new();
        for data in sources.iter().flatten() {
            let fresh = || empty(data.labels.clone(), data.meta.kind, data.meta.temporality);
            let held = all.entry((data.labels.clone(), data.meta.kind)).or_insert_with(fresh);
            held.meta = data.meta.clone();
            let delta = data.meta.temporality == Temporality::Delta;
            for (at, (time, value)) in data.floats.times.iter().zip(&data.floats.values).enumerate() {
                let start = data.floats.starts.get(at).copied().unwrap_or(0);
                put(
                    &mut held.floats.times,
                    &mut held.floats.values,
                    &mut held.floats.starts,
                    (*time, *value, start),
                    |a, b| {
                        if delta { a + b } else { b }
                    },
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
                    |a, b| {
                        if delta { add_cell(a, b) } else { b }
                    },
                );
            }
            for (time, value) in data.texts.times.iter().zip(&data.texts.values) {
                let at = held.texts.times.partition_point(|held| held <= time);
                held.texts.times.insert(at, *time);
                held.texts.values.insert(at, value.clone());
            }
        }
        let mut merged: Vec<SeriesData> = all.into_values().collect();
        for data in &mut merged {
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
        sample: (i64, T, i64),
        join: impl Fn(T, T) -> T,
    ) {
        match times.binary_search(&sample.0) {
            Ok(at) => {
                values[at] = join(values[at].clone(), sample.1);
                starts[at] = if sample.2 != 0 { sample.2 } else { starts[at] };
            }
            Err(at) => {
                times.insert(at, sample.0);
                values.insert(at, sample.1);
                starts.insert(at, sample.2);
            }
        }
    }

    proptest! {
        #[test]
        fn sources_merge_as_one_sample_after_the_other_does(sources in proptest::collection::vec(any_source(8, 30), 0..5)) {
            let expected = model(&sources);
            prop_assert_eq!(bits(&merge(sources)), bits(&expected));
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
    fn integer_and_float_parts_make_a_float_cell_and_strangers_stay_apart() {
        let HistogramValue::Integer(integer) = cell(1.0) else { unreachable!() };
        let float = HistogramValue::Float(integer.to_float());
        for (a, b) in [(cell(1.0), float.clone()), (float.clone(), cell(1.0)), (float.clone(), float)] {
            let HistogramValue::Float(sum) = add_cell(a, b) else { panic!("float counts") };
            assert_eq!(sum.count, 2.0);
        }
        let stranger = HistogramValue::Integer(Histogram::new(ogive_hist::Scheme::Exp2 { scale: 3 }));
        assert_eq!(add_cell(cell(1.0), stranger.clone()), stranger);
    }
}
