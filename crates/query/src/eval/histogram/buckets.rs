//! A histogram's bins as intervals of the real axis.

use ogive_hist::Scheme;

use super::Hist;

/// One populated interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bucket {
    /// Lower bound, -Inf for the first custom bin.
    pub(crate) lower: f64,
    /// Upper bound, +Inf for the last custom bin.
    pub(crate) upper: f64,
    /// Samples in it.
    pub(crate) count: f64,
    /// Whether samples count as evenly spread between the bounds; if not, between their logarithms.
    pub(crate) linear: bool,
}

/// Whether the bins have explicit bounds.
pub(crate) fn is_custom(histogram: &Hist) -> bool {
    matches!(histogram.scheme, Scheme::Custom { .. })
}

/// Whether values are spread evenly inside the bins of `scheme`.
fn is_linear(scheme: &Scheme) -> bool {
    !matches!(scheme, Scheme::Exp2 { .. } | Scheme::Gamma { .. })
}

/// The bins above zero (all bins of `Custom`), ascending, empty ones included.
pub(crate) fn positive(histogram: &Hist) -> impl DoubleEndedIterator<Item = Bucket> + '_ {
    histogram.positive.iter().map(|(index, count)| bin(histogram, true, index, count))
}

fn bin(histogram: &Hist, positive: bool, index: i32, count: f64) -> Bucket {
    let (lower, upper) = histogram.scheme.bounds(positive, index);
    Bucket { lower, upper, count, linear: is_linear(&histogram.scheme) }
}

/// The bins below zero by distance from zero, empty ones included.
pub(crate) fn negative(histogram: &Hist) -> impl DoubleEndedIterator<Item = Bucket> + '_ {
    histogram.negative.iter().map(|(index, count)| bin(histogram, false, index, count))
}

/// The zero bin. Its values are not negative when the histogram has no bins below zero, and vice versa.
pub(crate) fn zero(histogram: &Hist) -> Bucket {
    let threshold = histogram.zero_threshold;
    let (below, above) = (populated(&histogram.negative), populated(&histogram.positive));
    Bucket {
        lower: if !below && above { 0.0 } else { -threshold },
        upper: if below && !above { 0.0 } else { threshold },
        count: histogram.zero,
        linear: true,
    }
}

fn populated(bins: &ogive_hist::Bins<f64>) -> bool {
    bins.counts().iter().any(|count| *count != 0.0)
}

/// One populated bin whose bounds have not been looked up yet: most walks need the bounds of one bin only.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct BinPosition {
    /// Samples in it.
    pub(crate) count: f64,
    side: Side,
    index: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Negative,
    Zero,
    Positive,
}

impl BinPosition {
    /// The bin with its bounds. One that reaches into the zero bin ends where that begins.
    pub(crate) fn bucket(self, histogram: &Hist) -> Bucket {
        let threshold = histogram.zero_threshold;
        match self.side {
            Side::Zero => zero(histogram),
            Side::Negative => {
                let bucket = bin(histogram, false, self.index, self.count);
                Bucket { upper: bucket.upper.min(-threshold), ..bucket }
            }
            Side::Positive => {
                let bucket = bin(histogram, true, self.index, self.count);
                let lower = if is_custom(histogram) { bucket.lower } else { bucket.lower.max(threshold) };
                Bucket { lower, ..bucket }
            }
        }
    }
}

/// All populated bins in ascending order on the real axis.
pub(crate) fn places(histogram: &Hist) -> impl DoubleEndedIterator<Item = BinPosition> + '_ {
    let place = |side: Side| move |(index, count): (i32, f64)| BinPosition { count, side, index };
    let below = histogram.negative.iter().rev().map(place(Side::Negative));
    let middle = std::iter::once(BinPosition { count: histogram.zero, side: Side::Zero, index: 0 });
    let above = histogram.positive.iter().map(place(Side::Positive));
    below.chain(middle).chain(above).filter(|place| place.count != 0.0)
}

/// All populated bins with their bounds, in ascending order on the real axis.
pub(crate) fn ascending(histogram: &Hist) -> impl DoubleEndedIterator<Item = Bucket> + '_ {
    places(histogram).map(|place| place.bucket(histogram))
}

/// Samples in all bins: those that are not NaN.
pub(crate) fn in_bins(histogram: &Hist) -> f64 {
    places(histogram).map(|place| place.count).sum()
}

/// A number that stands for all samples of a bin: the middle of its bounds, geometric when the bins are
/// exponential; the finite bound of an unbounded one.
pub(crate) fn middle(histogram: &Hist, bucket: &Bucket) -> f64 {
    let Bucket { lower, upper, .. } = *bucket;
    if lower == f64::NEG_INFINITY {
        return if upper > 0.0 && upper.is_finite() { upper / 2.0 } else { upper };
    }
    if upper == f64::INFINITY {
        return lower;
    }
    if bucket.linear || is_custom(histogram) || (lower <= 0.0 && upper >= 0.0) {
        return f64::midpoint(lower, upper);
    }
    (lower * upper).sqrt().copysign(lower)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ascending_passes_zero_and_skips_empty_bins() {
        let mut histogram = Hist::new(Scheme::Exp2 { scale: 0 });
        histogram.negative = [(0, 1.0), (2, 2.0)].into_iter().collect();
        histogram.positive = [(1, 0.0), (2, 3.0)].into_iter().collect();
        histogram.zero = 4.0;
        histogram.zero_threshold = 0.25;
        let found: Vec<(f64, f64, f64)> = ascending(&histogram).map(|b| (b.lower, b.upper, b.count)).collect();
        assert_eq!(found, [(-4.0, -2.0, 2.0), (-1.0, -0.5, 1.0), (-0.25, 0.25, 4.0), (2.0, 4.0, 3.0)]);
    }
}
