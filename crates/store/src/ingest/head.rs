//! The head of one shard: its series, their recent samples in memory, and a label index over them.
//!
//! Invariants: values at one (series, time) merge by [`crate::order`], whichever came first. A sample is in the active
//! columns or in one frozen head, never in both. A series has room for starts from its first sample with one until it
//! is frozen, and uses none otherwise. The epochs of frozen heads rise. Parts of numbers and histograms that late
//! samples made rows of are packed again as [`crate::ingest::late_parts`] has it; texts have parts of their own for
//! what is late.
//! Threads: the shard's only; readers get shared parts.
//! Limits: bytes are counted here, and bounded by the feeder of the shards; see `Options::head_bytes_max`.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use ogive_model::{
    HistogramValue, Kind, METRIC_NAME, Matcher, SeriesData, SeriesDef, Temporality, Tenant, TimeRange, Value, WallMs,
};

use crate::block::Budget;
use crate::codec::chunk::sample_times;
use crate::codec::histograms::weight;
use crate::ingest::apply::{Applied, Started, apply, apply_started};
use crate::ingest::column::{Column, Inserted, LateRows, Pack, Part, difference, holds, within};
use crate::ingest::index::LabelIndex;
use crate::ingest::late_parts::{LOOKS_MAX, LateParts};
use crate::ingest::owned::Owned;
use crate::ingest::request::{PAGE_SERIES, ReadRequest};
use crate::ingest::room::reserve_for_one;
use crate::ingest::text_runs::{TextRuns, among};
use crate::order;
use crate::window::{Ladder, Window};
use crate::{Error, merge, tombstone};

/// A sample on its way to its series.
pub(crate) struct Placed {
    pub(crate) index: u32,
    /// Which of the group's batches it is of.
    pub(crate) batch: u32,
    pub(crate) time_ms: i64,
    /// 0 is unknown.
    pub(crate) start_ms: i64,
    pub(crate) value: Value,
}

/// A number without a start on its way to its series.
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
    StartedFloats(Column<Started<f64>>),
    Histograms(Column<HistogramValue>),
    StartedHistograms(Column<Started<HistogramValue>>),
    Texts(Box<TextRuns>),
}

/// Shared parts of one series.
#[derive(Clone)]
pub(crate) enum Parts {
    Floats(Box<[Arc<Part<f64>>]>),
    StartedFloats(Box<[Arc<Part<Started<f64>>>]>),
    Histograms(Box<[Arc<Part<HistogramValue>>]>),
    StartedHistograms(Box<[Arc<Part<Started<HistogramValue>>>]>),
    /// In any order; they may overlap.
    Texts(Box<[Arc<Part<String>>]>),
}

struct Series {
    owned: Arc<Owned>,
    /// Whether values at one time add up.
    delta: bool,
    /// Whether somebody hears of its samples; see [`crate::ingest::follow`].
    followed: bool,
    /// The number of the part that a late sample last made rows, which waits to be packed; 0 is none.
    late: u32,
    samples: Samples,
}

/// The samples of one shard at a flush: what the next block is made of. Readable until the block is.
pub(crate) struct Frozen {
    /// Ascending by index; without series that have no samples.
    series: Vec<FrozenSeries>,
    pub(crate) bytes: u64,
    pub(crate) samples: u64,
}

/// A series of a frozen head.
pub(crate) struct FrozenSeries {
    slot: u32,
    owned: Arc<Owned>,
    parts: Parts,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Head {
    /// By slot; retired ones are blank.
    series: Vec<Option<Series>>,
    index: LabelIndex,
    /// Of the series that are histograms, their names alone.
    histograms: LabelIndex,
    frozen: Vec<(u64, Arc<Frozen>)>,
    /// Time of the newest sample that was ever frozen.
    frozen_newest: Option<WallMs>,
    late: LateParts,
    pub(crate) bytes: u64,
    pub(crate) samples: u64,
    /// Cells that met one with which they do not merge, since the start; one of the two is gone.
    pub(crate) clashes: u64,
}

/// How far a reading is: which series are to be looked at, and how many of them were.
#[derive(Default)]
pub(crate) struct Cursor {
    candidates: Option<Vec<u32>>,
    at: usize,
}

/// What of each series is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Give {
    /// That it is there.
    Nothing,
    /// What it is.
    Definitions,
    /// Its samples too.
    Samples,
}

