//! Merges a value with others in the head: the rules of [`crate::order`], in place.
//!
//! Invariants: a column's final state does not depend on the order of arrival; a point is in it once.

use std::cmp::Ordering;

use ogive_hist::{Bins, Count, Histogram};
use ogive_model::HistogramValue;

use crate::ingest::column::{Column, Inserted, Pack, Ties};
use crate::order;

/// A value and the start of what it covers, milliseconds; 0 is unknown.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Started<V> {
    pub(crate) start: i64,
    pub(crate) value: V,
}

/// What a sample did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Applied {
    /// What it did to the column.
    pub(crate) inserted: Inserted,
    /// It met another, and they are one sample now.
    pub(crate) met: bool,
    /// It is a point that was there already.
    pub(crate) known: bool,
    /// It met a cell with which it does not merge, and one of them is gone.
    pub(crate) clashed: bool,
}

/// What the head keeps columns of beside texts.
pub(crate) trait Measured: Clone {
    /// The greater one stays.
    fn order(&self, other: &Self) -> Ordering;
    /// Adds a fragment; false when the two do not merge and one of them stays.
    fn add(&mut self, other: Self) -> bool;
    /// Brings it into the form in which it comes back from a block, so that it can be compared.
    fn normalize(&mut self);
}

impl Measured for f64 {
    fn order(&self, other: &Self) -> Ordering {
        order::floats(*self, *other)
    }

    fn add(&mut self, other: Self) -> bool {
        *self += other;
        true
    }

    fn normalize(&mut self) {}
}

impl Measured for HistogramValue {
    fn order(&self, other: &Self) -> Ordering {
        order::histograms(self, other)
    }

    fn add(&mut self, other: Self) -> bool {
        // The registry refuses schemes that do not merge.
        order::merge_cell(self, other)
    }

    fn normalize(&mut self) {
        fn both<C: Count>(histogram: &mut Histogram<C>) {
            for bins in [&mut histogram.negative, &mut histogram.positive] {
                forget_empty(bins);
            }
        }
        match self {
            Self::Integer(histogram) => both(histogram),
            Self::Float(histogram) => both(histogram),
        }
    }
}

fn forget_empty<C: Count>(bins: &mut Bins<C>) {
    if bins.counts().contains(&C::ZERO) {
        bins.retain(|_, count| count != C::ZERO);
    }
    debug_assert!(!bins.counts().contains(&C::ZERO), "as it comes back from a block");
}

/// Puts a value without a start into its column.
pub(crate) fn apply<V: Measured + Pack>(column: &mut Column<V>, time: i64, value: V, delta: bool) -> Applied {
    let (mut met, mut clashed) = (false, false);
    let join = |there: &mut V, value: V| {
        met = true;
        if delta {
            clashed = !there.add(value);
        } else if value.order(there).is_gt() {
            *there = value;
        }
    };
    let inserted = column.insert(time, value, None, join);
    Applied { inserted, met, known: false, clashed }
}

/// Puts a value into a column with starts.
pub(crate) fn apply_started<V: Measured>(
    column: &mut Column<Started<V>>,
    time: i64,
    mut value: Started<V>,
    delta: bool,
) -> Applied
where
    Started<V>: Pack,
{
    if delta {
        value.value.normalize();
    }
    let (mut met, mut known, mut clashed) = (false, false, false);
    let points = |there: &Started<V>, value: &Started<V>| {
        order::points((there.start, &there.value), (value.start, &value.value), V::order)
    };
    let ties: Option<Ties<'_, Started<V>>> = if delta { Some(&points) } else { None };
    let join = |there: &mut Started<V>, value: Started<V>| {
        met = true;
        if delta {
            known = there.start != 0;
            if !known {
                clashed = !there.value.add(value.value);
            }
        } else if value.value.order(&there.value).then(value.start.cmp(&there.start)).is_gt() {
            *there = value;
        }
    };
    let inserted = column.insert(time, value, ties, join);
    debug_assert!(met || !known, "a point that was there already met itself");
    Applied { inserted, met, known, clashed }
}
