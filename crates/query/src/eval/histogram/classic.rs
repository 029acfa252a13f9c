//! Classic histograms: cumulative counts under the bounds of `le` labels.
//!
//! Counts that decrease with rising bounds are repaired: relative differences below 1e-12 silently, others with an
//! annotation.

use super::{Bucket, statistics};

/// Relative difference of neighbouring counts that counts as a rounding error.
const TOLERANCE: f64 = 1e-12;

/// A cumulative count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ClassicBucket {
    /// The value of `le`.
    pub(crate) upper: f64,
    /// Samples at or below it.
    pub(crate) count: f64,
}

/// A quantile with what had to be repaired.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ClassicQuantile {
    /// The quantile.
    pub(crate) value: f64,
    /// Which bounds were repaired and by how much at most.
    pub(crate) repaired: Option<Repair>,
}

/// Counts that fell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Repair {
    /// Lowest bound of a count that fell.
    pub(crate) lowest: f64,
    /// Highest bound of a count that fell.
    pub(crate) highest: f64,
    /// Greatest fall.
    pub(crate) most: f64,
}

/// The `q` quantile of buckets in any order.
pub(crate) fn classic_quantile(q: f64, buckets: &mut Vec<ClassicBucket>) -> ClassicQuantile {
    let plain = |value| ClassicQuantile { value, repaired: None };
    if q.is_nan() {
        return plain(f64::NAN);
    }
    if q < 0.0 {
        return plain(f64::NEG_INFINITY);
    }
    if q > 1.0 {
        return plain(f64::INFINITY);
    }
    if !sort_and_join(buckets) {
        return plain(f64::NAN);
    }
    let repaired = make_monotonic(buckets);
    if buckets.len() < 2 {
        return plain(f64::NAN);
    }
    let last = buckets.len() - 1;
    let total = buckets[last].count;
    if total == 0.0 || total.is_nan() {
        return plain(f64::NAN);
    }
    let rank = q * total;
    let at = buckets[..last].partition_point(|bucket| bucket.count < rank);
    ClassicQuantile { value: interpolated(buckets, at, rank), repaired }
}

/// The bounds between which the `q` quantile certainly lies; None when there is no result.
pub(crate) fn classic_bounds(q: f64, buckets: &mut Vec<ClassicBucket>) -> Option<(f64, f64)> {
    if q.is_nan() || !sort_and_join(buckets) {
        return Some((f64::NAN, f64::NAN));
    }
    if !(0.0..=1.0).contains(&q) {
        let beyond = if q < 0.0 { f64::NEG_INFINITY } else { f64::INFINITY };
        return Some((beyond, beyond));
    }
    make_monotonic(buckets);
    let total = buckets[buckets.len() - 1].count;
    if total <= 0.0 || total.is_nan() {
        return None;
    }
    let rank = q * total;
    let upper = buckets.partition_point(|bucket| bucket.count <= rank && bucket.count < total);
    let mut at = buckets.partition_point(|bucket| bucket.count < rank);
    if rank == 0.0 {
        // The minimum is in the first bucket with a sample.
        at = buckets.partition_point(|bucket| bucket.count <= 0.0);
    }
    let lower = at.checked_sub(1).map_or(f64::NEG_INFINITY, |before| buckets[before].upper);
    Some((lower, buckets[upper].upper))
}

fn interpolated(buckets: &[ClassicBucket], at: usize, rank: f64) -> f64 {
    let last = buckets.len() - 1;
    if at == last {
        return buckets[last - 1].upper;
    }
    let end = buckets[at].upper;
    if at == 0 {
        return if end <= 0.0 { end } else { end * (rank / buckets[0].count) };
    }
    let before = buckets[at - 1];
    before.upper + (end - before.upper) * ((rank - before.count) / (buckets[at].count - before.count))
}

/// Sorts by bound and joins equal bounds. False when the last bound is not +Inf.
fn sort_and_join(buckets: &mut Vec<ClassicBucket>) -> bool {
    buckets.sort_by(|a, b| a.upper.total_cmp(&b.upper));
    buckets.dedup_by(|next, kept| {
        let same = next.upper == kept.upper;
        if same {
            kept.count += next.count;
        }
        same
    });
    buckets.last().is_some_and(|last| last.upper == f64::INFINITY)
}

fn make_monotonic(buckets: &mut [ClassicBucket]) -> Option<Repair> {
    let mut repair: Option<Repair> = None;
    let mut previous = buckets[0].count;
    for bucket in &mut buckets[1..] {
        let count = bucket.count;
        if count == previous {
            continue;
        }
        if almost_equal(previous, count) {
            bucket.count = previous;
        } else if count < previous {
            let old = repair.unwrap_or(Repair { lowest: bucket.upper, highest: bucket.upper, most: 0.0 });
            repair = Some(Repair {
                lowest: old.lowest.min(bucket.upper),
                highest: old.highest.max(bucket.upper),
                most: old.most.max(previous - count),
            });
            bucket.count = previous;
        } else {
            previous = count;
        }
    }
    repair
}

