//! Sum, difference and scaling.
//!
//! Failure: histograms of different families ([`Incompatible`]); the receiver is then unchanged.

use std::borrow::Cow;

use ogive_hist::{Bins, CounterReset, Scheme};

use super::{Hist, is_custom, layout};

/// Details of an addition or a subtraction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Combined {
    /// One side states a counter reset and the other that there was none.
    pub(crate) collision: bool,
    /// Custom bounds differed: the result has only the common ones.
    pub(crate) reconciled: bool,
}

/// The bins of the two follow different families of schemes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Incompatible {
    /// Exponential and custom, as Prometheus knows them.
    ExponentialCustom,
    /// Log-linear and another, or parameters that differ.
    LogLinear,
}

/// Adds `other` to `into`.
pub(crate) fn add(into: &mut Hist, other: &Hist) -> Result<Combined, Incompatible> {
    combine(into, other, |left, right| left + right)
}

/// Subtracts `other` from `into`; minimum and maximum are then unknown.
pub(crate) fn subtract(into: &mut Hist, other: &Hist) -> Result<Combined, Incompatible> {
    let combined = combine(into, other, |left, right| left - right)?;
    into.min = None;
    into.max = None;
    Ok(combined)
}

/// Whether bins of one index are the same in both, so that they combine as they are.
pub(super) fn same_layout(left: &Hist, right: &Hist) -> bool {
    left.scheme == right.scheme && left.zero_threshold == right.zero_threshold
}

/// `left` less `right` as in [`subtract`], without the bins that become zero.
pub(crate) fn difference(left: &Hist, right: &Hist) -> Result<(Hist, Combined), Incompatible> {
    if !same_layout(left, right) {
        let mut out = left.clone();
        let combined = subtract(&mut out, right)?;
        out.compact();
        return Ok((out, combined));
    }
    let mut out = head_of(left);
    let collision = combine_reset(&mut out, right.reset);
    out.sum = match (left.sum, right.sum) {
        (Some(left), Some(right)) => Some(left - right),
        (before, after) => sum_when_known(before, after.map(|sum| 0.0 - sum), left.count, right.count),
    };
    out.count -= right.count;
    out.zero -= right.zero;
    out.nan -= right.nan;
    (out.min, out.max) = (None, None);
    out.positive = bins_less(&left.positive, &right.positive);
    out.negative = bins_less(&left.negative, &right.negative);
    Ok((out, Combined { collision, reconciled: false }))
}

/// The counts of `left` less those of `right`; bins that become zero are left out.
fn bins_less(left: &Bins<f64>, right: &Bins<f64>) -> Bins<f64> {
    let mut out = Bins::with_capacity(left.len());
    let mut put = |index: i32, count: f64| {
        if count != 0.0 {
            out.push(index, count);
        }
    };
    let mut rest = right.iter().peekable();
    for (index, count) in left.iter() {
        while let Some((other, less)) = rest.next_if(|(other, _)| *other < index) {
            put(other, 0.0 - less);
        }
        let less = rest.next_if(|(other, _)| *other == index).map_or(0.0, |(_, less)| less);
        put(index, count - less);
    }
    rest.for_each(|(other, less)| put(other, 0.0 - less));
    out
}

/// Everything except the bins.
pub(super) fn head_of(histogram: &Hist) -> Hist {
    let mut head = Hist::new(histogram.scheme.clone());
    head.zero_threshold = histogram.zero_threshold;
    (head.zero, head.nan, head.count) = (histogram.zero, histogram.nan, histogram.count);
    (head.sum, head.min, head.max) = (histogram.sum, histogram.min, histogram.max);
    head.reset = histogram.reset;
    head
}

fn combine(into: &mut Hist, other: &Hist, apply: impl Fn(f64, f64) -> f64) -> Result<Combined, Incompatible> {
    let mut other = Cow::Borrowed(other);
    let reconciled = align(into, &mut other)?;
    let collision = combine_reset(into, other.reset);
    (into.min, into.max) = extremes(into, &other);
    into.sum = match (into.sum, other.sum) {
        (Some(left), Some(right)) => Some(apply(left, right)),
        (left, right) => sum_when_known(left, right.map(|right| apply(0.0, right)), into.count, other.count),
    };
    into.count = apply(into.count, other.count);
    into.zero = apply(into.zero, other.zero);
    into.nan = apply(into.nan, other.nan);
    into.positive = zip_bins(&into.positive, &other.positive, &apply);
    into.negative = zip_bins(&into.negative, &other.negative, &apply);
    Ok(Combined { collision, reconciled })
}

/// The sum of two histograms of which at most one has a known sum: known when the other is empty.
pub(super) fn sum_when_known(left: Option<f64>, right: Option<f64>, left_count: f64, right_count: f64) -> Option<f64> {
    match (left, right) {
        (left, None) if right_count == 0.0 => left,
        (None, right) if left_count == 0.0 => right,
        _ => None,
    }
}

fn is_blank(histogram: &Hist) -> bool {
    histogram.count == 0.0
}

