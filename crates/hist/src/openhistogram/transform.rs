//! Changes to a histogram of the OpenHistogram scheme that other OpenHistogram software also knows.

use crate::{BinPlacement, Histogram, Scheme};

impl Histogram<u64> {
    /// Removes up to `count` samples from the bin that contains `value`; returns how many there were. `sum`, `min`
    /// and `max` become unknown.
    pub fn remove(&mut self, value: f64, count: u64) -> u64 {
        let place = self.scheme.place(value, self.zero_threshold);
        let held = match place {
            BinPlacement::Nan => Some(&mut self.nan),
            BinPlacement::Zero => Some(&mut self.zero),
            BinPlacement::Negative(index) => self.negative.get_mut(index),
            BinPlacement::Positive(index) => self.positive.get_mut(index),
        };
        let Some(held) = held else { return 0 };
        let removed = count.min(*held);
        *held -= removed;
        if removed > 0 {
            self.compact();
            self.recount();
            if place != BinPlacement::Nan {
                (self.sum, self.min, self.max) = (None, None, None);
            }
        }
        removed
    }

    /// Keeps the bins that touch [lower, upper]; drops all others and `nan`. `sum`, `min` and `max` become
    /// unknown.
    pub fn clamp_to(&mut self, lower: f64, upper: f64) {
        let keeps = |lo: f64, hi: f64, place: BinPlacement| {
            // The bound's own bin counts as touched even where the slack of the binning rule put the bound there.
            let touched = |bound: f64| self.scheme.place(bound, self.zero_threshold) == place;
            (lo <= upper && hi >= lower) || touched(upper) || touched(lower)
        };
        let scheme = &self.scheme;
        let kept = |positive: bool, index: i32| {
            let (lo, hi) = scheme.bounds(positive, index);
            keeps(lo, hi, if positive { BinPlacement::Positive(index) } else { BinPlacement::Negative(index) })
        };
        let mut negative = self.negative.clone();
        negative.retain(|index, _| kept(false, index));
        let mut positive = self.positive.clone();
        positive.retain(|index, _| kept(true, index));
        let zero = if keeps(-self.zero_threshold, self.zero_threshold, BinPlacement::Zero) { self.zero } else { 0 };
        (self.negative, self.positive, self.zero, self.nan) = (negative, positive, zero, 0);
        (self.sum, self.min, self.max) = (None, None, None);
        self.recount();
    }

    /// Coarsens `LogLinear10` bins: those of decades below `exponent` go into the zero bin, those of its decade into
    /// bins of one digit. As in the C library, `nan` goes into the zero bin as well when `exponent` is 0 or above.
    ///
    /// # Panics
    /// When the scheme is not `LogLinear10`.
    pub fn compress_below(&mut self, exponent: i8) {
        assert_eq!(self.scheme, Scheme::LogLinear10, "decades belong to log-linear-10");
        let first = (i32::from(exponent) + 128) * 90;
        let mut zero = self.zero;
        for bins in [&mut self.negative, &mut self.positive] {
            bins.retain(|index, count| {
                if index < first {
                    zero = zero.saturating_add(count);
                }
                index >= first
            });
            bins.map_indexes(|index| if index < first + 90 { index - index % 10 } else { index });
        }
        if exponent >= 0 {
            zero = zero.saturating_add(std::mem::take(&mut self.nan));
        }
        self.zero = zero;
        (self.sum, self.min, self.max) = (None, None, None);
        self.recount();
    }
}