fn almost_equal(a: f64, b: f64) -> bool {
    let size = a.abs() + b.abs();
    a == b || (a - b).abs() / size.min(f64::MAX) < TOLERANCE
}

/// The share of samples between `lower` and `upper`.
pub(crate) fn classic_fraction(lower: f64, upper: f64, buckets: &mut Vec<ClassicBucket>) -> f64 {
    if !sort_and_join(buckets) {
        return f64::NAN;
    }
    let total = buckets[buckets.len() - 1].count;
    if total == 0.0 || lower.is_nan() || upper.is_nan() {
        return f64::NAN;
    }
    if lower >= upper {
        return 0.0;
    }
    (rank_of(buckets, upper, total) - rank_of(buckets, lower, total)) / total
}

/// The minimum and the maximum share of samples between `lower` and `upper` that the buckets allow.
pub(crate) fn classic_fraction_bounds(lower: f64, upper: f64, buckets: &mut Vec<ClassicBucket>) -> (f64, f64) {
    if lower.is_nan() || upper.is_nan() || !sort_and_join(buckets) {
        return (f64::NAN, f64::NAN);
    }
    make_monotonic(buckets);
    let total = buckets[buckets.len() - 1].count;
    if total <= 0.0 || total.is_nan() {
        return (f64::NAN, f64::NAN);
    }
    if lower >= upper {
        return (0.0, 0.0);
    }
    let rank = |value: f64| {
        let below = buckets.partition_point(|bucket| bucket.upper <= value);
        let least = below.checked_sub(1).map_or(0.0, |last| buckets[last].count);
        let is_edge =
            value == f64::NEG_INFINITY || below.checked_sub(1).is_some_and(|last| buckets[last].upper == value);
        (least, if is_edge { least } else { buckets.get(below).map_or(least, |bucket| bucket.count) })
    };
    statistics::shares(rank(lower), rank(upper), total)
}

fn rank_of(buckets: &[ClassicBucket], value: f64, total: f64) -> f64 {
    let mut rank = 0.0;
    let mut below = f64::NEG_INFINITY;
    for bucket in buckets {
        let lower = if below == f64::NEG_INFINITY && bucket.upper > 0.0 { 0.0 } else { below };
        if lower >= value {
            return f64::min(rank, total);
        }
        if bucket.upper > value {
            let part = Bucket { lower, upper: bucket.upper, count: bucket.count - rank, linear: true };
            return f64::min(rank + statistics::count_below(&part, value), total);
        }
        rank = bucket.count;
        below = bucket.upper;
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buckets(pairs: &[(f64, f64)]) -> Vec<ClassicBucket> {
        pairs.iter().map(|(upper, count)| ClassicBucket { upper: *upper, count: *count }).collect()
    }

    #[test]
    fn quantiles_interpolate_linearly() {
        let source = buckets(&[(f64::INFINITY, 12.0), (0.1, 5.0), (0.2, 7.0), (1.0, 11.0)]);
        let at = |q| classic_quantile(q, &mut source.clone()).value;
        assert!((at(0.5) - 0.15).abs() < 1e-12);
        assert_eq!(at(1.0), 1.0);
        assert_eq!(at(0.0), 0.0);
        assert!(classic_quantile(0.5, &mut buckets(&[(1.0, 1.0)])).value.is_nan());
    }

    #[test]
    fn falling_counts_are_lifted_and_reported() {
        let mut source =
            buckets(&[(0.1, 2.0), (1.0, 1.0), (10.0, 5.0), (100.0, 4.0), (1000.0, 9.0), (f64::INFINITY, 8.0)]);
        let found = classic_quantile(0.5, &mut source);
        assert!((found.value - 8.5).abs() < 1e-12, "{found:?}");
        assert_eq!(found.repaired, Some(Repair { lowest: 1.0, highest: f64::INFINITY, most: 1.0 }));
    }

    #[test]
    fn fractions_treat_unbounded_ends_as_points() {
        let negative = [(-3.0, 10.0), (-2.0, 12.0), (-1.0, 15.0), (f64::INFINITY, 100.0)];
        let of = |lower, upper| classic_fraction(lower, upper, &mut buckets(&negative));
        assert!((of(-4.0, -2.0) - 0.02).abs() < 1e-12);
        assert!((of(f64::NEG_INFINITY, -1.5) - 0.135).abs() < 1e-12);
        assert_eq!(of(f64::NEG_INFINITY, f64::INFINITY), 1.0);
    }
}
