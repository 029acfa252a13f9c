//! Quantiles, fractions and variance.
//!
//! Interpolation: inside an exponential bin between the logarithms of its bounds, elsewhere (zero bin, custom and
//! log-linear bins) between the bounds themselves. The first custom bin starts at 0 when it ends above 0. Where minimum
//! and maximum are known, no answer lies beyond them. NaN samples are in `count` but in no bin; a histogram with such
//! samples has a NaN sum.

use super::buckets::{self, BinPosition};
use super::{Bucket, Hist, is_custom};
use crate::eval::kernel::kahan_add;

/// The effect of NaN samples on a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NanNote {
    /// There are none.
    None,
    /// The result is NaN because of them.
    Result,
    /// The result would be lower without them.
    Skewed,
}

/// The `q` quantile.
pub(crate) fn quantile(q: f64, histogram: &Hist) -> (f64, NanNote) {
    if q < 0.0 {
        return (f64::NEG_INFINITY, NanNote::None);
    }
    if q > 1.0 {
        return (f64::INFINITY, NanNote::None);
    }
    // Log-linear histograms count NaN separately; their quantiles are of the numbers.
    let total = histogram.count - histogram.nan;
    if total == 0.0 || q.is_nan() {
        return (f64::NAN, NanNote::None);
    }
    let nan_sum = histogram.sum.is_some_and(f64::is_nan);
    let forward = nan_sum || q < 0.5;
    let rank = if forward { q * total } else { (1.0 - q) * total };
    let (found, seen) =
        if forward { reach(buckets::places(histogram), rank) } else { reach(buckets::places(histogram).rev(), rank) };
    let Some(place) = found else {
        // No bin is populated: whatever was counted is NaN.
        let note = if !nan_sum {
            NanNote::None
        } else if rank > 0.0 {
            NanNote::Result
        } else {
            NanNote::Skewed
        };
        return (f64::NAN, note);
    };
    let seen = seen.min(total);
    if seen < rank && nan_sum {
        return (f64::NAN, NanNote::Result);
    }
    let value = within_extremes(histogram, value_at(histogram, place.bucket(histogram), forward, seen, rank));
    let skewed = nan_sum && buckets::in_bins(histogram) < total;
    (value, if skewed { NanNote::Skewed } else { NanNote::None })
}

/// The bin in which the running count reaches `rank` (else the last), and that count.
fn reach(walk: impl Iterator<Item = BinPosition>, rank: f64) -> (Option<BinPosition>, f64) {
    let mut seen = 0.0;
    let mut last = None;
    for place in walk {
        seen += place.count;
        last = Some(place);
        if seen >= rank {
            break;
        }
    }
    (last, seen)
}

/// A value inside a bin, limited to the minimum and the maximum where they are known.
fn within_extremes(histogram: &Hist, value: f64) -> f64 {
    let value = histogram.max.map_or(value, |max| value.min(max));
    histogram.min.map_or(value, |min| value.max(min))
}

/// The edges between which the `q` quantile certainly lies: of the bin that contains its rank, and of the next one
/// where the rank falls between the two; limited to the minimum and the maximum where they are known. None when there
/// are no samples.
pub(crate) fn quantile_bounds(q: f64, histogram: &Hist) -> Option<(f64, f64)> {
    let total = histogram.count - histogram.nan;
    if q.is_nan() {
        return Some((f64::NAN, f64::NAN));
    }
    if total <= 0.0 || total.is_nan() {
        return None;
    }
    if !(0.0..=1.0).contains(&q) {
        let beyond = if q < 0.0 { f64::NEG_INFINITY } else { f64::INFINITY };
        return Some((beyond, beyond));
    }
    // NaN samples without a count of their own rank above all others.
    let unseen = (total - buckets::in_bins(histogram)).max(0.0);
    let unseen = if histogram.sum.is_some_and(f64::is_nan) { unseen } else { 0.0 };
    let (below, _) = reach(buckets::places(histogram), q * total);
    let (above, _) = reach(buckets::places(histogram).rev(), (1.0 - q) * total - unseen);
    let (lower, upper) = (below?.bucket(histogram).lower, above?.bucket(histogram).upper);
    if unseen > 0.0 && q * total > total - unseen {
        return Some((f64::NAN, f64::NAN));
    }
    let lower = histogram.min.map_or(lower, |min| lower.max(min));
    let upper = histogram.max.map_or(upper, |max| upper.min(max));
    // Rounding of ranks may separate the two walks by a bin.
    Some((lower.min(upper), upper.max(lower)))
}

