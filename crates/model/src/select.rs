//! Reading: what a store answers to whoever asks for series and their samples.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use ogive_hist::Histogram;

use crate::{Charge, Kind, Labels, Matcher, Memory, MemoryExceeded, SeriesDef, SeriesMeta, Words};

/// Sample times from after `start_ms` up to and including `end_ms`: left-open, as cells and PromQL ranges are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeRange {
    /// Excluded.
    pub start_ms: i64,
    /// Included.
    pub end_ms: i64,
}

impl TimeRange {
    /// Everything.
    pub const ALL: Self = Self { start_ms: i64::MIN, end_ms: i64::MAX };

    /// Whether a sample at `time_ms` is inside.
    #[must_use]
    pub const fn contains(&self, time_ms: i64) -> bool {
        self.start_ms < time_ms && time_ms <= self.end_ms
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

/// How fine the samples of an answer are. A store keeps rollups: coarser cells made of finer ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resolution {
    /// For each part of the range the finest that is still there.
    #[default]
    Finest,
    /// Coarser where the asker's answer is the same: cells that lie inside the range whole and whose width divides
    /// `step_ms`. Only of series that `use_as` is right for.
    Aligned {
        /// Divides every time inside the range at which the asker parts samples; 0 when there is none.
        step_ms: i64,
        /// What is done with the samples.
        use_as: RollupUse,
    },
    /// Cells of this width where they are made, finer samples elsewhere. 0: samples as they came, and nothing where they
    /// are gone.
    Width(u32),
}

/// What is done with the samples of a range, so that a store knows whose rollups give the same answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RollupUse {
    /// All samples between two times are taken together: sums, extremes, increases. Rollups of floats and of delta
    /// histograms hold what is needed.
    Together,
    /// As `Together`, but a histogram counts as a sample: only rollups of floats hold what is needed.
    Numbers,
    /// The last sample at or before a time counts. Rollups of floats that are no cells hold it with its own time.
    Last,
}

/// What a rollup holds of the floats of one cell beside the last one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Aggregate {
    /// How many there were; staleness markers do not count.
    pub count: u64,
    /// Their sum.
    pub sum: f64,
    /// The least; NaN only when all are.
    pub min: f64,
    /// The greatest; NaN only when all are.
    pub max: f64,
    /// The first.
    pub first: f64,
    /// Its time, milliseconds.
    pub first_time: i64,
    /// When it began to count, milliseconds; 0 is unknown.
    pub first_start: i64,
    /// What is to be added to last - first to get the increase of a counter: the values before each of its resets.
    pub resets: f64,
}

impl Aggregate {
    /// Of one sample.
    #[must_use]
    pub const fn of(time: i64, value: f64, start: i64) -> Self {
        let (first_time, first_start) = (time, start);
        Self { count: 1, sum: value, min: value, max: value, first: value, first_time, first_start, resets: 0.0 }
    }
}

/// When a counter was read, and since when it had counted, on one clock and in one unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterReading {
    /// Of the sample.
    pub time: i64,
    /// 0 when it is not known.
    pub start: i64,
}

/// Whether a counter that was read `before` began anew until it was read `now`, as far as its starts show.
///
/// A start at the very time of the sample before is a cell that follows a cell, when that one's own start is
/// known and before it; a cumulative series of unknown start looks the same but for that.
#[must_use]
pub fn restarted(before: CounterReading, now: CounterReading) -> bool {
    if now.start == 0 || now.start >= now.time || now.start < before.time {
        return false;
    }
    now.start > before.time || (before.start != 0 && before.start < before.time)
}

/// Float samples of one series, strictly ascending in time. Where they come from a rollup, a row stands for a cell: of a
/// gauge or cumulative series it is the cell's last sample with its own time, of a delta series the cell's sum at its end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FloatColumn {
    /// Milliseconds.
    pub times: Vec<i64>,
    /// One a time.
    pub values: Vec<f64>,
    /// When each cumulative value began to count, milliseconds; 0 is unknown. Empty, or one a time.
    pub starts: Vec<i64>,
    /// Of everything that each row stands for. Empty when each stands for itself, or one a time.
    pub aggregates: Vec<Aggregate>,
}

/// Histogram samples of one series, strictly ascending in time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HistogramColumn {
    /// Milliseconds.
    pub times: Vec<i64>,
    /// One a time, integer or float.
    pub values: Vec<HistogramValue>,
    /// When each cumulative value began to count, milliseconds; 0 is unknown. Empty, or one a time.
    pub starts: Vec<i64>,
}

/// A stored histogram of either count type.
#[derive(Clone, Debug, PartialEq)]
pub enum HistogramValue {
    /// Integer counts.
    Integer(Histogram<u64>),
    /// Float counts.
    Float(Histogram<f64>),
}

/// Text samples of one series, ascending in time; equal times keep their arrival order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TextColumn {
    /// Milliseconds.
    pub times: Vec<i64>,
    /// One a time.
    pub values: Vec<String>,
}

