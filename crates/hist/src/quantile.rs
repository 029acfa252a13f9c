//! Quantiles, fractions and counts by value.
//!
//! Two families live here. [`Histogram::quantile`] and [`Histogram::fraction_below`] are Ogive's own: they know the
//! edges of the bin that holds the answer, and the exact least and greatest sample. The `_type1` and `_type7` forms
//! are the OpenHistogram formulas, for whoever must give the same figures as other OpenHistogram software.
//!
//! Limits: ranks are computed in doubles, so they are exact up to 2^53 samples and rounded above.

use crate::{BinPlacement, Count, Histogram};

/// A quantile with its certain bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantile {
    /// The estimate.
    pub value: f64,
    /// The sample of that rank is not below this.
    pub lo: f64,
    /// The sample of that rank is not above this.
    pub hi: f64,
}

/// The bin in which a rank falls.
#[derive(Clone, Copy)]
struct RankedBin {
    lo: f64,
    hi: f64,
    /// Samples in the bins below.
    below: f64,
    /// Samples in this bin.
    count: f64,
}

impl<C: Count> Histogram<C> {
    /// The `q` quantile, 0 <= q <= 1: an estimate of the sample of rank ceil(q * n) (1 when that is 0), and the edges
    /// between which that sample lies. The first and the last rank are exact when minimum and maximum are known.
    /// `None` when there are no samples (those in `nan` do not count) or `q` is outside.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<Quantile> {
        self.quantiles(&[q])[0]
    }

    /// Several quantiles in one pass; cheapest when they ascend.
    #[must_use]
    pub fn quantiles(&self, qs: &[f64]) -> Vec<Option<Quantile>> {
        let total = self.total_as_float();
        let mut walk = Walk::new(self);
        let mut before = 0.0;
        qs.iter()
            .map(|q| {
                if !(0.0..=1.0).contains(q) || total.is_nan() || total <= 0.0 {
                    return None;
                }
                let rank = rank_of(*q, total, C::CUTS_AT_ZERO);
                if rank < before {
                    walk = Walk::new(self);
                }
                before = rank;
                walk.advance(rank).map(|found| self.estimate(found, rank, total))
            })
            .collect()
    }

    /// The estimate for a rank within its bin, limited by the known extremes.
    fn estimate(&self, found: RankedBin, rank: f64, total: f64) -> Quantile {
        let (mut lo, mut hi) = (found.lo, found.hi);
        // The k-th of c evenly spread samples is at k / (c + 1); a float count is an evenly spread mass.
        let share = (rank - found.below) / if C::CUTS_AT_ZERO { found.count + 1.0 } else { found.count };
        if let Some(max) = self.max.filter(|max| lo <= *max && *max <= hi) {
            hi = max;
        }
        if let Some(min) = self.min.filter(|min| lo <= *min && *min <= hi) {
            lo = min;
        }
        if C::CUTS_AT_ZERO && rank >= total && self.max == Some(hi) {
            lo = hi;
        } else if C::CUTS_AT_ZERO && rank <= 1.0 && self.min == Some(lo) {
            hi = lo;
        }
        Quantile { value: within(lo, hi, share.clamp(0.0, 1.0)), lo, hi }
    }

    /// OpenHistogram's default quantile (type 1): the k-th of c samples of a bin is at left + k/(c+1) of its width.
    /// NaN when there are no samples or `q` is outside 0..=1.
    #[must_use]
    pub fn quantile_type1(&self, q: f64) -> f64 {
        let total = self.total_as_float();
        if (0.0..=1.0).contains(&q) { self.spread(total * q, total) } else { f64::NAN }
    }

    /// OpenHistogram's type 7 quantile: as type 1, for the sample of rank floor((n-1) * q + 1).
    /// NaN when there are no samples or `q` is outside 0..=1.
    #[must_use]
    pub fn quantile_type7(&self, q: f64) -> f64 {
        let total = self.total_as_float();
        if (0.0..=1.0).contains(&q) { self.spread(((total - 1.0) * q + 1.0).floor(), total) } else { f64::NAN }
    }

    /// The OpenHistogram estimate for a rank.
    fn spread(&self, rank: f64, total: f64) -> f64 {
        if total.is_nan() || total <= 0.0 {
            return f64::NAN;
        }
        let Some(found) = Walk::new(self).advance(rank) else { return f64::NAN };
        let k = (rank - found.below).ceil().max(1.0);
        found.lo + (found.hi - found.lo) * (k / (found.count + 1.0))
    }

    /// All samples but `nan`, added up as floats: beyond 2^64 it rounds instead of saturating.
    pub(crate) fn total_as_float(&self) -> f64 {
        self.ascending().map(|(_, _, count)| count.to_f64()).sum()
    }

    /// `(positive, index or zero bin, count)` in real-axis order, without computing edges.
    pub(crate) fn ascending(&self) -> impl Iterator<Item = (bool, Option<i32>, C)> + '_ {
        let negative = self.negative.iter().rev().map(|(index, count)| (false, Some(index), count));
        let positive = self.positive.iter().map(|(index, count)| (true, Some(index), count));
        negative.chain(std::iter::once((true, None, self.zero))).chain(positive)
    }

    /// The fraction of samples below `x`, linear within the bin that contains it; NaN when there are no samples or `x`
    /// is NaN. This is OpenHistogram's inverse quantile; a zero bin without width counts as below every `x` above zero.
    #[must_use]
    pub fn fraction_below(&self, x: f64) -> f64 {
        let total = self.total_as_float();
        if x.is_nan() || total.is_nan() || total <= 0.0 {
            return f64::NAN;
        }
        let mut below = 0.0;
        for bucket in self.buckets() {
            // A zero bin without width still reaches to where the scheme's first bin begins.
            let hi = if bucket.lo == bucket.hi { self.scheme.zero_reach() } else { bucket.hi };
            if x >= hi {
                below += bucket.count.to_f64();
            } else if bucket.lo == bucket.hi {
                break;
            } else if x > bucket.lo {
                below += bucket.count.to_f64() * share_below(x, bucket.lo, bucket.hi);
                break;
            } else {
                break;
            }
        }
        (below / total).min(1.0)
    }

    /// Samples in the bins up to and including the one that contains `x`.
    #[must_use]
    pub fn count_below(&self, x: f64) -> C {
        self.count_where(x, |order| order.is_le())
    }

    /// Samples in the bins below the one that contains `x`.
    #[must_use]
    pub fn count_below_exclusive(&self, x: f64) -> C {
        self.count_where(x, std::cmp::Ordering::is_lt)
    }

    /// Samples in the bins from the one that contains `x` upwards. Samples in `nan` are not above anything.
    #[must_use]
    pub fn count_above(&self, x: f64) -> C {
        self.count_where(x, |order| order.is_ge())
    }

    /// Samples in the bins above the one that contains `x`.
    #[must_use]
    pub fn count_above_exclusive(&self, x: f64) -> C {
        self.count_where(x, std::cmp::Ordering::is_gt)
    }

    /// Samples in the bin that contains `x`.
    #[must_use]
    pub fn count_nearby(&self, x: f64) -> C {
        self.count_where(x, std::cmp::Ordering::is_eq)
    }

    /// Samples in bins whose order relative to the bin of `x` is wanted. Values beyond the scheme count as its end.
    fn count_where(&self, x: f64, wanted: impl Fn(std::cmp::Ordering) -> bool) -> C {
        let key = |positive: bool, index: Option<i32>| match index {
            None => (0, 0),
            Some(index) if positive => (1, i64::from(index)),
            Some(index) => (-1, -i64::from(index)),
        };
        let at = match self.scheme.place(x, self.zero_threshold) {
            BinPlacement::Nan if x.is_nan() => return C::ZERO,
            BinPlacement::Nan => key(x > 0.0, Some(i32::MAX)),
            BinPlacement::Zero => key(true, None),
            BinPlacement::Negative(index) => key(false, Some(index)),
            BinPlacement::Positive(index) => key(true, Some(index)),
        };
        let mut total = C::ZERO;
        for (positive, index, count) in self.ascending() {
            if wanted(key(positive, index).cmp(&at)) {
                total = total.plus(count);
            }
        }
        total
    }
}