/// A part of an answer.
pub(crate) struct Page {
    pub(crate) found: Vec<HeadAnswer>,
    /// Of how many series of each kind this is.
    pub(crate) kinds: [usize; Kind::COUNT],
    /// Where the next one begins.
    pub(crate) next: Option<Cursor>,
}

/// One series of an answer: parts in the order of their arrival.
pub(crate) struct HeadAnswer {
    owned: Arc<Owned>,
    /// What it is, once it was asked for: put together by the reader, not by the shard.
    def: OnceLock<SeriesDef>,
    sources: Vec<Parts>,
}

impl Head {
    /// Takes a new series into a slot that is blank.
    pub(crate) fn add_series(&mut self, index: u32, owned: Arc<Owned>) {
        let at = index as usize;
        while at >= self.series.len() {
            reserve_for_one(&mut self.series);
            self.series.push(None);
        }
        assert!(self.series[at].is_none(), "slot {index} is taken");
        self.index.add(index, owned.pairs());
        if owned.meta().kind == Kind::Histogram {
            self.histograms.add(index, names(&owned));
        }
        let samples = Samples::new(owned.meta().kind);
        let delta = owned.meta().temporality == Temporality::Delta;
        self.series[at] = Some(Series { delta, owned, followed: false, late: 0, samples });
    }

    /// Blanks the slots of series that have no samples here.
    pub(crate) fn retire(&mut self, indexes: &[u32]) {
        let mut gone = Vec::new();
        for index in indexes {
            let series = self.series[*index as usize].take().expect("a series retires once");
            assert!(series.read(TimeRange::ALL).is_none(), "a series with samples does not retire");
            gone.push(series.owned);
        }
        let is_here = |index: u32| self.series[index as usize].is_some();
        self.index.retain(gone.iter().flat_map(|owned| owned.pairs()), is_here);
        let histograms = gone.iter().filter(|owned| owned.meta().kind == Kind::Histogram);
        self.histograms.retain(histograms.flat_map(|owned| names(owned)), is_here);
    }

    /// Looks at the places of `rows`, without effect. The places are all over the memory: looked at together they come
    /// into the cache together, where each sample would wait for its own.
    pub(crate) fn touch(&self, rows: &[FloatRow]) {
        let newest = |row: &FloatRow| match &self.at(row.index).samples {
            Samples::Floats(column) => column.last(),
            _ => None,
        };
        std::hint::black_box(rows.iter().filter_map(newest).fold(0, |all, time| all ^ time));
    }

    /// One above the highest slot that ever had a series.
    pub(crate) const fn slots(&self) -> usize {
        self.series.len()
    }

    /// Puts a number into its series.
    pub(crate) fn apply_float(&mut self, row: FloatRow) {
        let FloatRow { index, time_ms, value } = row;
        let series = self.series[index as usize].as_mut().expect("samples follow their series");
        let applied = match &mut series.samples {
            Samples::Floats(column) => apply(column, time_ms, value, series.delta),
            Samples::StartedFloats(column) => apply_started(column, time_ms, Started { start: 0, value }, series.delta),
            _ => unreachable!("a number was checked to be for numbers"),
        };
        self.count(index, applied);
    }

    /// Puts a sample into its series; false when it is a point that was there already.
    pub(crate) fn apply(&mut self, placed: Placed) -> bool {
        let Placed { index, time_ms, start_ms, value, .. } = placed;
        let series = self.series[index as usize].as_mut().expect("samples follow their series");
        if start_ms != 0 {
            self.bytes = self.bytes.saturating_add_signed(series.samples.make_room_for_starts());
        }
        let delta = series.delta;
        let applied = match (&mut series.samples, value) {
            (Samples::Floats(column), Value::Float(value)) => apply(column, time_ms, value, delta),
            (Samples::StartedFloats(column), Value::Float(value)) => {
                apply_started(column, time_ms, Started { start: start_ms, value }, delta)
            }
            (Samples::Texts(column), Value::Text(value)) => {
                let grown = column.insert(time_ms, value);
                Applied { inserted: Inserted { grown, ..Inserted::default() }, ..Applied::default() }
            }
            (Samples::Histograms(column), value) => apply(column, time_ms, histogram_of(value), delta),
            (Samples::StartedHistograms(column), value) => {
                let value = Started { start: start_ms, value: histogram_of(value) };
                apply_started(column, time_ms, value, delta)
            }
            (_, value) => unreachable!("{value:?} was checked to be of the series' kind"),
        };
        self.count(index, applied);
        !applied.known
    }