/// Where in `bucket` the rank lies, with `seen` samples up to and including it from the side that was walked from.
fn value_at(histogram: &Hist, bucket: Bucket, forward: bool, seen: f64, rank: f64) -> f64 {
    let mut bucket = bucket;
    if is_custom(histogram) {
        if bucket.lower == f64::NEG_INFINITY {
            if bucket.upper <= 0.0 {
                return bucket.upper;
            }
            bucket.lower = 0.0;
        }
        if bucket.upper == f64::INFINITY {
            return bucket.lower;
        }
    }
    if seen < rank {
        return bucket.upper;
    }
    let fraction = if forward { rank - (seen - bucket.count) } else { seen - rank } / bucket.count;
    let Bucket { lower, upper, .. } = bucket;
    if bucket.linear || (lower <= 0.0 && upper >= 0.0) {
        return lower + (upper - lower) * fraction;
    }
    let (log_lower, log_upper) = (lower.abs().log2(), upper.abs().log2());
    if lower > 0.0 {
        (log_lower + (log_upper - log_lower) * fraction).exp2()
    } else {
        -(log_upper + (log_lower - log_upper) * (1.0 - fraction)).exp2()
    }
}

/// How many of the samples of `bucket` are below `value`, which lies between its bounds.
pub(crate) fn count_below(bucket: &Bucket, value: f64) -> f64 {
    let Bucket { lower, upper, count, linear } = *bucket;
    if lower == f64::NEG_INFINITY {
        // Nothing is known about the inside of an unbounded bin: all of it counts as at its finite bound.
        return count;
    }
    let fraction = if linear || (lower <= 0.0 && upper >= 0.0) {
        (value - lower) / (upper - lower)
    } else {
        let (log_lower, log_upper, log_value) = (lower.abs().log2(), upper.abs().log2(), value.abs().log2());
        if value > 0.0 {
            (log_value - log_lower) / (log_upper - log_lower)
        } else {
            1.0 - (log_value - log_upper) / (log_lower - log_upper)
        }
    };
    count * fraction
}

/// The share of samples between `lower` and `upper`, and whether NaN samples were left out.
pub(crate) fn fraction(lower: f64, upper: f64, histogram: &Hist) -> (f64, bool) {
    let total = histogram.count - histogram.nan;
    if total == 0.0 || lower.is_nan() || upper.is_nan() {
        return (f64::NAN, false);
    }
    let nan_sum = histogram.sum.is_some_and(f64::is_nan);
    let in_bins = if nan_sum { buckets::in_bins(histogram) } else { total };
    let left_out = in_bins < total;
    if lower >= upper {
        return (0.0, left_out);
    }
    let ranked = if left_out { in_bins } else { total };
    let rank = |value: f64| rank_of(histogram, value, ranked);
    ((rank(upper) - rank(lower)) / total, left_out)
}

/// The minimum and the maximum share of samples between `lower` and `upper` that the bins allow.
pub(crate) fn fraction_bounds(lower: f64, upper: f64, histogram: &Hist) -> (f64, f64) {
    let total = histogram.count - histogram.nan;
    if total == 0.0 || lower.is_nan() || upper.is_nan() {
        return (f64::NAN, f64::NAN);
    }
    if lower >= upper {
        return (0.0, 0.0);
    }
    shares(rank_bounds(histogram, lower), rank_bounds(histogram, upper), total)
}

