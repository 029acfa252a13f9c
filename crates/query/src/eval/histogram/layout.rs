//! Bringing two histograms to one layout: a wider zero bin, common custom bounds.

use std::borrow::Cow;
use std::sync::Arc;

use ogive_hist::Scheme;

use super::{Hist, buckets};

/// What the zero bin would count if it reached to `threshold`, and how far it must reach so that it cuts no
/// populated bin.
pub(super) fn widened_zero(histogram: &Hist, threshold: f64) -> (f64, f64) {
    let mut threshold = threshold;
    if threshold <= histogram.zero_threshold {
        return (histogram.zero, histogram.zero_threshold);
    }
    'again: loop {
        let mut zero = histogram.zero;
        for bucket in buckets::positive(histogram) {
            if bucket.lower >= threshold {
                break;
            }
            zero += bucket.count;
            if bucket.upper > threshold {
                if bucket.count != 0.0 {
                    threshold = bucket.upper;
                }
                break;
            }
        }
        for bucket in buckets::negative(histogram) {
            if bucket.upper <= -threshold {
                break;
            }
            zero += bucket.count;
            if bucket.lower < -threshold {
                if bucket.count != 0.0 {
                    threshold = -bucket.lower;
                    continue 'again;
                }
                break;
            }
        }
        return (zero, threshold);
    }
}

/// Widens the zero bin to at least `threshold`; the bins that it absorbs are removed.
fn widen(histogram: &mut Hist, threshold: f64) {
    let (zero, threshold) = widened_zero(histogram, threshold);
    let scheme = &histogram.scheme;
    for bins in [&mut histogram.positive, &mut histogram.negative] {
        bins.retain(|index, _| scheme.bounds(true, index).0 >= threshold);
    }
    histogram.zero = zero;
    histogram.zero_threshold = threshold;
}

/// Widens the narrower zero bin until both reach equally far.
pub(super) fn reconcile_zero(left: &mut Hist, right: &mut Cow<'_, Hist>) {
    while left.zero_threshold != right.zero_threshold {
        if left.zero_threshold < right.zero_threshold {
            widen(left, right.zero_threshold);
        } else {
            widen(right.to_mut(), left.zero_threshold);
        }
    }
}

/// The bounds that both lists hold; both ascend.
pub(super) fn common_bounds(left: &[f64], right: &[f64]) -> Arc<[f64]> {
    left.iter().copied().filter(|bound| right.binary_search_by(|other| other.total_cmp(bound)).is_ok()).collect()
}

/// Custom bins under fewer bounds, all of which are among the old ones.
pub(super) fn rebound(histogram: &mut Hist, bounds: &Arc<[f64]>) {
    let Scheme::Custom { bounds: old } = &histogram.scheme else { return };
    if old == bounds {
        return;
    }
    let index_of = |index: i32| {
        let upper = usize::try_from(index).ok().and_then(|index| old.get(index).copied());
        let new = upper.map_or(bounds.len(), |upper| bounds.partition_point(|bound| *bound < upper));
        i32::try_from(new).expect("bounds fit in i32 as their bins' indexes do")
    };
    histogram.positive.map_indexes(index_of);
    histogram.scheme = Scheme::Custom { bounds: bounds.clone() };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wider_zero_bin_swallows_whole_bins_only() {
        let mut histogram = Hist::new(Scheme::Exp2 { scale: 0 });
        histogram.zero = 1.0;
        histogram.zero_threshold = 0.25;
        histogram.positive = [(0, 2.0), (1, 3.0)].into_iter().collect();
        histogram.negative = [(1, 5.0)].into_iter().collect();
        // 0.75 lies in the populated (0.5, 1].
        assert_eq!(widened_zero(&histogram, 0.75), (3.0, 1.0));
        // 1.5 lies in (1, 2] and in [-2, -1).
        assert_eq!(widened_zero(&histogram, 1.5), (11.0, 2.0));
        widen(&mut histogram, 0.75);
        assert_eq!((histogram.zero, histogram.zero_threshold), (3.0, 1.0));
        assert_eq!(histogram.positive, [(1, 3.0)].into_iter().collect());
    }

    #[test]
    fn custom_bins_move_under_the_next_common_bound() {
        let mut histogram = Hist::new(Scheme::Custom { bounds: [1.0, 2.0, 3.0, 4.0].into() });
        histogram.positive = (0..5).map(|index| (index, 1.0)).collect();
        let common = common_bounds(&[1.0, 2.0, 3.0, 4.0], &[2.0, 4.0, 6.0]);
        assert_eq!(&*common, &[2.0, 4.0]);
        rebound(&mut histogram, &common);
        assert_eq!(histogram.positive, [(0, 2.0), (1, 2.0), (2, 1.0)].into_iter().collect());
    }
}