    fn count(&mut self, index: u32, applied: Applied) {
        let Applied { inserted, met, clashed, .. } = applied;
        debug_assert!(
            self.bytes.checked_add_signed(inserted.grown).is_some(),
            "a series grows by {} bytes in a head of {}",
            inserted.grown,
            self.bytes
        );
        self.bytes = self.bytes.saturating_add_signed(inserted.grown);
        self.samples += u64::from(!met);
        self.clashes += u64::from(clashed);
        if inserted.sealed || inserted.late_rows.is_some() {
            self.pack_late(index, inserted.late_rows);
        }
    }

    /// Packs sealed parts that late samples made rows, while they are too many. Called when a part of the series at
    /// `index` became so, which then waits, or when its open part was sealed, after which none of it waits.
    fn pack_late(&mut self, index: u32, rows: Option<LateRows>) {
        let number = rows.map_or(0, |rows| self.late.add(index, rows));
        self.series[index as usize].as_mut().expect("it was just looked at").late = number;
        for _ in 0..LOOKS_MAX {
            let Some(part) = self.late.pop() else { return };
            let series = self.series[part.index as usize].as_mut().expect("a series with samples does not retire");
            if series.late == part.number {
                self.late.put(part);
            } else {
                self.bytes = self.bytes.saturating_add_signed(series.samples.pack_late(part.rows.times));
            }
        }
    }

    /// Moves every sample into a frozen head under `epoch`.
    pub(crate) fn freeze(&mut self, epoch: u64) -> Arc<Frozen> {
        let last = self.frozen.last().map(|(last, _)| *last);
        assert!(last < Some(epoch), "epoch {epoch} is frozen behind {last:?}");
        let mut series = Vec::new();
        for (index, one) in self.series.iter_mut().enumerate() {
            let Some(one) = one else { continue };
            let parts = one.samples.take();
            if !parts.is_empty() {
                self.frozen_newest = self.frozen_newest.max(parts.last().map(WallMs));
                series.push(FrozenSeries { slot: index as u32, owned: Arc::clone(&one.owned), parts });
            }
        }
        debug_assert_eq!(
            series.iter().map(|series| series.parts.rows_max() as u64).sum::<u64>(),
            self.samples,
            "each sample is frozen"
        );
        let frozen = Arc::new(Frozen { series, bytes: self.bytes, samples: self.samples });
        self.late.clear();
        (self.bytes, self.samples) = (0, 0);
        self.frozen.push((epoch, Arc::clone(&frozen)));
        frozen
    }

    /// Forgets the frozen heads up to `epoch`, whose samples are in blocks; gives their bytes and samples.
    pub(crate) fn release(&mut self, epoch: u64) -> (u64, u64) {
        let released = self.frozen.extract_if(.., |frozen| frozen.0 <= epoch);
        released.fold((0, 0), |sum, (_, frozen)| (sum.0 + frozen.bytes, sum.1 + frozen.samples))
    }

    /// A page of the matching series with samples in the range that are not in blocks: those after the epoch that is
    /// flushed.
    pub(crate) fn select(&self, request: &ReadRequest, cursor: Cursor, give: Give) -> Page {
        let ReadRequest { tenant, matchers, range, flushed } = request;
        let Cursor { candidates, at } = cursor;
        let candidates = candidates.unwrap_or_else(|| self.candidates(matchers));
        let end = candidates.len().min(at + PAGE_SERIES);
        let mut page = Page { found: Vec::new(), kinds: [0; Kind::COUNT], next: None };
        for index in &candidates[at..end] {
            // Between two pages a slot may have gone over to another series.
            if !self.is_match(*index, Some(tenant), matchers) || !self.has_samples(*index, *range, *flushed) {
                continue;
            }
            let series = self.at(*index);
            page.kinds[series.owned.meta().kind as usize] += 1;
            let sources = match give {
                Give::Nothing => continue,
                Give::Definitions => Vec::new(),
                Give::Samples => self.parts(*index, *range, *flushed).collect(),
            };
            debug_assert!(
                give != Give::Samples || !sources.is_empty(),
                "a series that has samples in the range gives them"
            );
            page.found.push(HeadAnswer { owned: Arc::clone(&series.owned), def: OnceLock::new(), sources });
        }
        let (counted, found) = (page.kinds.iter().sum::<usize>(), page.found.len());
        assert!(give == Give::Nothing || counted == found, "{found} series are given of {counted}");
        page.next = (end < candidates.len()).then_some(Cursor { candidates: Some(candidates), at: end });
        page
    }

