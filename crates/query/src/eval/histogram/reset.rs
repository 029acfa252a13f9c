//! Counter resets and equality.

use std::borrow::Cow;

use ogive_hist::{Bins, CounterReset, Scheme};

use super::{Hist, arithmetic, layout};

/// Whether the counter was reset between `previous` and `current`: the hint says so, or any count went down, or the
/// bins are finer than before.
pub(crate) fn detect_reset(current: &Hist, previous: &Hist) -> bool {
    match current.reset {
        CounterReset::Reset => return true,
        CounterReset::NotReset => return false,
        CounterReset::Unknown | CounterReset::Gauge => {}
    }
    if current.count < previous.count {
        return true;
    }
    match (&current.scheme, &previous.scheme) {
        (Scheme::Custom { .. }, Scheme::Custom { .. }) => custom_reset(current, previous),
        (Scheme::LogLinear10 | Scheme::LogLinear2 { .. } | Scheme::Gamma { .. }, other) if current.scheme == *other => {
            bins_reset(current, previous, current.zero < previous.zero)
        }
        (Scheme::Exp2 { scale: now }, Scheme::Exp2 { scale: before }) => {
            if now > before || current.zero_threshold < previous.zero_threshold {
                return true;
            }
            let (zero, threshold) = layout::widened_zero(previous, current.zero_threshold);
            if threshold != current.zero_threshold || current.zero < zero {
                return true;
            }
            exponential_reset(current, previous)
        }
        _ => true,
    }
}

/// Custom bins are compared under the common bounds.
fn custom_reset(current: &Hist, previous: &Hist) -> bool {
    let mut current = current.clone();
    let mut previous = Cow::Borrowed(previous);
    arithmetic::align(&mut current, &mut previous).is_err() || bins_reset(&current, &previous, false)
}

/// `previous` is converted to the zero bin and the scale of `current`, which are wider and coarser.
fn exponential_reset(current: &Hist, previous: &Hist) -> bool {
    if arithmetic::same_layout(current, previous) {
        return bins_reset(current, previous, false);
    }
    let mut current = Cow::Borrowed(current);
    let mut previous = previous.clone();
    layout::reconcile_zero(&mut previous, &mut current);
    if let Scheme::Exp2 { scale } = current.scheme {
        previous.downscale(scale);
    }
    bins_reset(&current, &previous, false)
}

fn bins_reset(current: &Hist, previous: &Hist, zero_fell: bool) -> bool {
    zero_fell || fell(&current.positive, &previous.positive) || fell(&current.negative, &previous.negative)
}

/// Whether any bin counts less than before.
fn fell(current: &Bins<f64>, previous: &Bins<f64>) -> bool {
    // Those whose bins are elsewhere have none here. To compare nothing with nothing takes 80 ns where `memcmp` uses
    // masked loads, because the address of an empty vector is none that can be read.
    if previous.indexes().is_empty() {
        return false;
    }
    if current.indexes() == previous.indexes() {
        return current.counts().iter().zip(previous.counts()).any(|(now, before)| now < before);
    }
    let mut rest = current.iter().peekable();
    previous.iter().any(|(index, before)| {
        while rest.next_if(|(other, _)| *other < index).is_some() {}
        let now = rest.peek().filter(|(other, _)| *other == index).map_or(0.0, |(_, count)| *count);
        before != 0.0 && now < before
    })
}

/// Whether two histograms hold the same data: bits of counts and sums, bounds and populated bins.
pub(crate) fn equal(left: &Hist, right: &Hist) -> bool {
    let bits = |value: Option<f64>| value.map(f64::to_bits);
    left.scheme == right.scheme
        && left.count.to_bits() == right.count.to_bits()
        && bits(left.sum) == bits(right.sum)
        && left.zero_threshold == right.zero_threshold
        && left.zero.to_bits() == right.zero.to_bits()
        && same_bins(&left.positive, &right.positive)
        && same_bins(&left.negative, &right.negative)
}

fn same_bins(left: &Bins<f64>, right: &Bins<f64>) -> bool {
    let populated = |bins: &Bins<f64>| -> Vec<(i32, u64)> {
        bins.iter().filter(|(_, count)| *count != 0.0).map(|(index, count)| (index, count.to_bits())).collect()
    };
    populated(left) == populated(right)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exponential(scale: i8, bins: &[(i32, f64)]) -> Hist {
        let mut histogram = Hist::new(Scheme::Exp2 { scale });
        histogram.positive = bins.iter().copied().collect();
        histogram.count = bins.iter().map(|bin| bin.1).sum();
        histogram
    }

    #[test]
    fn one_bin_that_falls_is_a_reset() {
        let before = exponential(0, &[(0, 1.0), (1, 2.0)]);
        assert!(!detect_reset(&exponential(0, &[(0, 1.0), (1, 2.0)]), &before));
        assert!(!detect_reset(&exponential(0, &[(0, 3.0), (1, 2.0), (5, 1.0)]), &before));
        assert!(detect_reset(&exponential(0, &[(0, 9.0), (1, 1.0)]), &before));
        assert!(detect_reset(&exponential(0, &[(0, 9.0)]), &before));
    }

    #[test]
    fn bins_of_every_scheme_are_compared_under_equal_parameters() {
        for scheme in [Scheme::LogLinear10, Scheme::log_linear2(7, 0, 1e-9).unwrap(), Scheme::gamma(1.02, 0.0).unwrap()]
        {
            let of = |counts: [f64; 2]| {
                let mut histogram = Hist::new(scheme.clone());
                histogram.record_n(1.0, counts[0]);
                histogram.record_n(9.0, counts[1]);
                histogram
            };
            assert!(!detect_reset(&of([2.0, 3.0]), &of([2.0, 1.0])), "{scheme}");
            assert!(detect_reset(&of([1.0, 5.0]), &of([2.0, 1.0])), "{scheme}");
        }
        let hdr = |grouping| Hist::new(Scheme::log_linear2(grouping, 0, 1e-9).unwrap());
        assert!(detect_reset(&hdr(7), &hdr(10)));
    }

    #[test]
    fn coarser_is_compared_and_finer_is_a_reset() {
        let before = exponential(0, &[(1, 2.0), (2, 2.0)]);
        assert!(!detect_reset(&exponential(-1, &[(1, 4.0)]), &before));
        assert!(detect_reset(&exponential(-1, &[(1, 3.0), (2, 9.0)]), &before));
        assert!(detect_reset(&exponential(1, &[(2, 9.0), (3, 9.0), (4, 9.0)]), &before));
    }

    #[test]
    fn the_hint_decides_first() {
        let before = exponential(0, &[(0, 9.0)]);
        let mut now = exponential(0, &[(0, 1.0)]);
        now.reset = CounterReset::NotReset;
        assert!(!detect_reset(&now, &before));
        now = exponential(0, &[(0, 10.0)]);
        now.reset = CounterReset::Reset;
        assert!(detect_reset(&now, &before));
    }
}
