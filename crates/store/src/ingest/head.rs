//! The head of one shard: its series, their recent samples in memory, and a label index over them.
//!
//! Invariants: at one (series, time) values meet as [`crate::order`] has it, whichever came first. A sample is in the
//! active columns or in one frozen head, never in both.
//! Threads: the shard's alone; readers get shared parts.
//! Limits: bytes are counted, and bounded by whoever feeds the shards; see `Options::head_bytes_max`.

use std::collections::BTreeMap;
use std::sync::Arc;

use ogive_model::{
    FloatColumn, HistogramColumn, HistogramValue, Kind, Matcher, SeriesData, SeriesDef, Temporality, Tenant,
    TextColumn, TimeRange, Value,
};

use crate::block::Budget;
use crate::ingest::column::{Column, Meet, Part, histogram_bytes, within};
use crate::ingest::index::LabelIndex;
use crate::window::{Ladder, Window};
use crate::{Error, merge, order};

/// A series and whose it is.
#[derive(Debug)]
pub(crate) struct Owned {
    pub(crate) tenant: Tenant,
    pub(crate) def: SeriesDef,
}

/// A sample on its way to its series.
pub(crate) struct Placed {
    pub(crate) index: u32,
    pub(crate) time_ms: i64,
    pub(crate) value: Value,
}

/// A number on its way to its series.
#[derive(Clone, Copy)]
pub(crate) struct FloatRow {
    pub(crate) index: u32,
    pub(crate) time_ms: i64,
    pub(crate) value: f64,
}

/// What goes to one shard.
#[derive(Default)]
pub(crate) struct Placement {
    pub(crate) floats: Vec<FloatRow>,
    pub(crate) others: Vec<Placed>,
}

enum Samples {
    Floats(Column<f64>),
    Histograms(Column<HistogramValue>),
    Texts(Column<String>),
}

/// Shared parts of one series.
#[derive(Clone)]
pub(crate) enum Parts {
    Floats(Box<[Arc<Part<f64>>]>),
    Histograms(Box<[Arc<Part<HistogramValue>>]>),
    Texts(Box<[Arc<Part<String>>]>),
}

struct Series {
    owned: Arc<Owned>,
    /// Whether values at one time add up.
    delta: bool,
    samples: Samples,
}

/// The samples of one shard at a flush: what the next block is made of. Readable until the block is.
pub(crate) struct Frozen {
    /// Ascending by index; without series that have no samples.
    series: Vec<FrozenSeries>,
    pub(crate) bytes: u64,
    pub(crate) samples: u64,
}

/// A series of a frozen head, with its slot.
pub(crate) type FrozenSeries = (u32, Arc<Owned>, Parts);

/// See the module.
#[derive(Default)]
pub(crate) struct Head {
    /// By slot; retired ones are blank.
    series: Vec<Option<Series>>,
    index: LabelIndex,
    frozen: Vec<(u64, Arc<Frozen>)>,
    pub(crate) bytes: u64,
    pub(crate) samples: u64,
}

/// One series of an answer: parts in the order of their arrival.
pub(crate) struct Found {
    owned: Arc<Owned>,
    sources: Vec<Parts>,
}

impl Head {
    /// Takes a new series into a slot that is blank.
    pub(crate) fn add_series(&mut self, index: u32, owned: Arc<Owned>) {
        let at = index as usize;
        if at >= self.series.len() {
            self.series.resize_with(at + 1, || None);
        }
        assert!(self.series[at].is_none(), "slot {index} is taken");
        self.index.add(index, &owned.def.labels);
        let samples = match owned.def.meta.kind {
            Kind::Float => Samples::Floats(Column::default()),
            Kind::Histogram => Samples::Histograms(Column::default()),
            Kind::Text => Samples::Texts(Column::default()),
        };
        self.series[at] = Some(Series { delta: owned.def.meta.temporality == Temporality::Delta, owned, samples });
    }