    fn candidates(&self, matchers: &[Matcher]) -> Vec<u32> {
        self.index.candidates(matchers).unwrap_or_else(|| (0..self.series.len() as u32).collect())
    }

    fn is_match(&self, index: u32, tenant: Option<&Tenant>, matchers: &[Matcher]) -> bool {
        let Some(Series { owned, .. }) = &self.series[index as usize] else { return false };
        tenant.is_none_or(|tenant| owned.tenant() == tenant) && owned.matches(matchers)
    }

    /// The frozen heads that are not in the blocks that a reader knows.
    fn unflushed(&self, flushed: u64) -> impl Iterator<Item = &Frozen> {
        self.frozen.iter().filter(move |(epoch, _)| *epoch > flushed).map(|(_, frozen)| &**frozen)
    }

    fn has_samples(&self, index: u32, range: TimeRange, flushed: u64) -> bool {
        self.at(index).holds(range) || self.unflushed(flushed).any(|frozen| frozen.holds(index, range))
    }

    /// The samples of a series in the order of their arrival.
    fn parts(&self, index: u32, range: TimeRange, flushed: u64) -> impl Iterator<Item = Parts> {
        let frozen = self.unflushed(flushed).filter_map(move |frozen| frozen.read(index, range));
        frozen.chain(self.at(index).read(range))
    }
}

/// What followers ask for.
impl Head {
    /// The series of `tenant`, or of everybody, that all matchers accept.
    pub(crate) fn matching(&self, tenant: Option<&Tenant>, matchers: &[Matcher]) -> Vec<u32> {
        let mut found = self.candidates(matchers);
        found.retain(|index| self.is_match(*index, tenant, matchers));
        found
    }

    fn at(&self, index: u32) -> &Series {
        self.series[index as usize].as_ref().expect("the series is here")
    }

    pub(crate) fn owned(&self, index: u32) -> &Arc<Owned> {
        &self.at(index).owned
    }

    pub(crate) fn is_followed(&self, index: u32) -> bool {
        self.at(index).followed
    }

    pub(crate) fn follow(&mut self, index: u32, followed: bool) {
        self.series[index as usize].as_mut().expect("the series is here").followed = followed;
    }

    /// Time of the newest sample of a series outside blocks.
    pub(crate) fn newest(&self, index: u32) -> Option<WallMs> {
        let frozen = self.frozen.iter().filter_map(|(_, frozen)| frozen.read(index, TimeRange::ALL)?.last()).max();
        self.at(index).samples.last().max(frozen).map(WallMs)
    }

    /// Time of the newest sample that was ever frozen.
    pub(crate) const fn frozen_newest(&self) -> Option<WallMs> {
        self.frozen_newest
    }
}

/// A list of texts that a head knows without looking at every series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Listing {
    /// Label names.
    Names,
    /// The values of this label.
    Values(String),
    /// The names of metrics that have histograms.
    Histograms,
}

/// Texts of a listing, ascending.
pub(crate) struct Listed {
    pub(crate) texts: Vec<String>,
    /// The last that was looked at, when there are more.
    pub(crate) next: Option<String>,
}

