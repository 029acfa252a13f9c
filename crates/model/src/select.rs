//! Reading: what a store answers to whoever asks for series and their samples.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use crate::{
    Charge, FloatColumn, FloatHead, FloatRun, Kind, Labels, Matcher, Memory, MemoryExceeded, Ms, SeriesColumns,
    SeriesData, SeriesDef, WallMs, Words,
};

/// Sample times from after `start` up to and including `end`: left-open, as cells and PromQL ranges are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeRange {
    /// Excluded.
    pub start: WallMs,
    /// Included.
    pub end: WallMs,
}

impl TimeRange {
    /// Everything.
    pub const ALL: Self = Self { start: WallMs::MIN, end: WallMs::MAX };

    /// The range between two times in milliseconds since the Unix epoch, the first of them excluded.
    #[must_use]
    pub const fn from_ms(start_ms: i64, end_ms: i64) -> Self {
        Self { start: WallMs(start_ms), end: WallMs(end_ms) }
    }

    /// Whether a sample at `time` is inside.
    #[must_use]
    pub const fn contains(&self, time: WallMs) -> bool {
        self.start.0 < time.0 && time.0 <= self.end.0
    }

    /// As [`TimeRange::contains`], of a time of a column: milliseconds since the Unix epoch.
    #[must_use]
    pub const fn contains_ms(&self, time_ms: i64) -> bool {
        self.contains(WallMs(time_ms))
    }

    /// How long it is.
    #[must_use]
    pub const fn length(&self) -> Ms {
        self.end.since(self.start)
    }
}

/// What to read.
#[derive(Clone, Debug)]
pub struct Selection {
    /// All must hold.
    pub matchers: Vec<Matcher>,
    /// When.
    pub range: TimeRange,
    /// Most samples to return over all series; one more is [`SelectError::TooManySamples`]. A histogram
    /// counts as one sample per bin.
    pub samples_max: usize,
    /// Leave the samples out: only which series have data in the range.
    pub labels_only: bool,
    /// How fine.
    pub resolution: Resolution,
}

impl Selection {
    /// All samples in `range` of the series for which all `matchers` hold, as fine as they are.
    #[must_use]
    pub fn new(matchers: Vec<Matcher>, range: TimeRange) -> Self {
        Self { matchers, range, samples_max: usize::MAX, labels_only: false, resolution: Resolution::Finest }
    }
}

/// The resolution of the samples in a result. A store keeps rollups: coarser cells made from finer ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resolution {
    /// For each part of the range the finest that still exists.
    #[default]
    Finest,
    /// Coarser where the result is the same for the caller: cells that lie completely inside the range and whose width
    /// divides `step`. Only of series for which `use_as` is valid.
    Aligned {
        /// Divides every time inside the range at which the caller separates samples; 0 when there is none.
        step: Ms,
        /// How the samples are used.
        use_as: RollupUse,
    },
    /// Cells of this width where they exist, finer samples elsewhere. 0: only original samples, and nothing where they
    /// have been dropped.
    Width(u32),
}

/// How the samples of a range are used, so that a store knows which rollups give the same result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RollupUse {
    /// All samples between two times are combined: sums, extremes, increases. Rollups of floats and of delta
    /// histograms contain what is needed.
    Together,
    /// As `Together`, but a histogram counts as a sample: only rollups of floats contain what is needed.
    Numbers,
    /// The last sample at or before a time counts. Rollups of floats that are not cells contain it with its own time.
    Last,
}

/// When a counter was read, and since when it had counted, on one clock and in one unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterReading {
    /// Of the sample.
    pub time: i64,
    /// 0 when it is not known.
    pub start: i64,
}

/// Whether a counter was reset between the reading `before` and the reading `now`, as far as its starts show.
///
/// A start equal to the time of the previous sample is a cell that follows a cell, if that one's own start is
/// known and before it; otherwise it could be a cumulative series of unknown start.
#[must_use]
pub fn restarted(before: CounterReading, now: CounterReading) -> bool {
    if now.start == 0 || now.start >= now.time || now.start < before.time {
        return false;
    }
    now.start > before.time || (before.start != 0 && before.start < before.time)
}

/// Why a selection has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectError {
    /// The limit of the selection was reached.
    #[error("the query reads more than {limit} samples; narrow its time range or its matchers")]
    TooManySamples {
        /// The limit.
        limit: usize,
    },
    /// More series match than may.
    #[error("the selector matches {found} series or more, more than {limit}; narrow it")]
    TooManySeries {
        /// How many were met.
        found: usize,
        /// The limit.
        limit: usize,
    },
    /// More memory would be held than may.
    #[error(transparent)]
    TooMuchMemory(#[from] MemoryExceeded),
    /// The caller no longer waits.
    #[error("the selection was cancelled before it was found")]
    Cancelled,
    /// Stored bytes failed their checksum.
    #[error("stored data is corrupt: {0}")]
    Corrupt(String),
    /// The store is shutting down or its disk does not respond.
    #[error("the store cannot answer: {0}")]
    Unavailable(String),
}