    /// Blanks the slots of series that have no samples here.
    pub(crate) fn retire(&mut self, indexes: &[u32]) {
        let mut gone = Vec::new();
        for index in indexes {
            let series = self.series[*index as usize].take().expect("a series retires once");
            assert!(series.read(TimeRange::ALL).is_none(), "a series with samples does not retire");
            gone.push(series.owned);
        }
        self.index.retain(gone.iter().map(|owned| &owned.def.labels), |index| self.series[index as usize].is_some());
    }

    /// Puts a number into its series.
    pub(crate) fn apply_float(&mut self, row: FloatRow) {
        let series = self.series[row.index as usize].as_mut().expect("samples follow their series");
        let delta = series.delta;
        let Samples::Floats(column) = &mut series.samples else {
            unreachable!("a number was checked to be for numbers")
        };
        let mut met = false;
        let mut join = |there: &mut f64, value: f64| {
            met = true;
            if delta {
                *there += value;
            } else if order::floats(value, *there).is_gt() {
                *there = value;
            }
        };
        let grown = column.insert(row.time_ms, row.value, Meet::Join(&mut join));
        self.bytes += grown as u64;
        self.samples += u64::from(!met);
    }

    /// Puts a sample into its series.
    pub(crate) fn apply(&mut self, placed: Placed) {
        let Placed { index, time_ms, value } = placed;
        let series = self.series[index as usize].as_mut().expect("samples follow their series");
        match (&mut series.samples, value) {
            (Samples::Floats(_), Value::Float(value)) => self.apply_float(FloatRow { index, time_ms, value }),
            (Samples::Texts(column), Value::Text(value)) => {
                let bytes = value.len();
                self.bytes += (bytes + column.insert(time_ms, value, Meet::Keep)) as u64;
                self.samples += 1;
            }
            (Samples::Histograms(column), Value::Histogram(histogram)) => {
                let value = HistogramValue::Integer(*histogram);
                let (grown, met) = apply_histogram(column, series.delta, time_ms, value);
                self.bytes = self.bytes.saturating_add_signed(grown);
                self.samples += u64::from(!met);
            }
            (Samples::Histograms(column), Value::FloatHistogram(histogram)) => {
                let (grown, met) = apply_histogram(column, series.delta, time_ms, HistogramValue::Float(*histogram));
                self.bytes = self.bytes.saturating_add_signed(grown);
                self.samples += u64::from(!met);
            }
            (_, value) => unreachable!("{value:?} was checked to be of the series' kind"),
        }
    }

    /// Moves every sample into a frozen head under `epoch`.
    pub(crate) fn freeze(&mut self, epoch: u64) -> Arc<Frozen> {
        let mut series = Vec::new();
        for (index, one) in self.series.iter_mut().enumerate() {
            let Some(one) = one else { continue };
            let parts = match &mut one.samples {
                Samples::Floats(column) => Parts::Floats(column.take()),
                Samples::Histograms(column) => Parts::Histograms(column.take()),
                Samples::Texts(column) => Parts::Texts(column.take()),
            };
            if !parts.is_empty() {
                series.push((index as u32, Arc::clone(&one.owned), parts));
            }
        }
        let frozen = Arc::new(Frozen { series, bytes: self.bytes, samples: self.samples });
        (self.bytes, self.samples) = (0, 0);
        self.frozen.push((epoch, Arc::clone(&frozen)));
        frozen
    }

    /// Forgets the frozen heads up to `epoch`, whose samples are in blocks; gives their bytes and samples.
    pub(crate) fn release(&mut self, epoch: u64) -> (u64, u64) {
        let released = self.frozen.extract_if(.., |frozen| frozen.0 <= epoch);
        released.fold((0, 0), |sum, (_, frozen)| (sum.0 + frozen.bytes, sum.1 + frozen.samples))
    }

