//! The histogram itself: a scheme, sparse bins of both signs, and what is known exactly beside them.

use crate::{Bins, Count, Scheme};

/// What the sender said about a cumulative histogram's history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum CounterReset {
    /// Nothing is known: compare with the histogram before.
    #[default]
    Unknown,
    /// This one starts anew.
    Reset,
    /// This one goes on from the one before.
    NotReset,
    /// Not a counter at all: a cell, a rate or another gauge.
    Gauge,
}

/// A distribution of values under one [`Scheme`].
///
/// Invariants: `count` of an integer histogram is the sum of all its bins, `zero` and `nan` (float
/// histograms keep the count they came with); a `sum`, `min` or `max` that is present is exact.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram<C = u64> {
    /// The rule of the bins.
    pub scheme: Scheme,
    /// Largest distance from zero that the zero bin holds.
    pub zero_threshold: f64,
    /// Samples in the zero bin.
    pub zero: C,
    /// Samples that are not a number, or beyond the scheme's range.
    pub nan: C,
    /// Bins below zero, by distance from zero.
    pub negative: Bins<C>,
    /// Bins above zero, by distance from zero. `Custom` has all its bins here.
    pub positive: Bins<C>,
    /// All samples, `nan` included.
    pub count: C,
    /// Exact sum of the samples, when it is known.
    pub sum: Option<f64>,
    /// Least sample, when it is known.
    pub min: Option<f64>,
    /// Greatest sample, when it is known.
    pub max: Option<f64>,
    /// What the sender said of its history.
    pub reset: CounterReset,
}

impl<C: Count> Histogram<C> {
    /// An empty histogram of `scheme`.
    #[must_use]
    pub fn new(scheme: Scheme) -> Self {
        Self {
            scheme,
            zero_threshold: 0.0,
            zero: C::ZERO,
            nan: C::ZERO,
            negative: Bins::new(),
            positive: Bins::new(),
            count: C::ZERO,
            sum: None,
            min: None,
            max: None,
            reset: CounterReset::Unknown,
        }
    }
}
