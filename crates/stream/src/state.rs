//! The state of an open cell, and the cell made from it.

use std::collections::HashSet;
use std::hash::BuildHasherDefault;

use ogive_hist::Histogram;
use ogive_model::{SeriesDef, Value, WallNs};

use crate::key::Low;

/// A cell of a series, ready for the store.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Its series.
    pub series: SeriesDef,
    /// Its end.
    pub time: WallNs,
    /// The summary of the cell.
    pub value: Value,
}

/// Members of a set, by their 64-bit xxh3: a collision becomes likely only with about 2^32 of them.
pub(crate) type Members = HashSet<u64, BuildHasherDefault<Low>>;

/// The measurements in an open cell.
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
    /// The value that is stored; None where nothing was measured.
    pub(crate) fn value(self) -> Option<Value> {
        match self {
            Self::Empty => None,
            Self::Count(value) | Self::Gauge(value) => Some(Value::Float(value)),
            Self::Distinct(members) => Some(Value::Float(members.len() as f64)),
            Self::Histogram(histogram) => Some(Value::Histogram(histogram)),
        }
    }

    /// Its number of members.
    pub(crate) fn members(&self) -> usize {
        if let Self::Distinct(members) = self { members.len() } else { 0 }
    }
}