/// The readable part of a selection.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Partial {
    /// The series, as [`Select::select`] gives them.
    pub series: Vec<SeriesData>,
    /// What is missing from them, one sentence each; empty when they are complete.
    pub warnings: Vec<String>,
}

/// The series of a selection, to be read one label set at a time: in any order, by any thread.
///
/// Label sets are numbered in their order. The samples that were read count against the selection's limit together.
pub trait SeriesSet: Send + Sync {
    /// Number of label sets. Some of them may turn out to have no sample.
    fn count(&self) -> usize;

    /// The series of a label set, ascending by kind. Each is returned once: a second call returns none.
    ///
    /// # Errors
    /// See [`SelectError`].
    fn take(&self, number: usize) -> Result<Vec<SeriesData>, SelectError>;

    /// As [`SeriesSet::take`], with the bins as columns. None where the label set does not have them as such: then it
    /// is not taken yet.
    ///
    /// # Errors
    /// See [`SelectError`].
    fn take_columns(&self, _number: usize) -> Result<Option<SeriesColumns>, SelectError> {
        Ok(None)
    }

    /// As [`SeriesSet::take`], with the floats as runs, ascending in time, that `each` is called with. None where the
    /// label set has others too, where they are cells or have starts or aggregates, or where something cannot be read:
    /// then it is not taken yet, and what `each` was called with means nothing.
    ///
    /// # Errors
    /// See [`SelectError`].
    fn take_floats(
        &self,
        _number: usize,
        _each: &mut dyn FnMut(FloatRun<'_>),
    ) -> Result<Option<FloatHead>, SelectError> {
        Ok(None)
    }

    /// The definitions of the series of a label set that was not taken yet, ascending by kind.
    ///
    /// # Errors
    /// See [`SelectError`].
    fn describe(&self, number: usize) -> Result<Vec<SeriesDef>, SelectError>;

    /// Width of the coarsest cells that may be among the samples, milliseconds; 0 when none comes from a rollup.
    fn rollup_ms(&self) -> u32;

    /// The approximate number of samples, or more: before any is taken.
    fn samples_about(&self) -> usize;

    /// What is missing from the series taken so far, one sentence each.
    fn warnings(&self) -> Vec<String>;
}

/// What can end the opening of a selection early.
pub struct Opening<'c> {
    /// Most label sets; one more is [`SelectError::TooManySeries`], reported as soon as it is found.
    pub series_max: usize,
    /// Called occasionally; true causes [`SelectError::Cancelled`].
    pub cancelled: &'c (dyn Fn() -> bool + Sync),
    /// Called with the approximate number of series in a part of the store, before they are gathered. It may block, to
    /// wait for a slot for large queries.
    pub counted: &'c (dyn Fn(usize) + Sync),
    /// The budget to which memory held for the caller is charged.
    pub memory: Option<&'c Arc<Memory>>,
    /// Texts that lack some of these words are not wanted: a store may leave them out, or not.
    pub words: Option<&'c Arc<Words>>,
}

impl Opening<'_> {
    /// Without limits.
    pub const UNBOUNDED: Self =
        Self { series_max: usize::MAX, cancelled: &|| false, counted: &|_| (), memory: None, words: None };

    /// A charge of nothing to the caller's budget, to grow.
    #[must_use]
    pub fn held(&self) -> Charge {
        self.memory.map(Memory::empty).unwrap_or_default()
    }

    /// Charges `bytes` to the caller's budget, if there is one.
    ///
    /// # Errors
    /// [`SelectError::TooMuchMemory`].
    pub fn charge(&self, bytes: usize) -> Result<Charge, SelectError> {
        Ok(self.memory.map_or(Ok(Charge::default()), |memory| memory.charge(bytes))?)
    }

    /// Fails when `found` label sets are more than may be.
    ///
    /// # Errors
    /// [`SelectError::TooManySeries`].
    pub const fn check(&self, found: usize) -> Result<(), SelectError> {
        let limit = self.series_max;
        if found > limit { Err(SelectError::TooManySeries { found, limit }) } else { Ok(()) }
    }
}

/// A [`SeriesSet`] of series that were read already.
#[derive(Debug, Default)]
pub struct ReadSeries {
    sets: Vec<Mutex<Vec<SeriesData>>>,
    rollup_ms: u32,
    samples: usize,
    warnings: Vec<String>,
    _held: Charge,
}

impl ReadSeries {
    /// Adds a charge that is released together with them.
    #[must_use]
    pub fn holding(self, held: Charge) -> Self {
        Self { _held: held, ..self }
    }
}

impl From<Partial> for ReadSeries {
    fn from(partial: Partial) -> Self {
        let rollup_ms = partial.series.iter().map(|one| one.rollup_ms).max().unwrap_or(0);
        let rows = |one: &SeriesData| one.floats.times.len() + one.histograms.times.len() + one.texts.times.len();
        let samples = partial.series.iter().map(rows).sum();
        let mut sets: Vec<Vec<SeriesData>> = Vec::with_capacity(partial.series.len());
        for one in partial.series {
            match sets.last_mut() {
                Some(set) if set[0].labels == one.labels => set.push(one),
                _ => sets.push(vec![one]),
            }
        }
        Self {
            sets: sets.into_iter().map(Mutex::new).collect(),
            rollup_ms,
            samples,
            warnings: partial.warnings,
            _held: Charge::default(),
        }
    }
}