impl Head {
    /// A page of what `listing` asks for of the series that [`Head::select`] would find without matchers: what is
    /// behind `after`. The first such series of each text is enough.
    pub(crate) fn list(&self, request: &ReadRequest, listing: &Listing, after: Option<&str>) -> Listed {
        let has = |index: &u32| {
            self.is_match(*index, Some(&request.tenant), &[])
                && self.has_samples(*index, request.range, request.flushed)
        };
        let values = match listing {
            Listing::Names => {
                let is_there = |name: &&str| self.index.values(name, None).any(|(_, series)| series.iter().any(has));
                let texts: BTreeSet<&str> = self.index.names().filter(is_there).collect();
                return Listed { texts: texts.into_iter().map(str::to_owned).collect(), next: None };
            }
            Listing::Values(name) => self.index.values(name, after),
            Listing::Histograms => self.histograms.values(METRIC_NAME, after),
        };
        let mut listed = Listed { texts: Vec::new(), next: None };
        let mut seen = 0;
        for (value, series) in values {
            seen += series.len();
            if series.iter().any(has) {
                listed.texts.push(value.to_owned());
            }
            if seen >= PAGE_SERIES {
                listed.next = Some(value.to_owned());
                break;
            }
        }
        debug_assert!(listed.texts.is_sorted_by(|one, next| one < next), "texts of a page ascend");
        let first = listed.texts.first().map(String::as_str);
        debug_assert!(first.is_none() || after < first, "a page that begins behind {after:?} begins with {first:?}");
        listed
    }
}

impl Samples {
    /// None yet.
    fn new(kind: Kind) -> Self {
        match kind {
            Kind::Float => Self::Floats(Column::default()),
            Kind::Histogram => Self::Histograms(Column::default()),
            Kind::Text => Self::Texts(Box::default()),
        }
    }

    /// Gives each value its start, which is not known. Gives by how many bytes the columns grew.
    fn make_room_for_starts(&mut self) -> i64 {
        fn started<V: Pack>(column: &Column<V>) -> (Column<Started<V>>, i64)
        where
            Started<V>: Pack,
        {
            let made = column.map(|value| Started { start: 0, value: value.clone() });
            // Less than nothing where parts that are rows had room for more.
            let grown = difference(column.bytes(), made.bytes());
            debug_assert_eq!(made.last(), column.last(), "the samples stay when their starts get room");
            (made, grown)
        }
        let (made, grown) = match self {
            Self::Floats(column) => {
                let (made, grown) = started(column);
                (Self::StartedFloats(made), grown)
            }
            Self::Histograms(column) => {
                let (made, grown) = started(column);
                (Self::StartedHistograms(made), grown)
            }
            Self::StartedFloats(_) | Self::StartedHistograms(_) | Self::Texts(_) => return 0,
        };
        *self = made;
        grown
    }

    /// As [`Column::pack_late`]; no part of texts becomes rows again.
    fn pack_late(&mut self, times: [i64; 2]) -> i64 {
        match self {
            Self::Floats(column) => column.pack_late(times),
            Self::StartedFloats(column) => column.pack_late(times),
            Self::Histograms(column) => column.pack_late(times),
            Self::StartedHistograms(column) => column.pack_late(times),
            Self::Texts(_) => 0,
        }
    }

    fn last(&self) -> Option<i64> {
        match self {
            Self::Floats(column) => column.last(),
            Self::StartedFloats(column) => column.last(),
            Self::Histograms(column) => column.last(),
            Self::StartedHistograms(column) => column.last(),
            Self::Texts(column) => column.last(),
        }
    }

    /// All of them; there are none then.
    fn take(&mut self) -> Parts {
        let (kind, parts) = match self {
            Self::Floats(column) => (Kind::Float, Parts::Floats(column.take())),
            Self::StartedFloats(column) => (Kind::Float, Parts::StartedFloats(column.take())),
            Self::Histograms(column) => (Kind::Histogram, Parts::Histograms(column.take())),
            Self::StartedHistograms(column) => (Kind::Histogram, Parts::StartedHistograms(column.take())),
            Self::Texts(column) => (Kind::Text, Parts::Texts(column.take())),
        };
        *self = Self::new(kind);
        parts
    }
}

impl Series {
    fn read(&self, range: TimeRange) -> Option<Parts> {
        let parts = match &self.samples {
            Samples::Floats(column) => Parts::Floats(column.read(range)),
            Samples::StartedFloats(column) => Parts::StartedFloats(column.read(range)),
            Samples::Histograms(column) => Parts::Histograms(column.read(range)),
            Samples::StartedHistograms(column) => Parts::StartedHistograms(column.read(range)),
            Samples::Texts(column) => Parts::Texts(column.read(range)),
        };
        (!parts.is_empty()).then_some(parts)
    }

