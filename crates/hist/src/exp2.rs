//! Exponential bins: base 2^(2^-scale), as OTLP exponential and Prometheus native histograms have them.
//!
//! Format: bin `i` holds (2^((i-1) * 2^-scale), 2^(i * 2^-scale)]. The last bin of finite values ends at `f64::MAX`
//! and infinity has the bin above it, as in Prometheus.
//! Invariants: the bin found for a value is the one whose edges, as [`edge`] gives them, enclose it.

/// Scales that are understood: OTLP -10..=20, and the reserved Prometheus schemas up to 52 as far as an `i32` can
/// index them (scale 20 reaches index 2^30, scale 21 would overflow at the top).
pub(crate) const SCALE_MIN: i8 = -10;
/// Greatest scale of a stored histogram.
pub(crate) const SCALE_MAX: i8 = 20;

/// The upper edge of bin `index`, by distance from zero.
#[must_use]
pub(crate) fn edge(scale: i8, index: i32) -> f64 {
    if scale <= 0 {
        let exponent = i64::from(index) << -scale.max(-20);
        return match exponent {
            ..=1023 => power_of_two(exponent),
            1024 => f64::MAX,
            _ => f64::INFINITY,
        };
    }
    let whole = i64::from(index >> scale.min(31));
    let part = i64::from(index) - (whole << scale);
    match (whole, part) {
        (1024, 0) => f64::MAX,
        (1024.., _) => f64::INFINITY,
        (_, 0) => power_of_two(whole),
        // Two steps below the normal range: 2^(whole + 1) * (fraction / 2) rounds once.
        _ => (part as f64 / (1_u64 << scale) as f64).exp2() * power_of_two(whole),
    }
}

/// The bin of a magnitude above zero, infinity included.
#[must_use]
pub(crate) fn index(scale: i8, magnitude: f64) -> i32 {
    debug_assert!(magnitude > 0.0, "{magnitude} has no exponential bin");
    if magnitude.is_infinite() {
        return index_of_infinity(scale);
    }
    // value = fraction * 2^exponent with fraction in (0.5, 1] after the adjustment below.
    let (fraction, exponent) = split(magnitude);
    if scale <= 0 {
        let above = exponent - i32::from(fraction == 0.5);
        return ((above - 1) >> -scale) + 1;
    }
    let steps = (1_u64 << scale) as f64;
    let base = i64::from(exponent) << scale;
    let estimate = (base + (fraction.log2() * steps).ceil() as i64) as i32;
    // The logarithm may round across an edge: the edges decide.
    if magnitude > edge(scale, estimate) {
        estimate + 1
    } else if magnitude <= edge(scale, estimate - 1) {
        estimate - 1
    } else {
        estimate
    }
}

/// The bin of infinity: the one above that of the greatest finite double.
#[must_use]
pub(crate) fn index_of_infinity(scale: i8) -> i32 {
    if scale <= 0 { (1023 >> -scale) + 2 } else { (1024 << scale) + 1 }
}

/// The bin, `steps` scales coarser, that encloses bin `index`.
#[must_use]
#[inline]
pub(crate) fn coarser(index: i32, steps: u32) -> i32 {
    // Bin i ends at its upper edge, so i-1 is halved; the shift is arithmetic, towards minus infinity.
    ((index - 1) >> steps.min(31)) + 1
}

/// The geometric mean of a bin's edges, by distance from zero.
#[must_use]
pub(crate) fn midpoint(scale: i8, index: i32) -> f64 {
    let (near, far) = (edge(scale, index - 1), edge(scale, index));
    if far.is_infinite() { f64::INFINITY } else { near.sqrt() * far.sqrt() }
}

/// 2^exponent, 0 below the subnormal range.
fn power_of_two(exponent: i64) -> f64 {
    match exponent {
        -1022..=1023 => f64::from_bits(((exponent + 1023) as u64) << 52),
        -1074..=-1023 => f64::from_bits(1 << (exponent + 1074)),
        ..=-1075 => 0.0,
        _ => f64::INFINITY,
    }
}

