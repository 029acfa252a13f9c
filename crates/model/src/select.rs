//! Reading: what a store answers to whoever asks for series and their samples.

use ogive_hist::Histogram;

use crate::{Labels, Matcher, SeriesMeta};

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
}

/// Float samples of one series, strictly ascending in time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FloatColumn {
    /// Milliseconds.
    pub times: Vec<i64>,
    /// One a time.
    pub values: Vec<f64>,
    /// When each cumulative value began to count, milliseconds; 0 is unknown. Empty, or one a time.
    pub starts: Vec<i64>,
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
    /// Stored bytes failed their checksum.
    #[error("stored data is corrupt: {0}")]
    Corrupt(String),
    /// The store is shutting down or its disk does not answer.
    #[error("the store cannot answer: {0}")]
    Unavailable(String),
}

/// The reading side of a store. Answers hold everything that was acknowledged before the call.
pub trait Select: Send + Sync {
    /// The matching series that have a sample in the range, sorted by labels.
    ///
    /// # Errors
    /// See [`SelectError`].
    fn select(&self, selection: &Selection) -> Result<Vec<SeriesData>, SelectError>;
}