    /// The matching series of `tenant` with samples in `range` that are not in blocks: those after epoch `flushed`.
    pub(crate) fn select(&self, tenant: &Tenant, matchers: &[Matcher], range: TimeRange, flushed: u64) -> Vec<Found> {
        let all = || (0..self.series.len() as u32).collect();
        let candidates = self.index.candidates(matchers).unwrap_or_else(all);
        let mut found = Vec::new();
        for index in candidates {
            let Some(series) = &self.series[index as usize] else { continue };
            if series.owned.tenant != *tenant {
                continue;
            }
            if !matchers.iter().all(|matcher| matcher.matches(series.owned.def.labels.get(&matcher.name))) {
                continue;
            }
            let frozen = self.frozen.iter().filter(|(epoch, _)| *epoch > flushed);
            let mut sources: Vec<Parts> = frozen.filter_map(|(_, frozen)| frozen.read(index, range)).collect();
            sources.extend(series.read(range));
            if !sources.is_empty() {
                found.push(Found { owned: Arc::clone(&series.owned), sources });
            }
        }
        found
    }
}

impl Series {
    fn read(&self, range: TimeRange) -> Option<Parts> {
        let parts = match &self.samples {
            Samples::Floats(column) => Parts::Floats(column.read(range)),
            Samples::Histograms(column) => Parts::Histograms(column.read(range)),
            Samples::Texts(column) => Parts::Texts(column.read(range)),
        };
        (!parts.is_empty()).then_some(parts)
    }
}

impl Parts {
    fn is_empty(&self) -> bool {
        match self {
            Self::Floats(parts) => parts.is_empty(),
            Self::Histograms(parts) => parts.is_empty(),
            Self::Texts(parts) => parts.is_empty(),
        }
    }

    fn last(&self) -> Option<i64> {
        match self {
            Self::Floats(parts) => parts.last()?.last(),
            Self::Histograms(parts) => parts.last()?.last(),
            Self::Texts(parts) => parts.last()?.last(),
        }
    }

    /// The windows that it has samples in, ascending.
    fn windows(&self, of: impl Fn(i64) -> Window) -> Vec<Window> {
        match self {
            Self::Floats(parts) => windows_of(parts, of),
            Self::Histograms(parts) => windows_of(parts, of),
            Self::Texts(parts) => windows_of(parts, of),
        }
    }

    fn within(&self, range: TimeRange) -> Self {
        match self {
            Self::Floats(parts) => Self::Floats(within(parts, range).into()),
            Self::Histograms(parts) => Self::Histograms(within(parts, range).into()),
            Self::Texts(parts) => Self::Texts(within(parts, range).into()),
        }
    }

    /// Copies the rows inside `range` into a series' columns.
    fn data(&self, def: &SeriesDef, range: TimeRange, budget: &mut Budget) -> Result<SeriesData, Error> {
        let mut data = blank(def);
        match self {
            Self::Floats(parts) => {
                let FloatColumn { times, values, .. } = &mut data.floats;
                copy(parts, range, times, values, |_| 1, budget)?;
            }
            Self::Histograms(parts) => {
                let HistogramColumn { times, values, .. } = &mut data.histograms;
                copy(parts, range, times, values, bin_count, budget)?;
            }
            Self::Texts(parts) => {
                let TextColumn { times, values } = &mut data.texts;
                copy(parts, range, times, values, |_| 1, budget)?;
                order::sort_texts(&mut data.texts);
            }
        }
        Ok(data)
    }
}

/// By how many bytes the column grew, and whether the sample met another.
fn apply_histogram(column: &mut Column<HistogramValue>, delta: bool, time: i64, value: HistogramValue) -> (i64, bool) {
    let (mut before, mut after) = (0, histogram_bytes(&value));
    let mut met = false;
    let mut join = |there: &mut HistogramValue, value: HistogramValue| {
        met = true;
        before = histogram_bytes(there);
        if delta {
            // Schemes that do not merge were refused.
            order::merge_cell(there, value);
        } else if order::histograms(&value, there).is_gt() {
            *there = value;
        }
        after = histogram_bytes(there);
    };
    let grown = column.insert(time, value, Meet::Join(&mut join)) as u64 + after;
    (grown.cast_signed() - before.cast_signed(), met)
}

