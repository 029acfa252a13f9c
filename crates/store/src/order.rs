//! The rule for two values at one time, which does not depend on their order of arrival.
//!
//! Invariants: every rule here is commutative, associative and idempotent, or an exact sum; so the answer does not
//! depend on the order of arrival, nor on what was flushed, compacted or replayed in between. Float sums depend on it
//! in their last bits, as float sums do. docs/decisions/order-of-arrival.md has the reasons.
//!
//! - A gauge or a cumulative value: the greater one stays. Any number is above a NaN, and any NaN above a staleness
//!   marker.
//! - A cumulative or gauge histogram: the one with the greater count stays; of equal counts the one that is greater
//!   when fields are compared in order.
//! - A delta without a start, a fragment: both count. A delta with a start, a whole point: the same start and value
//!   count once, anything else counts too. Histograms whose schemes do not merge cannot both count: the one whose class
//!   [`class_order`] ranks higher stays. On ingest such a sample is refused and counted; where two meet only in blocks,
//!   the answer reports it, and both are counted.
//! - Texts are all kept, those of one time in the order of their bytes.

use std::cmp::Ordering;

use ogive_hist::{Bins, Count, CounterReset, Histogram, Scheme};
use ogive_model::{HistogramValue, STALE, TextColumn};

/// Whether a value says that its series ended.
pub(crate) const fn is_stale(value: f64) -> bool {
    value.to_bits() == STALE
}

/// The order of float values; the greater one stays.
pub(crate) fn floats(a: f64, b: f64) -> Ordering {
    let rank = |value: f64| if is_stale(value) { 0 } else { 1 + u8::from(!value.is_nan()) };
    rank(a).cmp(&rank(b)).then_with(|| a.total_cmp(&b))
}

/// The order of the delta points `(start, value)` at one time; those that are equal become one row: fragments, whose
/// start is 0, add up, and a point that is there already changes nothing.
pub(crate) fn points<V>(a: (i64, &V), b: (i64, &V), values: impl Fn(&V, &V) -> Ordering) -> Ordering {
    a.0.cmp(&b.0).then_with(|| if a.0 == 0 { Ordering::Equal } else { values(a.1, b.1) })
}

/// The order of histograms that replace each other; the greater one stays.
pub(crate) fn histograms(a: &HistogramValue, b: &HistogramValue) -> Ordering {
    let count = |value: &HistogramValue| match value {
        HistogramValue::Integer(value) => (value.count as f64, value.sum),
        HistogramValue::Float(value) => (value.count, value.sum),
    };
    let (a_count, b_count) = (count(a), count(b));
    let stale = |sum: Option<f64>| sum.is_some_and(is_stale);
    stale(b_count.1).cmp(&stale(a_count.1)).then_with(|| floats(a_count.0, b_count.0)).then_with(|| match (a, b) {
        (HistogramValue::Integer(a), HistogramValue::Integer(b)) => fields(a, b, u64::cmp),
        (HistogramValue::Float(a), HistogramValue::Float(b)) => fields(a, b, f64::total_cmp),
        (HistogramValue::Integer(_), HistogramValue::Float(_)) => Ordering::Greater,
        (HistogramValue::Float(_), HistogramValue::Integer(_)) => Ordering::Less,
    })
}

fn fields<C: Count>(a: &Histogram<C>, b: &Histogram<C>, count: impl Fn(&C, &C) -> Ordering + Copy) -> Ordering {
    let bins = |a: &Bins<C>, b: &Bins<C>| {
        let counts = || {
            let mut pairs = a.counts().iter().zip(b.counts()).map(|(a, b)| count(a, b));
            pairs.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
        };
        a.indexes().cmp(b.indexes()).then_with(counts)
    };
    count(&a.count, &b.count)
        .then_with(|| schemes(&a.scheme, &b.scheme))
        .then_with(|| count(&a.zero, &b.zero))
        .then_with(|| count(&a.nan, &b.nan))
        .then_with(|| bins(&a.positive, &b.positive))
        .then_with(|| bins(&a.negative, &b.negative))
        .then_with(|| optional(a.sum, b.sum))
        .then_with(|| optional(a.min, b.min))
        .then_with(|| optional(a.max, b.max))
        .then_with(|| a.zero_threshold.total_cmp(&b.zero_threshold))
        .then_with(|| reset(a.reset).cmp(&reset(b.reset)))
}

fn optional(a: Option<f64>, b: Option<f64>) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        (a, b) => a.is_some().cmp(&b.is_some()),
    }
}

const fn reset(reset: CounterReset) -> u8 {
    match reset {
        CounterReset::Unknown => 0,
        CounterReset::Reset => 1,
        CounterReset::NotReset => 2,
        CounterReset::Gauge => 3,
    }
}

/// The order of schemes that do not merge with each other: cells of a higher one stay. Schemes of one class, which do
/// merge, are equal.
pub(crate) fn class_order(a: &Scheme, b: &Scheme) -> Ordering {
    match (a, b) {
        (Scheme::Exp2 { .. }, Scheme::Exp2 { .. }) => Ordering::Equal,
        (a, b) => schemes(a, b),
    }
}