/// Least and greatest sample of both, when known of all that have samples.
pub(super) fn extremes(left: &Hist, right: &Hist) -> (Option<f64>, Option<f64>) {
    let pick = |a: Option<f64>, b: Option<f64>, choose: fn(f64, f64) -> f64| match (a, b) {
        (Some(a), Some(b)) => Some(choose(a, b)),
        (a, None) if is_blank(right) => a,
        (None, b) if is_blank(left) => b,
        _ => None,
    };
    (pick(left.min, right.min, f64::min), pick(left.max, right.max, f64::max))
}

/// Gives both one scheme and one zero threshold. True when custom bounds were dropped.
pub(super) fn align(left: &mut Hist, right: &mut Cow<'_, Hist>) -> Result<bool, Incompatible> {
    match (&left.scheme, &right.scheme) {
        (Scheme::LogLinear10, Scheme::LogLinear10) => Ok(false),
        (Scheme::Exp2 { scale: a }, Scheme::Exp2 { scale: b }) => {
            let (a, b) = (*a, *b);
            layout::reconcile_zero(left, right);
            if a > b {
                left.downscale(b);
            } else if b > a {
                right.to_mut().downscale(a);
            }
            Ok(false)
        }
        (Scheme::Custom { bounds: a }, Scheme::Custom { bounds: b }) => {
            if a == b {
                return Ok(false);
            }
            let common = layout::common_bounds(a, b);
            layout::rebound(left, &common);
            layout::rebound(right.to_mut(), &common);
            Ok(true)
        }
        (Scheme::LogLinear2 { .. } | Scheme::Gamma { .. }, other) if left.scheme == *other => {
            layout::reconcile_zero(left, right);
            Ok(false)
        }
        (Scheme::Exp2 { .. }, Scheme::Custom { .. }) | (Scheme::Custom { .. }, Scheme::Exp2 { .. }) => {
            Err(Incompatible::ExponentialCustom)
        }
        _ => Err(Incompatible::LogLinear),
    }
}

/// The hint of a combination. True when the two sides contradict each other.
pub(super) fn combine_reset(into: &mut Hist, other: CounterReset) -> bool {
    use CounterReset::{Gauge, Unknown};
    match (into.reset, other) {
        (left, right) if left == right => {}
        (Gauge, _) => {}
        (_, Gauge) => into.reset = Gauge,
        (Unknown, _) => {}
        (_, Unknown) => into.reset = Unknown,
        _ => {
            into.reset = Unknown;
            return true;
        }
    }
    false
}

/// Combines bins of equal index; one that only one side has is combined with zero.
pub(super) fn zip_bins(left: &Bins<f64>, right: &Bins<f64>, apply: impl Fn(f64, f64) -> f64) -> Bins<f64> {
    if left.indexes() == right.indexes() {
        let mut out = left.clone();
        for (count, other) in out.counts_mut().iter_mut().zip(right.counts()) {
            *count = apply(*count, *other);
        }
        return out;
    }
    let mut out = Bins::new();
    let (mut a, mut b) = (left.iter().peekable(), right.iter().peekable());
    loop {
        match (a.peek().copied(), b.peek().copied()) {
            (Some((i, x)), Some((j, y))) if i == j => {
                out.push(i, apply(x, y));
                a.next();
                b.next();
            }
            (Some((i, x)), other) if other.is_none_or(|(j, _)| i < j) => {
                out.push(i, apply(x, 0.0));
                a.next();
            }
            (_, Some((j, y))) => {
                out.push(j, apply(0.0, y));
                b.next();
            }
            _ => return out,
        }
    }
}

/// Multiplies all counts and the sum. A negative factor makes a gauge.
pub(crate) fn scale(histogram: &mut Hist, factor: f64) {
    each_count(histogram, |count| count * factor);
    if factor < 0.0 {
        histogram.reset = CounterReset::Gauge;
    }
}

/// Divides all counts and the sum. Division by zero leaves no bins.
pub(crate) fn divide(histogram: &mut Hist, divisor: f64) {
    each_count(histogram, |count| count / divisor);
    if divisor < 0.0 {
        histogram.reset = CounterReset::Gauge;
    }
    if divisor == 0.0 {
        histogram.positive = Bins::new();
        histogram.negative = Bins::new();
    }
}

