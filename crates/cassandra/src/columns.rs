//! Converts fragments to the columns in which every store returns samples.
//!
//! Invariants: fragments form a set: each counts once however often it was stored, and the result does not depend on
//! their order. Two samples at one time are resolved by the embedded store's own rules (`ogive_store::merge`).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use ogive_model::{HistogramValue, Sample, SeriesData, SeriesDef, SourceId, TextColumn, TimeRange, Value, WallMs};
use ogive_store::merge;

use crate::hidden::{Hidden, is_hidden};
use crate::{Error, Piece};

/// The pieces of one series, each once.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    all: BTreeMap<(i32, SourceId, u64, u32), Arc<Piece>>,
    /// Pieces of one identity that hold different things.
    pub(crate) conflicts: u64,
}

impl Pieces {
    /// Adds one. Of two that differ the one with the greater bytes stays, whichever came first.
    pub(crate) fn add(&mut self, piece: Arc<Piece>) {
        match self.all.entry(piece.identity()) {
            Entry::Vacant(place) => {
                place.insert(piece);
            }
            Entry::Occupied(mut place) => {
                if place.get().frame == piece.frame {
                    // Sent again after it was deleted it is still what was deleted.
                    if piece.arrived_us < place.get().arrived_us {
                        place.insert(piece);
                    }
                } else {
                    self.conflicts += 1;
                    if place.get().frame < piece.frame {
                        place.insert(piece);
                    }
                }
            }
        }
    }

    /// Adds all of another cluster.
    pub(crate) fn add_all(&mut self, other: Self) {
        self.conflicts += other.conflicts;
        other.all.into_values().for_each(|piece| self.add(piece));
    }

    /// Bytes of the frames.
    pub(crate) fn bytes(&self) -> usize {
        self.all.values().map(|piece| piece.frame.len()).sum()
    }

    /// The samples in any of `ranges` that are not hidden.
    pub(crate) fn samples(&self, ranges: &[TimeRange], hidden: &Hidden) -> Result<Vec<Sample>, Error> {
        let mut out = Vec::new();
        for piece in self.all.values() {
            let is_shown = |time: WallMs| {
                ranges.iter().any(|range| range.contains(time)) && !is_hidden(hidden, time, piece.arrived_us)
            };
            out.extend(piece.samples()?.into_iter().filter(|sample| is_shown(WallMs(sample.time_ms()))));
        }
        Ok(out)
    }
}

/// How many samples they count as: a histogram as one a bin.
pub(crate) fn weight(samples: &[Sample]) -> usize {
    samples.iter().map(|sample| bins(&sample.value).max(1)).sum()
}

fn bins(value: &Value) -> usize {
    match value {
        Value::Histogram(one) => one.positive.indexes().len() + one.negative.indexes().len(),
        Value::FloatHistogram(one) => one.positive.indexes().len() + one.negative.indexes().len(),
        Value::Float(_) | Value::Text(_) => 0,
    }
}

/// The series of `samples`; how many cells are not whole, since their parts have schemes that do not merge.
pub(crate) fn series(def: &SeriesDef, samples: Vec<Sample>) -> (SeriesData, u64) {
    let mut runs: Vec<SeriesData> = Vec::new();
    let (mut times, mut depth) = (None, 0);
    let mut rows: Vec<(i64, i64, Value)> =
        samples.into_iter().map(|sample| (sample.time_ms(), sample.start_ms(), sample.value)).collect();
    rows.sort_by_key(|(time, ..)| *time);
    for (time, start, value) in rows {
        // Texts of one time may stand in one column; of anything else the next column begins.
        depth = if times == Some(time) && !matches!(value, Value::Text(_)) { depth + 1 } else { 0 };
        times = Some(time);
        if depth == runs.len() {
            runs.push(empty(def));
        }
        put(&mut runs[depth], time, start, value);
    }
    let mut lost = 0;
    while runs.len() > 1 {
        let mut half = Vec::with_capacity(runs.len().div_ceil(2));
        let mut all = runs.into_iter();
        while let Some(mut one) = all.next() {
            if let Some(other) = all.next() {
                lost += merge::add(&mut one, other).cells;
            }
            half.push(one);
        }
        runs = half;
    }
    let mut data = runs.pop().unwrap_or_else(|| empty(def));
    sort_texts(&mut data.texts);
    lost += merge::collapse(&mut data).cells;
    merge::forget_unknown(&mut data.floats.starts);
    merge::forget_unknown(&mut data.histograms.starts);
    (data, lost)
}