fn schemes(a: &Scheme, b: &Scheme) -> Ordering {
    let rank = |scheme: &Scheme| match scheme {
        Scheme::LogLinear10 => 4,
        Scheme::Exp2 { .. } => 3,
        Scheme::LogLinear2 { .. } => 2,
        Scheme::Gamma { .. } => 1,
        Scheme::Custom { .. } => 0,
    };
    rank(a).cmp(&rank(b)).then_with(|| match (a, b) {
        (Scheme::Exp2 { scale: a }, Scheme::Exp2 { scale: b }) => a.cmp(b),
        (Scheme::Custom { bounds: a }, Scheme::Custom { bounds: b }) => {
            let pairs = || a.iter().zip(b.iter()).map(|(a, b)| a.total_cmp(b)).find(|order| order.is_ne());
            a.len().cmp(&b.len()).then_with(|| pairs().unwrap_or(Ordering::Equal))
        }
        (
            Scheme::LogLinear2 { grouping: a, shift: b, unit: c },
            Scheme::LogLinear2 { grouping: x, shift: y, unit: z },
        ) => (a, b).cmp(&(x, y)).then_with(|| c.total_cmp(z)),
        (Scheme::Gamma { gamma: a, offset: b }, Scheme::Gamma { gamma: x, offset: y }) => {
            a.total_cmp(x).then_with(|| b.total_cmp(y))
        }
        _ => Ordering::Equal,
    })
}

fn scheme_of(value: &HistogramValue) -> &Scheme {
    match value {
        HistogramValue::Integer(histogram) => &histogram.scheme,
        HistogramValue::Float(histogram) => &histogram.scheme,
    }
}

/// 1 Mi bins of each sign in a cell that was merged, 12 MiB. Nothing measures so finely over so wide a range; but many
/// cells of a fine scheme may share few of their bins, and a chunk must hold their sum.
const CELL_BINS_MAX: usize = 1 << 20;
const _: () = assert!(CELL_BINS_MAX <= crate::codec::histograms::BINS_MAX);

/// Adds a fragment to a delta cell, exactly. Integer counts stay integer; beside float ones they become floats. Of two
/// classes that do not merge the higher one stays; false then. An exponential cell of more than [`CELL_BINS_MAX`] bins
/// becomes coarser; of the others, the fragment that makes it so is not added, and it is false too.
pub(crate) fn merge_cell(cell: &mut HistogramValue, fragment: HistogramValue) -> bool {
    let order = class_order(scheme_of(cell), scheme_of(&fragment));
    if order.is_ne() {
        if order.is_lt() {
            *cell = fragment;
        }
        return false;
    }
    match (&mut *cell, &fragment) {
        (HistogramValue::Integer(cell), HistogramValue::Integer(fragment)) => merge_within(cell, fragment),
        (HistogramValue::Float(cell), HistogramValue::Float(fragment)) => merge_within(cell, fragment),
        (HistogramValue::Float(cell), HistogramValue::Integer(fragment)) => merge_within(cell, &fragment.to_float()),
        (HistogramValue::Integer(integer), HistogramValue::Float(fragment)) => {
            let mut sum = integer.to_float();
            let merged = merge_within(&mut sum, fragment);
            if merged {
                *cell = HistogramValue::Float(sum);
            }
            merged
        }
    }
}

/// Merges what stays within [`CELL_BINS_MAX`]. How coarse a cell becomes depends on all its bins alone: those of some
/// of its fragments are never more, at any scale.
fn merge_within<C: Count>(cell: &mut Histogram<C>, fragment: &Histogram<C>) -> bool {
    let fits = |bins: &Bins<C>, more: &Bins<C>| {
        bins.len() + more.len() <= CELL_BINS_MAX || bins.len() + added(bins, more) <= CELL_BINS_MAX
    };
    let coarsens = matches!(cell.scheme, Scheme::Exp2 { .. });
    let both_fit = || fits(&cell.negative, &fragment.negative) && fits(&cell.positive, &fragment.positive);
    if !(coarsens || both_fit()) {
        return false;
    }
    if cell.merge(fragment).is_err() {
        return false;
    }
    while let Scheme::Exp2 { scale } = cell.scheme
        && cell.negative.len().max(cell.positive.len()) > CELL_BINS_MAX
    {
        cell.downscale(scale - 1);
    }
    true
}

/// How many bins of `more` are not among `bins`.
fn added<C: Count>(bins: &Bins<C>, more: &Bins<C>) -> usize {
    more.indexes().iter().filter(|index| bins.indexes().binary_search(index).is_err()).count()
}