/// The range of the share between two values, given the minimum and maximum ranks of both.
pub(super) fn shares(lower: (f64, f64), upper: (f64, f64), total: f64) -> (f64, f64) {
    let share = |samples: f64| (samples / total).clamp(0.0, 1.0);
    (share(upper.0 - lower.1), share(upper.1 - lower.0))
}

/// The minimum and the maximum number of samples below `value`. A sample at a bin's edge belongs to its bin.
fn rank_bounds(histogram: &Hist, value: f64) -> (f64, f64) {
    if histogram.min.is_some_and(|min| value < min) {
        return (0.0, 0.0);
    }
    let all = buckets::in_bins(histogram);
    if histogram.max.is_some_and(|max| value >= max) {
        return (all, all);
    }
    let (mut least, mut most) = (0.0, 0.0);
    for bucket in buckets::ascending(histogram) {
        if bucket.upper <= value {
            least += bucket.count;
        }
        if bucket.lower < value || bucket.upper <= value {
            most += bucket.count;
        }
    }
    (least, most)
}

/// How many samples are below `value`; `ranked` when it lies above all bins.
fn rank_of(histogram: &Hist, value: f64, ranked: f64) -> f64 {
    if histogram.min.is_some_and(|min| value < min) {
        return 0.0;
    }
    if histogram.max.is_some_and(|max| value >= max) {
        return ranked;
    }
    let mut rank = 0.0;
    for mut bucket in buckets::ascending(histogram) {
        if bucket.lower == f64::NEG_INFINITY && bucket.upper > 0.0 {
            bucket.lower = 0.0;
        }
        if bucket.lower >= value {
            return f64::min(rank, ranked);
        }
        if bucket.upper > value {
            return f64::min(rank + count_below(&bucket, value), ranked);
        }
        rank += bucket.count;
    }
    ranked
}

/// The variance, with each sample at the middle of its bin.
pub(crate) fn variance(histogram: &Hist) -> f64 {
    let total = histogram.count - histogram.nan;
    let mean = histogram.sum_or_estimate() / total;
    let (mut sum, mut lost) = (0.0, 0.0);
    for bucket in buckets::ascending(histogram) {
        let Bucket { lower, upper, .. } = bucket;
        let value = if is_custom(histogram) || bucket.linear && !(lower <= 0.0 && upper >= 0.0) {
            f64::midpoint(lower, upper)
        } else if lower <= 0.0 && upper >= 0.0 {
            0.0
        } else {
            (lower * upper).sqrt().copysign(lower)
        };
        let delta = value - mean;
        (sum, lost) = kahan_add(bucket.count * delta * delta, sum, lost);
    }
    (sum + lost) / total
}

#[cfg(test)]
mod tests {
    use ogive_hist::Scheme;

    use super::*;

    fn exponential(bins: &[(i32, f64)]) -> Hist {
        let mut histogram = Hist::new(Scheme::Exp2 { scale: 0 });
        histogram.positive = bins.iter().copied().collect();
        histogram.count = bins.iter().map(|bin| bin.1).sum();
        histogram.sum = Some(5.0);
        histogram
    }

    #[test]
    fn the_median_of_an_exponential_bin_is_its_geometric_middle() {
        let histogram = exponential(&[(0, 1.0), (1, 2.0), (2, 1.0)]);
        assert_eq!(quantile(0.5, &histogram), (std::f64::consts::SQRT_2, NanNote::None));
        assert!((fraction(0.0, std::f64::consts::SQRT_2, &histogram).0 - 0.5).abs() < 1e-12);
        assert_eq!(quantile(-0.1, &histogram).0, f64::NEG_INFINITY);
        assert_eq!(quantile(1.1, &histogram).0, f64::INFINITY);
    }

