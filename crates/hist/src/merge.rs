//! Exact addition and subtraction of histograms.
//!
//! Invariants: merge is associative and commutative within a scheme (`Exp2` of different scales: as long as the zero
//! thresholds are equal, since widening the zero bin depends on the scale at which it happens). Nothing is
//! approximated: a bin is only ever joined with its neighbour, as a coarser scale or a wider zero bin has it.
//! Limits: integer counts saturate at 2^64-1.

use crate::{Bins, Count, CounterReset, Histogram, Scheme, SchemeMismatch, exp2};

/// What could not be subtracted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[must_use]
pub struct Underflow {
    /// Bins (including the zero bin and `nan`) in which the other histogram had more; they are left at zero.
    pub bins: usize,
}

impl Underflow {
    /// Whether everything could be subtracted.
    #[must_use]
    pub fn is_none(self) -> bool {
        self.bins == 0
    }
}

impl<C: Count> Histogram<C> {
    /// Adds another histogram, exactly. Exponential histograms go to the smaller of both scales; differing zero
    /// thresholds go to the larger, which absorbs the bins within it.
    ///
    /// # Errors
    /// [`SchemeMismatch`] when the bins do not correspond; nothing has changed then.
    pub fn merge(&mut self, other: &Self) -> Result<(), SchemeMismatch> {
        let aligned = self.align(other)?;
        let other = aligned.as_ref().unwrap_or(other);
        self.merge_beside(other);
        self.zero = self.zero.plus(other.zero);
        self.nan = self.nan.plus(other.nan);
        self.count = self.count.plus(other.count);
        self.negative.merge(&other.negative);
        self.positive.merge(&other.positive);
        Ok(())
    }

    /// Subtracts another histogram, exactly. Integer counts stop at zero, and the result says how often they did;
    /// float counts may become negative. Bins left at zero are dropped. Minimum and maximum become unknown.
    ///
    /// # Errors
    /// [`SchemeMismatch`] when the bins do not correspond; then nothing has changed.
    pub fn subtract(&mut self, other: &Self) -> Result<Underflow, SchemeMismatch> {
        let aligned = self.align(other)?;
        let other = aligned.as_ref().unwrap_or(other);
        let mut short = 0;
        let mut take = |from: &mut C, count: C| {
            let left = from.minus(count);
            // If the difference does not add up to the original again, it was cut off at zero.
            short += usize::from(C::CUTS_AT_ZERO && *from < count);
            *from = left;
        };
        take(&mut self.zero, other.zero);
        take(&mut self.nan, other.nan);
        take_bins(&mut self.negative, &other.negative, &mut take);
        take_bins(&mut self.positive, &other.positive, &mut take);
        self.compact();
        if C::CUTS_AT_ZERO {
            self.recount();
        } else {
            self.count = self.count.minus(other.count);
        }
        if self.count == self.nan {
            // Without samples, sum and extremes are not known.
            (self.sum, self.min, self.max) = (None, None, None);
        } else if other.count != other.nan {
            self.sum = self.sum.zip(other.sum).map(|(left, right)| left - right).filter(|_| short == 0);
            (self.min, self.max) = (None, None);
        }
        Ok(Underflow { bins: short })
    }

    /// Lowers an exponential histogram to a coarser scale; others, and scales not below its own, change nothing.
    pub fn downscale(&mut self, to: i8) {
        if let Scheme::Exp2 { scale } = &mut self.scheme
            && to < *scale
        {
            let steps = (*scale - to) as u32;
            *scale = to;
            self.negative.map_indexes(|index| exp2::coarser(index, steps));
            self.positive.map_indexes(|index| exp2::coarser(index, steps));
        }
    }

