//! Foreign buckets placed into OpenHistogram bins.
//!
//! A bucket of classic Prometheus or OTLP form says only how many samples lie between two bounds. Each bucket goes as a
//! whole into one bin, chosen by a [`Placement`]; the counts stay exact, the values are an approximation, which is why
//! this is never done in silence. The rule is that of the C library's `hist_create_approximation_from_adhoc`, so that
//! data converted there and here meet in the same bins.
//!
//! Limits: bounds at or beyond 1e127 count as infinite. The one difference: the C library lets a tail bucket that
//! follows a bucket below zero fall back by that bucket's (negative) spread, out of its own bounds; here spreads have
//! no sign.

use crate::powers::power_of_ten;
use crate::{DecimalBin, Histogram};

/// Where the samples of a bucket are assumed to be. "Near" and "far" are by distance from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// In the bin at the far bound.
    High,
    /// In the bin at the near bound.
    Low,
    /// In the middle.
    Mid,
    /// At the harmonic mean of the bounds, which has the smallest relative error; in the middle when a bound is zero.
    HarmonicMean,
}

/// Samples between two bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ForeignBucket {
    /// How many.
    pub count: u64,
    /// Bound nearer minus infinity.
    pub lower: f64,
    /// Bound nearer plus infinity.
    pub upper: f64,
}

/// From here on a bound counts as infinite when samples are placed between bounds.
const FAR: f64 = 1e127;

/// From here on a bucket is a tail without an end.
const ENDLESS: f64 = 1e128;

/// A histogram of the default scheme with each bucket's samples in one bin. `sum`, `min` and `max` are
/// unknown.
#[must_use]
pub fn from_buckets(placement: Placement, buckets: &[ForeignBucket]) -> Histogram {
    let mut histogram = Histogram::log_linear();
    let mut spread_before = 0.0_f64;
    for (at, bucket) in buckets.iter().enumerate() {
        let (near, far) = if bucket.lower.abs() > bucket.upper.abs() || bucket.upper < 0.0 {
            (bucket.upper, bucket.lower)
        } else {
            (bucket.lower, bucket.upper)
        };
        let value = if at > 0 && bucket.upper >= ENDLESS {
            // As far above its bound as the bucket before was wide, at most twice the bound.
            near + spread_before.min(near.abs())
        } else if at == 0 && buckets.len() > 2 && bucket.lower <= -ENDLESS {
            near - (buckets[1].upper - buckets[1].lower).abs().min(near.abs())
        } else {
            place(placement, near, far)
        };
        histogram.record_bin(DecimalBin::from_value(value), bucket.count);
        spread_before = (far - near).abs();
    }
    histogram
}

/// A value within a bucket.
fn place(placement: Placement, near: f64, far: f64) -> f64 {
    match placement {
        _ if near == 0.0 && far == 0.0 => 0.0,
        Placement::High | Placement::Low if near.abs() > FAR => ENDLESS.copysign(near),
        Placement::High if far.abs() > FAR => FAR.copysign(far),
        // A hundredth of a bin's width from the bound, so that it is not in the bound's own bin.
        Placement::High => far - (width_at(far) / 100.0).copysign(far),
        Placement::Low if near > 0.0 => near + width_at(near) / 100.0,
        Placement::Low => near - width_at(near) / 100.0,
        Placement::HarmonicMean if near != 0.0 && far != 0.0 => {
            // 2ab/(a+b), in an order that neither overflows nor leaves the normal range.
            if near + far == 0.0 { 0.0 } else { near * (far / (near / 2.0 + far / 2.0)) }
        }
        Placement::Mid | Placement::HarmonicMean => near + (far - near) / 2.0,
    }
}

/// The width of the bin that contains a value; for the zero bin, less than any other.
fn width_at(value: f64) -> f64 {
    match DecimalBin::from_value(value) {
        DecimalBin { val: 0, .. } | DecimalBin::NAN => 1e-127,
        bin => power_of_ten(i32::from(bin.exp)) / 10.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(count: u64, lower: f64, upper: f64) -> ForeignBucket {
        ForeignBucket { count, lower, upper }
    }

    fn bins(placement: Placement, buckets: &[ForeignBucket]) -> Vec<(f64, u64)> {
        from_buckets(placement, buckets).buckets().map(|bucket| (bucket.lo, bucket.count)).collect()
    }

    #[test]
    fn a_bucket_goes_into_one_bin_by_its_placement() {
        let buckets = [bucket(3, 1.0, 4.0)];
        assert_eq!(bins(Placement::Low, &buckets), [(1.0, 3)]);
        assert_eq!(bins(Placement::High, &buckets), [(3.9, 3)]);
        assert_eq!(bins(Placement::Mid, &buckets), [(2.5, 3)]);
        assert_eq!(bins(Placement::HarmonicMean, &buckets), [(1.6, 3)]);
    }

    #[test]
    fn a_tail_stands_one_spread_above_its_bound() {
        let buckets = [bucket(1, 2.0, 3.0), bucket(5, 3.0, f64::INFINITY)];
        assert_eq!(bins(Placement::Mid, &buckets), [(2.5, 1), (4.0, 5)]);
        // A wide bucket before does not push it further than twice its bound.
        let buckets = [bucket(1, 0.0, 3.0), bucket(5, 3.0, 1e308)];
        assert_eq!(bins(Placement::Low, &buckets), [(0.0, 1), (6.0, 5)]);
    }

    #[test]
    fn the_harmonic_mean_of_a_bound_and_nearly_nothing_is_twice_the_bound() {
        // Added up the other way this went through subnormal numbers and lost its last digits: bin 33.
        assert_eq!(bins(Placement::HarmonicMean, &[bucket(7, 0.0017, 1e308)]), [(0.0034, 7)]);
        assert_eq!(from_buckets(Placement::HarmonicMean, &[bucket(7, 1e300, 1.7e308)]).nan, 7);
    }

    #[test]
    fn a_tail_after_a_bucket_below_zero_stays_in_its_bounds() {
        // The C library places this tail at 0.3 - 5 = -4.7.
        let buckets = [bucket(1, -5.0, 0.0), bucket(2, 0.3, f64::INFINITY)];
        assert_eq!(bins(Placement::Mid, &buckets)[1], (0.6, 2));
    }
}
