//! Compensated sums and means of many histograms.
//!
//! The compensation of each count (Neumaier's variant of Kahan summation) is kept in a second histogram of the same
//! layout, so that small counts survive next to huge ones that cancel.

use std::borrow::Cow;

use ogive_hist::Scheme;

use super::arithmetic::head_of;
use super::bin_sum::BinSum;
use super::{Hist, Incompatible, arithmetic, divide};
use crate::eval::kernel::kahan_add;

/// Counts below this can be added without overflow checks.
const SAFE: f64 = 1e300;

/// A running sum.
#[derive(Clone, Debug)]
pub(crate) struct HistogramSum {
    /// Everything except the bins.
    head: Hist,
    lost: Losses,
    positive: BinSum,
    negative: BinSum,
    reconciled: bool,
}

/// Rounding errors of the numbers other than the bins.
#[derive(Clone, Copy, Debug, Default)]
struct Losses {
    count: f64,
    zero: f64,
    nan: f64,
    sum: f64,
}

impl HistogramSum {
    /// A sum of one.
    pub(crate) fn new(first: &Hist) -> Self {
        Self {
            head: head_of(first),
            lost: Losses::default(),
            positive: BinSum::new(&first.positive),
            negative: BinSum::new(&first.negative),
            reconciled: false,
        }
    }

    /// Adds one more.
    pub(crate) fn add(&mut self, other: &Hist) -> Result<(), Incompatible> {
        let mut other = Cow::Borrowed(other);
        let head = &self.head;
        if head.scheme != other.scheme || head.zero_threshold != other.zero_threshold {
            self.align(&mut other)?;
        }
        let (head, lost) = (&mut self.head, &mut self.lost);
        arithmetic::combine_reset(head, other.reset);
        (head.min, head.max) = arithmetic::extremes(head, &other);
        head.sum = match (head.sum, other.sum) {
            (Some(left), Some(right)) => {
                let total;
                (total, lost.sum) = kahan_add(right, left, lost.sum);
                Some(total)
            }
            (left, right) => arithmetic::sum_when_known(left, right, head.count, other.count),
        };
        (head.count, lost.count) = kahan_add(other.count, head.count, lost.count);
        (head.zero, lost.zero) = kahan_add(other.zero, head.zero, lost.zero);
        (head.nan, lost.nan) = kahan_add(other.nan, head.nan, lost.nan);
        self.positive.add(&other.positive);
        self.negative.add(&other.negative);
        Ok(())
    }

    /// Whether bins of one index are the same in the sum and in `other`.
    pub(crate) fn has_layout_of(&self, other: &Hist) -> bool {
        arithmetic::same_layout(&self.head, other)
    }

    /// Adds bins of the sum's layout, those below and those above zero: the index of the first, and consecutive counts.
    pub(crate) fn add_bins(&mut self, negative: (i32, &[f64]), positive: (i32, &[f64])) {
        self.negative.add_dense(negative.0, negative.1);
        self.positive.add_dense(positive.0, positive.1);
    }

    /// Brings the sum and `other` to one layout.
    fn align(&mut self, other: &mut Cow<'_, Hist>) -> Result<(), Incompatible> {
        if let (Scheme::Exp2 { scale: mine }, Scheme::Exp2 { scale: theirs }) = (&self.head.scheme, &other.scheme)
            && mine <= theirs
            && self.head.zero_threshold == other.zero_threshold
        {
            let mine = *mine;
            other.to_mut().downscale(mine);
            return Ok(());
        }
        let (mut sum, mut lost) = (self.head.clone(), self.head.clone());
        let (positive, negative) = (self.positive.parts(), self.negative.parts());
        (sum.positive, sum.negative) = (positive.0, negative.0);
        (lost.positive, lost.negative) = (positive.1, negative.1);
        self.reconciled |= arithmetic::align(&mut sum, other)?;
        // The errors follow: their bins are those of the sum.
        arithmetic::align(&mut lost, &mut Cow::Borrowed(&sum))?;
        self.positive = BinSum::from_parts(&sum.positive, &lost.positive);
        self.negative = BinSum::from_parts(&sum.negative, &lost.negative);
        self.head = head_of(&sum);
        Ok(())
    }

