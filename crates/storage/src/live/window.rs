//! The samples of a selector's series in a window of time that moves on.
//!
//! Invariants: series ascend by labels and kind, as the store gives them; a slice is what the store gives for its
//! range.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ogive_model::{
    FloatColumn, HistogramColumn, HistogramValue, SelectError, SeriesData, SeriesDef, SeriesSet, TextColumn, TimeRange,
    WallMs,
};

/// See the module.
pub(super) struct Window {
    start: WallMs,
    end: WallMs,
    series: Vec<Arc<SeriesData>>,
    bytes: usize,
}

impl Window {
    /// The series of a range, as the store gave them.
    pub(super) fn new(range: TimeRange, series: Vec<SeriesData>) -> Self {
        let series: Vec<Arc<SeriesData>> = series.into_iter().map(Arc::new).collect();
        let bytes = series.iter().map(|one| bytes_of(one)).sum();
        Self { start: range.start, end: range.end, series, bytes }
    }

    pub(super) const fn start(&self) -> WallMs {
        self.start
    }

    pub(super) const fn end(&self) -> WallMs {
        self.end
    }

    /// Its approximate memory.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Drops what is after `end`.
    pub(super) fn cut_behind(&mut self, end: WallMs) {
        if end >= self.end {
            return;
        }
        self.end = end.max(self.start);
        for one in &mut self.series {
            let newest = one.floats.times.last().copied().max(one.histograms.times.last().copied());
            if newest > Some(self.end.0) {
                let one = Arc::make_mut(one);
                ColumnMut::from(&mut one.floats).cut_behind(self.end);
                ColumnMut::from(&mut one.histograms).cut_behind(self.end);
            }
        }
    }

    /// Drops what is at or before `start`, once that is a quarter of it: dropping moves the rest.
    pub(super) fn cut_to(&mut self, start: WallMs) {
        if start - self.start < (self.end - start) / 4 {
            return;
        }
        self.start = start;
        for one in &mut self.series {
            let one = Arc::make_mut(one);
            ColumnMut::from(&mut one.floats).cut_to(start);
            ColumnMut::from(&mut one.histograms).cut_to(start);
        }
        self.series.retain(|one| !(one.floats.times.is_empty() && one.histograms.times.is_empty()));
        self.bytes = self.series.iter().map(|one| bytes_of(one)).sum();
    }

    /// Adds the store's data from the window's end to `end`; false when it contains a series that the window does not
    /// have.
    pub(super) fn append(&mut self, newer: Vec<SeriesData>, end: WallMs) -> bool {
        let mut at = 0;
        for mut one in newer {
            let is_it = |known: &Arc<SeriesData>| known.labels == one.labels && known.meta == one.meta;
            // Both ascend; of one label set there may be several.
            at += self.series[at..].partition_point(|known| known.labels < one.labels);
            let same = self.series[at..].iter().take_while(|known| known.labels == one.labels).position(is_it);
            let Some(place) = same.map(|behind| at + behind) else { return false };
            self.bytes += bytes_of(&one);
            let known = Arc::make_mut(&mut self.series[place]);
            ColumnMut::from(&mut known.floats).append(ColumnMut::from(&mut one.floats));
            ColumnMut::from(&mut known.histograms).append(ColumnMut::from(&mut one.histograms));
        }
        self.end = end;
        true
    }

    /// The store's result for `range`; None when that extends beyond the window.
    pub(super) fn slice(&self, range: TimeRange) -> Option<Slice> {
        if range.start < self.start || range.end > self.end {
            return None;
        }
        let (mut parts, mut sets, mut samples) = (Vec::<Part>::new(), Vec::<Range<usize>>::new(), 0);
        for one in &self.series {
            let (floats, histograms) = (inside(&one.floats.times, range), inside(&one.histograms.times, range));
            if floats.is_empty() && histograms.is_empty() {
                continue;
            }
            samples += floats.len() + one.histograms.values[histograms.clone()].iter().map(bins).sum::<usize>();
            let at = parts.len();
            match sets.last_mut() {
                Some(set) if parts[set.start].series.labels == one.labels => set.end = at + 1,
                _ => sets.push(at..at + 1),
            }
            parts.push(Part { series: Arc::clone(one), floats, histograms });
        }
        let taken = sets.iter().map(|_| AtomicBool::new(false)).collect();
        Some(Slice { parts, sets, taken, samples })
    }
}

fn inside(times: &[i64], range: TimeRange) -> Range<usize> {
    times.partition_point(|time| *time <= range.start.0)..times.partition_point(|time| *time <= range.end.0)
}

