//! Whether a histogram from outside keeps the rules of its scheme.

use crate::{Count, Histogram, Scheme, gamma, loglinear2};

/// Bins above this index are outside LogLinear10: 256 exponents of 90 bins.
const LOG_LINEAR_INDEX_MAX: i32 = 256 * 90 - 1;

/// Units whose multiples up to 2^64 are far from the ends of the doubles.
const UNITS: std::ops::RangeInclusive<f64> = 1e-100..=1e100;

impl Scheme {
    /// Scales that an exponential histogram may have: OTLP's -10..=20, Prometheus' up to 52.
    pub const EXP2_SCALES: std::ops::RangeInclusive<i8> = -10..=52;
    /// Most bounds of a custom scheme: 16,384, far above hand-made lists, 128 KiB each.
    pub const BOUNDS_MAX: usize = 1 << 14;

    /// Checks the scheme's own parameters.
    ///
    /// # Errors
    /// A sentence that names the rule that is broken.
    // Negated comparisons: they are also true of NaN.
    #[allow(clippy::neg_cmp_op_on_partial_ord)]
    pub fn check(&self) -> Result<(), &'static str> {
        match self {
            Self::LogLinear10 => Ok(()),
            Self::Exp2 { scale } if Self::EXP2_SCALES.contains(scale) => Ok(()),
            Self::Exp2 { .. } => Err("an exponential scale must be in -10..=52"),
            Self::Custom { bounds } if bounds.len() > Self::BOUNDS_MAX => {
                Err("a custom scheme has at most 16,384 bounds")
            }
            Self::Custom { bounds } if bounds.iter().any(|bound| !bound.is_finite()) => {
                Err("custom bounds must be finite; leave the +Inf one out")
            }
            Self::Custom { bounds } if bounds.windows(2).any(|pair| pair[0] >= pair[1]) => {
                Err("custom bounds must strictly ascend")
            }
            Self::Custom { .. } => Ok(()),
            Self::LogLinear2 { grouping, .. } if *grouping > loglinear2::GROUPING_MAX => {
                Err("a binary log-linear grouping must be in 0..=20")
            }
            Self::LogLinear2 { shift, .. } if *shift > loglinear2::SHIFT_MAX => {
                Err("a binary log-linear shift must be in 0..=40")
            }
            Self::LogLinear2 { unit, .. } if !UNITS.contains(unit) => {
                Err("the unit of a binary log-linear scheme must be in 1e-100..=1e100")
            }
            Self::LogLinear2 { .. } => Ok(()),
            Self::Gamma { gamma, .. } if !gamma::GAMMAS.contains(gamma) => {
                Err("a logarithmic base must be in 1.000001..=1e6")
            }
            Self::Gamma { offset, .. } if !(offset.abs() <= gamma::OFFSET_MAX) => {
                Err("a logarithmic offset must be within 1e9 of zero")
            }
            Self::Gamma { .. } => Ok(()),
        }
    }
}