    /// Whether [`Series::read`] finds anything.
    fn holds(&self, range: TimeRange) -> bool {
        match &self.samples {
            Samples::Floats(column) => column.holds(range),
            Samples::StartedFloats(column) => column.holds(range),
            Samples::Histograms(column) => column.holds(range),
            Samples::StartedHistograms(column) => column.holds(range),
            Samples::Texts(column) => column.holds(range),
        }
    }
}

#[cfg(test)]
impl Head {
    /// One that has more than `bytes_max` bytes of parts that late samples made rows packed.
    pub(crate) fn bounded(bytes_max: u64) -> Self {
        Self { late: LateParts::new(bytes_max), ..Self::default() }
    }

    /// Bytes of sealed parts of numbers and histograms that are rows.
    pub(crate) fn rows_bytes(&self) -> usize {
        let of = |series: &Series| match &series.samples {
            Samples::Floats(column) => column.rows_bytes(),
            Samples::StartedFloats(column) => column.rows_bytes(),
            Samples::Histograms(column) => column.rows_bytes(),
            Samples::StartedHistograms(column) => column.rows_bytes(),
            Samples::Texts(_) => 0,
        };
        self.series.iter().flatten().map(of).sum()
    }

    /// Bytes of the columns of numbers and histograms.
    pub(crate) fn column_bytes(&self) -> usize {
        let of = |series: &Series| match &series.samples {
            Samples::Floats(column) => column.bytes(),
            Samples::StartedFloats(column) => column.bytes(),
            Samples::Histograms(column) => column.bytes(),
            Samples::StartedHistograms(column) => column.bytes(),
            Samples::Texts(_) => 0,
        };
        self.series.iter().flatten().map(of).sum()
    }

    /// How often a late sample made rows of a part.
    pub(crate) const fn late_parts(&self) -> u32 {
        self.late.count()
    }
}

/// The label that is its metric's name.
fn names(owned: &Owned) -> impl Iterator<Item = (&str, &str)> {
    owned.pairs().filter(|(name, _)| *name == METRIC_NAME)
}

/// The same for the parts of every kind.
macro_rules! each {
    ($of:expr, $parts:ident => $do:expr) => {
        match $of {
            Parts::Floats($parts) => $do,
            Parts::StartedFloats($parts) => $do,
            Parts::Histograms($parts) => $do,
            Parts::StartedHistograms($parts) => $do,
            Parts::Texts($parts) => $do,
        }
    };
}

impl Parts {
    fn is_empty(&self) -> bool {
        each!(self, parts => parts.is_empty())
    }

    fn last(&self) -> Option<i64> {
        match self {
            Self::Texts(parts) => parts.iter().map(|part| part.last()).max(),
            _ => each!(self, parts => parts.last().map(|part| part.last())),
        }
    }

    fn first(&self) -> Option<i64> {
        match self {
            Self::Texts(parts) => parts.iter().map(|part| part.first()).min(),
            _ => each!(self, parts => parts.first().map(|part| part.first())),
        }
    }

    fn rows_max(&self) -> usize {
        each!(self, parts => parts.iter().map(|part| part.len()).sum())
    }

    /// Bytes of the texts that only this holds: a reader gets a copy of what is open.
    fn copied_bytes(&self) -> usize {
        let Self::Texts(parts) = self else { return 0 };
        parts.iter().filter(|part| Arc::strong_count(part) == 1).map(|part| part.bytes()).sum()
    }

    /// Whether [`Parts::within`] finds anything.
    fn holds(&self, range: TimeRange) -> bool {
        match self {
            Self::Texts(parts) => among(parts, range).next().is_some(),
            _ => each!(self, parts => holds(parts, range)),
        }
    }

    /// The windows that it has samples in, ascending.
    fn windows(&self, of: impl Fn(i64) -> Window) -> BTreeSet<Window> {
        let windows = each!(self, parts => windows_of(parts, of));
        debug_assert!(
            windows.iter().is_sorted_by(|one, next| one.end() <= next.start),
            "windows of a series ascend: {windows:?}"
        );
        windows
    }

    fn within(&self, range: TimeRange) -> Self {
        match self {
            Self::Floats(parts) => Self::Floats(within(parts, range).into()),
            Self::StartedFloats(parts) => Self::StartedFloats(within(parts, range).into()),
            Self::Histograms(parts) => Self::Histograms(within(parts, range).into()),
            Self::StartedHistograms(parts) => Self::StartedHistograms(within(parts, range).into()),
            Self::Texts(parts) => Self::Texts(among(parts, range).cloned().collect()),
        }
    }