    #[test]
    fn log_linear_bins_interpolate_linearly() {
        let mut histogram = Hist::new(Scheme::LogLinear10);
        // [0.0012, 0.0013) and [1.0, 1.1).
        histogram.positive = [(125 * 90 + 2, 4.0), (128 * 90, 6.0)].into_iter().collect();
        histogram.count = 10.0;
        let (value, _) = quantile(0.2, &histogram);
        assert!((value - 0.00125).abs() < 1e-15, "{value}");
        let (value, _) = quantile(0.7, &histogram);
        assert!((value - 1.05).abs() < 1e-12, "{value}");
        assert!((fraction(0.0, 1.05, &histogram).0 - 0.7).abs() < 1e-12);
    }

    #[test]
    fn known_extremes_narrow_quantiles_and_fractions() {
        let mut histogram = Hist::new(Scheme::LogLinear10);
        histogram.positive = [(128 * 90, 4.0)].into_iter().collect();
        (histogram.count, histogram.min, histogram.max) = (4.0, Some(1.02), Some(1.04));
        assert_eq!(quantile(1.0, &histogram).0, 1.04);
        assert_eq!(quantile(0.0, &histogram).0, 1.02);
        assert_eq!(fraction(f64::NEG_INFINITY, 1.04, &histogram).0, 1.0);
        assert_eq!(fraction(f64::NEG_INFINITY, 1.01, &histogram).0, 0.0);
        assert_eq!(quantile_bounds(0.5, &histogram), Some((1.02, 1.04)));
    }

    #[test]
    fn bounds_are_edges_and_span_a_gap_where_the_rank_falls_into_it() {
        let histogram = exponential(&[(0, 1.0), (3, 1.0)]);
        assert_eq!(quantile_bounds(0.4, &histogram), Some((0.5, 1.0)));
        assert_eq!(quantile_bounds(0.5, &histogram), Some((0.5, 8.0)));
        assert_eq!(quantile_bounds(0.6, &histogram), Some((4.0, 8.0)));
        assert_eq!(quantile_bounds(0.0, &histogram), Some((0.5, 1.0)));
        assert_eq!(quantile_bounds(1.0, &histogram), Some((4.0, 8.0)));
        assert_eq!(quantile_bounds(1.5, &histogram), Some((f64::INFINITY, f64::INFINITY)));
        assert_eq!(quantile_bounds(0.5, &exponential(&[])), None);
        let custom = Hist {
            positive: [(0, 1.0), (2, 1.0)].into_iter().collect(),
            count: 2.0,
            ..Hist::new(Scheme::Custom { bounds: [1.0, 3.0].into() })
        };
        assert_eq!(quantile_bounds(0.1, &custom), Some((f64::NEG_INFINITY, 1.0)));
        assert_eq!(quantile_bounds(0.9, &custom), Some((3.0, f64::INFINITY)));
    }

    #[test]
    fn custom_bins_at_the_ends_answer_with_their_finite_bound() {
        let mut histogram = Hist::new(Scheme::Custom { bounds: [-2.0, 3.0].into() });
        histogram.positive = [(0, 1.0), (1, 1.0), (2, 2.0)].into_iter().collect();
        histogram.count = 4.0;
        assert_eq!(quantile(0.1, &histogram).0, -2.0);
        assert_eq!(quantile(0.9, &histogram).0, 3.0);
        assert_eq!(quantile(0.375, &histogram).0, 0.5);
    }

    #[test]
    fn samples_that_are_no_number_lie_above_all() {
        let mut histogram = exponential(&[(0, 12.0)]);
        histogram.count = 15.0;
        histogram.sum = Some(f64::NAN);
        assert_eq!(quantile(0.8, &histogram), (1.0, NanNote::Skewed));
        assert!(matches!(quantile(0.81, &histogram), (value, NanNote::Result) if value.is_nan()));
        let (share, left_out) = fraction(f64::NEG_INFINITY, 0.5f64.sqrt(), &histogram);
        assert!(left_out && (share - 0.4).abs() < 1e-12);
    }
}