impl<C: Count> Histogram<C> {
    /// Checks that every bin belongs to the scheme and that counts are valid.
    ///
    /// # Errors
    /// A sentence that names the rule that is broken.
    // Negated comparisons: they are also true of NaN.
    #[allow(clippy::neg_cmp_op_on_partial_ord)]
    pub fn check(&self) -> Result<(), &'static str> {
        self.scheme.check()?;
        if !(self.zero_threshold >= 0.0) {
            return Err("the zero threshold must be 0 or above");
        }
        for bins in [&self.negative, &self.positive] {
            // Counts that are cut at zero are integers, which cannot be anything else.
            if !C::CUTS_AT_ZERO && bins.counts().iter().any(|count| !(count.to_f64() >= 0.0)) {
                return Err("a bin's count must be 0 or above");
            }
        }
        let (lowest, highest) = self.index_limits();
        for (bins, allowed) in [(&self.negative, !matches!(self.scheme, Scheme::Custom { .. })), (&self.positive, true)]
        {
            let (Some(first), Some(last)) = (bins.indexes().first(), bins.indexes().last()) else { continue };
            if !allowed {
                return Err("a custom scheme has no negative bins");
            }
            if *first < lowest || *last > highest {
                return Err("a bin is outside the scheme's range");
            }
        }
        Ok(())
    }

    fn index_limits(&self) -> (i32, i32) {
        match &self.scheme {
            Scheme::LogLinear10 => (0, LOG_LINEAR_INDEX_MAX),
            Scheme::Exp2 { .. } | Scheme::Gamma { .. } => (i32::MIN, i32::MAX),
            // Bin 0 is the zero bin.
            Scheme::LogLinear2 { grouping, shift, unit } => {
                (1, loglinear2::Grid { grouping: *grouping, shift: *shift, unit: *unit }.index_max())
            }
            Scheme::Custom { bounds } => (0, i32::try_from(bounds.len()).expect("the scheme was checked")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(scheme: Scheme, negative: &[i32], positive: &[i32]) -> Result<(), &'static str> {
        let mut histogram = Histogram::<u64>::new(scheme);
        negative.iter().for_each(|index| histogram.negative.add(*index, 1));
        positive.iter().for_each(|index| histogram.positive.add(*index, 1));
        histogram.check()
    }

    #[test]
    fn bins_must_be_inside_the_scheme() {
        let custom = |bounds: &[f64]| Scheme::Custom { bounds: bounds.into() };
        assert_eq!(check(Scheme::LogLinear10, &[0, 23_039], &[0, 23_039]), Ok(()));
        assert!(check(Scheme::LogLinear10, &[], &[23_040]).is_err());
        assert!(check(Scheme::LogLinear10, &[-1], &[]).is_err());
        assert_eq!(check(Scheme::Exp2 { scale: 3 }, &[-5000], &[5000]), Ok(()));
        assert!(check(Scheme::Exp2 { scale: 53 }, &[], &[]).is_err());
        assert_eq!(check(custom(&[1.0, 2.0]), &[], &[0, 2]), Ok(()));
        assert!(check(custom(&[1.0, 2.0]), &[], &[3]).is_err());
        assert!(check(custom(&[1.0, 2.0]), &[0], &[]).is_err());
        assert!(check(custom(&[1.0, 1.0]), &[], &[]).is_err());
        assert!(check(custom(&[f64::NAN]), &[], &[]).is_err());
    }

    #[test]
    fn parameters_must_be_in_their_ranges() {
        let two = |grouping, shift, unit| Scheme::log_linear2(grouping, shift, unit);
        for (scheme, right) in [
            (two(20, 40, 1e-9), true),
            (two(21, 0, 1.0), false),
            (two(10, 41, 1.0), false),
            (two(10, 0, 0.0), false),
            (two(10, 0, f64::NAN), false),
            (Scheme::gamma(1.02, 0.0), true),
            (Scheme::gamma(1.000_001, 1e9), true),
            (Scheme::gamma(1.0, 0.0), false),
            (Scheme::gamma(f64::NAN, 0.0), false),
            (Scheme::gamma(1.02, f64::NAN), false),
            (Scheme::gamma(1.02, 1.1e9), false),
        ] {
            assert_eq!(scheme.is_ok(), right, "{scheme:?}");
        }
        let hdr = two(10, 0, 1e-9).unwrap();
        assert_eq!(check(hdr.clone(), &[1], &[1, (53 << 10) + 2047]), Ok(()));
        assert!(check(hdr.clone(), &[], &[0]).is_err() && check(hdr, &[], &[(53 << 10) + 2048]).is_err());
    }

    #[test]
    fn counts_and_thresholds_must_not_be_negative_or_nan() {
        let mut histogram = Histogram::<f64>::new(Scheme::Exp2 { scale: 0 });
        histogram.positive.add(1, f64::NAN);
        assert!(histogram.check().is_err());
        let mut histogram = Histogram::<u64>::new(Scheme::Exp2 { scale: 0 });
        histogram.zero_threshold = f64::NAN;
        assert!(histogram.check().is_err());
    }
}
