//! Every bin of the scheme as an array: recording is one index computation and one addition.
//!
//! Invariants: pouring gives the histogram that recording one by one gives, but for a more exact sum.
//! Limits: 2 * 23,040 counts, 360 KiB.

use ogive_hist::{BINS_PER_SIGN, DecimalBin, Histogram};

/// Counts of all bins of both signs.
pub(super) struct Dense {
    positive: Vec<u64>,
    negative: Vec<u64>,
    zero: u64,
    nan: u64,
    /// Sum and its compensation (Neumaier): millions of additions lose nothing that shows.
    sum: f64,
    lost: f64,
    min: f64,
    max: f64,
}

impl Dense {
    pub(super) fn new() -> Self {
        let bins = vec![0; BINS_PER_SIGN as usize];
        let (min, max) = (f64::INFINITY, f64::NEG_INFINITY);
        Self { positive: bins.clone(), negative: bins, zero: 0, nan: 0, sum: 0.0, lost: 0.0, min, max }
    }

    /// Counts a finite number.
    pub(super) fn record(&mut self, value: f64) {
        let bin = DecimalBin::from_value(value);
        match bin.index() {
            Some(index) if bin.val > 0 => self.positive[index as usize] += 1,
            Some(index) => self.negative[index as usize] += 1,
            None if bin == DecimalBin::ZERO => self.zero += 1,
            None => {
                self.nan += 1;
                return;
            }
        }
        let sum = self.sum + value;
        let (large, small) = if self.sum.abs() >= value.abs() { (self.sum, value) } else { (value, self.sum) };
        self.lost += (large - sum) + small;
        self.sum = sum;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Adds everything to `histogram`, which must be of the decimal scheme, and empties itself.
    pub(super) fn pour(&mut self, histogram: &mut Histogram) {
        let mut poured = Histogram::log_linear();
        for (bins, counts) in [(&mut poured.positive, &self.positive), (&mut poured.negative, &self.negative)] {
            for (index, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
                bins.push(index as i32, *count);
            }
        }
        (poured.zero, poured.nan) = (self.zero, self.nan);
        poured.recount();
        if poured.count > poured.nan {
            let total = self.sum + self.lost;
            // On overflow the compensation is NaN and the plain sum is infinite, which is right.
            poured.sum = Some(if total.is_nan() { self.sum } else { total });
            (poured.min, poured.max) = (Some(self.min), Some(self.max));
        }
        histogram.merge(&poured).expect("both are of the decimal scheme");
        *self = Self::new();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pours_what_was_recorded(values in proptest::collection::vec(any::<f64>(), 0..200), zeros in 0usize..3) {
            let (mut dense, mut expected) = (Dense::new(), Histogram::log_linear());
            for value in values.into_iter().filter(|value| value.is_finite()).chain(std::iter::repeat_n(0.0, zeros)) {
                dense.record(value);
                expected.record(value);
            }
            let mut found = Histogram::log_linear();
            dense.pour(&mut found);
            (found.sum, expected.sum) = (None, None);
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn small_values_are_not_lost_beside_large_ones() {
        let mut dense = Dense::new();
        dense.record(1e16);
        (0..1000).for_each(|_| dense.record(1.0));
        dense.record(-1e16);
        let mut found = Histogram::log_linear();
        dense.pour(&mut found);
        assert_eq!(found.sum, Some(1000.0));
    }
}
