//! Logarithmic bins of any base, as DDSketch's logarithmic mapping has them.
//!
//! Format: bin `i` holds [gamma^(i - offset), gamma^(i + 1 - offset)), as DDSketch's protobuf form counts them. What is
//! nearer zero than the least normal double is in the zero bin. The relative error is (gamma - 1) / (gamma + 1).
//! Limits: gamma 1.000001..=1e6, offset within 1e9 of zero, so that every index is an `i32`: ln(2^1024) / ln(1.000001)
//! is 7.1e8.

/// Bases that are understood.
pub(crate) const GAMMAS: std::ops::RangeInclusive<f64> = 1.000_001..=1e6;
/// Largest distance of an offset from zero.
pub(crate) const OFFSET_MAX: f64 = 1e9;

/// The parameters of the scheme.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grid {
    pub(crate) gamma: f64,
    pub(crate) offset: f64,
}

impl Grid {
    /// The lower edge of a bin.
    fn edge(self, index: f64) -> f64 {
        ((index - self.offset) * self.gamma.ln()).exp().min(f64::MAX)
    }

    pub(crate) fn edges(self, index: i32) -> (f64, f64) {
        (self.edge(f64::from(index)), self.edge(f64::from(index) + 1.0))
    }

    /// The bin of a finite magnitude, at least the least normal double.
    pub(crate) fn index(self, magnitude: f64) -> i32 {
        let estimate = (magnitude.ln() / self.gamma.ln() + self.offset).floor() as i32;
        // The logarithm may round across an edge: the edges decide.
        let (lo, hi) = self.edges(estimate);
        if magnitude < lo {
            estimate - 1
        } else if magnitude >= hi && hi < f64::MAX {
            estimate + 1
        } else {
            estimate
        }
    }

    /// The harmonic mean of the edges: 2 * gamma / (gamma + 1) of the lower one.
    pub(crate) fn midpoint(self, index: i32) -> f64 {
        let (lo, hi) = self.edges(index);
        if hi == 0.0 { 0.0 } else { lo * (2.0 / (1.0 + lo / hi)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_within_the_edges_of_its_bin_and_near_its_middle() {
        for (gamma, offset) in [(1.01 / 0.99, 0.0), (2.0, 0.0), (1.5, 0.25), (1.000_001, -1e9), (1e6, 3.0)] {
            let grid = Grid { gamma, offset };
            let mut bits = 7_u64;
            let random = (0..20_000).map(|_| {
                bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                f64::from_bits(bits >> 1)
            });
            let ends = [f64::MIN_POSITIVE, f64::MAX, f64::MAX.next_down(), 1.0];
            for value in random.filter(|value| value.is_normal()).chain(ends) {
                let index = grid.index(value);
                let (lo, hi) = grid.edges(index);
                assert!(lo <= value && (value < hi || hi == f64::MAX), "{gamma} {offset}: {value:e} in {lo:e}..{hi:e}");
                let error = (grid.midpoint(index) - value).abs() / value;
                assert!(error <= (gamma - 1.0) / (gamma + 1.0) * (1.0 + 1e-9) + 1e-9, "{gamma}: {value:e} {error}");
            }
        }
        // The index of DDSketch's mapping: floor(ln(x) / ln(gamma) + offset).
        let grid = Grid { gamma: 2.0, offset: 0.0 };
        for (value, index) in [(1.0, 0), (1.999, 0), (2.0, 1), (0.5, -1), (0.49, -2), (1024.0, 10)] {
            assert_eq!(grid.index(value), index, "{value}");
        }
    }
}