/// A way through the bins, upwards. Edges are computed only where it stops.
struct Walk<'a, C> {
    histogram: &'a Histogram<C>,
    /// Bins passed: those below zero, the zero bin, then those above.
    passed: usize,
    /// Samples in the bins passed.
    below: f64,
    /// The last non-empty bin passed, and the count below it: for when rounding makes the last rank unreachable.
    last: Option<(usize, f64)>,
}

impl<'a, C: Count> Walk<'a, C> {
    fn new(histogram: &'a Histogram<C>) -> Self {
        Self { histogram, passed: 0, below: 0.0, last: None }
    }

    /// The first bin at whose end at least `rank` samples have passed, or the last filled one.
    fn advance(&mut self, rank: f64) -> Option<RankedBin> {
        let (negative, positive) = (self.histogram.negative.counts(), self.histogram.positive.counts());
        while self.passed <= negative.len() + positive.len() {
            let at = self.passed;
            let count = match at.checked_sub(negative.len()) {
                None => negative[negative.len() - 1 - at],
                Some(0) => self.histogram.zero,
                Some(above) => positive[above - 1],
            };
            let count = count.to_f64();
            if count != 0.0 {
                if self.below + count >= rank {
                    return Some(self.found(at, self.below));
                }
                self.last = Some((at, self.below));
            }
            self.below += count;
            self.passed += 1;
        }
        self.last.map(|(at, below)| self.found(at, below))
    }

