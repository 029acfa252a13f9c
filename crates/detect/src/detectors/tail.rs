//! Tails of distributions, as logarithms so that they do not underflow.

/// ln P(Binomial(`trials`, `share`) >= `hits`).
///
/// Each term is exact to about 1e-10 (Stirling's series for the factorials above 255); terms are summed from the first,
/// which is the largest wherever the tail is small.
#[must_use]
pub fn binomial_tail_ln(hits: u32, trials: u32, share: f64) -> f64 {
    debug_assert!((0.0..=1.0).contains(&share), "{share} is a share");
    if hits == 0 {
        return 0.0;
    }
    if hits > trials || share <= 0.0 {
        return f64::NEG_INFINITY;
    }
    if share >= 1.0 {
        return 0.0;
    }
    let (n, p_ln, q_ln) = (f64::from(trials), share.ln(), (-share).ln_1p());
    let first = choose_ln(n, f64::from(hits)) + f64::from(hits) * p_ln + f64::from(trials - hits) * q_ln;
    // Each term is the previous one times (n-k)/(k+1) * p/q.
    let odds = share / (1.0 - share);
    let (mut term, mut sum) = (1.0_f64, 1.0_f64);
    for k in hits..trials {
        term *= (n - f64::from(k)) / (f64::from(k) + 1.0) * odds;
        sum += term;
        if term < sum * 1e-14 {
            break;
        }
    }
    (first + sum.ln()).min(0.0)
}

fn choose_ln(n: f64, k: f64) -> f64 {
    factorial_ln(n) - factorial_ln(k) - factorial_ln(n - k)
}

/// ln n!: exact products below 256 times, Stirling's series above.
fn factorial_ln(n: f64) -> f64 {
    if n < 20.0 {
        let mut product = 1.0;
        let mut factor = 2.0;
        while factor <= n {
            product *= factor;
            factor += 1.0;
        }
        return product.ln();
    }
    let tau_ln = std::f64::consts::TAU.ln();
    n * n.ln() - n + 0.5 * (n.ln() + tau_ln) + 1.0 / (12.0 * n) - 1.0 / (360.0 * n.powi(3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_equal_the_sum_of_their_terms() {
        for (hits, trials, share) in [(5, 5, 1.0 / 60.0), (3, 10, 0.5), (1, 3_600, 1e-3), (40, 200, 0.1), (30, 60, 0.5)]
        {
            let mut pmf = (1.0_f64 - share).powi(trials);
            let mut tail = 0.0;
            for k in 0..=trials {
                if k >= hits {
                    tail += pmf;
                }
                pmf *= f64::from(trials - k) / f64::from(k + 1) * share / (1.0 - share);
            }
            let got = binomial_tail_ln(u32::try_from(hits).unwrap(), u32::try_from(trials).unwrap(), share);
            assert!((got - tail.ln()).abs() < 1e-6, "{hits} of {trials} at {share}: {got} and {}", tail.ln());
        }
    }

    #[test]
    fn the_ends_are_exact() {
        assert_eq!(binomial_tail_ln(0, 10, 0.3), 0.0);
        assert_eq!(binomial_tail_ln(11, 10, 0.3), f64::NEG_INFINITY);
        assert_eq!(binomial_tail_ln(1, 10, 0.0), f64::NEG_INFINITY);
        assert_eq!(binomial_tail_ln(10, 10, 1.0), 0.0);
        assert!((binomial_tail_ln(5, 5, 1.0 / 60.0) - 5.0 * (1.0_f64 / 60.0).ln()).abs() < 1e-9);
    }
}
