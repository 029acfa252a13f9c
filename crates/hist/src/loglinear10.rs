//! Binning of OpenHistogram values: 90 bins a decade and sign, by a written rule that needs no logarithm.
//!
//! Format: a bin is `(val, exp)`. `val` 10..=99 holds [val/10 * 10^exp, (val+1)/10 * 10^exp); -99..=-10 holds the
//! mirror image, closed at the edge nearer zero; (0, 0) holds what is nearer zero than 1e-128; (-1, 0) holds what
//! is not a number or not below 1e128.
//!
//! Invariants: every finite |x| < 1e128 (less the rule's own 1e-13) has a bin other than NaN; the result is the same
//! on every machine, since only comparison, division and multiplication of doubles are used (IEEE 754 rounds each
//! of them correctly). The rule is in `docs/formats/openhistogram.md`, so that other languages give the same bins.

use crate::powers::power_of_ten;

/// Bins of one sign: 256 decades of 90.
pub const BINS_PER_SIGN: i32 = 256 * 90;

/// How far a scaled mantissa may be below an edge and still belong to the bin above: 0.3 is stored as 0.299..9 and
/// belongs to 30.
const MANTISSA_SLACK: f64 = 1e-13;

/// A bin of the OpenHistogram scheme, as in its byte format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct DecimalBin {
    /// Ten times the mantissa of the edge nearer zero, with the sign.
    pub val: i8,
    /// Decimal exponent of that edge.
    pub exp: i8,
}

impl DecimalBin {
    /// Values closer to zero than 1e-128.
    pub const ZERO: Self = Self { val: 0, exp: 0 };
    /// Not a number, infinite, or beyond 1e128.
    pub const NAN: Self = Self { val: -1, exp: 0 };

    /// The bin of a double.
    #[must_use]
    #[inline]
    pub fn from_value(value: f64) -> Self {
        let magnitude = value.abs();
        if magnitude.is_nan() || magnitude >= power_of_ten(128) {
            return Self::NAN;
        }
        if magnitude < power_of_ten(-128) {
            return Self::ZERO;
        }
        let mut exponent = decade(magnitude);
        let scaled = magnitude / power_of_ten(exponent) * 10.0;
        // Truncation is floor here: the number is between 10 and 100.
        let mut mantissa = (scaled + MANTISSA_SLACK) as i32;
        if mantissa == 100 {
            mantissa = 10;
            exponent += 1;
            if exponent > 127 {
                return Self::NAN;
            }
        }
        debug_assert!((10..=99).contains(&mantissa), "{value:e} gives mantissa {mantissa}");
        let val = mantissa as i8;
        Self { val: if value < 0.0 { -val } else { val }, exp: exponent as i8 }
    }

    /// The bin of `value * 10^scale`, in integers throughout: digits below the second are cut off.
    ///
    /// `i64::MIN` counts as `-i64::MAX`, as in the C library.
    #[must_use]
    pub fn from_integer(value: i64, scale: i32) -> Self {
        let mut digits = value.unsigned_abs().min(i64::MAX as u64);
        if digits == 0 {
            return Self::ZERO;
        }
        let mut exponent = i64::from(scale) + 1;
        if digits < 10 {
            digits *= 10;
            exponent -= 1;
        }
        while digits >= 100 {
            digits /= 10;
            exponent += 1;
        }
        if exponent < -128 {
            return Self::ZERO;
        }
        if exponent > 127 {
            return Self::NAN;
        }
        let val = digits as i8;
        Self { val: if value < 0 { -val } else { val }, exp: exponent as i8 }
    }

    /// Whether the format has this bin. (0, exp) with exp other than 0 is valid but not canonical.
    #[must_use]
    pub fn is_valid(self) -> bool {
        self.val == 0 || matches!(self.val.unsigned_abs(), 10..=99) || self == Self::NAN
    }

    /// Index within its sign, `None` for the zero, NaN and invalid bins.
    #[must_use]
    pub fn index(self) -> Option<i32> {
        let mantissa = i32::from(self.val.unsigned_abs());
        (10..=99).contains(&mantissa).then(|| (i32::from(self.exp) + 128) * 90 + mantissa - 10)
    }

    /// The bin of an index of [`DecimalBin::index`].
    ///
    /// # Panics
    /// When `index` is outside `0..BINS_PER_SIGN`.
    #[must_use]
    pub fn from_index(positive: bool, index: i32) -> Self {
        assert!((0..BINS_PER_SIGN).contains(&index), "decimal bin index {index} is outside 0..{BINS_PER_SIGN}");
        let val = (index % 90 + 10) as i8;
        Self { val: if positive { val } else { -val }, exp: (index / 90 - 128) as i8 }
    }
}

/// The edges of bin `index` by distance from zero: the doubles nearest the decimal numbers.
#[must_use]
pub(crate) fn edges(index: i32) -> (f64, f64) {
    let mantissa = index % 90 + 10;
    let exponent = index / 90 - 129;
    (decimal(mantissa, exponent), decimal(mantissa + 1, exponent))
}

/// The mean of a bin's edges that minimises the greatest relative error: the harmonic one.
#[must_use]
pub(crate) fn midpoint(index: i32) -> f64 {
    let (near, far) = edges(index);
    near * (2.0 * far / (near + far))
}

/// The double nearest `digits * 10^exponent`, for 10..=100 digits.
fn decimal(digits: i32, exponent: i32) -> f64 {
    // 10^0..=10^22 are exact doubles, so one rounding remains.
    match exponent {
        0..=22 => f64::from(digits) * power_of_ten(exponent),
        -22..=-1 => f64::from(digits) / power_of_ten(-exponent),
        _ => format!("{digits}e{exponent}").parse().expect("a decimal number parses"),
    }
}

