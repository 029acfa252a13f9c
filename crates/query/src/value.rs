//! The results of queries.
//!
//! Invariants: points of a series strictly ascend in time over both columns together; a matrix returned by the engine
//! is sorted by labels and has no two series with equal labels.

use std::sync::Arc;

use ogive_hist::Histogram;
use ogive_model::{Labels, Memory, WallMs};

/// One value of a vector or of a series: a number or a distribution.
#[derive(Clone, Debug, PartialEq)]
pub enum Point {
    /// A number.
    Float(f64),
    /// A distribution; shared, because most operators pass it on unchanged.
    Histogram(Arc<Histogram<f64>>),
}

/// One element of an instant vector.
#[derive(Clone, Debug, PartialEq)]
pub struct InstantSample {
    /// Labels, `__name__` included when it was kept.
    pub labels: Labels,
    /// Time of the evaluation.
    pub time: WallMs,
    /// Its value.
    pub value: Point,
}

/// One series of a matrix.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Labels, `__name__` included when it was kept.
    pub labels: Labels,
    /// Numbers: (milliseconds, value).
    pub floats: Vec<(i64, f64)>,
    /// Distributions: (milliseconds, value).
    pub histograms: Vec<(i64, Arc<Histogram<f64>>)>,
}

/// A query's value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// One number without labels.
    Scalar {
        /// Time of the evaluation.
        time: WallMs,
        /// The number.
        value: f64,
    },
    /// A text.
    String {
        /// Time of the evaluation.
        time: WallMs,
        /// The text.
        value: String,
    },
    /// One point for each series, in the order that the query defines (sorted by labels unless it sorts otherwise).
    Vector(Vec<InstantSample>),
    /// Many points for each series.
    Matrix(Vec<Series>),
}

/// A query's result.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryResult {
    /// The value.
    pub value: Value,
    /// Texts of the warnings, `PromQL warning: .. (line:col)`.
    pub warnings: Vec<String>,
    /// Texts of the infos, `PromQL info: .. (line:col)`.
    pub infos: Vec<String>,
    /// What it read.
    pub stats: QueryStats,
    /// Its bytes, charged to the engine's budget for as long as the result lives.
    pub held: MemoryCharge,
}

/// The budget of one query, in which the result stays charged. It is not part of the result, so all are equal.
#[derive(Clone, Debug, Default)]
pub struct MemoryCharge(pub(crate) Option<Arc<Memory>>);

impl MemoryCharge {
    /// Bytes charged for the result.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |memory| memory.used())
    }
}

impl PartialEq for MemoryCharge {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// What a query read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueryStats {
    /// Series, counted at each read from the store.
    pub series_read: usize,
    /// Samples of those.
    pub samples_read: usize,
    /// Samples that the instants looked at: one counts in each window that contains it, a histogram as its bins and 8.
    /// 0 unless [`EngineOptions::step_stats`](crate::EngineOptions::step_stats).
    pub samples_looked_at: u64,
    /// The same for each instant; without those at subqueries' own instants.
    pub samples_by_step: Vec<u64>,
    /// Width of the coarsest cells of rollups among them, milliseconds; 0 when samples were read as they came.
    pub rollup_ms: u32,
}
