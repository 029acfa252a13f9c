//! From one scheme to another: an explicit approximation that says how far off it is.
//!
//! Each bin goes whole to the bin that holds its representative value (its [`Scheme::midpoint`]); it is not split. So
//! integer counts stay integers, the total stays what it was, and the error of every sample is that of two steps: from
//! the sample to the representative of its old bin, and from there to that of its new one.
//!
//! Nothing is approximated when the target is the same scheme, or an exponential one of a smaller scale.
//!
//! Invariants: counts add up to the same total; `sum`, `min` and `max` stay, since they are exact (unless samples leave
//! the target's range and go to `nan`). Zero is kept as zero. `LogLinear10` and `Custom` have no zero threshold: what a
//! zero bin of some width held counts there as zero, and as unbounded.

use crate::{BinPlacement, Count, Histogram, Scheme};

/// How far a converted histogram may be off. All figures are relative: 0.01 is 1 % of the sample.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct ErrorBound {
    /// No sample differs by more than this from the representative value of its new bin: both errors combined, for the
    /// worst bin that has samples. Those in `unbounded` are excepted.
    pub relative: f64,
    /// The worst error before: between a sample and the value that stood for its old bin.
    pub source: f64,
    /// The largest added error: between the old representative value and that of the new bin.
    pub target: f64,
    /// Samples without a bound: their bin, old or new, reaches zero or is unbounded, or they are beyond the
    /// target's range and now count as `nan`.
    pub unbounded: f64,
}

impl ErrorBound {
    fn take(&mut self, source: Option<f64>, target: Option<f64>, count: f64) {
        let Some((source, target)) = source.zip(target) else {
            self.unbounded += count;
            return;
        };
        self.source = self.source.max(source);
        self.target = self.target.max(target);
        self.relative = self.relative.max(source + target + source * target);
    }
}

impl<C: Count> Histogram<C> {
    /// The same distribution in another scheme, and how far it may be off.
    ///
    /// # Panics
    /// When `to` breaks a rule of [`Scheme::check`].
    #[must_use]
    pub fn convert(&self, to: &Scheme) -> (Self, ErrorBound) {
        if let Err(reason) = to.check() {
            panic!("cannot convert to {to}: {reason}");
        }
        match (&self.scheme, to) {
            (from, to) if from == to => return (self.clone(), self.own_error()),
            (Scheme::Exp2 { scale: from }, Scheme::Exp2 { scale: to }) if to < from => {
                let mut coarser = self.clone();
                coarser.downscale(*to);
                let bound = coarser.own_error();
                return (coarser, bound);
            }
            _ => {}
        }
        let mut out = Self::new(to.clone());
        if !matches!(to, Scheme::Custom { .. } | Scheme::LogLinear10) {
            out.zero_threshold = out.zero_threshold.max(self.zero_threshold);
        }
        (out.nan, out.count, out.reset) = (self.nan, self.count, self.reset);
        (out.sum, out.min, out.max) = (self.sum, self.min, self.max);
        let mut bound = ErrorBound::default();
        for (positive, index, count) in self.ascending().filter(|(_, _, count)| *count != C::ZERO) {
            let value = index.map_or(0.0, |index| self.scheme.midpoint(positive, index));
            let target = out.receive(value, count);
            let source = match index {
                Some(index) => self.scheme.bin_error(positive, index),
                None => (self.zero_threshold == 0.0).then_some(0.0),
            };
            bound.take(source, target, count.to_f64());
        }
        (out, bound)
    }

    /// Adds `count` samples at `value`. Returns the error of the new representative value, if it is bounded.
    fn receive(&mut self, value: f64, count: C) -> Option<f64> {
        match self.scheme.place(value, self.zero_threshold) {
            BinPlacement::Nan => {
                self.nan = self.nan.plus(count);
                (self.sum, self.min, self.max) = (None, None, None);
                None
            }
            BinPlacement::Zero => {
                self.zero = self.zero.plus(count);
                (value == 0.0).then_some(0.0)
            }
            BinPlacement::Negative(index) => {
                self.negative.add(index, count);
                self.scheme.bin_error(false, index)
            }
            BinPlacement::Positive(index) => {
                self.positive.add(index, count);
                self.scheme.bin_error(true, index)
            }
        }
    }

    /// The error of the current bins.
    fn own_error(&self) -> ErrorBound {
        let mut bound = ErrorBound::default();
        for (positive, index, count) in self.ascending().filter(|(_, _, count)| *count != C::ZERO) {
            let error = match index {
                Some(index) => self.scheme.bin_error(positive, index),
                None => (self.zero_threshold == 0.0).then_some(0.0),
            };
            bound.take(error, Some(0.0), count.to_f64());
        }
        bound
    }
}

impl Scheme {
    /// The greatest relative distance between a value in a bin and its representative value; `None` when the bin
    /// reaches zero or is unbounded.
    fn bin_error(&self, positive: bool, index: i32) -> Option<f64> {
        let (lo, hi) = self.bounds(positive, index);
        let middle = self.midpoint(positive, index);
        let error = ((middle - lo) / lo).abs().max(((hi - middle) / hi).abs());
        (lo * hi > 0.0 && lo.is_finite() && hi.is_finite()).then_some(error)
    }

    /// The greatest relative error of a bin's representative value, for the values that the scheme is intended for;
    /// `None` for explicit bounds. `LogLinear2`: for whole numbers of units when bins are one unit wide, otherwise from
    /// `2^(grouping + shift)` units up.
    #[must_use]
    pub fn relative_error(&self) -> Option<f64> {
        match self {
            Self::LogLinear10 => Some(1.0 / 21.0),
            Self::Exp2 { scale } => Some((-f64::from(*scale)).exp2().exp2().sqrt() - 1.0),
            Self::LogLinear2 { grouping, .. } => Some((-f64::from(*grouping) - 1.0).exp2()),
            Self::Gamma { gamma, .. } => Some((gamma - 1.0) / (gamma + 1.0)),
            Self::Custom { .. } => None,
        }
    }
}
