//! Conversions between all schemes: totals stay, and the stated bound holds for every sample.

use ogive_hist::{ErrorBound, Histogram, Scheme};
use proptest::prelude::*;

fn scheme() -> impl Strategy<Value = Scheme> {
    prop_oneof![
        Just(Scheme::LogLinear10),
        (-2..=12_i32).prop_map(|scale| Scheme::exp2(scale).unwrap()),
        Just(Scheme::custom(vec![-10.0, -1.0, -0.1, 0.0, 0.01, 0.1, 0.5, 1.0, 2.0, 10.0, 1000.0]).unwrap()),
        (2..=14_u8, 0..=3_u8).prop_map(|(grouping, shift)| Scheme::log_linear2(grouping, shift, 1e-6).unwrap()),
        (1.001..3.0_f64, -5.0..5.0_f64).prop_map(|(gamma, offset)| Scheme::gamma(gamma, offset).unwrap()),
    ]
}

fn value() -> impl Strategy<Value = f64> {
    prop_oneof![
        6 => (-6.0..4.0_f64).prop_map(|exponent| 10_f64.powf(exponent)),
        2 => (-6.0..4.0_f64).prop_map(|exponent| -(10_f64.powf(exponent))),
        1 => Just(0.0),
        1 => Just(f64::NAN),
        1 => prop_oneof![Just(1e-200), Just(1e200), Just(5e-324), Just(f64::MAX)],
    ]
}

/// The value that stands for the only sample of a histogram.
fn stands_for(histogram: &Histogram) -> f64 {
    histogram.midpoints().next().map_or(f64::NAN, |(middle, _)| middle)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn no_sample_is_lost_and_none_is_farther_off_than_the_bound(
        from in scheme(),
        to in scheme(),
        values in prop::collection::vec(value(), 0..30),
    ) {
        let mut all = Histogram::new(from.clone());
        values.iter().for_each(|value| all.record(*value));
        let (converted, bound) = all.convert(&to);
        prop_assert_eq!(&converted.scheme, &to);
        prop_assert_eq!(converted.count, all.count);
        prop_assert_eq!(converted.total() + converted.nan, all.total() + all.nan);
        prop_assert_eq!(converted.check(), Ok(()));
        if converted.nan == all.nan {
            prop_assert_eq!((converted.sum, converted.min, converted.max), (all.sum, all.min, all.max));
        }
        let compounded = (1.0 + bound.source) * (1.0 + bound.target) - 1.0;
        prop_assert!(bound.relative <= compounded + 1e-12, "{:?}", bound);
        let mut unbounded = 0.0;
        for value in values.iter().filter(|value| !value.is_nan()) {
            let mut one = Histogram::new(from.clone());
            one.record(*value);
            let (one, alone) = one.convert(&to);
            unbounded += alone.unbounded;
            if alone.unbounded == 0.0 && one.nan == 0 && *value != 0.0 && one.zero == 0 {
                let error = ((stands_for(&one) - value) / value).abs();
                prop_assert!(error <= alone.relative * (1.0 + 1e-9) + 1e-12, "{} is off by {}: {:?}", value, error, alone);
                prop_assert!(alone.relative <= bound.relative + 1e-12);
            }
        }
        prop_assert_eq!(unbounded, bound.unbounded);
    }
}

#[test]
fn the_same_scheme_and_a_coarser_one_add_no_error() {
    let mut fine = Histogram::<u64>::new(Scheme::exp2(5).unwrap());
    (1..2000).for_each(|step| fine.record(f64::from(step) * 0.37));
    let (same, bound) = fine.convert(&fine.scheme);
    assert_eq!((&same, bound.target), (&fine, 0.0));
    assert!((bound.source - fine.scheme.relative_error().unwrap()).abs() < 1e-9, "{bound:?}");
    let (coarse, bound) = fine.convert(&Scheme::exp2(2).unwrap());
    let mut expected = fine.clone();
    expected.downscale(2);
    assert_eq!((&coarse, bound.target), (&expected, 0.0));
    assert!((bound.relative - Scheme::exp2(2).unwrap().relative_error().unwrap()).abs() < 1e-9, "{bound:?}");
}

#[test]
fn both_errors_are_in_the_bound() {
    // 1.0 is in the widest bin of LogLinear10, [1.0, 1.1): 1/21 off; then 1 % of DDSketch.
    let mut histogram = Histogram::log_linear();
    histogram.record_n(1.05, 10);
    let sketch = Scheme::gamma(1.01 / 0.99, 0.0).unwrap();
    let (converted, bound) = histogram.convert(&sketch);
    assert_eq!((converted.total(), converted.positive.len()), (10, 1));
    assert!((bound.source - 1.0 / 21.0).abs() < 1e-12 && (bound.target - 0.01).abs() < 1e-9, "{bound:?}");
    assert!((bound.relative - (22.0 / 21.0 * 1.01 - 1.0)).abs() < 1e-9, "{bound:?}");
}

#[test]
fn what_cannot_be_bounded_is_counted() {
    // Beyond LogLinear10 on both ends, and a bin without an end.
    let mut wide = Histogram::<u64>::new(Scheme::exp2(3).unwrap());
    wide.record_n(1e200, 3);
    wide.record_n(1e-200, 4);
    wide.record_n(1.0, 5);
    let (converted, bound) = wide.convert(&Scheme::LogLinear10);
    assert_eq!((converted.nan, converted.zero, converted.total(), bound.unbounded), (3, 4, 9, 7.0));
    assert_eq!((converted.sum, converted.max, converted.count), (None, None, 12));
    // A zero bin of some width: LogLinear10's has none, and its byte form could not hold one.
    let mut coarse = Histogram::<u64>::new(Scheme::log_linear2(7, 14, 1e-9).unwrap());
    coarse.record_n(1e-6, 2);
    let (converted, bound) = coarse.convert(&Scheme::LogLinear10);
    assert_eq!((converted.zero, converted.zero_threshold, bound.unbounded), (2, 0.0, 2.0));
    assert!(ogive_hist::openhistogram::encode(&converted).is_ok());
    let mut custom = Histogram::<u64>::new(Scheme::custom(vec![1.0, 2.0]).unwrap());
    custom.record_n(50.0, 6);
    let (converted, bound) = custom.convert(&Scheme::LogLinear10);
    assert_eq!((converted.total(), bound), (6, ErrorBound { unbounded: 6.0, ..ErrorBound::default() }));
    assert_eq!((converted.min, converted.max), (Some(50.0), Some(50.0)));
}

#[test]
fn float_counts_go_as_they_are() {
    let mut rate = Histogram::<f64>::new(Scheme::exp2(0).unwrap());
    rate.positive.add(1, 0.25);
    rate.count = 0.25;
    let (converted, _) = rate.convert(&Scheme::LogLinear10);
    assert_eq!((converted.count, converted.positive.counts()), (0.25, &[0.25][..]));
}

#[test]
#[should_panic(expected = "a logarithmic base must be in")]
fn a_scheme_that_breaks_its_rules_is_refused() {
    let _ = Histogram::log_linear().convert(&Scheme::Gamma { gamma: 0.5, offset: 0.0 });
}
