//! The Universal Scalability Law, fitted to measured throughput.
//!
//! N. J. Gunther, "A General Theory of Computational Scalability Based on Rational Functions" (2008): `X(n) = lambda n
//! / (1 + sigma (n - 1) + kappa n (n - 1))`, with `lambda` the throughput of one worker, `sigma` the serial share
//! (contention, Amdahl's law), and `kappa` the cost of coherency between workers.
//!
//! The fit minimises the squares of the relative errors of `n / X(n)`, which is linear in `1 / lambda`, `sigma /
//! lambda` and `kappa / lambda`; negative coefficients are set to zero, because they have no meaning.

/// What was measured with so many workers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Workers.
    pub workers: f64,
    /// Operations a second, or whatever is done.
    pub throughput: f64,
}

/// The coefficients.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Law {
    /// Throughput of one worker.
    pub lambda: f64,
    /// The share that is done one at a time: 0 to 1 for what scales at all.
    pub sigma: f64,
    /// What workers lose by keeping each other informed, a pair.
    pub kappa: f64,
    /// Share of the variance of throughput that the law explains; 1 when it goes through every point.
    pub explained: f64,
}

impl Law {
    /// The law that is nearest to the points; `None` when there are fewer than three numbers of workers, or a
    /// throughput that is not above zero.
    #[must_use]
    pub fn fit(points: &[Point]) -> Option<Self> {
        let mut counts: Vec<f64> = points.iter().map(|point| point.workers).collect();
        counts.sort_by(f64::total_cmp);
        counts.dedup();
        let is_fine = |point: &Point| point.workers >= 1.0 && point.throughput > 0.0 && point.throughput.is_finite();
        if counts.len() < 3 || !points.iter().all(is_fine) {
            return None;
        }
        // Every set of coefficients that may be above zero; the best whose coefficients are allowed.
        let sets = [[true, true, true], [true, true, false], [true, false, true], [true, false, false]];
        let fits = sets.iter().filter_map(|set| solve(points, *set));
        let allowed = fits.filter(|c| c[0] > 0.0 && c[1] >= 0.0 && c[2] >= 0.0);
        let best = allowed.min_by(|a, b| loss(points, *a).total_cmp(&loss(points, *b)))?;
        let mut law =
            Self { lambda: 1.0 / best[0], sigma: best[1] / best[0], kappa: best[2] / best[0], explained: 0.0 };
        law.explained = law.explained_of(points);
        Some(law)
    }

    /// Throughput with so many workers.
    #[must_use]
    pub fn throughput(&self, workers: f64) -> f64 {
        self.lambda * workers / (1.0 + self.sigma * (workers - 1.0) + self.kappa * workers * (workers - 1.0))
    }

    /// The number of workers beyond which throughput falls; `None` when it never does.
    #[must_use]
    pub fn peak(&self) -> Option<f64> {
        (self.kappa > 0.0).then(|| ((1.0 - self.sigma).max(0.0) / self.kappa).sqrt().max(1.0))
    }

    fn explained_of(&self, points: &[Point]) -> f64 {
        #[allow(clippy::cast_precision_loss, reason = "a few points")]
        let mean = points.iter().map(|point| point.throughput).sum::<f64>() / points.len() as f64;
        let spread: f64 = points.iter().map(|point| (point.throughput - mean).powi(2)).sum();
        let left: f64 = points.iter().map(|point| (point.throughput - self.throughput(point.workers)).powi(2)).sum();
        if spread == 0.0 { 1.0 } else { 1.0 - left / spread }
    }
}

/// What the coefficients are multiplied with.
fn terms(workers: f64) -> [f64; 3] {
    [1.0, workers - 1.0, workers * (workers - 1.0)]
}

/// Sum of the squares of relative errors of `n / X(n)`.
fn loss(points: &[Point], coefficients: [f64; 3]) -> f64 {
    let error = |point: &Point| {
        let predicted: f64 = terms(point.workers).iter().zip(coefficients).map(|(term, c)| term * c).sum();
        let measured = point.workers / point.throughput;
        ((predicted - measured) / measured).powi(2)
    };
    points.iter().map(error).sum()
}

