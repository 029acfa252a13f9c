//! Merges a value with others in the head: the rules of [`crate::order`], in place.
//!
//! Invariants: a column's final state does not depend on the order of arrival; a point is in it once.

use std::cmp::Ordering;

use ogive_hist::{Bins, Count, Histogram};
use ogive_model::HistogramValue;

use crate::ingest::column::{Column, Pack};
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
    /// Bytes.
    pub(crate) grown: i64,
    /// It met another, and they are one sample now.
    pub(crate) met: bool,
    /// It is a point that was there already.
    pub(crate) known: bool,
}

/// What the head keeps columns of beside texts.
pub(crate) trait Measured: Clone {
    /// The greater one stays.
    fn order(&self, other: &Self) -> Ordering;
    /// Adds a fragment.
    fn add(&mut self, other: Self);
    /// Brings it into the form in which it comes back from a block, so that it can be compared.
    fn normalize(&mut self);
}

impl Measured for f64 {
    fn order(&self, other: &Self) -> Ordering {
        order::floats(*self, *other)
    }

    fn add(&mut self, other: Self) {
        *self += other;
    }

    fn normalize(&mut self) {}
}

impl Measured for HistogramValue {
    fn order(&self, other: &Self) -> Ordering {
        order::histograms(self, other)
    }

    fn add(&mut self, other: Self) {
        // Schemes that do not merge were refused.
        order::merge_cell(self, other);
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
    let mut met = false;
    let join = |there: &mut V, value: V| {
        met = true;
        if delta {
            there.add(value);
        } else if value.order(there).is_gt() {
            *there = value;
        }
    };
    let grown = column.insert(time, value, |_, _| Ordering::Equal, join);
    Applied { grown, met, known: false }
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
    let (mut met, mut known) = (false, false);
    let order = |there: &Started<V>, value: &Started<V>| match delta {
        true => order::points((there.start, &there.value), (value.start, &value.value), V::order),
        false => Ordering::Equal,
    };
    let join = |there: &mut Started<V>, value: Started<V>| {
        met = true;
        if delta {
            known = there.start != 0;
            if !known {
                there.value.add(value.value);
            }
        } else if value.value.order(&there.value).then(value.start.cmp(&there.start)).is_gt() {
            *there = value;
        }
    };
    let grown = column.insert(time, value, order, join);
    debug_assert!(met || !known, "a point that was there already met itself");
    Applied { grown, met, known }
}
