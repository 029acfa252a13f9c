//! The samples of a series in a range, as columns of times and values.

use ogive_hist::Histogram;

use crate::{Labels, SeriesMeta};

/// What a rollup keeps of the floats of one cell in addition to the last one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Aggregate {
    /// Their number; staleness markers do not count.
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
    /// To be added to last - first to get the increase of a counter: the values before each of its resets.
    pub resets: f64,
}

impl Aggregate {
    /// Of one sample.
    #[must_use]
    pub const fn from_sample(time: i64, value: f64, start: i64) -> Self {
        let (first_time, first_start) = (time, start);
        Self { count: 1, sum: value, min: value, max: value, first: value, first_time, first_start, resets: 0.0 }
    }
}

/// Float samples of one series, strictly ascending in time. If they come from a rollup, a row represents a cell: for a
/// gauge or cumulative series the cell's last sample with its own time, for a delta series the cell's sum at its end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FloatColumn {
    /// Milliseconds.
    pub times: Vec<i64>,
    /// One a time.
    pub values: Vec<f64>,
    /// When each cumulative value began to count, milliseconds; 0 is unknown. Empty, or one for each time.
    pub starts: Vec<i64>,
    /// The aggregate that each row represents. Empty when each is an original sample, or one for each time.
    pub aggregates: Vec<Aggregate>,
}

/// Histogram samples of one series, strictly ascending in time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HistogramColumn {
    /// Milliseconds.
    pub times: Vec<i64>,
    /// One a time, integer or float.
    pub values: Vec<HistogramValue>,
    /// When each cumulative value began to count, milliseconds; 0 is unknown. Empty, or one for each time.
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
/// language considers one series (same labels, floats and histograms mixed) may fill two.
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

impl SeriesData {
    /// A series without samples.
    #[must_use]
    pub fn new(labels: Labels, meta: SeriesMeta) -> Self {
        let (floats, histograms, texts) = Default::default();
        Self { labels, meta, floats, histograms, texts, rollup_ms: 0 }
    }
}