/// What columns of numbers and columns of distributions have in common.
struct ColumnMut<'c, T> {
    times: &'c mut Vec<i64>,
    values: &'c mut Vec<T>,
    /// Empty, or one for each time.
    starts: &'c mut Vec<i64>,
}

impl<'c> From<&'c mut FloatColumn> for ColumnMut<'c, f64> {
    fn from(FloatColumn { times, values, starts, .. }: &'c mut FloatColumn) -> Self {
        Self { times, values, starts }
    }
}

impl<'c> From<&'c mut HistogramColumn> for ColumnMut<'c, HistogramValue> {
    fn from(HistogramColumn { times, values, starts }: &'c mut HistogramColumn) -> Self {
        Self { times, values, starts }
    }
}

impl<T> ColumnMut<'_, T> {
    /// Drops what is after `end`.
    fn cut_behind(self, end: WallMs) {
        let keep = self.times.partition_point(|time| *time <= end.0);
        self.times.truncate(keep);
        self.values.truncate(keep);
        self.starts.truncate(keep);
    }

    /// Drops what is at or before `start`.
    fn cut_to(self, start: WallMs) {
        let gone = self.times.partition_point(|time| *time <= start.0);
        drop(self.times.drain(..gone));
        drop(self.values.drain(..gone));
        drop(self.starts.drain(..gone.min(self.starts.len())));
    }

    /// Moves the samples of `newer` behind its own.
    fn append(self, newer: ColumnMut<'_, T>) {
        if !(self.starts.is_empty() && newer.starts.is_empty()) {
            // 0 means unknown.
            self.starts.resize(self.times.len(), 0);
            self.starts.append(newer.starts);
            self.starts.resize(self.times.len() + newer.times.len(), 0);
        }
        self.times.append(newer.times);
        self.values.append(newer.values);
    }
}

fn bins(value: &HistogramValue) -> usize {
    match value {
        HistogramValue::Integer(one) => one.positive.len() + one.negative.len(),
        HistogramValue::Float(one) => one.positive.len() + one.negative.len(),
    }
}

fn bytes_of(series: &SeriesData) -> usize {
    let histograms: usize =
        series.histograms.values.iter().map(|value| size_of::<HistogramValue>() + 8 + 12 * bins(value)).sum();
    let starts = series.floats.starts.len() + series.histograms.starts.len();
    size_of::<SeriesData>() + series.labels.memory_bytes() + 16 * series.floats.times.len() + 8 * starts + histograms
}

/// Part of a series.
struct Part {
    series: Arc<SeriesData>,
    floats: Range<usize>,
    histograms: Range<usize>,
}

impl Part {
    fn data(&self) -> SeriesData {
        let SeriesData { labels, meta, floats, histograms, rollup_ms, .. } = &*self.series;
        let starts = |starts: &[i64], range: &Range<usize>| starts.get(range.clone()).unwrap_or_default().to_vec();
        SeriesData {
            labels: labels.clone(),
            meta: meta.clone(),
            floats: FloatColumn {
                times: floats.times[self.floats.clone()].to_vec(),
                values: floats.values[self.floats.clone()].to_vec(),
                starts: starts(&floats.starts, &self.floats),
                aggregates: Vec::new(),
            },
            histograms: HistogramColumn {
                times: histograms.times[self.histograms.clone()].to_vec(),
                values: histograms.values[self.histograms.clone()].to_vec(),
                starts: starts(&histograms.starts, &self.histograms),
            },
            texts: TextColumn::default(),
            rollup_ms: *rollup_ms,
        }
    }
}

/// The series of a range.
pub(super) struct Slice {
    parts: Vec<Part>,
    /// Which parts are of one label set.
    sets: Vec<Range<usize>>,
    taken: Vec<AtomicBool>,
    samples: usize,
}

impl Slice {
    /// As limits count them.
    pub(super) const fn samples(&self) -> usize {
        self.samples
    }
}

impl SeriesSet for Slice {
    fn count(&self) -> usize {
        self.sets.len()
    }

    fn take(&self, number: usize) -> Result<Vec<SeriesData>, SelectError> {
        // ORDERING: Relaxed; a flag that guards no other memory.
        if self.taken[number].swap(true, Ordering::Relaxed) {
            return Ok(Vec::new());
        }
        Ok(self.parts[self.sets[number].clone()].iter().map(Part::data).collect())
    }