/// `(fraction, exponent)` with value = fraction * 2^exponent and 0.5 <= fraction < 1, for finite values above 0.
fn split(value: f64) -> (f64, i32) {
    let (value, shift) = if value < f64::MIN_POSITIVE { (value * power_of_two(64), -64) } else { (value, 0) };
    let bits = value.to_bits();
    let exponent = ((bits >> 52) & 0x7ff) as i32 - 1022 + shift;
    (f64::from_bits((bits & !(0x7ff << 52)) | (1022 << 52)), exponent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_of_whole_powers_are_exact() {
        for (scale, index, expected) in [
            (0, 0, 1.0),
            (0, 1, 2.0),
            (0, -1, 0.5),
            (3, 8, 2.0),
            (3, -8, 0.5),
            (-1, 1, 4.0),
            (-1, -1, 0.25),
            (-10, 0, 1.0),
            (-10, 1, f64::MAX),
            (-10, 2, f64::INFINITY),
            (0, 1024, f64::MAX),
            (0, 1025, f64::INFINITY),
            (0, -1074, 5e-324),
            (8, 1024 << 8, f64::MAX),
            (20, 1024 << 20, f64::MAX),
            (1, 1, std::f64::consts::SQRT_2),
        ] {
            assert_eq!(edge(scale, index), expected, "scale {scale} index {index}");
        }
    }

    #[test]
    fn a_value_is_within_the_edges_of_its_bin() {
        let mut bits = 7_u64;
        for _ in 0..20_000 {
            bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let value = f64::from_bits(bits >> 1);
            if !value.is_finite() || value == 0.0 {
                continue;
            }
            for scale in [-10, -4, -1, 0, 1, 3, 8, 20] {
                let bin = index(scale, value);
                assert!(
                    edge(scale, bin - 1) < value && value <= edge(scale, bin),
                    "scale {scale} value {value:e} bin {bin}"
                );
                for steps in 1..=3 {
                    if scale - steps as i8 >= SCALE_MIN {
                        let coarse = index(scale - steps as i8, value);
                        let from_fine = coarser(bin, steps);
                        // Above scale 10 neighbouring edges are few ulps apart and exp2 rounds: allow equality only.
                        assert_eq!(coarse, from_fine, "scale {scale} value {value:e} steps {steps}");
                    }
                }
            }
        }
    }

    #[test]
    fn exact_edges_belong_to_the_bin_below() {
        for (scale, value, expected) in [
            (0, 1.0, 0),
            (0, 2.0, 1),
            (0, 2.0_f64.next_up(), 2),
            (0, 0.5, -1),
            (2, 1.0, 0),
            (2, 2.0, 4),
            (-1, 4.0, 1),
            (-1, 4.0_f64.next_up(), 2),
            (-2, 1.0, 0),
            (-2, 1.0_f64.next_up(), 1),
            (0, 5e-324, -1074),
            (0, f64::MAX, 1024),
            (0, f64::INFINITY, 1025),
            (-10, f64::MAX, 1),
            (-10, f64::INFINITY, 2),
            (3, f64::INFINITY, 8193),
        ] {
            assert_eq!(index(scale, value), expected, "scale {scale} value {value:e}");
        }
    }

    #[test]
    fn every_edge_closes_its_bin() {
        for scale in [1, 3, 5, 8, 12, 20] {
            for step in 0..20_000 {
                let bin = (step - 10_000) * 7 + 3;
                let edge = edge(scale, bin);
                if !edge.is_normal() {
                    continue;
                }
                assert_eq!(index(scale, edge), bin, "scale {scale} bin {bin}");
                assert_eq!(index(scale, edge.next_up()), bin + 1, "scale {scale} bin {bin}");
            }
        }
    }

    #[test]
    fn coarser_follows_the_upper_edge_for_every_sign() {
        for (index, steps, expected) in
            [(1, 1, 1), (2, 1, 1), (3, 1, 2), (0, 1, 0), (-1, 1, 0), (-2, 1, -1), (-3, 1, -1), (5, 2, 2), (-7, 2, -1)]
        {
            assert_eq!(coarser(index, steps), expected, "{index} by {steps}");
        }
    }
}
