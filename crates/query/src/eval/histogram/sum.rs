//! Compensated sums and means of many histograms.
//!
//! The compensation of each count (Neumaier's variant of Kahan summation) is held in a second histogram of the
//! same layout, so that small counts survive beside huge ones that cancel.

use std::borrow::Cow;

use ogive_hist::Bins;

use super::{Hist, Incompatible, arithmetic, divide, scale};
use crate::eval::kernel::kahan_add;

/// Counts below this add without any care for the range of floats.
const SAFE: f64 = 1e300;

/// A growing sum.
#[derive(Clone, Debug)]
pub(crate) struct HistogramSum {
    sum: Hist,
    /// What rounding lost of each count; of the sum's layout, with at least its bins.
    lost: Hist,
    reconciled: bool,
}

impl HistogramSum {
    /// A sum of one.
    pub(crate) fn new(first: &Hist) -> Self {
        let mut lost = Hist::new(first.scheme.clone());
        lost.zero_threshold = first.zero_threshold;
        lost.sum = Some(0.0);
        lost.positive = zeros(&first.positive);
        lost.negative = zeros(&first.negative);
        Self { sum: first.clone(), lost, reconciled: false }
    }

    /// Adds one more.
    pub(crate) fn add(&mut self, other: &Hist) -> Result<(), Incompatible> {
        let mut other = Cow::Borrowed(other);
        let sum = &mut self.sum;
        if sum.scheme != other.scheme || sum.zero_threshold != other.zero_threshold {
            self.reconciled |= arithmetic::align(sum, &mut other)?;
            arithmetic::align(&mut self.lost, &mut Cow::Borrowed(sum))?;
            self.lost.zero_threshold = sum.zero_threshold;
            self.lost.positive = arithmetic::zip_bins(&self.lost.positive, &sum.positive, |lost, _| lost);
            self.lost.negative = arithmetic::zip_bins(&self.lost.negative, &sum.negative, |lost, _| lost);
        }
        let lost = &mut self.lost;
        arithmetic::combine_reset(sum, other.reset);
        (sum.min, sum.max) = arithmetic::extremes(sum, &other);
        sum.sum = match (sum.sum, other.sum) {
            (Some(left), Some(right)) => {
                let (total, rest) = kahan_add(right, left, lost.sum.unwrap_or(0.0));
                lost.sum = Some(rest);
                Some(total)
            }
            (left, right) => arithmetic::sum_when_known(left, right, sum.count, other.count),
        };
        for (sum, other, lost) in [
            (&mut sum.count, other.count, &mut lost.count),
            (&mut sum.zero, other.zero, &mut lost.zero),
            (&mut sum.nan, other.nan, &mut lost.nan),
        ] {
            (*sum, *lost) = kahan_add(other, *sum, *lost);
        }
        add_bins(&mut sum.positive, &mut lost.positive, &other.positive);
        add_bins(&mut sum.negative, &mut lost.negative, &other.negative);
        Ok(())
    }

    /// Whether custom bounds had to go on the way.
    pub(crate) const fn reconciled(&self) -> bool {
        self.reconciled
    }

    /// Whether a count or the sum left the range of floats.
    fn overflows(&self) -> bool {
        largest(&self.sum).is_infinite()
    }

    /// The sum with what rounding had lost.
    pub(crate) fn finish(self) -> Hist {
        self.finish_with(|_| ())
    }

    fn finish_with(mut self, change: impl Fn(&mut Hist)) -> Hist {
        let (min, max, reset) = (self.sum.min, self.sum.max, self.sum.reset);
        change(&mut self.sum);
        change(&mut self.lost);
        let sum = &mut self.sum;
        sum.sum = sum.sum.map(|sum| sum + self.lost.sum.unwrap_or(0.0));
        sum.count += self.lost.count;
        sum.zero += self.lost.zero;
        sum.nan += self.lost.nan;
        sum.positive = arithmetic::zip_bins(&sum.positive, &self.lost.positive, |count, lost| count + lost);
        sum.negative = arithmetic::zip_bins(&sum.negative, &self.lost.negative, |count, lost| count + lost);
        (sum.min, sum.max, sum.reset) = (min, max, reset);
        sum.compact();
        self.sum
    }
}

