//! Sums, means and deviations.
//!
//! Invariants: an exact sum is used where there is one, and the bins' midpoints otherwise; the standard deviation is
//! always that of the midpoints around their own mean, in two passes, so that nothing cancels: it is never negative
//! and never NaN for finite bins.

use crate::{Count, Histogram};

impl<C: Count> Histogram<C> {
    /// Mean of the samples: exact when the sum is known, from midpoints otherwise. `None` without samples.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        let total = self.total_as_float();
        match self.sum {
            _ if total == 0.0 || total.is_nan() => None,
            Some(sum) => Some(sum / total),
            None => self.mean_of_bins(),
        }
    }

    /// Mean of the bins' midpoints. `None` without samples.
    #[must_use]
    pub fn mean_of_bins(&self) -> Option<f64> {
        let total = self.total_as_float();
        if total == 0.0 || total.is_nan() {
            return None;
        }
        Some(compensated(self.midpoints().map(|(middle, count)| middle * (count / total))))
    }

    /// Standard deviation of the bins' midpoints around their mean (of a population: divided by n). `None` without
    /// samples.
    #[must_use]
    pub fn stddev(&self) -> Option<f64> {
        let total = self.total_as_float();
        let mean = self.mean_of_bins()?;
        // The largest deviation scales the squares, so that they neither overflow nor vanish.
        let scale = self.midpoints().map(|(middle, _)| (middle - mean).abs()).fold(0.0, f64::max);
        if scale == 0.0 || !scale.is_finite() {
            return Some(scale);
        }
        let squares = self.midpoints().map(|(middle, count)| ((middle - mean) / scale).powi(2) * (count / total));
        Some(scale * compensated(squares).max(0.0).sqrt())
    }

    /// The exact sum if it is known, else that of the midpoints.
    #[must_use]
    pub fn sum_or_estimate(&self) -> f64 {
        self.sum.unwrap_or_else(|| self.sum_of_bins())
    }

    /// Sum of the bins' midpoints, each times its count.
    #[must_use]
    pub fn sum_of_bins(&self) -> f64 {
        compensated(self.midpoints().map(|(middle, count)| middle * count))
    }

    /// The k-th raw moment as OpenHistogram computes it: the sum of midpoint^k * count, divided by n^k (not n).
    /// NaN without samples.
    #[must_use]
    pub fn openhistogram_moment(&self, k: i32) -> f64 {
        let total = self.total_as_float();
        if total == 0.0 {
            return f64::NAN;
        }
        self.midpoints().map(|(middle, count)| middle.powi(k) * count).sum::<f64>() / total.powi(k)
    }

    /// `(midpoint, count)` of every filled bin, ascending.
    pub fn midpoints(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.ascending().filter(|(_, _, count)| *count != C::ZERO).map(|(positive, index, count)| {
            (index.map_or(0.0, |index| self.scheme.midpoint(positive, index)), count.to_f64())
        })
    }
}

/// A sum that carries its rounding error along (Neumaier).
fn compensated(terms: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut lost) = (0.0_f64, 0.0_f64);
    for term in terms {
        let next = sum + term;
        lost += if sum.abs() >= term.abs() { (sum - next) + term } else { (term - next) + sum };
        sum = next;
    }
    // An infinite term leaves NaN in the remainder.
    if lost.is_finite() { sum + lost } else { sum }
}
