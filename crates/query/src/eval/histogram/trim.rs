//! Trims a histogram at a number: `h </ x` keeps what is below, `h >/ x` what is above.
//!
//! A bin that holds the number is split as quantiles interpolate. Bins without a finite bound cannot be split: they are
//! kept or dropped as a whole. If anything was dropped, the sum is estimated from the middles of the remaining bins.

use super::{Bucket, Hist, buckets, is_custom, statistics};

/// Which part stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// Below the number.
    Below,
    /// Above the number.
    Above,
}

/// Keeps the samples of `histogram` on one side of `at`.
pub(crate) fn trim(histogram: &mut Hist, at: f64, keep: Keep) {
    let part = |bucket: Bucket| kept(histogram, bucket, at, keep);
    let positive: Vec<Part> = buckets::positive(histogram).map(part).collect();
    let negative: Vec<Part> = buckets::negative(histogram).map(part).collect();
    let zero = part(buckets::zero(histogram));
    let parts = || positive.iter().chain(&negative).chain([&zero]);
    if !parts().any(|part| part.count != part.before) {
        return;
    }
    let count: f64 = parts().map(|part| part.count).sum();
    let sum: f64 = parts().filter(|part| part.count != 0.0).map(|part| part.count * part.middle).sum();
    histogram.zero = zero.count;
    for (bins, parts) in [(&mut histogram.positive, &positive), (&mut histogram.negative, &negative)] {
        for (count, part) in bins.counts_mut().iter_mut().zip(parts) {
            *count = part.count;
        }
    }
    histogram.nan = 0.0;
    histogram.count = count;
    histogram.sum = Some(if count == 0.0 { 0.0 } else { sum });
    (histogram.min, histogram.max) = (None, None);
    histogram.compact();
}

/// What remains of one bin.
struct Part {
    before: f64,
    count: f64,
    middle: f64,
}

fn kept(histogram: &Hist, bucket: Bucket, at: f64, keep: Keep) -> Part {
    let part = |count: f64, middle: f64| Part { before: bucket.count, count, middle };
    if bucket.count == 0.0 {
        return part(0.0, 0.0);
    }
    let mut bucket = bucket;
    if is_custom(histogram) {
        if bucket.lower == f64::NEG_INFINITY && bucket.upper > 0.0 && bucket.upper.is_finite() {
            // A cut below zero: nothing is known about what lies there, so none of it is kept.
            if keep == Keep::Above && at < 0.0 && at != f64::NEG_INFINITY {
                return part(0.0, 0.0);
            }
            bucket.lower = 0.0;
        } else if bucket.lower == f64::NEG_INFINITY || bucket.upper == f64::INFINITY {
            let (count, middle) = unbounded(bucket, at, keep);
            return part(count, middle);
        }
    }
    let Bucket { lower, upper, count, .. } = bucket;
    let whole = || part(count, buckets::middle(histogram, &bucket));
    match keep {
        Keep::Below if upper <= at => whole(),
        Keep::Below if lower >= at => part(0.0, 0.0),
        Keep::Above if lower >= at => whole(),
        Keep::Above if upper <= at => part(0.0, 0.0),
        Keep::Below => {
            let stays = Bucket { upper: at, ..bucket };
            part(statistics::count_below(&bucket, at), buckets::middle(histogram, &stays))
        }
        Keep::Above => {
            let stays = Bucket { lower: at, ..bucket };
            part(count - statistics::count_below(&bucket, at), buckets::middle(histogram, &stays))
        }
    }
}

/// Count and middle of what remains of a custom bin that is unbounded.
fn unbounded(bucket: Bucket, at: f64, keep: Keep) -> (f64, f64) {
    let Bucket { lower, upper, count, .. } = bucket;
    let everywhere = match keep {
        Keep::Below => at == f64::INFINITY,
        Keep::Above => at == f64::NEG_INFINITY,
    };
    if everywhere {
        return (count, if lower.is_finite() { lower } else { upper });
    }
    match keep {
        // (-Inf, upper]: what is known to be at or below zero stays, at the cut when that is lower.
        Keep::Below if upper.is_finite() && at > f64::NEG_INFINITY => (count, upper.min(at)),
        // (lower, +Inf): stays, at the cut when that is higher.
        Keep::Above if lower.is_finite() && at < f64::INFINITY => (count, lower.max(at)),
        _ => (0.0, 0.0),
    }
}

#[cfg(test)]
mod tests {
    use ogive_hist::Scheme;

    use super::*;

    fn custom(bounds: &[f64], counts: &[f64]) -> Hist {
        let mut histogram = Hist::new(Scheme::Custom { bounds: bounds.into() });
        histogram.positive = (0..).zip(counts.iter().copied()).collect();
        histogram.count = counts.iter().sum();
        histogram.sum = Some(172.5);
        histogram
    }

    #[test]
    fn a_custom_bin_is_split_linearly_and_the_last_dropped() {
        let mut histogram = custom(&[5.0, 10.0, 15.0, 20.0], &[1.0, 6.0, 4.0, 3.0, 1.0]);
        trim(&mut histogram, 13.0, Keep::Below);
        assert_eq!(histogram.count, 9.4);
        assert!((histogram.sum.unwrap() - 75.1).abs() < 1e-12);
        let mut histogram = custom(&[5.0, 10.0, 15.0, 20.0], &[1.0, 6.0, 4.0, 3.0, 1.0]);
        trim(&mut histogram, 50.0, Keep::Below);
        assert_eq!((histogram.count, histogram.sum), (14.0, Some(150.0)));
    }

    #[test]
    fn a_cut_that_takes_nothing_changes_nothing() {
        let mut histogram = custom(&[5.0], &[1.0, 100.0]);
        let before = histogram.clone();
        trim(&mut histogram, 0.0, Keep::Above);
        assert_eq!(histogram, before);
        trim(&mut histogram, 10.0, Keep::Above);
        assert_eq!((histogram.count, histogram.sum), (100.0, Some(1000.0)));
    }

    #[test]
    fn below_and_above_make_the_whole() {
        let mut below = Hist::new(Scheme::Exp2 { scale: 2 });
        below.positive = (0..).zip([1.0, 2.0, 4.0, 7.0, 3.0]).collect();
        below.negative = (0..).zip([1.0, 5.0, 3.0, 1.0]).collect();
        (below.zero, below.zero_threshold, below.count) = (1.0, 0.001, 28.0);
        let mut above = below.clone();
        trim(&mut below, 1.13, Keep::Below);
        trim(&mut above, 1.13, Keep::Above);
        assert!((below.count - 13.410_582_181_123_704).abs() < 1e-9, "{}", below.count);
        assert!((above.count - 14.589_417_818_876_296).abs() < 1e-9, "{}", above.count);
    }
}
