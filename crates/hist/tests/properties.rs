//! Laws that hold in every scheme, tried on random histograms and against sorted samples.

use ogive_hist::{Bins, Count, FlatRecorder, Histogram, Scheme, seconds_of_nanoseconds};
use proptest::prelude::*;

/// Values whose sums are exact in doubles, so that whole histograms can be compared: multiples of 2^-10.
fn value() -> impl Strategy<Value = f64> {
    prop_oneof![
        8 => (-(1_i64 << 30)..1 << 30).prop_map(|units| units as f64 / 1024.0),
        2 => (-2000..2000_i64).prop_map(|units| units as f64 / 1024.0),
        1 => Just(0.0),
        1 => Just(f64::NAN),
    ]
}

fn samples() -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(value(), 0..40)
}

fn custom() -> Scheme {
    Scheme::custom(vec![-1000.0, -1.0, 0.0, 0.5, 1.0, 2.0, 100.0, 1e5]).unwrap()
}

/// Schemes that merge with one another.
fn family() -> impl Strategy<Value = Vec<Scheme>> {
    prop_oneof![
        Just(vec![Scheme::LogLinear10; 3]),
        Just(vec![custom(); 3]),
        Just(vec![Scheme::log_linear2(4, 2, 1.0 / 1024.0).unwrap(); 3]),
        Just(vec![Scheme::gamma(1.02, 0.25).unwrap(); 3]),
        prop::collection::vec((-10..=20_i32).prop_map(|scale| Scheme::exp2(scale).unwrap()), 3),
    ]
}

fn histogram_of(scheme: &Scheme, values: &[f64]) -> Histogram {
    let mut histogram = Histogram::new(scheme.clone());
    values.iter().for_each(|value| histogram.record(*value));
    histogram
}

fn merged<C: Count>(left: &Histogram<C>, right: &Histogram<C>) -> Histogram<C> {
    let mut sum = left.clone();
    sum.merge(right).unwrap();
    sum
}

/// What subtraction must give back: all but the extremes, which it cannot know.
fn without_extremes(mut histogram: Histogram) -> Histogram {
    (histogram.min, histogram.max) = (None, None);
    histogram
}

