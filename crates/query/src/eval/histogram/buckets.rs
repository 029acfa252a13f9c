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
    /// Whether samples are taken as evenly spread between the bounds; if not, between their logarithms.
    pub(crate) linear: bool,
}

/// Whether the bins have explicit bounds.
pub(crate) fn is_custom(histogram: &Hist) -> bool {
    matches!(histogram.scheme, Scheme::Custom { .. })
}

/// Bounds of bin `index` on the positive side, or for `Custom` on the whole axis.
pub(crate) fn positive_bounds(scheme: &Scheme, index: i32) -> (f64, f64) {
    match scheme {
        Scheme::LogLinear10 => log_linear_bounds(index),
        Scheme::Exp2 { scale } => (exp2_bound(index - 1, *scale), exp2_bound(index, *scale)),
        Scheme::Custom { bounds } => {
            let at = |i: i32| usize::try_from(i).ok().and_then(|i| bounds.get(i).copied());
            let lower = if index == 0 { f64::NEG_INFINITY } else { at(index - 1).unwrap_or(f64::INFINITY) };
            (lower, at(index).unwrap_or(f64::INFINITY))
        }
    }
}

/// 2^(index * 2^-scale), the upper bound of exponential bin `index`.
fn exp2_bound(index: i32, scale: i8) -> f64 {
    (f64::from(index) * (-f64::from(scale)).exp2()).exp2()
}

/// Bin `(exp + 128) * 90 + (val - 10)` holds [val/10 * 10^exp, (val+1)/10 * 10^exp). Both bounds are the
/// correctly rounded decimal numbers, by way of the parser of the standard library.
fn log_linear_bounds(index: i32) -> (f64, f64) {
    let exponent = index.div_euclid(90) - 128 - 1;
    let mantissa = index.rem_euclid(90) + 10;
    let decimal = |mantissa: i32| format!("{mantissa}e{exponent}").parse().unwrap_or(f64::NAN);
    (decimal(mantissa), decimal(mantissa + 1))
}

/// Whether values are spread evenly inside the bins of `scheme`.
fn is_linear(scheme: &Scheme) -> bool {
    !matches!(scheme, Scheme::Exp2 { .. })
}

/// The bins above zero (all bins of `Custom`), ascending, empty ones included.
pub(crate) fn positive(histogram: &Hist) -> impl DoubleEndedIterator<Item = Bucket> + '_ {
    histogram.positive.iter().map(|(index, count)| {
        let (lower, upper) = positive_bounds(&histogram.scheme, index);
        Bucket { lower, upper, count, linear: is_linear(&histogram.scheme) }
    })
}

/// The bins below zero by distance from zero, empty ones included.
pub(crate) fn negative(histogram: &Hist) -> impl DoubleEndedIterator<Item = Bucket> + '_ {
    histogram.negative.iter().map(|(index, count)| {
        let (near, far) = positive_bounds(&histogram.scheme, index);
        Bucket { lower: -far, upper: -near, count, linear: is_linear(&histogram.scheme) }
    })
}

/// The zero bin. Values in it are not negative when the histogram has no bins below zero, and the other way round.
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

/// All populated bins in ascending order on the real axis.
pub(crate) fn ascending(histogram: &Hist) -> impl DoubleEndedIterator<Item = Bucket> + '_ {
    let threshold = histogram.zero_threshold;
    let middle = (histogram.zero != 0.0).then(|| zero(histogram));
    let custom = is_custom(histogram);
    let below = negative(histogram).rev().map(move |bucket| {
        // The nearest bin may reach into the zero bin: it ends where that begins.
        Bucket { upper: bucket.upper.min(-threshold), ..bucket }
    });
    let above = positive(histogram)
        .map(move |bucket| if custom { bucket } else { Bucket { lower: bucket.lower.max(threshold), ..bucket } });
    below.chain(middle).chain(above).filter(|bucket| bucket.count != 0.0)
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
    fn bounds_of_each_scheme() {
        assert_eq!(positive_bounds(&Scheme::Exp2 { scale: 0 }, 1), (1.0, 2.0));
        assert_eq!(positive_bounds(&Scheme::Exp2 { scale: 0 }, 0), (0.5, 1.0));
        assert_eq!(positive_bounds(&Scheme::Exp2 { scale: -1 }, 1), (1.0, 4.0));
        let custom = Scheme::Custom { bounds: [5.0, 10.0].into() };
        assert_eq!(positive_bounds(&custom, 0), (f64::NEG_INFINITY, 5.0));
        assert_eq!(positive_bounds(&custom, 1), (5.0, 10.0));
        assert_eq!(positive_bounds(&custom, 2), (10.0, f64::INFINITY));
        // 1.2e-3: exp -3, val 12.
        assert_eq!(positive_bounds(&Scheme::LogLinear10, (128 - 3) * 90 + 2), (0.0012, 0.0013));
        assert_eq!(positive_bounds(&Scheme::LogLinear10, (128 - 3) * 90 + 89), (0.0099, 0.01));
    }

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