/// Least squares over the coefficients of `set`, the others zero: the normal equations, by Gauss with pivots.
fn solve(points: &[Point], set: [bool; 3]) -> Option<[f64; 3]> {
    let mut rows = [[0.0_f64; 4]; 3];
    for point in points {
        let measured = point.workers / point.throughput;
        let terms = terms(point.workers).map(|term| term / measured);
        for (row, left) in rows.iter_mut().zip(terms) {
            for (cell, right) in row.iter_mut().zip(terms) {
                *cell += left * right;
            }
            row[3] += left;
        }
    }
    for at in 0..3 {
        if !set[at] {
            rows.iter_mut().for_each(|row| row[at] = 0.0);
            rows[at] = [0.0; 4];
            rows[at][at] = 1.0;
        }
    }
    for at in 0..3 {
        let pivot = (at..3).max_by(|a, b| rows[*a][at].abs().total_cmp(&rows[*b][at].abs()))?;
        rows.swap(at, pivot);
        if rows[at][at] == 0.0 {
            return None;
        }
        let pivot = rows[at];
        for (_, row) in rows.iter_mut().enumerate().filter(|(other, _)| *other != at) {
            let factor = row[at] / pivot[at];
            row.iter_mut().zip(pivot).for_each(|(cell, of)| *cell -= factor * of);
        }
    }
    Some(std::array::from_fn(|at| rows[at][3] / rows[at][at]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(law: &Law, noise: f64) -> Vec<Point> {
        let mut state = 7_u64;
        let mut random = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 53) as f64 * 2.0 - 1.0
        };
        let counts = [1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0];
        counts
            .iter()
            .map(|n| Point { workers: *n, throughput: law.throughput(*n) * (1.0 + noise * random()) })
            .collect()
    }

    #[test]
    fn the_coefficients_of_a_known_law_are_found() {
        for (lambda, sigma, kappa) in
            [(1000.0, 0.05, 0.0002), (20.0, 0.3, 0.01), (1e6, 0.0, 0.001), (5.0, 0.1, 0.0), (3.0, 0.0, 0.0)]
        {
            let law = Law { lambda, sigma, kappa, explained: 1.0 };
            let found = Law::fit(&measured(&law, 0.0)).unwrap();
            assert!((found.lambda / lambda - 1.0).abs() < 1e-9, "{found:?}");
            assert!((found.sigma - sigma).abs() < 1e-9 && (found.kappa - kappa).abs() < 1e-9, "{law:?} {found:?}");
            assert!(found.explained > 0.999_999, "{found:?}");
        }
    }

    #[test]
    fn noise_of_half_a_percent_moves_them_by_less_than_five() {
        let law = Law { lambda: 1000.0, sigma: 0.1, kappa: 0.005, explained: 1.0 };
        let found = Law::fit(&measured(&law, 0.005)).unwrap();
        for (name, found, known) in
            [("lambda", found.lambda, 1000.0), ("sigma", found.sigma, 0.1), ("kappa", found.kappa, 0.005)]
        {
            assert!((found / known - 1.0).abs() < 0.05, "{name} {found} for {known}");
        }
        let peak = found.peak().unwrap();
        assert!((peak - 180.0_f64.sqrt()).abs() < 1.0, "{peak}");
    }

    #[test]
    fn what_cannot_be_fitted_is_not() {
        let point = |workers, throughput| Point { workers, throughput };
        assert_eq!(Law::fit(&[point(1.0, 1.0), point(2.0, 2.0)]), None, "two numbers of workers");
        assert_eq!(Law::fit(&[point(1.0, 1.0), point(2.0, 2.0), point(2.0, 2.1)]), None, "two as well");
        assert_eq!(Law::fit(&[point(1.0, 1.0), point(2.0, 0.0), point(3.0, 2.0)]), None, "nothing was done");
        // More than one worker would do alone: coefficients below zero have no meaning.
        let law = Law::fit(&[point(1.0, 1.0), point(2.0, 2.2), point(3.0, 3.5)]).unwrap();
        assert!(law.sigma >= 0.0 && law.kappa >= 0.0, "{law:?}");
    }
}