proptest! {
    // Failing inputs are printed whole; those worth keeping become tests of their own.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn merge_is_associative_and_commutative(schemes in family(), a in samples(), b in samples(), c in samples()) {
        let (a, b, c) = (histogram_of(&schemes[0], &a), histogram_of(&schemes[1], &b), histogram_of(&schemes[2], &c));
        prop_assert_eq!(merged(&a, &b), merged(&b, &a));
        prop_assert_eq!(merged(&merged(&a, &b), &c), merged(&a, &merged(&b, &c)));
        let (a, b, c) = (a.to_float(), b.to_float(), c.to_float());
        prop_assert_eq!(merged(&merged(&a, &b), &c), merged(&a, &merged(&b, &c)));
    }

    #[test]
    fn recording_and_merging_may_change_places(schemes in family(), a in samples(), b in samples()) {
        let mut all = histogram_of(&schemes[0], &a);
        b.iter().for_each(|value| all.record(*value));
        prop_assert_eq!(&merged(&histogram_of(&schemes[0], &a), &histogram_of(&schemes[0], &b)), &all);
        // A coarser scale found by merging is the one found by recording.
        let coarse = if let (Scheme::Exp2 { scale: left }, Scheme::Exp2 { scale: right }) = (&schemes[0], &schemes[1]) {
            Scheme::Exp2 { scale: (*left).min(*right) }
        } else {
            schemes[0].clone()
        };
        let both: Vec<f64> = a.iter().chain(&b).copied().collect();
        let (a, b) = (histogram_of(&schemes[0], &a), histogram_of(&schemes[1], &b));
        prop_assert_eq!(merged(&a, &b), histogram_of(&coarse, &both));
    }

    #[test]
    fn subtracting_what_was_merged_gives_back_the_rest(schemes in family(), a in samples(), b in samples()) {
        let (a, b) = (histogram_of(&schemes[0], &a), histogram_of(&schemes[1], &b));
        let mut difference = merged(&a, &b);
        let underflow = difference.subtract(&b).unwrap();
        prop_assert!(underflow.is_none());
        let mut expected = a;
        if let Scheme::Exp2 { scale } = b.scheme {
            expected.downscale(scale);
        }
        if b.count == b.nan {
            prop_assert_eq!(difference, expected);
        } else {
            prop_assert_eq!(difference, without_extremes(expected));
        }
    }

    #[test]
    fn taking_away_too_much_stops_at_zero(a in samples(), b in samples()) {
        let (a, b) = (histogram_of(&Scheme::LogLinear10, &a), histogram_of(&Scheme::LogLinear10, &b));
        let mut difference = a.clone();
        let short = difference.subtract(&b).unwrap().bins;
        let mut expected = usize::from(b.zero > a.zero) + usize::from(b.nan > a.nan);
        for (left, right) in [(&a.negative, &b.negative), (&a.positive, &b.positive)] {
            expected += right.iter().filter(|(index, count)| *count > left.get(*index)).count();
        }
        prop_assert_eq!(short, expected);
        for (index, count) in difference.positive.iter() {
            prop_assert_eq!(count, a.positive.get(index) - b.positive.get(index));
        }
        prop_assert_eq!(difference.count, difference.total() + difference.nan);
    }

    #[test]
    fn a_wider_zero_bin_cuts_no_bin_and_loses_no_sample(
        scales in (-2..4_i32, -2..4_i32),
        thresholds in (0.0..3.0, 0.0..3.0),
        a in samples(),
        b in samples(),
    ) {
        let make = |scale, threshold, values: &[f64]| {
            let mut histogram = Histogram::new(Scheme::exp2(scale).unwrap());
            histogram.zero_threshold = threshold;
            values.iter().for_each(|value| histogram.record(*value));
            histogram
        };
        let (left, right) = (make(scales.0, thresholds.0, &a), make(scales.1, thresholds.1, &b));
        let sum = merged(&left, &right);
        prop_assert_eq!(&sum, &merged(&right, &left));
        prop_assert_eq!(sum.total(), left.total() + right.total());
        prop_assert!(sum.zero_threshold >= thresholds.0.max(thresholds.1));
        for bucket in sum.buckets().filter(|bucket| bucket.lo > 0.0 || bucket.hi < 0.0) {
            prop_assert!(bucket.lo.abs().min(bucket.hi.abs()) >= sum.zero_threshold, "{:?}", bucket);
        }
        let zeros = a.iter().chain(&b).filter(|value| value.abs() <= sum.zero_threshold).count() as u64;
        prop_assert_eq!(sum.zero, zeros);
    }

    #[test]
    fn what_is_known_beside_the_bins_is_exact(schemes in family(), values in samples()) {
        let histogram = histogram_of(&schemes[0], &values);
        let numbers: Vec<f64> = values.iter().copied().filter(|value| !value.is_nan()).collect();
        prop_assert_eq!(histogram.nan as usize, values.len() - numbers.len());
        prop_assert_eq!(histogram.count as usize, values.len());
        prop_assert_eq!(histogram.total() as usize, numbers.len());
        prop_assert_eq!(histogram.min, numbers.iter().copied().reduce(f64::min));
        prop_assert_eq!(histogram.max, numbers.iter().copied().reduce(f64::max));
        prop_assert_eq!(histogram.sum, (!numbers.is_empty()).then(|| numbers.iter().sum()));
        let counted: u64 = histogram.buckets().map(|bucket| bucket.count).sum();
        prop_assert_eq!(counted, histogram.total());
        let edges: Vec<f64> = histogram.buckets().flat_map(|bucket| [bucket.lo, bucket.hi]).collect();
        prop_assert!(edges.is_sorted(), "{:?}", edges);
    }

    #[test]
    fn quantiles_are_within_the_bin_of_the_sample(
        schemes in family(),
        values in prop::collection::vec(value().prop_filter("numbers", |value| !value.is_nan()), 1..60),
        q in 0.0..=1.0_f64,
        known in any::<bool>(),
    ) {
        let mut histogram = histogram_of(&schemes[0], &values);
        if !known {
            (histogram.min, histogram.max) = (None, None);
        }
        let mut sorted = values;
        sorted.sort_by(f64::total_cmp);
        for q in [q, 0.0, 0.5, 1.0] {
            let rank = ((q * sorted.len() as f64).ceil() as usize).max(1);
            let sample = sorted[rank - 1];
            let found = histogram.quantile(q).unwrap();
            prop_assert!(found.lo <= sample && sample <= found.hi, "q {}: {} is not in {:?}", q, sample, found);
            prop_assert!(found.lo <= found.value && found.value <= found.hi, "{:?}", found);
            if schemes[0] == Scheme::LogLinear10 {
                // A bin is a tenth of its decade wide: at most 10 % of the sample.
                prop_assert!((found.value - sample).abs() <= 0.1 * sample.abs() + 1e-12, "{:?} {}", found, sample);
            }
            if known && rank == sorted.len() {
                prop_assert_eq!(found.value, sample);
            }
        }
        let ascending: Vec<_> = (0..=20).map(|part| f64::from(part) / 20.0).collect();
        let at_once = histogram.quantiles(&ascending);
        let one_by_one: Vec<_> = ascending.iter().map(|q| histogram.quantile(*q)).collect();
        prop_assert_eq!(&at_once, &one_by_one);
        let mut descending: Vec<_> = ascending.iter().rev().copied().collect();
        let mut reversed = histogram.quantiles(&descending);
        reversed.reverse();
        descending.reverse();
        prop_assert_eq!(reversed, one_by_one);
    }

    #[test]
    fn fractions_and_counts_agree_with_sorted_samples(schemes in family(), values in samples(), x in value()) {
        let histogram = histogram_of(&schemes[0], &values);
        let numbers: Vec<f64> = values.into_iter().filter(|value| !value.is_nan()).collect();
        let fraction = histogram.fraction_below(x);
        if numbers.is_empty() || x.is_nan() {
            prop_assert!(fraction.is_nan());
            return Ok(());
        }
        let total = numbers.len() as f64;
        let (least, most) = (histogram.count_below_exclusive(x), histogram.count_below(x));
        prop_assert!(least as f64 / total - 1e-12 <= fraction && fraction <= most as f64 / total + 1e-12);
        let below = numbers.iter().filter(|value| **value < x).count() as u64;
        prop_assert!(least <= below && below <= most);
        prop_assert_eq!(most - least, histogram.count_nearby(x));
        prop_assert_eq!(histogram.count_above(x), histogram.total() - least);
        prop_assert_eq!(histogram.count_above_exclusive(x), histogram.total() - most);
        if numbers.contains(&x) {
            prop_assert!(histogram.count_nearby(x) >= 1);
        }
    }

    #[test]
    fn a_snapshot_equals_the_histogram_of_the_same_nanoseconds(batches in prop::collection::vec(
        prop::collection::vec(prop_oneof![0..100_u64, 0..10_000_000_u64, any::<u64>().prop_map(|v| v >> 1)], 0..30), 1..5)) {
        let mut recorder = FlatRecorder::new();
        let (mut snapshots, mut model, mut sum) = (Histogram::log_linear(), Histogram::log_linear(), 0_u128);
        for batch in &batches {
            for nanoseconds in batch {
                recorder.record(*nanoseconds);
                model.record_int(*nanoseconds as i64, -9);
                sum += u128::from(*nanoseconds);
            }
            snapshots.merge(&recorder.take()).unwrap();
        }
        let exact = seconds_of_nanoseconds(sum);
        prop_assert!((snapshots.sum.unwrap_or(0.0) - exact).abs() <= exact * 1e-15);
        model.sum = snapshots.sum;
        prop_assert_eq!(snapshots, model);
    }
}