/// The greatest e with 10^e <= magnitude, for 1e-128 <= magnitude < 1e128.
#[inline]
fn decade(magnitude: f64) -> i32 {
    let binary_exponent = ((magnitude.to_bits() >> 52) as i32) - 1023;
    // 78913 / 2^18 is log10(2) less 2e-7: the estimate is the decade of 2^binary_exponent, or one below.
    let estimate = ((binary_exponent * 78_913) >> 18).max(-128);
    estimate + i32::from(magnitude >= power_of_ten(estimate + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bin(val: i8, exp: i8) -> DecimalBin {
        DecimalBin { val, exp }
    }

    #[test]
    fn decade_is_the_one_found_by_a_search_over_the_table() {
        for exponent in -128..128 {
            let power = power_of_ten(exponent);
            for (value, expected) in [(power, exponent), (power.next_up(), exponent), (power.next_down(), exponent - 1)]
            {
                if value >= power_of_ten(-128) {
                    assert_eq!(decade(value), expected, "{value:e}");
                }
            }
        }
        let mut bits = 0x3ff0_0000_0000_0000_u64;
        for _ in 0..200_000 {
            bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let value = f64::from_bits(bits >> 1);
            if (power_of_ten(-128)..power_of_ten(128)).contains(&value) {
                let searched = (-128..128).rev().find(|e| power_of_ten(*e) <= value).unwrap();
                assert_eq!(decade(value), searched, "{value:e}");
            }
        }
    }

    #[test]
    fn special_values_have_the_bins_of_the_format() {
        for (value, expected) in [
            (0.0, DecimalBin::ZERO),
            (-0.0, DecimalBin::ZERO),
            (5e-324, DecimalBin::ZERO),
            (-9.99e-129, DecimalBin::ZERO),
            (1e-128, bin(10, -128)),
            (-1e-128, bin(-10, -128)),
            (0.3, bin(30, -1)),
            (0.7, bin(70, -1)),
            (2.3, bin(23, 0)),
            (1.099_999_999_999_999_9, bin(11, 0)),
            (9.999_999_999_999_999, bin(10, 1)),
            (9.995e127, bin(99, 127)),
            (-9.99e127, bin(-99, 127)),
            (1e128, DecimalBin::NAN),
            (1e128_f64.next_down(), DecimalBin::NAN),
            (f64::MAX, DecimalBin::NAN),
            (f64::INFINITY, DecimalBin::NAN),
            (f64::NAN, DecimalBin::NAN),
        ] {
            assert_eq!(DecimalBin::from_value(value), expected, "{value:e}");
        }
    }

    #[test]
    fn every_edge_and_its_neighbourhood_is_in_its_bin() {
        for positive in [true, false] {
            for index in 0..BINS_PER_SIGN {
                let expected = DecimalBin::from_index(positive, index);
                assert_eq!(expected.index(), Some(index));
                let (near, far) = edges(index);
                assert!(near < far, "{index}: {near:e} {far:e}");
                let sign = if positive { 1.0 } else { -1.0 };
                for value in [near, near.next_up(), midpoint(index)] {
                    assert_eq!(DecimalBin::from_value(sign * value), expected, "{value:e}");
                }
                // The edge as C computes it (val/10.0 * 10^exp) is up to two ulps off; it must not change bins.
                let upstream = f64::from(expected.val) / 10.0 * power_of_ten(i32::from(expected.exp));
                if upstream.abs() >= 1e-128 {
                    assert_eq!(DecimalBin::from_value(upstream), expected, "{upstream:e}");
                }
                assert_eq!(
                    edges((index + 1).min(BINS_PER_SIGN - 1)).0.max(near),
                    if index + 1 < BINS_PER_SIGN { far } else { near }
                );
            }
        }
    }

    #[test]
    fn no_finite_value_below_the_top_is_nan() {
        for exponent in -128..=127 {
            // The last thousand doubles below each power of ten: where a rounded logarithm loses values.
            let mut value = power_of_ten(exponent + 1);
            for _ in 0..1000 {
                value = value.next_down();
                let found = DecimalBin::from_value(value);
                let edge = exponent == 127 && value > 9.999_999_999_999_99e127;
                assert_eq!(found == DecimalBin::NAN, edge && found.val == -1, "{value:e}");
                assert!(edge || found == bin(99, exponent as i8) || found == bin(10, exponent as i8 + 1), "{value:e}");
            }
        }
    }

    #[test]
    fn integers_are_binned_without_rounding() {
        for (value, scale, expected) in [
            (0, -9, DecimalBin::ZERO),
            (1, -9, bin(10, -9)),
            (9, 0, bin(90, 0)),
            (10, 0, bin(10, 1)),
            (109, 0, bin(10, 2)),
            (-1999, -9, bin(-19, -6)),
            (i64::MAX, 0, bin(92, 18)),
            (i64::MIN, 0, bin(-92, 18)),
            (1, -128, bin(10, -128)),
            (1, -129, DecimalBin::ZERO),
            (9, 127, bin(90, 127)),
            (10, 127, DecimalBin::NAN),
            (1, i32::MIN, DecimalBin::ZERO),
            (i64::MAX, i32::MAX, DecimalBin::NAN),
        ] {
            assert_eq!(DecimalBin::from_integer(value, scale), expected, "{value}e{scale}");
        }
    }
}