    fn describe(&self, number: usize) -> Result<Vec<SeriesDef>, SelectError> {
        // ORDERING: Relaxed; as in `take`.
        if self.taken[number].load(Ordering::Relaxed) {
            return Ok(Vec::new());
        }
        let def = |part: &Part| SeriesDef { labels: part.series.labels.clone(), meta: part.series.meta.clone() };
        Ok(self.parts[self.sets[number].clone()].iter().map(def).collect())
    }

    fn rollup_ms(&self) -> u32 {
        0
    }

    fn samples_about(&self) -> usize {
        self.samples
    }

    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use ogive_hist::Histogram;
    use ogive_model::{Kind, Labels, SeriesMeta, Temporality};
    use proptest::prelude::*;

    use super::*;

    /// What a store has: by series and time.
    #[derive(Default)]
    struct Model(BTreeMap<(u8, i64), u32>);

    impl Model {
        fn select(&self, range: TimeRange) -> Vec<SeriesData> {
            let mut found: BTreeMap<(Labels, u8), SeriesData> = BTreeMap::new();
            for ((number, time), value) in self.0.iter().filter(|((_, time), _)| range.contains_ms(*time)) {
                // Two kinds of one label set.
                let labels = Labels::new([("__name__", "a"), ("n", &*(number / 2).to_string())]).unwrap();
                let is_float = number % 2 == 0;
                let (kind, temporality) = match is_float {
                    true => (Kind::Float, Temporality::Gauge),
                    false => (Kind::Histogram, Temporality::Delta),
                };
                let meta = SeriesMeta { kind, temporality, unit: String::new(), width_ms: 0 };
                let one = found.entry((labels.clone(), number % 2)).or_insert_with(|| SeriesData::new(labels, meta));
                if is_float {
                    one.floats.times.push(*time);
                    one.floats.values.push(f64::from(*value));
                    one.floats.starts.push(*time - 1);
                } else {
                    let mut histogram = Histogram::log_linear();
                    (0..value % 5).for_each(|at| histogram.record(f64::from(at + value)));
                    one.histograms.times.push(*time);
                    one.histograms.values.push(HistogramValue::Integer(histogram));
                }
            }
            found.into_values().collect()
        }
    }

    fn all(slice: &Slice) -> Vec<SeriesData> {
        (0..slice.count()).flat_map(|number| slice.take(number).unwrap()).collect()
    }

    proptest! {
        /// Samples come late and early, series begin and end, and the window moves on: each slice is what the store
        /// has.
        #[test]
        fn a_window_that_moves_on_is_what_the_store_has(
            steps in proptest::collection::vec(
                (proptest::collection::vec((0_u8..6, -8_i64..3, 1_u32..50), 0..8), 0_i64..4, 1_i64..12), 1..40),
        ) {
            let mut model = Model::default();
            let (mut now, mut kept) = (100_i64, None::<Window>);
            let mut moved = 0;
            for (samples, step, span) in steps {
                now += step;
                let oldest = samples.iter().map(|(_, back, _)| now + back).min();
                for (series, back, value) in samples {
                    model.0.insert((series, now + back), value);
                }
                let range = TimeRange::from_ms(now - span, now);
                let mut window = kept.take().and_then(|mut window| {
                    window.cut_behind(oldest.map_or(WallMs::MAX, |oldest| WallMs(oldest - 1)));
                    let end = range.end.max(window.end());
                    let newer = model.select(TimeRange { start: window.end(), end });
                    let is_covered = window.start() <= range.start;
                    (is_covered && window.append(newer, end)).then_some(window)
                });
                moved += usize::from(window.is_some());
                let window = window.get_or_insert_with(|| {
                    let wider = TimeRange::from_ms(now - span - 20, now);
                    Window::new(wider, model.select(wider))
                });
                window.cut_to(WallMs(now - 20));
                if let Some(slice) = window.slice(range) {
                    let found = all(&slice);
                    prop_assert_eq!(&found, &model.select(range));
                    prop_assert_eq!(slice.count(), found.chunk_by(|a, b| a.labels == b.labels).count());
                    prop_assert!(all(&slice).is_empty(), "each is given once");
                } else {
                    prop_assert!(range.start < window.start());
                }
                let bytes: usize = window.series.iter().map(|one| bytes_of(one)).sum();
                prop_assert!(window.bytes() >= bytes, "{} < {bytes}", window.bytes());
                kept = Some(std::mem::replace(window, Window::new(TimeRange::from_ms(0, 0), Vec::new())));
            }
            prop_assert!(moved <= 40);
        }
    }
}
