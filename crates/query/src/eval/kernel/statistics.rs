//! Sums, means, quantiles, variance and regression of floats.

/// Adds `x` to the running `sum` with its running compensation, by Neumaier's variant of Kahan summation.
pub(crate) fn kahan_add(x: f64, sum: f64, lost: f64) -> (f64, f64) {
    let total = sum + x;
    let lost = if total.is_infinite() {
        0.0
    } else if sum.abs() >= x.abs() {
        lost + ((sum - total) + x)
    } else {
        lost + ((x - total) + sum)
    };
    (total, lost)
}

/// A compensated sum.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FloatSum {
    sum: f64,
    lost: f64,
}

impl FloatSum {
    pub(crate) const fn new(first: f64) -> Self {
        Self { sum: first, lost: 0.0 }
    }

    pub(crate) fn add(&mut self, x: f64) {
        (self.sum, self.lost) = kahan_add(x, self.sum, self.lost);
    }

    pub(crate) fn total(self) -> f64 {
        if self.sum.is_infinite() { self.sum } else { self.sum + self.lost }
    }

    pub(crate) fn total_of(values: &[f64]) -> f64 {
        let mut sum = Self::default();
        values.iter().for_each(|value| sum.add(*value));
        sum.total()
    }
}

/// A mean: sum by count while the sum fits a float, incremental after that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FloatMean {
    sum: f64,
    lost: f64,
    count: f64,
    incremental: bool,
}

impl FloatMean {
    pub(crate) const fn new(first: f64) -> Self {
        Self { sum: first, lost: 0.0, count: 1.0, incremental: false }
    }

    pub(crate) fn add(&mut self, x: f64) {
        self.count += 1.0;
        if !self.incremental {
            let (sum, lost) = kahan_add(x, self.sum, self.lost);
            if !sum.is_infinite() {
                (self.sum, self.lost) = (sum, lost);
                return;
            }
            self.incremental = true;
            self.sum /= self.count - 1.0;
            self.lost /= self.count - 1.0;
        }
        let weight = (self.count - 1.0) / self.count;
        (self.sum, self.lost) = kahan_add(x / self.count, weight * self.sum, weight * self.lost);
    }

    pub(crate) fn mean(self) -> f64 {
        if self.incremental { self.sum + self.lost } else { self.sum / self.count + self.lost / self.count }
    }

    /// The mean of at least one value.
    pub(crate) fn mean_of(values: &[f64]) -> f64 {
        let mut mean = Self::new(values[0]);
        values[1..].iter().for_each(|value| mean.add(*value));
        mean.mean()
    }
}

/// The `q` quantile of values in any order; NaN counts as the smallest.
pub(crate) fn quantile(q: f64, values: &mut [f64]) -> f64 {
    values.sort_by(|a, b| match (a.is_nan(), b.is_nan()) {
        (false, false) => a.total_cmp(b),
        (a, b) => b.cmp(&a),
    });
    quantile_sorted(q, values)
}

/// The `q` quantile of ascending values: between two ranks, the weighted mean of both.
pub(crate) fn quantile_sorted(q: f64, values: &[f64]) -> f64 {
    if values.is_empty() || q.is_nan() {
        return f64::NAN;
    }
    if q < 0.0 {
        return f64::NEG_INFINITY;
    }
    if q > 1.0 {
        return f64::INFINITY;
    }
    let rank = q * (values.len() - 1) as f64;
    let lower = rank.floor().max(0.0) as usize;
    let upper = (lower + 1).min(values.len() - 1);
    let weight = rank - rank.floor();
    values[lower] * (1.0 - weight) + values[upper] * weight
}

/// The population variance, by Welford's updates with compensation.
pub(crate) fn variance(values: &[f64]) -> f64 {
    let (mut count, mut mean, mut mean_lost, mut sum, mut sum_lost) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for value in values {
        count += 1.0;
        let delta = value - (mean + mean_lost);
        (mean, mean_lost) = kahan_add(delta / count, mean, mean_lost);
        (sum, sum_lost) = kahan_add(delta * (value - (mean + mean_lost)), sum, sum_lost);
    }
    (sum + sum_lost) / count
}

/// A line through points by least squares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Regression {
    /// Rise per second.
    pub(crate) slope: f64,
    /// Value at the time of interception.
    pub(crate) intercept: f64,
}

impl Regression {
    /// Through `values` at `times` (milliseconds), intercepted at `at`.
    pub(crate) fn from_samples(times: &[i64], values: &[f64], at: i64) -> Self {
        let first = values[0];
        if values.iter().all(|value| *value == first) {
            let level = if first.is_infinite() { f64::NAN } else { first };
            return Self { slope: if first.is_infinite() { f64::NAN } else { 0.0 }, intercept: level };
        }
        let mut sums = [FloatSum::default(); 4];
        for (time, y) in times.iter().zip(values) {
            let x = (time - at) as f64 / 1e3;
            for (sum, term) in sums.iter_mut().zip([x, *y, x * y, x * x]) {
                sum.add(term);
            }
        }
        // Not `total`: an infinite sum must propagate as NaN through the differences.
        let [x, y, xy, x2] = sums.map(|sum| sum.sum + sum.lost);
        let n = values.len() as f64;
        let slope = (xy - x * y / n) / (x2 - x * x / n);
        Self { slope, intercept: y / n - slope * x / n }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_terms_survive_large_ones() {
        assert_eq!(FloatSum::total_of(&[1.0, 1e100, 1.0, -1e100]), 2.0);
        assert_eq!(FloatMean::mean_of(&[1.0, 1e100, 1.0, -1e100]), 0.5);
        assert_eq!(FloatSum::total_of(&[f64::INFINITY, 1.0]), f64::INFINITY);
    }

    #[test]
    fn a_mean_does_not_overflow() {
        assert_eq!(FloatMean::mean_of(&[9.988_465_674_311_58e307; 3]), 9.988_465_674_311_58e307);
        assert_eq!(FloatMean::mean_of(&[52.0; 12]), 52.0);
    }

    #[test]
    fn quantiles_weigh_neighbours_and_put_nan_first() {
        assert_eq!(quantile(0.5, &mut [3.0, 1.0, 2.0]), 2.0);
        assert_eq!(quantile(0.8, &mut [1.0, 0.0]), 0.8);
        assert_eq!(quantile(0.8, &mut [f64::NAN, 0.0, 1.0]), 0.6000000000000001);
        assert!(quantile(0.2, &mut [f64::NAN, 0.0, 1.0]).is_nan());
    }

    #[test]
    fn regression_finds_the_line() {
        let found = Regression::from_samples(&[0, 1000, 2000], &[1.0, 3.0, 5.0], 3000);
        assert_eq!(found, Regression { slope: 2.0, intercept: 7.0 });
        assert!(Regression::from_samples(&[0, 1000], &[f64::NEG_INFINITY, 1.0], 0).slope.is_nan());
    }
}