    /// Copies the rows inside `range` into a series' columns.
    fn data(&self, def: &SeriesDef, range: TimeRange, budget: &mut Budget) -> Result<SeriesData, Error> {
        let mut data = blank(def);
        let SeriesData { floats, histograms, texts, .. } = &mut data;
        match self {
            Self::Floats(parts) => copy(parts, range, &mut floats.times, budget, |value| {
                floats.values.push(*value);
                1
            })?,
            Self::StartedFloats(parts) => copy(parts, range, &mut floats.times, budget, |value| {
                floats.values.push(value.value);
                floats.starts.push(value.start);
                1
            })?,
            Self::Histograms(parts) => copy(parts, range, &mut histograms.times, budget, |value| {
                let value = value.into_owned();
                let weight = weight(&value);
                histograms.values.push(value);
                weight
            })?,
            Self::StartedHistograms(parts) => copy(parts, range, &mut histograms.times, budget, |value| {
                let Started { start, value } = value.into_owned();
                let weight = weight(&value);
                histograms.starts.push(start);
                histograms.values.push(value);
                weight
            })?,
            Self::Texts(parts) => {
                for part in parts.iter() {
                    let before = texts.values.len();
                    copy(std::slice::from_ref(part), range, &mut texts.times, budget, |value| {
                        texts.values.push(value.into_owned());
                        1
                    })?;
                    budget.hold(&texts.values[before..])?;
                }
                order::sort_texts(texts);
            }
        }
        debug_assert!(
            floats.starts.is_empty() || floats.starts.len() == floats.times.len(),
            "each float has its start"
        );
        debug_assert_eq!(floats.times.len(), floats.values.len(), "each time has its float");
        debug_assert_eq!(histograms.times.len(), histograms.values.len(), "each time has its histogram");
        merge::forget_unknown(&mut floats.starts);
        merge::forget_unknown(&mut histograms.starts);
        Ok(data)
    }
}

fn histogram_of(value: Value) -> HistogramValue {
    match value {
        Value::Histogram(histogram) => HistogramValue::Integer(*histogram),
        Value::FloatHistogram(histogram) => HistogramValue::Float(*histogram),
        value => unreachable!("{value:?} was checked to be a histogram"),
    }
}

/// The windows that the parts have samples in. A set: very many parts of late texts may be in the same few windows.
fn windows_of<V: Pack>(parts: &[Arc<Part<V>>], of: impl Fn(i64) -> Window) -> BTreeSet<Window> {
    let mut windows = BTreeSet::new();
    for part in parts {
        let (first, last) = (of(part.first()), of(part.last()));
        if first == last {
            windows.insert(first);
        } else {
            let times = part.times();
            let mut rest = &times[..];
            while let Some(time) = rest.first() {
                let window = of(*time);
                assert!(window.range().contains_ms(*time), "the sample at {time} is cut by {window:?}");
                rest = &rest[rest.partition_point(|time| *time <= window.end().0)..];
                windows.insert(window);
            }
        }
    }
    windows
}