/// One series with its samples in a range. Stored series fill the column of their kind; what a query
/// language calls one series (same labels, floats and histograms mixed) may fill two.
#[derive(Clone, Debug, PartialEq)]
pub struct SeriesData {
    /// Labels, `__name__` included.
    pub labels: Labels,
    /// Kind, temporality, unit and cell width.
    pub meta: SeriesMeta,
    /// Numbers.
    pub floats: FloatColumn,
    /// Distributions.
    pub histograms: HistogramColumn,
    /// Words.
    pub texts: TextColumn,
    /// Width of the coarsest cells among the samples that come from a rollup, milliseconds; 0 when none does.
    pub rollup_ms: u32,
}

/// Why a selection has no answer.
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
    /// The store is shutting down or its disk does not answer.
    #[error("the store cannot answer: {0}")]
    Unavailable(String),
}

/// What could be read of a selection.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Partial {
    /// The series, as [`Select::select`] gives them.
    pub series: Vec<SeriesData>,
    /// What is missing from them, one sentence each; empty when they are whole.
    pub warnings: Vec<String>,
}

/// The series of a selection, to be read one label set at a time: in any order, by any thread.
///
/// Label sets are numbered in their order. The samples that were read count against the selection's limit together.
pub trait SeriesSet: Send + Sync {
    /// Number of label sets. Some of them may turn out to have no sample.
    fn count(&self) -> usize;

    /// The series of a label set, ascending by kind. Each is given once: who asks again gets none.
    ///
    /// # Errors
    /// See [`SelectError`].
    fn take(&self, number: usize) -> Result<Vec<SeriesData>, SelectError>;

    /// What the series of a label set are that was not taken yet, ascending by kind.
    ///
    /// # Errors
    /// See [`SelectError`].
    fn describe(&self, number: usize) -> Result<Vec<SeriesDef>, SelectError>;

    /// Width of the coarsest cells that may be among the samples, milliseconds; 0 when none comes from a rollup.
    fn rollup_ms(&self) -> u32;

    /// About how many samples there are, or more: before any is taken.
    fn samples_about(&self) -> usize;

    /// What is missing from what was taken so far, one sentence each.
    fn warnings(&self) -> Vec<String>;
}

/// What ends the opening of a selection before everything that matches is found.
pub struct Opening<'c> {
    /// Most label sets; one more is [`SelectError::TooManySeries`], reported as soon as it is met.
    pub series_max: usize,
    /// Asked now and then; true is [`SelectError::Cancelled`].
    pub cancelled: &'c (dyn Fn() -> bool + Sync),
    /// Called with about how many series a part of the store has, before they are gathered. It may wait, for a place among those who gather
    /// many.
    pub counted: &'c (dyn Fn(usize) + Sync),
    /// What the store holds for the caller is charged to it.
    pub memory: Option<&'c Arc<Memory>>,
    /// Texts that lack some of these words are not wanted: a store may leave them out, or not.
    pub words: Option<&'c Arc<Words>>,
}

impl Opening<'_> {
    /// As many as there are, to the end.
    pub const UNBOUNDED: Self =
        Self { series_max: usize::MAX, cancelled: &|| false, counted: &|_| (), memory: None, words: None };

    /// A charge of nothing to the caller's budget, to grow.
    #[must_use]
    pub fn held(&self) -> Charge {
        self.memory.map(Memory::empty).unwrap_or_default()
    }

    /// Charges `bytes` to the caller's budget, when there is one.
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
    /// Them, and what is charged for them until they go.
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

/// The reading side of a store. Answers hold everything that was acknowledged before the call.
pub trait Select: Send + Sync {
    /// The matching series that have a sample in the range, sorted by labels.
    ///
    /// # Errors
    /// See [`SelectError`].
    fn select(&self, selection: &Selection) -> Result<Vec<SeriesData>, SelectError>;

    /// As [`Select::select`], but parts whose stored bytes are bad are left out, each with a warning.
    ///
    /// # Errors
    /// See [`SelectError`].
    fn select_partial(&self, selection: &Selection) -> Result<Partial, SelectError> {
        Ok(Partial { series: self.select(selection)?, warnings: Vec::new() })
    }

    /// As [`Select::select_partial`], one label set at a time: who needs each series once need not hold all of them.
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

    /// The first `limit` label sets, ascending, of the series that `matchers` accept and that have a sample in the range. What
    /// they take stays charged to the opening's budget for as long as that lives.
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
        let (matchers, resolution) = (matchers.to_vec(), Resolution::Finest);
        let all =
            self.select(&Selection { matchers, range, samples_max: usize::MAX, labels_only: true, resolution })?;
        let all: BTreeSet<Labels> = all.into_iter().map(|one| one.labels).collect();
        opening.check(all.len())?;
        Ok(all.into_iter().take(limit).collect())
    }

    /// The names of the metrics that have histograms in the range. Stores that keep a list of names may name one whose histograms
    /// lie just outside.
    ///
    /// # Errors
    /// See [`SelectError`].
    fn histogram_names(&self, range: TimeRange) -> Result<BTreeSet<String>, SelectError> {
        let (matchers, resolution) = (Vec::new(), Resolution::Finest);
        let all =
            self.select(&Selection { matchers, range, samples_max: usize::MAX, labels_only: true, resolution })?;
        let histograms = all.iter().filter(|one| one.meta.kind == Kind::Histogram);
        Ok(histograms.map(|one| one.labels.metric_name().to_owned()).collect())
    }
}