#[test]
fn a_thousand_histograms_merge_alike_in_any_order() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let (hdr, sketch) = (Scheme::log_linear2(7, 0, 1e-3).unwrap(), Scheme::gamma(1.01 / 0.99, 0.0).unwrap());
    for scheme in [Scheme::LogLinear10, custom(), Scheme::exp2(8).unwrap(), hdr, sketch] {
        let mut pile: Vec<Histogram> = Vec::new();
        let mut model = Histogram::new(scheme.clone());
        for _ in 0..1000 {
            let mut histogram = Histogram::new(scheme.clone());
            for _ in 0..random() % 20 {
                let value = (random() >> 40) as f64 / 1024.0 - 4000.0;
                histogram.record(value);
                model.record(value);
            }
            pile.push(histogram);
        }
        // A random tree: two at random become one, until one is left.
        while pile.len() > 1 {
            let left = pile.swap_remove(random() as usize % pile.len());
            let at = random() as usize % pile.len();
            pile[at].merge(&left).unwrap();
        }
        assert_eq!(pile[0], model, "{scheme}");
    }
}

#[test]
fn histograms_of_different_schemes_do_not_merge() {
    let schemes = [
        Scheme::LogLinear10,
        custom(),
        Scheme::custom(vec![1.0]).unwrap(),
        Scheme::exp2(3).unwrap(),
        Scheme::log_linear2(7, 0, 1.0).unwrap(),
        Scheme::log_linear2(10, 0, 1.0).unwrap(),
        Scheme::log_linear2(7, 0, 1e-9).unwrap(),
        Scheme::gamma(1.02, 0.0).unwrap(),
        Scheme::gamma(1.02, 1.0).unwrap(),
    ];
    for (at, left) in schemes.iter().enumerate() {
        for right in &schemes[at + 1..] {
            let (mut a, b) = (histogram_of(left, &[1.0]), histogram_of(right, &[1.0]));
            let before = a.clone();
            let error = a.merge(&b).unwrap_err();
            assert_eq!((&error.left, &error.right), (left, right));
            assert!(a.subtract(&b).is_err());
            assert_eq!(a, before);
        }
    }
}