/// Copies the times inside `range`, and lets `take` copy each value, or keep one that was unpacked, and return its
/// weight.
fn copy<V: Pack>(
    parts: &[Arc<Part<V>>],
    range: TimeRange,
    times: &mut Vec<i64>,
    budget: &mut Budget,
    mut take: impl FnMut(Cow<'_, V>) -> usize,
) -> Result<(), Error> {
    for part in parts {
        let mut weight = 0;
        match part.rows(range) {
            Cow::Borrowed(rows) => {
                times.extend(rows.iter().map(|row| row.0));
                rows.iter().for_each(|row| weight += take(Cow::Borrowed(&row.1)));
            }
            Cow::Owned(rows) => {
                times.extend(rows.iter().map(|row| row.0));
                rows.into_iter().for_each(|row| weight += take(Cow::Owned(row.1)));
            }
        }
        budget.take(weight)?;
    }
    Ok(())
}

fn blank(def: &SeriesDef) -> SeriesData {
    SeriesData::new(def.labels.clone(), def.meta.clone())
}

impl HeadAnswer {
    /// The series without samples.
    pub(crate) fn blank(&self) -> SeriesData {
        blank(self.def())
    }

    /// What it is.
    pub(crate) fn def(&self) -> &SeriesDef {
        self.def.get_or_init(|| self.owned.def())
    }

    /// What an answer holds of it: its labels, put together, and of its samples a copy of the open part; the others lie
    /// in the head. Of that copy texts are counted, which may be long.
    pub(crate) fn memory_bytes(&self) -> usize {
        let copied: usize = self.sources.iter().map(Parts::copied_bytes).sum();
        size_of::<Self>() + self.owned.labels_bytes() + self.sources.capacity() * size_of::<Parts>() + copied
    }

    /// A time at or before its first sample and one at or behind its last.
    pub(crate) fn span(&self) -> Option<(i64, i64)> {
        let first = self.sources.iter().filter_map(Parts::first).min();
        first.zip(self.sources.iter().filter_map(Parts::last).max())
    }

    /// The most samples that it has.
    pub(crate) fn rows_max(&self) -> usize {
        self.sources.iter().map(Parts::rows_max).sum()
    }

    /// Whether a number or a histogram of it is inside `range`.
    pub(crate) fn holds(&self, range: TimeRange) -> bool {
        self.owned.meta().kind != Kind::Text && self.sources.iter().any(|parts| parts.holds(range))
    }

    /// The series' samples inside `range`, or only what it is.
    pub(crate) fn data(&self, range: TimeRange, labels_only: bool, budget: &mut Budget) -> Result<SeriesData, Error> {
        let def = self.def();
        let mut sources = self.sources.iter().filter(|_| !labels_only).map(|parts| parts.data(def, range, budget));
        let mut data = sources.next().unwrap_or_else(|| Ok(blank(def)))?;
        for source in sources {
            // A head has one temporality, and schemes that do not merge were refused.
            let _ = merge::add(&mut data, source?);
        }
        debug_assert!(sample_times(&data).len() <= self.rows_max(), "merging adds no sample");
        Ok(data)
    }
}

impl Frozen {
    fn read(&self, index: u32, range: TimeRange) -> Option<Parts> {
        let at = self.series.binary_search_by_key(&index, |series| series.slot).ok()?;
        let parts = self.series[at].parts.within(range);
        (!parts.is_empty()).then_some(parts)
    }

    /// Whether [`Frozen::read`] finds anything.
    fn holds(&self, index: u32, range: TimeRange) -> bool {
        let at = self.series.binary_search_by_key(&index, |series| series.slot);
        at.is_ok_and(|at| self.series[at].parts.holds(range))
    }
}

/// The series of all shards' frozen heads, ascending by (labels, kind), under each tenant and window in which they have
/// samples.
pub(crate) fn by_window(frozen: &[Arc<Frozen>], ladder: Ladder) -> BTreeMap<(&Tenant, Window), Vec<&FrozenSeries>> {
    let order = |a: &&FrozenSeries, b: &&FrozenSeries| {
        let (a, b) = (&a.owned, &b.owned);
        a.cmp_labels(b).then_with(|| a.meta().kind.cmp(&b.meta().kind))
    };
    let mut all: Vec<&FrozenSeries> = frozen.iter().flat_map(|frozen| &frozen.series).collect();
    all.sort_by(order);
    let newest = all.iter().filter_map(|series| series.parts.last()).max().unwrap_or(0);
    let mut windows: BTreeMap<(&Tenant, Window), Vec<&FrozenSeries>> = BTreeMap::new();
    for series in all {
        for window in series.parts.windows(|time| ladder.for_flush(WallMs(time), WallMs(newest))) {
            windows.entry((series.owned.tenant(), window)).or_default().push(series);
        }
    }
    debug_assert!(
        windows.values().all(|series| series.is_sorted_by(|one, next| order(one, next).is_lt())),
        "a series of a tenant is in one place of one head"
    );
    windows
}

/// The samples of a frozen series inside `range`.
pub(crate) fn data_of(series: &FrozenSeries, range: TimeRange) -> SeriesData {
    let mut unbounded = Budget::new(usize::MAX);
    let data =
        series.parts.within(range).data(&series.owned.def(), range, &mut unbounded).expect("the budget has no end");
    debug_assert!(!tombstone::is_empty(&data), "a series that is under a window has samples in it: {range:?}");
    data
}
