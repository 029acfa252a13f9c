//! How a bin's index maps to the values it holds.

use std::sync::Arc;

use crate::{DecimalBin, Error, custom, exp2, loglinear10};

/// The rule that gives a histogram its bins. Two histograms of one scheme merge exactly.
#[derive(Clone, Debug, PartialEq)]
pub enum Scheme {
    /// OpenHistogram: 90 bins a decade and sign, from 1e-128 up to 1e128, closed at the edge nearer zero.
    ///
    /// Index `(exp + 128) * 90 + (|val| - 10)`, 0..=23,039, for the bin whose edge nearer zero is
    /// `val/10 * 10^exp`. What is nearer zero than 1e-128 is in the zero bin.
    LogLinear10,
    /// Exponential: bin `i` holds (2^((i-1) * 2^-scale), 2^(i * 2^-scale)], closed at the edge away from zero.
    ///
    /// Prometheus native histograms (schema = scale) count `i` like this; an OTLP index is one lower.
    Exp2 {
        /// -10..=20; Prometheus uses -4..=8.
        scale: i8,
    },
    /// Explicit upper bounds, strictly ascending and finite: bin `i` holds `(bounds[i-1], bounds[i]]`, bin 0
    /// starts at -Inf and the bin after the last bound ends at +Inf (Prometheus schema -53, OTLP explicit).
    Custom {
        /// Upper bounds, without the +Inf one.
        bounds: Arc<[f64]>,
    },
}

/// Which edges a bin includes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// (lo, hi].
    Upper,
    /// [lo, hi).
    Lower,
    /// (lo, hi).
    Neither,
    /// [lo, hi].
    Both,
}

impl Closed {
    /// The code that Prometheus' JSON form of a native histogram uses.
    #[must_use]
    pub fn prometheus_rule(self) -> u8 {
        match self {
            Self::Upper => 0,
            Self::Lower => 1,
            Self::Neither => 2,
            Self::Both => 3,
        }
    }
}

/// Where a value belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Not a number, or beyond the scheme's range.
    Nan,
    /// A bin below zero.
    Negative(i32),
    /// The zero bin.
    Zero,
    /// A bin above zero (any bin of `Custom`).
    Positive(i32),
}

impl Scheme {
    /// An exponential scheme.
    ///
    /// # Errors
    /// [`Error::Scale`] outside -10..=20.
    pub fn exp2(scale: i32) -> Result<Self, Error> {
        let stored = i8::try_from(scale).map_err(|_| Error::Scale(scale))?;
        if (exp2::SCALE_MIN..=exp2::SCALE_MAX).contains(&stored) {
            Ok(Self::Exp2 { scale: stored })
        } else {
            Err(Error::Scale(scale))
        }
    }

    /// A scheme of explicit upper bounds.
    ///
    /// # Errors
    /// [`Error::Bounds`] when a bound is not finite or not above the one before it.
    pub fn custom(bounds: impl Into<Arc<[f64]>>) -> Result<Self, Error> {
        let bounds = bounds.into();
        match custom::first_bad_bound(&bounds) {
            Some(index) => Err(Error::Bounds { index, value: bounds[index] }),
            None => Ok(Self::Custom { bounds }),
        }
    }

    /// Where `value` belongs in a histogram whose zero bin reaches `zero_threshold`.
    #[must_use]
    pub fn place(&self, value: f64, zero_threshold: f64) -> Place {
        if value.is_nan() {
            return Place::Nan;
        }
        let magnitude = value.abs();
        let index = match self {
            Self::Custom { bounds } => return Place::Positive(custom::index(bounds, value)),
            _ if magnitude <= zero_threshold => return Place::Zero,
            Self::LogLinear10 => match DecimalBin::of(magnitude) {
                DecimalBin::ZERO => return Place::Zero,
                bin => match bin.index() {
                    Some(index) => index,
                    None => return Place::Nan,
                },
            },
            Self::Exp2 { scale } => exp2::index(*scale, magnitude),
        };
        if value > 0.0 { Place::Positive(index) } else { Place::Negative(index) }
    }

    /// The edges of a bin, the one nearer minus infinity first.
    #[must_use]
    pub fn bounds(&self, positive: bool, index: i32) -> (f64, f64) {
        let (near, far) = match self {
            Self::Custom { bounds } => return custom::edges(bounds, index),
            _ => self.edges(index),
        };
        if positive { (near, far) } else { (-far, -near) }
    }

    /// The edges of a bin by distance from zero; of `Custom` in real-axis order.
    #[must_use]
    pub(crate) fn edges(&self, index: i32) -> (f64, f64) {
        match self {
            Self::LogLinear10 => loglinear10::edges(index),
            Self::Exp2 { scale } => (exp2::edge(*scale, index.saturating_sub(1)), exp2::edge(*scale, index)),
            Self::Custom { bounds } => custom::edges(bounds, index),
        }
    }

    /// The value that stands for all in a bin: harmonic mean of the edges in `LogLinear10` (least greatest relative
    /// error), geometric in `Exp2`, arithmetic in `Custom` (the finite edge where the other is infinite).
    #[must_use]
    pub fn midpoint(&self, positive: bool, index: i32) -> f64 {
        let middle = match self {
            Self::LogLinear10 => loglinear10::midpoint(index),
            Self::Exp2 { scale } => exp2::midpoint(*scale, index),
            Self::Custom { bounds } => return custom::midpoint(bounds, index),
        };
        if positive { middle } else { -middle }
    }

    /// The least distance from zero that a zero bin of threshold 0 does not hold.
    pub(crate) fn zero_reach(&self) -> f64 {
        if *self == Self::LogLinear10 { crate::powers::power_of_ten(-128) } else { f64::from_bits(1) }
    }

    /// Which edges the bins of one sign include.
    #[must_use]
    pub fn closed(&self, positive: bool) -> Closed {
        match (self, positive) {
            (Self::LogLinear10, true) | (Self::Exp2 { .. }, false) => Closed::Lower,
            (Self::LogLinear10, false) | (Self::Exp2 { .. }, true) | (Self::Custom { .. }, _) => Closed::Upper,
        }
    }
}

impl std::fmt::Display for Scheme {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::LogLinear10 => out.write_str("log-linear-10"),
            Self::Exp2 { scale } => write!(out, "exponential {scale}"),
            Self::Custom { bounds } => write!(out, "custom with {} bounds", bounds.len()),
        }
    }
}