#[test]
fn counts_saturate_and_floats_do_not() {
    let mut histogram = Histogram::log_linear();
    histogram.record_n(1.0, u64::MAX);
    histogram.record_n(1.0, 5);
    assert_eq!((histogram.count, histogram.positive.counts()), (u64::MAX, &[u64::MAX][..]));
    let mut float: Histogram<f64> = histogram.to_float();
    float.scale_by(0.5);
    assert_eq!(float.count, 2_f64.powi(63));
    assert_eq!(float.quantile(0.5).map(|q| (q.lo, q.hi)), Some((1.0, 1.0)));
}

#[test]
fn taking_away_samples_without_values_keeps_the_sum() {
    // A histogram of NaN alone has no sum; taking it away once made the sum of the rest unknown.
    let (numbers, nans) =
        (histogram_of(&Scheme::LogLinear10, &[1.0, 2.0]), histogram_of(&Scheme::LogLinear10, &[f64::NAN]));
    let mut difference = merged(&numbers, &nans);
    assert!(difference.subtract(&nans).unwrap().is_none());
    assert_eq!(difference, numbers);
    assert!(difference.subtract(&numbers).unwrap().is_none());
    assert_eq!(difference, Histogram::log_linear());
}

#[test]
fn a_scaled_histogram_scales_its_sum_and_keeps_its_extremes() {
    let mut histogram = histogram_of(&Scheme::exp2(2).unwrap(), &[-4.0, 0.0, 1.0, 5.0]).to_float();
    histogram.scale_by(0.5);
    assert_eq!((histogram.count, histogram.total(), histogram.zero, histogram.sum), (2.0, 2.0, 0.5, Some(1.0)));
    assert_eq!((histogram.min, histogram.max, histogram.mean()), (Some(-4.0), Some(5.0), Some(0.5)));
}

#[test]
fn ranks_are_not_moved_by_a_rounding() {
    // 0.07 * 100 is 7.000000000000001 in doubles; the sample of rank 7 is meant.
    let values: Vec<f64> = (1..=100).map(|value| f64::from(value) * 10.0).collect();
    let mut histogram = histogram_of(&Scheme::LogLinear10, &values);
    (histogram.min, histogram.max) = (None, None);
    let found = histogram.quantile(0.07).unwrap();
    assert_eq!((found.lo, found.hi), (70.0, 71.0));
}