impl SeriesSet for ReadSeries {
    fn count(&self) -> usize {
        self.sets.len()
    }

    fn take(&self, number: usize) -> Result<Vec<SeriesData>, SelectError> {
        Ok(std::mem::take(&mut *self.sets[number].lock().unwrap_or_else(PoisonError::into_inner)))
    }

    fn take_columns(&self, number: usize) -> Result<Option<SeriesColumns>, SelectError> {
        let mut set = self.sets[number].lock().unwrap_or_else(PoisonError::into_inner);
        let Some(one) = set.pop_if(|one| one.meta.kind == Kind::Histogram) else { return Ok(None) };
        // Another kind before it.
        if !set.is_empty() {
            set.push(one);
            return Ok(None);
        }
        match SeriesColumns::from_series(one) {
            Ok(columns) => Ok(Some(columns)),
            Err(one) => {
                set.push(*one);
                Ok(None)
            }
        }
    }

    fn take_floats(&self, number: usize, each: &mut dyn FnMut(FloatRun<'_>)) -> Result<Option<FloatHead>, SelectError> {
        let mut set = self.sets[number].lock().unwrap_or_else(PoisonError::into_inner);
        let [one] = &set[..] else { return Ok(None) };
        let Some(run) = FloatRun::from_series(one).filter(|_| one.meta.kind == Kind::Float) else { return Ok(None) };
        each(run);
        let samples = run.times.count();
        let blank = |one: SeriesData| SeriesData { floats: FloatColumn::default(), ..one };
        Ok(set.pop().map(|one| FloatHead { series: blank(one), samples }))
    }

    fn describe(&self, number: usize) -> Result<Vec<SeriesDef>, SelectError> {
        let set = self.sets[number].lock().unwrap_or_else(PoisonError::into_inner);
        Ok(set.iter().map(|one| SeriesDef { labels: one.labels.clone(), meta: one.meta.clone() }).collect())
    }

    fn rollup_ms(&self) -> u32 {
        self.rollup_ms
    }

    fn samples_about(&self) -> usize {
        self.samples
    }

    fn warnings(&self) -> Vec<String> {
        self.warnings.clone()
    }
}

/// The read interface of a store. Results contain everything that was acknowledged before the call.
pub trait Select: Send + Sync {
    /// The matching series that have a sample in the range, sorted by labels.
    ///
    /// # Errors
    /// See [`SelectError`].
    fn select(&self, selection: &Selection) -> Result<Vec<SeriesData>, SelectError>;

    /// As [`Select::select`], but parts whose stored bytes are damaged are left out, each with a warning.
    ///
    /// # Errors
    /// See [`SelectError`].
    fn select_partial(&self, selection: &Selection) -> Result<Partial, SelectError> {
        Ok(Partial { series: self.select(selection)?, warnings: Vec::new() })
    }

    /// As [`Select::select_partial`], one label set at a time: a caller that needs each series once need not hold all
    /// of them.
    ///
    /// # Errors
    /// See [`SelectError`]; of the samples, [`SeriesSet::take`] decides.
    fn open<'a>(
        &'a self,
        selection: &Selection,
        opening: &Opening<'_>,
    ) -> Result<Box<dyn SeriesSet + 'a>, SelectError> {
        let read = ReadSeries::from(self.select_partial(selection)?);
        opening.check(read.count())?;
        Ok(Box::new(read))
    }

    /// The first `limit` label sets, ascending, of the series that `matchers` accept and that have a sample in the
    /// range. Their memory stays charged to the opening's budget for as long as that lives.
    ///
    /// # Errors
    /// See [`SelectError`].
    fn label_sets(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        limit: usize,
        opening: &Opening<'_>,
    ) -> Result<BTreeSet<Labels>, SelectError> {
        let all = self.select(&Selection { labels_only: true, ..Selection::new(matchers.to_vec(), range) })?;
        let all: BTreeSet<Labels> = all.into_iter().map(|one| one.labels).collect();
        opening.check(all.len())?;
        Ok(all.into_iter().take(limit).collect())
    }

    /// The names of the metrics that have histograms in the range. Stores that keep a list of names may include one
    /// whose histograms are just outside.
    ///
    /// # Errors
    /// See [`SelectError`].
    fn histogram_names(&self, range: TimeRange) -> Result<BTreeSet<String>, SelectError> {
        let all = self.select(&Selection { labels_only: true, ..Selection::new(Vec::new(), range) })?;
        let histograms = all.iter().filter(|one| one.meta.kind == Kind::Histogram);
        Ok(histograms.map(|one| one.labels.metric_name().to_owned()).collect())
    }
}