    /// The bin at position `at` of the walk.
    fn found(&self, at: usize, below: f64) -> RankedBin {
        let histogram = self.histogram;
        let negative = &histogram.negative;
        let ((lo, hi), count) = match at.checked_sub(negative.len()) {
            None => {
                let place = negative.len() - 1 - at;
                (histogram.scheme.bounds(false, negative.indexes()[place]), negative.counts()[place])
            }
            Some(0) => ((-histogram.zero_threshold, histogram.zero_threshold), histogram.zero),
            Some(above) => {
                let positive = &histogram.positive;
                (histogram.scheme.bounds(true, positive.indexes()[above - 1]), positive.counts()[above - 1])
            }
        };
        RankedBin { lo, hi, below, count: count.to_f64() }
    }
}

/// The rank of a quantile: an integer from 1 for integer counts. q * n may miss an integer by a rounding error of
/// either factor (0.07 * 100 is 7.000000000000001), which must not move the result to the next sample.
fn rank_of(q: f64, total: f64, whole: bool) -> f64 {
    let rank = q * total;
    if !whole {
        return rank;
    }
    let nearest = rank.round();
    let rank = if (rank - nearest).abs() <= nearest * (2.0 * f64::EPSILON) { nearest } else { rank.ceil() };
    rank.clamp(1.0, total)
}

/// The share of a bin's samples below `x`, for lo < x < hi.
fn share_below(x: f64, lo: f64, hi: f64) -> f64 {
    let share = (x - lo) / (hi - lo);
    // In an unbounded bin, the position of samples is unknown: half of them.
    if share.is_finite() && hi.is_finite() && lo.is_finite() { share } else { 0.5 }
}

/// The value at the fraction `share` between lo and hi; the finite edge where the other is infinite.
fn within(lo: f64, hi: f64, share: f64) -> f64 {
    match (lo.is_finite(), hi.is_finite()) {
        (true, true) => (lo + (hi - lo) * share).clamp(lo, hi),
        (true, false) => lo,
        (false, true) => hi,
        _ => 0.0,
    }
}
