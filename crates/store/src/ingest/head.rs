//! The head of one shard: its series, their recent samples in memory, and a label index over them.
//!
//! Invariants: at one (series, time) values meet as [`crate::order`] has it, whichever came first. A sample is in the
//! active columns or in one frozen head, never in both.
//! Threads: the shard's alone; readers get shared parts.
//! Limits: bytes are counted, and bounded by whoever feeds the shards; see `Options::head_bytes_max`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use ogive_model::{
    FloatColumn, HistogramColumn, HistogramValue, Kind, MatchOp, Matcher, SeriesData, SeriesDef, Temporality, Tenant,
    TextColumn, TimeRange, Value,
};

use crate::block::Budget;
use crate::ingest::column::{Column, Meet, Part, histogram_bytes, within};
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

enum Samples {
    Floats(Column<f64>),
    Histograms(Column<HistogramValue>),
    Texts(Column<String>),
}

/// Shared parts of one series.
#[derive(Clone)]
pub(crate) enum Parts {
    Floats(Vec<Arc<Part<f64>>>),
    Histograms(Vec<Arc<Part<HistogramValue>>>),
    Texts(Vec<Arc<Part<String>>>),
}

struct Series {
    owned: Arc<Owned>,
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
    /// Label name to value to the series that carry it.
    postings: HashMap<Box<str>, BTreeMap<Box<str>, Vec<u32>>>,
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
        for (name, value) in owned.def.labels.iter() {
            if !self.postings.contains_key(name) {
                self.postings.insert(name.into(), BTreeMap::new());
            }
            let values = self.postings.get_mut(name).expect("the name was just made");
            match values.get_mut(value) {
                Some(list) => list.push(index),
                None => {
                    values.insert(value.into(), vec![index]);
                }
            }
        }
        let samples = match owned.def.meta.kind {
            Kind::Float => Samples::Floats(Column::default()),
            Kind::Histogram => Samples::Histograms(Column::default()),
            Kind::Text => Samples::Texts(Column::default()),
        };
        self.series[at] = Some(Series { owned, samples });
    }

    /// Blanks the slots of series that have no samples here.
    pub(crate) fn retire(&mut self, indexes: &[u32]) {
        let mut labels: BTreeSet<(Box<str>, Box<str>)> = BTreeSet::new();
        for index in indexes {
            let series = self.series[*index as usize].take().expect("a series retires once");
            assert!(series.read(TimeRange::ALL).is_none(), "a series with samples does not retire");
            labels.extend(series.owned.def.labels.iter().map(|(name, value)| (name.into(), value.into())));
        }
        for (name, value) in labels {
            let values = self.postings.get_mut(&name).expect("every label is indexed");
            let list = values.get_mut(&value).expect("every label is indexed");
            list.retain(|index| self.series[*index as usize].is_some());
            if list.is_empty() {
                values.remove(&value);
            }
            if values.is_empty() {
                self.postings.remove(&name);
            }
        }
    }

    /// Puts a sample into its series.
    pub(crate) fn apply(&mut self, placed: Placed) {
        let series = self.series[placed.index as usize].as_mut().expect("samples follow their series");
        let delta = series.owned.def.meta.temporality == Temporality::Delta;
        let time = placed.time_ms;
        let mut met = false;
        let bytes = match (&mut series.samples, placed.value) {
            (Samples::Floats(column), Value::Float(value)) => {
                let mut join = |there: &mut f64, value: f64| {
                    met = true;
                    if delta {
                        *there += value;
                    } else if order::floats(value, *there).is_gt() {
                        *there = value;
                    }
                };
                column.insert(time, value, Meet::Join(&mut join));
                size_of::<(i64, f64)>() as u64
            }
            (Samples::Texts(column), Value::Text(value)) => {
                let bytes = (value.len() + size_of::<(i64, String)>()) as u64;
                column.insert(time, value, Meet::Keep);
                bytes
            }
            (Samples::Histograms(column), value) => {
                let value = match value {
                    Value::Histogram(histogram) => HistogramValue::Integer(*histogram),
                    Value::FloatHistogram(histogram) => HistogramValue::Float(*histogram),
                    other => unreachable!("{other:?} was checked to be of the series' kind"),
                };
                let bytes = histogram_bytes(&value);
                let (mut before, mut after) = (0, bytes);
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
                column.insert(time, value, Meet::Join(&mut join));
                if met {
                    self.bytes = (self.bytes + after).saturating_sub(before);
                }
                bytes
            }
            (_, value) => unreachable!("{value:?} was checked to be of the series' kind"),
        };
        if !met {
            self.bytes += bytes;
            self.samples += 1;
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
        let candidates = self.candidates(matchers);
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

    /// Indexes that hold all matching series: from the shortest list that a matcher gives.
    fn candidates(&self, matchers: &[Matcher]) -> Vec<u32> {
        let needed = matchers.iter().filter(|matcher| !matcher.matches_empty());
        let lists = needed.map(|matcher| {
            let Some(values) = self.postings.get(&*matcher.name) else { return Vec::new() };
            match matcher.op {
                MatchOp::Equal => values.get(&*matcher.value).map(|list| vec![list]).unwrap_or_default(),
                _ => values.iter().filter(|(value, _)| matcher.matches(value)).map(|(_, list)| list).collect(),
            }
        });
        match lists.min_by_key(|lists| lists.iter().map(|list| list.len()).sum::<usize>()) {
            Some(lists) => lists.into_iter().flatten().copied().collect(),
            None => (0..self.series.len() as u32).collect(),
        }
    }
}

impl Series {
    fn read(&self, range: TimeRange) -> Option<Parts> {
        let has = match &self.samples {
            Samples::Floats(column) => column.has(range),
            Samples::Histograms(column) => column.has(range),
            Samples::Texts(column) => column.has(range),
        };
        has.then(|| match &self.samples {
            Samples::Floats(column) => Parts::Floats(column.read(range)),
            Samples::Histograms(column) => Parts::Histograms(column.read(range)),
            Samples::Texts(column) => Parts::Texts(column.read(range)),
        })
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

    /// The times of each part, ascending.
    fn times(&self) -> Vec<&[i64]> {
        match self {
            Self::Floats(parts) => parts.iter().map(|part| &part.times[..]).collect(),
            Self::Histograms(parts) => parts.iter().map(|part| &part.times[..]).collect(),
            Self::Texts(parts) => parts.iter().map(|part| &part.times[..]).collect(),
        }
    }

    fn within(&self, range: TimeRange) -> Self {
        match self {
            Self::Floats(parts) => Self::Floats(within(parts, range)),
            Self::Histograms(parts) => Self::Histograms(within(parts, range)),
            Self::Texts(parts) => Self::Texts(within(parts, range)),
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

/// What a histogram counts for in the budget of a selection: its bins, at least one.
fn bin_count(value: &HistogramValue) -> usize {
    let bins = match value {
        HistogramValue::Integer(histogram) => histogram.negative.len() + histogram.positive.len(),
        HistogramValue::Float(histogram) => histogram.negative.len() + histogram.positive.len(),
    };
    bins.max(1)
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
        budget.take(part.values[rows.clone()].iter().map(&weight).sum())?;
        times.extend_from_slice(&part.times[rows.clone()]);
        values.extend_from_slice(&part.values[rows]);
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
    let newest = all.iter().filter_map(|series| series.2.times().last()?.last().copied()).max().unwrap_or(0);
    let mut windows: BTreeMap<(&Tenant, Window), Vec<&FrozenSeries>> = BTreeMap::new();
    for series in all {
        let mut last: Option<Window> = None;
        for times in series.2.times() {
            let mut rest = times;
            while let Some(time) = rest.first() {
                let window = ladder.of_flush(*time, newest);
                rest = &rest[rest.partition_point(|time| *time <= window.end_ms())..];
                if last != Some(window) {
                    windows.entry((&series.1.tenant, window)).or_default().push(series);
                    last = Some(window);
                }
            }
        }
    }
    windows
}

/// The samples of a frozen series inside `range`.
pub(crate) fn data_of(series: &FrozenSeries, range: TimeRange) -> SeriesData {
    let mut unbounded = Budget::new(usize::MAX);
    series.2.within(range).data(&series.1.def, range, &mut unbounded).expect("the budget has no end")
}