    /// Whether custom bounds were dropped in the process.
    pub(crate) const fn reconciled(&self) -> bool {
        self.reconciled
    }

    /// How many samples it counts as, for limits.
    pub(crate) fn size(&self) -> usize {
        8 + 2 * (self.positive.len() + self.negative.len())
    }

    /// Whether a count or the sum left the range of floats.
    fn overflows(&self) -> bool {
        let head = &self.head;
        [head.count, head.zero, head.sum.unwrap_or(0.0)].into_iter().any(f64::is_infinite)
            || self.positive.overflows()
            || self.negative.overflows()
    }

    /// Changes every number.
    fn each(&mut self, change: impl Fn(f64) -> f64) {
        let (head, lost) = (&mut self.head, &mut self.lost);
        head.sum = head.sum.map(&change);
        for number in [&mut head.count, &mut head.zero, &mut head.nan] {
            *number = change(*number);
        }
        for number in [&mut lost.count, &mut lost.zero, &mut lost.nan, &mut lost.sum] {
            *number = change(*number);
        }
        self.positive.each(&change);
        self.negative.each(&change);
    }

    /// The sum with its rounding errors added.
    pub(crate) fn finish(self) -> Hist {
        let Self { head: mut sum, lost, positive, negative, .. } = self;
        sum.count += lost.count;
        sum.zero += lost.zero;
        sum.nan += lost.nan;
        sum.sum = sum.sum.map(|sum| sum + lost.sum);
        (sum.positive, sum.negative) = (positive.bins(), negative.bins());
        sum
    }
}

/// Greatest absolute value of any count and of the sum.
fn largest(histogram: &Hist) -> f64 {
    let bins = histogram.positive.counts().iter().chain(histogram.negative.counts());
    let rest = [histogram.count, histogram.zero, histogram.sum.unwrap_or(0.0)];
    bins.chain(&rest).fold(0.0, |most, value| f64::max(most, value.abs()))
}

/// A mean: sum by count while the sum fits, incremental after that.
#[derive(Clone, Debug)]
pub(crate) struct HistogramMean {
    total: HistogramSum,
    count: f64,
    /// An upper bound of all counts of the sum.
    bound: f64,
    incremental: bool,
}

impl HistogramMean {
    /// A mean of one.
    pub(crate) fn new(first: &Hist) -> Self {
        Self { total: HistogramSum::new(first), count: 1.0, bound: largest(first), incremental: false }
    }

    /// Adds one more.
    pub(crate) fn add(&mut self, other: &Hist) -> Result<(), Incompatible> {
        self.count += 1.0;
        if !self.incremental {
            self.bound += largest(other);
            if self.bound < SAFE {
                return self.total.add(other);
            }
            let mut next = self.total.clone();
            next.add(other)?;
            if !next.overflows() {
                self.total = next;
                return Ok(());
            }
            // The sum would exceed the range of floats: continue with the mean itself.
            self.incremental = true;
            let before = self.count - 1.0;
            self.total.each(|number| number / before);
        }
        let weight = (self.count - 1.0) / self.count;
        self.total.each(|number| number * weight);
        let mut share = other.clone();
        divide(&mut share, self.count);
        self.total.add(&share)
    }

    /// Whether custom bounds were dropped in the process.
    pub(crate) const fn reconciled(&self) -> bool {
        self.total.reconciled()
    }

    /// How many samples it counts as, for limits.
    pub(crate) fn size(&self) -> usize {
        self.total.size()
    }

    /// The mean.
    pub(crate) fn finish(self) -> Hist {
        let count = if self.incremental { 1.0 } else { self.count };
        let mut mean = self.total.finish();
        divide(&mut mean, count);
        mean
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