/// What a histogram counts for in the budget of a selection: its bins, at least one.
fn bin_count(value: &HistogramValue) -> usize {
    let bins = match value {
        HistogramValue::Integer(histogram) => histogram.negative.len() + histogram.positive.len(),
        HistogramValue::Float(histogram) => histogram.negative.len() + histogram.positive.len(),
    };
    bins.max(1)
}

fn windows_of<V>(parts: &[Arc<Part<V>>], of: impl Fn(i64) -> Window) -> Vec<Window> {
    let mut windows: Vec<Window> = Vec::new();
    for part in parts {
        let mut rest = part.rows(TimeRange::ALL);
        while let Some(row) = rest.first() {
            let window = of(row.0);
            rest = &rest[rest.partition_point(|row| row.0 <= window.end_ms())..];
            if windows.last() != Some(&window) {
                windows.push(window);
            }
        }
    }
    windows
}

fn copy<V: Clone>(
    parts: &[Arc<Part<V>>],
    range: TimeRange,
    times: &mut Vec<i64>,
    values: &mut Vec<V>,
    weight: impl Fn(&V) -> usize,
    budget: &mut Budget,
) -> Result<(), Error> {
    for part in parts {
        let rows = part.rows(range);
        budget.take(rows.iter().map(|row| weight(&row.1)).sum())?;
        times.extend(rows.iter().map(|row| row.0));
        values.extend(rows.iter().map(|row| row.1.clone()));
    }
    Ok(())
}

fn blank(def: &SeriesDef) -> SeriesData {
    SeriesData {
        labels: def.labels.clone(),
        meta: def.meta.clone(),
        floats: FloatColumn::default(),
        histograms: HistogramColumn::default(),
        texts: TextColumn::default(),
        rollup_ms: 0,
    }
}

impl Found {
    /// The series' samples inside `range`, or only what it is.
    pub(crate) fn data(&self, range: TimeRange, labels_only: bool, budget: &mut Budget) -> Result<SeriesData, Error> {
        let mut data = blank(&self.owned.def);
        if !labels_only {
            for parts in &self.sources {
                merge::add(&mut data, parts.data(&self.owned.def, range, budget)?);
            }
        }
        Ok(data)
    }
}

impl Frozen {
    fn read(&self, index: u32, range: TimeRange) -> Option<Parts> {
        let at = self.series.binary_search_by_key(&index, |series| series.0).ok()?;
        let parts = self.series[at].2.within(range);
        (!parts.is_empty()).then_some(parts)
    }
}

/// The series of all shards' frozen heads, ascending by (labels, kind), under each tenant and window in which they have
/// samples.
pub(crate) fn by_window(frozen: &[Arc<Frozen>], ladder: Ladder) -> BTreeMap<(&Tenant, Window), Vec<&FrozenSeries>> {
    let mut all: Vec<&FrozenSeries> = frozen.iter().flat_map(|frozen| &frozen.series).collect();
    all.sort_by(|a, b| (&a.1.def.labels, a.1.def.meta.kind).cmp(&(&b.1.def.labels, b.1.def.meta.kind)));
    let newest = all.iter().filter_map(|series| series.2.last()).max().unwrap_or(0);
    let mut windows: BTreeMap<(&Tenant, Window), Vec<&FrozenSeries>> = BTreeMap::new();
    for series in all {
        for window in series.2.windows(|time| ladder.of_flush(time, newest)) {
            windows.entry((&series.1.tenant, window)).or_default().push(series);
        }
    }
    windows
}

/// The samples of a frozen series inside `range`.
pub(crate) fn data_of(series: &FrozenSeries, range: TimeRange) -> SeriesData {
    let mut unbounded = Budget::new(usize::MAX);
    series.2.within(range).data(&series.1.def, range, &mut unbounded).expect("the budget has no end")
}