/// As [`series`], with the cells of times that have no samples here.
pub(crate) fn with_cells(def: &SeriesDef, samples: Vec<Sample>, cells: Vec<SeriesData>) -> (SeriesData, u64) {
    let (data, mut lost) = series(def, samples);
    let is_empty = data.floats.times.is_empty() && data.histograms.times.is_empty();
    let raw = (cells.is_empty() || !is_empty).then_some(data);
    let mut all = cells.into_iter().chain(raw);
    let mut data = all.next().unwrap_or_else(|| empty(def));
    for other in all {
        lost += merge::add(&mut data, other).cells;
    }
    (data, lost)
}

/// What cells count as.
pub(crate) fn weight_of(data: &SeriesData) -> usize {
    let bins = |value: &HistogramValue| match value {
        HistogramValue::Integer(one) => one.positive.indexes().len() + one.negative.indexes().len(),
        HistogramValue::Float(one) => one.positive.indexes().len() + one.negative.indexes().len(),
    };
    data.floats.times.len() + data.histograms.values.iter().map(|value| bins(value).max(1)).sum::<usize>()
}

/// A series without samples.
pub(crate) fn empty(def: &SeriesDef) -> SeriesData {
    SeriesData::new(def.labels.clone(), def.meta.clone())
}

fn put(data: &mut SeriesData, time: i64, start: i64, value: Value) {
    let value = match value {
        Value::Float(value) => {
            data.floats.times.push(time);
            data.floats.starts.push(start);
            return data.floats.values.push(value);
        }
        Value::Text(text) => {
            data.texts.times.push(time);
            return data.texts.values.push(text);
        }
        Value::Histogram(value) => HistogramValue::Integer(*value),
        Value::FloatHistogram(value) => HistogramValue::Float(*value),
    };
    data.histograms.times.push(time);
    data.histograms.starts.push(start);
    data.histograms.values.push(value);
}

/// Those of one time in the order of their bytes.
fn sort_texts(texts: &mut TextColumn) {
    let mut rows: Vec<(i64, String)> =
        std::mem::take(&mut texts.times).into_iter().zip(std::mem::take(&mut texts.values)).collect();
    rows.sort();
    (texts.times, texts.values) = rows.into_iter().unzip();
}

#[cfg(test)]
mod tests {
    use super::*;
    use ogive_model::{Kind, SeriesMeta, Temporality};

    fn def(temporality: Temporality) -> SeriesDef {
        let meta = SeriesMeta { kind: Kind::Float, temporality, unit: String::new(), width_ms: 1_000 };
        SeriesDef::new([("__name__", "m")], meta).unwrap()
    }

    fn at(time_ms: i64, start_ms: Option<i64>, value: f64) -> Sample {
        let ns = |ms: i64| ms * 1_000_000;
        Sample { series: 0, time_ns: ns(time_ms), start_ns: start_ms.map(ns), value: Value::Float(value) }
    }

    #[test]
    fn fragments_of_a_cell_add_up_and_points_count_once() {
        let fragments = vec![at(2_000, None, 1.0), at(1_000, None, 5.0), at(2_000, None, 2.0), at(2_000, None, 4.0)];
        let (data, lost) = series(&def(Temporality::Delta), fragments);
        assert_eq!((data.floats.times, data.floats.values, lost), (vec![1_000, 2_000], vec![5.0, 7.0], 0));
        let points = vec![at(2_000, Some(1_000), 3.0), at(2_000, Some(1_000), 3.0), at(2_000, Some(1_000), 4.0)];
        let (data, _) = series(&def(Temporality::Delta), points);
        assert_eq!(data.floats.values, [7.0]);
        let gauges = vec![at(2_000, None, 3.0), at(2_000, None, 9.0), at(2_000, None, 4.0)];
        let (data, _) = series(&def(Temporality::Gauge), gauges);
        assert_eq!(data.floats.values, [9.0]);
    }

    #[test]
    fn a_piece_counts_once_and_one_that_differs_is_a_conflict() {
        let piece = |frame: &[u8]| {
            Arc::new(Piece { source: SourceId(1), sequence: 2, part: 0, minute: 3, arrived_us: 0, frame: frame.into() })
        };
        for order in [[b"a", b"b", b"a"], [b"b", b"a", b"a"]] {
            let mut pieces = Pieces::default();
            order.iter().for_each(|frame| pieces.add(piece(*frame)));
            assert_eq!(pieces.all.values().map(|one| &*one.frame).collect::<Vec<_>>(), [b"b"]);
            assert!(pieces.conflicts > 0);
        }
        let mut pieces = Pieces::default();
        pieces.add(piece(b"a"));
        pieces.add(piece(b"a"));
        assert_eq!((pieces.all.len(), pieces.conflicts), (1, 0));
    }
}