/// Puts texts into the order of their times, and those of one time into that of their bytes.
pub(crate) fn sort_texts(column: &mut TextColumn) {
    debug_assert_eq!(column.times.len(), column.values.len(), "each time has its text");
    if !column.times.is_sorted() {
        let times = std::mem::take(&mut column.times);
        let mut all: Vec<(i64, String)> = times.into_iter().zip(std::mem::take(&mut column.values)).collect();
        all.sort_unstable();
        (column.times, column.values) = all.into_iter().unzip();
    } else {
        let mut from = 0;
        while from < column.times.len() {
            let run = column.times[from..].iter().take_while(|time| **time == column.times[from]).count();
            column.values[from..from + run].sort_unstable();
            from += run;
        }
    }
    debug_assert!(
        column.times.iter().zip(&column.values).is_sorted(),
        "{} texts ascend by time, and those of one time by their bytes",
        column.times.len()
    );
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{any_float, any_histogram};

    #[test]
    fn a_number_is_above_nan_and_nan_above_a_staleness_marker() {
        let stale = f64::from_bits(STALE);
        let ascending = [stale, -f64::NAN, f64::NAN, f64::NEG_INFINITY, -1.0, -0.0, 0.0, 1.0, f64::INFINITY];
        for pair in ascending.windows(2) {
            assert_eq!(floats(pair[0], pair[1]), Ordering::Less, "{pair:?}");
        }
    }

    #[test]
    fn strangers_stay_apart_and_the_higher_class_stays_in_either_order() {
        let cell = |scheme: Scheme| {
            let mut histogram = Histogram::<u64>::new(scheme);
            histogram.record(1.5);
            HistogramValue::Integer(histogram)
        };
        let schemes = [
            Scheme::custom(vec![1.0, 2.0]).unwrap(),
            Scheme::gamma(1.1, 0.0).unwrap(),
            Scheme::Exp2 { scale: 2 },
            Scheme::LogLinear10,
        ];
        for (low, high) in (0..schemes.len()).flat_map(|high| (0..high).map(move |low| (low, high))) {
            for (a, b) in [(low, high), (high, low)] {
                let mut merged = cell(schemes[a].clone());
                assert!(!merge_cell(&mut merged, cell(schemes[b].clone())));
                assert_eq!(merged, cell(schemes[high].clone()));
            }
        }
        let mut coarser = cell(Scheme::Exp2 { scale: 2 });
        assert!(merge_cell(&mut coarser, cell(Scheme::Exp2 { scale: 1 })));
    }

    /// Cells of 40,000 bins of which no other cell has one: the sum had more than a chunk can hold.
    #[test]
    fn a_merged_cell_has_no_more_bins_than_a_chunk_takes_in_any_order() {
        let cell = |scheme: &Scheme, at: i32| {
            let mut histogram = Histogram::<u64>::new(scheme.clone());
            let from = 1 + at * 40_000;
            histogram.positive = Bins::from_columns((from..from + 40_000).collect(), vec![1; 40_000]);
            histogram.negative = histogram.positive.clone();
            histogram.recount();
            HistogramValue::Integer(histogram)
        };
        let merged = |scheme: &Scheme, order: &[i32]| {
            let mut sum = cell(scheme, order[0]);
            let merged = order[1..].iter().filter(|at| merge_cell(&mut sum, cell(scheme, **at))).count();
            let HistogramValue::Integer(sum) = sum else { panic!("integers stay integers") };
            (sum, 1 + merged as u64)
        };
        let (up, down): (Vec<i32>, Vec<i32>) = ((0..30).collect(), (0..30).rev().collect());
        let (sum, count) = merged(&Scheme::Exp2 { scale: 20 }, &up);
        assert_eq!((&sum.scheme, count, sum.count), (&Scheme::Exp2 { scale: 19 }, 30, 30 * 80_000));
        assert!(sum.positive.len() <= CELL_BINS_MAX && sum.negative.len() <= CELL_BINS_MAX);
        assert_eq!(sum, merged(&Scheme::Exp2 { scale: 20 }, &down).0);
        for scheme in [Scheme::log_linear2(20, 0, 1.0).unwrap(), Scheme::gamma(1.000_01, 0.0).unwrap()] {
            let (sum, count) = merged(&scheme, &up);
            assert_eq!((sum.count, sum.positive.len()), (count * 80_000, 26 * 40_000), "{scheme} says what it took");
        }
    }

    proptest! {
        #[test]
        fn the_order_of_histograms_is_total(values in proptest::collection::vec(any_histogram(), 3)) {
            let [a, b, c] = &values[..] else { unreachable!() };
            prop_assert_eq!(histograms(a, b), histograms(b, a).reverse());
            prop_assert_eq!(histograms(a, a), Ordering::Equal);
            if histograms(a, b).is_le() && histograms(b, c).is_le() {
                prop_assert!(histograms(a, c).is_le());
            }
            // Equal only what is the same.
            let same = format!("{a:?}") == format!("{b:?}");
            prop_assert!(histograms(a, b).is_ne() || same);
        }

        #[test]
        fn the_order_of_floats_is_total(a in any_float(), b in any_float(), c in any_float()) {
            prop_assert_eq!(floats(a, b), floats(b, a).reverse());
            prop_assert_eq!(floats(a, b) == Ordering::Equal, a.to_bits() == b.to_bits());
            if floats(a, b).is_le() && floats(b, c).is_le() {
                prop_assert!(floats(a, c).is_le());
            }
        }
    }
}