#[test]
fn ends_without_bounds_answer_with_the_bound_there_is() {
    let mut histogram = histogram_of(&custom(), &[-5000.0, 1e9]);
    (histogram.min, histogram.max) = (None, None);
    let (low, high) = (histogram.quantile(0.0).unwrap(), histogram.quantile(1.0).unwrap());
    assert_eq!((low.value, low.lo, low.hi), (-1000.0, f64::NEG_INFINITY, -1000.0));
    assert_eq!((high.value, high.lo, high.hi), (1e5, 1e5, f64::INFINITY));
    assert_eq!(histogram.mean_of_bins(), Some(49_500.0));
    let mut infinite = histogram_of(&Scheme::exp2(0).unwrap(), &[1.0, f64::INFINITY]);
    infinite.sum = None;
    assert_eq!((infinite.sum_or_estimate(), infinite.stddev()), (f64::INFINITY, Some(f64::INFINITY)));
}

#[test]
fn deviations_do_not_cancel() {
    // s2/n - mean^2 gives noise or NaN here: the mean is 1e9 times the deviation.
    let scheme = Scheme::custom((0..=2000).map(|step| 1e9 + f64::from(step)).collect::<Vec<_>>()).unwrap();
    let histogram = histogram_of(&scheme, &[1e9 + 0.5, 1e9 + 1.5, 1e9 + 2.5, 1e9 + 3.5]);
    let (mean, deviation) = (histogram.mean_of_bins().unwrap(), histogram.stddev().unwrap());
    assert!((mean - (1e9 + 2.0)).abs() < 1e-6, "{mean}");
    assert!((deviation - 1.25_f64.sqrt()).abs() < 1e-9, "{deviation}");
}

#[test]
fn compensated_sums_keep_what_plain_ones_lose() {
    let scheme = Scheme::custom(vec![-1e17, -1e16, 0.0, 2.0, 1e16, 1e17]).unwrap();
    let mut histogram = histogram_of(&scheme, &[-5e16, 1.0, 5e16]);
    histogram.sum = None;
    assert_eq!(histogram.sum_or_estimate(), 1.0);
}

#[test]
fn a_threshold_within_a_filled_bin_moves_to_its_far_edge() {
    let mut left = histogram_of(&Scheme::exp2(0).unwrap(), &[1.5, 3.0, -1.2]);
    let mut right = Histogram::new(Scheme::exp2(0).unwrap());
    right.zero_threshold = 1.1;
    left.merge(&right).unwrap();
    assert_eq!((left.zero_threshold, left.zero, left.negative.len()), (2.0, 2, 0));
    assert_eq!(left.positive.iter().collect::<Vec<_>>(), [(2, 1)]);
}

#[test]
fn the_hint_of_a_reset_stays_only_while_both_agree() {
    use ogive_hist::CounterReset::{Gauge, NotReset, Unknown};
    let with = |reset, values: &[f64]| Histogram { reset, ..histogram_of(&Scheme::LogLinear10, values) };
    assert_eq!(merged(&with(Gauge, &[1.0]), &with(Gauge, &[2.0])).reset, Gauge);
    assert_eq!(merged(&with(Gauge, &[1.0]), &with(NotReset, &[2.0])).reset, Unknown);
    assert_eq!(merged(&with(Unknown, &[]), &with(Gauge, &[2.0])).reset, Gauge);
    assert_eq!(merged(&with(Gauge, &[2.0]), &with(Unknown, &[])).reset, Gauge);
}

#[test]
fn a_sum_is_unknown_as_soon_as_a_part_is() {
    let mut known = histogram_of(&Scheme::LogLinear10, &[1.0, 2.0]);
    let mut unknown = Histogram::log_linear();
    unknown.positive = Bins::from_iter([(11_000, 3_u64)]);
    unknown.recount();
    let empty = Histogram::log_linear();
    known.merge(&empty).unwrap();
    assert_eq!((known.sum, known.min, known.max), (Some(3.0), Some(1.0), Some(2.0)));
    let mut from_empty = empty.clone();
    from_empty.merge(&known).unwrap();
    assert_eq!(from_empty, known);
    known.merge(&unknown).unwrap();
    assert_eq!((known.sum, known.min, known.max), (None, None, None));
    known.record(5.0);
    assert_eq!((known.sum, known.min, known.max), (None, None, None));
    assert!(known.mean().is_some());
}