/// Greatest absolute value of any count and of the sum.
fn largest(histogram: &Hist) -> f64 {
    let bins = histogram.positive.counts().iter().chain(histogram.negative.counts());
    let rest = [histogram.count, histogram.zero, histogram.sum.unwrap_or(0.0)];
    bins.chain(&rest).fold(0.0, |most, value| f64::max(most, value.abs()))
}

fn zeros(bins: &Bins<f64>) -> Bins<f64> {
    let mut out = bins.clone();
    out.counts_mut().fill(0.0);
    out
}

/// Adds `other` to `sum` with the losses in `lost`; `sum` and `lost` have the same bins before and after.
fn add_bins(sum: &mut Bins<f64>, lost: &mut Bins<f64>, other: &Bins<f64>) {
    if !holds_all(sum.indexes(), other.indexes()) {
        *sum = arithmetic::zip_bins(sum, other, |sum, _| sum);
        *lost = arithmetic::zip_bins(lost, other, |lost, _| lost);
    }
    let mut at = 0;
    for (index, count) in other.iter() {
        while sum.indexes()[at] != index {
            at += 1;
        }
        let (total, rest) = kahan_add(count, sum.counts()[at], lost.counts()[at]);
        sum.counts_mut()[at] = total;
        lost.counts_mut()[at] = rest;
    }
}

/// Whether each of `part` is in `whole`; both ascend.
fn holds_all(whole: &[i32], part: &[i32]) -> bool {
    if whole == part {
        return true;
    }
    let mut rest = whole.iter();
    part.iter().all(|index| rest.any(|other| other == index))
}

/// A mean: of the sum while it fits, then incremental.
#[derive(Clone, Debug)]
pub(crate) struct HistogramMean {
    total: HistogramSum,
    count: f64,
    incremental: bool,
}

impl HistogramMean {
    /// A mean of one.
    pub(crate) fn new(first: &Hist) -> Self {
        Self { total: HistogramSum::new(first), count: 1.0, incremental: false }
    }

    /// Takes one more in.
    pub(crate) fn add(&mut self, other: &Hist) -> Result<(), Incompatible> {
        self.count += 1.0;
        if !self.incremental {
            if largest(&self.total.sum) < SAFE && largest(other) < SAFE {
                return self.total.add(other);
            }
            let mut next = self.total.clone();
            next.add(other)?;
            if !next.overflows() {
                self.total = next;
                return Ok(());
            }
            // The sum would leave the range of floats: go on with the mean itself.
            self.incremental = true;
            divide(&mut self.total.sum, self.count - 1.0);
            divide(&mut self.total.lost, self.count - 1.0);
        }
        let weight = (self.count - 1.0) / self.count;
        scale(&mut self.total.sum, weight);
        scale(&mut self.total.lost, weight);
        let mut share = other.clone();
        divide(&mut share, self.count);
        self.total.add(&share)
    }

    /// Whether custom bounds had to go on the way.
    pub(crate) const fn reconciled(&self) -> bool {
        self.total.reconciled()
    }

    /// The mean.
    pub(crate) fn finish(self) -> Hist {
        let count = if self.incremental { 1.0 } else { self.count };
        self.total.finish_with(|histogram| divide(histogram, count))
    }
}

#[cfg(test)]
mod tests {
    use ogive_hist::Scheme;

    use super::*;

    fn one(bin: i32, count: f64, sum: f64) -> Hist {
        let mut histogram = Hist::new(Scheme::Exp2 { scale: 0 });
        histogram.positive = [(bin, count)].into_iter().collect();
        histogram.count = count;
        histogram.sum = Some(sum);
        histogram
    }

    #[test]
    fn small_counts_survive_huge_ones_that_cancel() {
        let mut total = HistogramSum::new(&one(1, 1.0, 5.3));
        for (bin, count, sum) in [(1, 1e100, 1e100), (2, 3.0, 1.0), (1, -1e100, -1e100)] {
            total.add(&one(bin, count, sum)).unwrap();
        }
        let total = total.finish();
        assert_eq!(total.positive, [(1, 1.0), (2, 3.0)].into_iter().collect());
        assert_eq!((total.count, total.sum), (4.0, Some(6.3)));
    }

    #[test]
    fn a_mean_whose_sum_overflows_is_still_finite() {
        let mut mean = HistogramMean::new(&one(1, f64::MAX, 1.0));
        mean.add(&one(1, f64::MAX, 3.0)).unwrap();
        let mean = mean.finish();
        assert_eq!((mean.count, mean.sum), (f64::MAX, Some(2.0)));
    }
}
