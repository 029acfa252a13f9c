//! The state of an open cell, and the cell made from it.

use std::collections::HashSet;
use std::hash::BuildHasherDefault;

use ogive_hist::Histogram;
use ogive_model::{SeriesDef, Value};

use crate::key::Low;

/// A cell of a series, ready for the store.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Its series.
    pub series: SeriesDef,
    /// Its end, nanoseconds since the Unix epoch.
    pub time_ns: i64,
    /// What happened in it.
    pub value: Value,
}

/// Members of a set, by their 64-bit xxh3: 2^32 of them would be needed for two to fall together.
pub(crate) type Members = HashSet<u64, BuildHasherDefault<Low>>;

/// What was measured in an open cell.
#[derive(Debug, Default)]
pub(crate) enum State {
    #[default]
    Empty,
    Count(f64),
    Gauge(f64),
    Distinct(Members),
    Histogram(Box<Histogram>),
}

impl State {
    /// The value that is stored; none where nothing was measured.
    pub(crate) fn value(self) -> Option<Value> {
        match self {
            Self::Empty => None,
            Self::Count(value) | Self::Gauge(value) => Some(Value::Float(value)),
            Self::Distinct(members) => Some(Value::Float(members.len() as f64)),
            Self::Histogram(histogram) => Some(Value::Histogram(histogram)),
        }
    }

    /// Members that it holds.
    pub(crate) fn members(&self) -> usize {
        if let Self::Distinct(members) = self { members.len() } else { 0 }
    }
}