fn each_count(histogram: &mut Hist, apply: impl Fn(f64) -> f64) {
    histogram.count = apply(histogram.count);
    histogram.sum = histogram.sum.map(&apply);
    // An empty histogram stays empty when divided by zero, except for a zero bin, which explicit bounds do not have.
    if !is_custom(histogram) {
        histogram.zero = apply(histogram.zero);
    }
    if histogram.nan != 0.0 {
        histogram.nan = apply(histogram.nan);
    }
    for bins in [&mut histogram.positive, &mut histogram.negative] {
        for count in bins.counts_mut() {
            *count = apply(*count);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn exponential(scale: i8, bins: &[(i32, f64)]) -> Hist {
        let mut histogram = Hist::new(Scheme::Exp2 { scale });
        histogram.positive = bins.iter().copied().collect();
        histogram.count = bins.iter().map(|bin| bin.1).sum();
        histogram.sum = Some(histogram.count);
        histogram
    }

    #[test]
    fn equal_parameters_add_up_and_others_do_not() {
        let hdr = |grouping| Hist::new(Scheme::log_linear2(grouping, 0, 1e-9).unwrap());
        let sketch = |gamma| Hist::new(Scheme::gamma(gamma, 0.0).unwrap());
        for (mut same, mut other) in [(hdr(10), hdr(7)), (sketch(1.02), sketch(1.03))] {
            same.record_n(0.25, 2.0);
            other.record_n(0.25, 2.0);
            let mut sum = same.clone();
            assert_eq!(add(&mut sum, &same), Ok(Combined::default()));
            assert_eq!((sum.count, sum.positive.total()), (4.0, 4.0));
            assert_eq!(add(&mut sum, &other), Err(Incompatible::LogLinear));
            assert_eq!(sum.count, 4.0);
        }
    }

    #[test]
    fn different_scales_add_at_the_smaller() {
        let mut left = exponential(0, &[(0, 1.0), (1, 2.0)]);
        add(&mut left, &exponential(-1, &[(1, 5.0)])).unwrap();
        assert_eq!(left.scheme, Scheme::Exp2 { scale: -1 });
        assert_eq!(left.positive, [(0, 1.0), (1, 7.0)].into_iter().collect());
        assert_eq!((left.count, left.sum), (8.0, Some(8.0)));
    }

    #[test]
    fn families_do_not_mix_and_the_receiver_stays() {
        let mut left = exponential(0, &[(0, 1.0)]);
        let before = left.clone();
        assert_eq!(add(&mut left, &Hist::new(Scheme::LogLinear10)), Err(Incompatible::LogLinear));
        assert_eq!(left, before);
    }

    proptest! {
        #[test]
        fn a_difference_is_what_subtracting_leaves(
            scales in (0..2_i8, 0..2_i8), thresholds in (0..2_u8, 0..2_u8),
            bins in [proptest::collection::btree_map(-8..8_i32, 0..4_u8, 0..9), proptest::collection::btree_map(-8..8_i32, 0..4_u8, 0..9)],
            sums in (any::<bool>(), any::<bool>()),
        ) {
            let of = |scale, threshold: u8, bins: &std::collections::BTreeMap<i32, u8>, known: bool| {
                let bins: Vec<(i32, f64)> = bins.iter().map(|(index, count)| (*index, f64::from(*count))).collect();
                let mut out = exponential(scale, &bins);
                out.negative = bins.iter().map(|(index, count)| (-index, *count)).collect();
                out.zero_threshold = f64::from(threshold) / 1024.0;
                out.sum = out.sum.filter(|_| known);
                out
            };
            let left = of(scales.0, thresholds.0, &bins[0], sums.0);
            let right = of(scales.1, thresholds.1, &bins[1], sums.1);
            let mut expected = left.clone();
            let combined = subtract(&mut expected, &right);
            expected.compact();
            prop_assert_eq!(difference(&left, &right), combined.map(|combined| (expected, combined)));
        }

        #[test]
        fn a_bin_fell_when_its_count_did(
            before in proptest::collection::btree_map(-5..5_i32, 0..3_u8, 0..9), now in proptest::collection::btree_map(-5..5_i32, 0..3_u8, 0..9),
        ) {
            let bins = |of: &std::collections::BTreeMap<i32, u8>| -> Vec<(i32, f64)> {
                of.iter().map(|(index, count)| (*index, f64::from(*count))).collect()
            };
            let fell = (-5..5).any(|index| now.get(&index).unwrap_or(&0) < before.get(&index).unwrap_or(&0));
            let mut current = exponential(0, &bins(&now));
            // Of all of them there are more than before.
            current.count = 1e3;
            prop_assert_eq!(super::super::detect_reset(&current, &exponential(0, &bins(&before))), fell);
        }
    }

    #[test]
    fn contradicting_hints_are_reported() {
        let mut left = exponential(0, &[]);
        left.reset = CounterReset::Reset;
        let mut right = left.clone();
        right.reset = CounterReset::NotReset;
        assert!(add(&mut left, &right).unwrap().collision);
        assert_eq!(left.reset, CounterReset::Unknown);
        assert!(!add(&mut left, &right).unwrap().collision);
    }

    #[test]
    fn a_sum_is_known_only_when_both_are() {
        let mut known = exponential(0, &[(0, 1.0)]);
        let mut unknown = known.clone();
        unknown.sum = None;
        let mut empty = Hist::new(Scheme::Exp2 { scale: 0 });
        add(&mut empty, &known).unwrap();
        assert_eq!(empty.sum, Some(1.0));
        add(&mut known, &unknown).unwrap();
        assert_eq!(known.sum, None);
    }
}