    /// Widens the zero bin to `threshold`, or to the far edge of a filled bin that lies across it.
    pub fn widen_zero(&mut self, threshold: f64) {
        if matches!(self.scheme, Scheme::Custom { .. }) {
            return;
        }
        let threshold = threshold_clear_of(self, threshold);
        if threshold > self.zero_threshold {
            for bins in [&mut self.negative, &mut self.positive] {
                let mut zero = self.zero;
                let scheme = &self.scheme;
                bins.retain(|index, count| {
                    let outside = scheme.edges(index).0 >= threshold;
                    if !outside {
                        zero = zero.plus(count);
                    }
                    outside
                });
                self.zero = zero;
            }
            self.zero_threshold = threshold;
        }
    }

    /// Converts `self` to the scheme and threshold that both can have, and returns the converted `other` if it had to
    /// change.
    fn align(&mut self, other: &Self) -> Result<Option<Self>, SchemeMismatch> {
        let scale = match (&self.scheme, &other.scheme) {
            (Scheme::Exp2 { scale: left }, Scheme::Exp2 { scale: right }) => Some((*left).min(*right)),
            (left, right) if left == right => None,
            (left, right) => return Err(SchemeMismatch { left: left.clone(), right: right.clone() }),
        };
        let same_threshold = self.zero_threshold == other.zero_threshold;
        if self.scheme == other.scheme && same_threshold {
            return Ok(None);
        }
        let mut other = other.clone();
        if let Some(scale) = scale {
            self.downscale(scale);
            other.downscale(scale);
        }
        if !same_threshold {
            self.share_zero_threshold(&mut other);
        }
        Ok(Some(other))
    }

    /// Widens both zero bins until they are equal and cut no filled bin of either.
    fn share_zero_threshold(&mut self, other: &mut Self) {
        let mut threshold = self.zero_threshold.max(other.zero_threshold);
        loop {
            let clear = threshold_clear_of(other, threshold_clear_of(self, threshold));
            if clear == threshold {
                break;
            }
            threshold = clear;
        }
        self.widen_zero(threshold);
        other.widen_zero(threshold);
    }

    /// Combines everything except the bins.
    fn merge_beside(&mut self, other: &Self) {
        if self.reset != other.reset {
            self.reset = if self.is_empty() { other.reset } else { self.reset };
            if !self.is_empty() && !other.is_empty() {
                self.reset = CounterReset::Unknown;
            }
        }
        if other.count == other.nan {
            return;
        }
        if self.count == self.nan {
            (self.sum, self.min, self.max) = (other.sum, other.min, other.max);
            return;
        }
        self.sum = self.sum.zip(other.sum).map(|(left, right)| left + right);
        self.min = self.min.zip(other.min).map(|(left, right)| left.min(right));
        self.max = self.max.zip(other.max).map(|(left, right)| left.max(right));
    }
}

/// The least threshold from `threshold` up that lies across no filled bin of a histogram.
fn threshold_clear_of<C: Count>(histogram: &Histogram<C>, threshold: f64) -> f64 {
    let across = |bins: &Bins<C>| {
        bins.iter()
            .filter(|(_, count)| *count != C::ZERO)
            .map(|(index, _)| histogram.scheme.edges(index))
            .take_while(|(near, _)| *near < threshold)
            .last()
            .map_or(threshold, |(_, far)| far.max(threshold))
    };
    across(&histogram.negative).max(across(&histogram.positive))
}

/// Subtracts the bins of `other` from `bins`, with `take` for each pair; missing bins count as zero.
fn take_bins<C: Count>(bins: &mut Bins<C>, other: &Bins<C>, take: &mut impl FnMut(&mut C, C)) {
    let missing: Bins<C> = {
        let mut missing = Bins::new();
        for (index, count) in other.iter().filter(|(_, count)| *count != C::ZERO) {
            match bins.indexes().binary_search(&index) {
                Ok(at) => take(&mut bins.counts_mut()[at], count),
                Err(_) => {
                    let mut left = C::ZERO;
                    take(&mut left, count);
                    missing.push(index, left);
                }
            }
        }
        missing
    };
    bins.merge(&missing);
}
