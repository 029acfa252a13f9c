//! Sums of histograms of either kind of count, and the units of the series that they are of.

use ogive_hist::{Count, Histogram};

/// A selection may read 50,000,000 bins, twelve bytes each: the same 600 MB that a query may take.
pub(super) const BINS_READ_MAX: usize = 50_000_000;

/// A sum of histograms: integer as long as all of them are.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Merged {
    Integer(Histogram<u64>),
    Float(Histogram<f64>),
}

impl Merged {
    /// Adds `other`; false when their schemes do not merge.
    pub(super) fn merge(&mut self, other: Self) -> bool {
        match (&mut *self, other) {
            (Self::Integer(left), Self::Integer(right)) => left.merge(&right).is_ok(),
            (Self::Float(left), other) => left.merge(&other.into_float()).is_ok(),
            (Self::Integer(left), Self::Float(right)) => {
                let mut sum = left.to_float();
                let merged = sum.merge(&right).is_ok();
                *self = Self::Float(sum);
                merged
            }
        }
    }

    pub(super) fn into_float(self) -> Histogram<f64> {
        match self {
            Self::Integer(value) => value.to_float(),
            Self::Float(value) => value,
        }
    }

    /// How many samples.
    pub(super) fn count(&self) -> f64 {
        match self {
            Self::Integer(value) => value.count.to_f64(),
            Self::Float(value) => value.count,
        }
    }

    pub(super) fn bins(&self) -> usize {
        match self {
            Self::Integer(value) => value.negative.len() + value.positive.len(),
            Self::Float(value) => value.negative.len() + value.positive.len(),
        }
    }
}

/// The units seen.
#[derive(Debug, Default)]
pub(super) struct Units(Option<String>, bool);

impl Units {
    pub(super) fn add(&mut self, unit: &str) {
        match &self.0 {
            None => self.0 = Some(unit.to_owned()),
            Some(known) => self.1 |= known != unit,
        }
    }

    /// The unit of all, or nothing when they differ.
    pub(super) fn common(self) -> String {
        self.0.filter(|_| !self.1).unwrap_or_default()
    }
}
