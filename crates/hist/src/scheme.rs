//! How a bin's index maps to the values it holds.

use std::sync::Arc;

use crate::{DecimalBin, custom, exp2, gamma, loglinear2, loglinear10};

/// The rule that gives a histogram its bins. Two histograms of one scheme merge exactly.
#[derive(Clone, Debug, PartialEq)]
pub enum Scheme {
    /// OpenHistogram: 90 bins a decade and sign, from 1e-128 up to 1e128, closed at the edge nearer zero.
    ///
    /// Index `(exp + 128) * 90 + (|val| - 10)`, 0..=23,039, for the bin whose edge nearer zero is
    /// `val/10 * 10^exp`. Values closer to zero than 1e-128 are in the zero bin.
    LogLinear10,
    /// Exponential: bin `i` holds (2^((i-1) * 2^-scale), 2^(i * 2^-scale)], closed at the edge away from zero.
    ///
    /// Prometheus native histograms (schema = scale) number `i` like this; an OTLP index is one lower.
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
    /// Binary log-linear over whole units, closed at the edge nearer zero: HdrHistogram, H2. Bins are `2^shift` units
    /// wide up to `2^(grouping + 1 + shift)` units, and each power of two above is divided into `2^grouping`. Index as
    /// in HdrHistogram's encodings; values closer to zero than bin 1 are in the zero bin (whose threshold begins at
    /// `2^shift - 1` units), values from 2^64 units on in `nan`.
    LogLinear2 {
        /// 0..=20. HdrHistogram's 0 to 5 digits are 0, 4, 7, 10, 14, 17.
        grouping: u8,
        /// 0..=40. The binary logarithm of HdrHistogram's least discernible value, rounded down.
        shift: u8,
        /// The value of one unit: 1e-9 for nanoseconds in seconds.
        unit: f64,
    },
    /// Logarithmic: bin `i` holds [gamma^(i - offset), gamma^(i + 1 - offset)), closed at the edge nearer zero
    /// (DDSketch with its logarithmic mapping). Values closer to zero than 2.2e-308 are in the zero bin, infinity in
    /// `nan`.
    Gamma {
        /// 1.000001..=1e6; (1 + a) / (1 - a) for a relative error of a.
        gamma: f64,
        /// Within 1e9 of zero.
        offset: f64,
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
pub enum BinPlacement {
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
    /// Where `value` belongs in a histogram whose zero bin reaches `zero_threshold`.
    #[must_use]
    pub fn place(&self, value: f64, zero_threshold: f64) -> BinPlacement {
        if value.is_nan() {
            return BinPlacement::Nan;
        }
        let magnitude = value.abs();
        let index = match self {
            Self::Custom { bounds } => return BinPlacement::Positive(custom::index(bounds, value)),
            _ if magnitude <= zero_threshold => return BinPlacement::Zero,
            Self::LogLinear10 => match DecimalBin::from_value(magnitude) {
                DecimalBin::ZERO => return BinPlacement::Zero,
                bin => match bin.index() {
                    Some(index) => index,
                    None => return BinPlacement::Nan,
                },
            },
            Self::Exp2 { scale } => exp2::index(*scale, magnitude),
            Self::LogLinear2 { grouping, shift, unit } => match grid2(*grouping, *shift, *unit).index(magnitude) {
                Some(0) => return BinPlacement::Zero,
                Some(index) => index,
                None => return BinPlacement::Nan,
            },
            Self::Gamma { .. } if magnitude < f64::MIN_POSITIVE => return BinPlacement::Zero,
            Self::Gamma { .. } if magnitude == f64::INFINITY => return BinPlacement::Nan,
            Self::Gamma { gamma, offset } => gamma::Grid { gamma: *gamma, offset: *offset }.index(magnitude),
        };
        if value > 0.0 { BinPlacement::Positive(index) } else { BinPlacement::Negative(index) }
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
            Self::LogLinear2 { grouping, shift, unit } => grid2(*grouping, *shift, *unit).edges(index),
            Self::Gamma { gamma, offset } => gamma::Grid { gamma: *gamma, offset: *offset }.edges(index),
        }
    }

    /// The representative value of a bin: harmonic mean of the edges in `LogLinear10` and `Gamma` (smallest maximum
    /// relative error), geometric in `Exp2`, arithmetic in `Custom` (the finite edge where the other is infinite), the
    /// middle unit in `LogLinear2`.
    #[must_use]
    pub fn midpoint(&self, positive: bool, index: i32) -> f64 {
        let middle = match self {
            Self::LogLinear10 => loglinear10::midpoint(index),
            Self::Exp2 { scale } => exp2::midpoint(*scale, index),
            Self::Custom { bounds } => return custom::midpoint(bounds, index),
            Self::LogLinear2 { grouping, shift, unit } => grid2(*grouping, *shift, *unit).midpoint(index),
            Self::Gamma { gamma, offset } => gamma::Grid { gamma: *gamma, offset: *offset }.midpoint(index),
        };
        if positive { middle } else { -middle }
    }

    /// The smallest distance from zero that is outside a zero bin of threshold 0.
    pub(crate) fn zero_reach(&self) -> f64 {
        match self {
            Self::LogLinear10 => crate::powers::power_of_ten(-128),
            Self::LogLinear2 { .. } => self.edges(1).0,
            Self::Gamma { .. } => f64::MIN_POSITIVE,
            Self::Exp2 { .. } | Self::Custom { .. } => f64::from_bits(1),
        }
    }

    /// The zero threshold of an empty histogram: the whole units in the zero bin of `LogLinear2`, 0 elsewhere.
    pub(crate) fn zero_threshold_least(&self) -> f64 {
        match self {
            Self::LogLinear2 { grouping, shift, unit } => grid2(*grouping, *shift, *unit).zero_threshold(),
            _ => 0.0,
        }
    }

    /// Which edges the bins of one sign include.
    #[must_use]
    pub fn closed(&self, positive: bool) -> Closed {
        match (self, positive) {
            (Self::Custom { .. }, _) => Closed::Upper,
            (Self::Exp2 { .. }, positive) => {
                if positive {
                    Closed::Upper
                } else {
                    Closed::Lower
                }
            }
            (Self::LogLinear10 | Self::LogLinear2 { .. } | Self::Gamma { .. }, true) => Closed::Lower,
            (Self::LogLinear10 | Self::LogLinear2 { .. } | Self::Gamma { .. }, false) => Closed::Upper,
        }
    }
}

fn grid2(grouping: u8, shift: u8, unit: f64) -> loglinear2::Grid {
    loglinear2::Grid { grouping, shift, unit }
}

impl std::fmt::Display for Scheme {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::LogLinear10 => out.write_str("log-linear-10"),
            Self::Exp2 { scale } => write!(out, "exponential {scale}"),
            Self::Custom { bounds } => write!(out, "custom with {} bounds", bounds.len()),
            Self::LogLinear2 { grouping, shift, unit } => {
                write!(out, "log-linear-2 of 2^{grouping} bins from 2^{shift} units of {unit:e}")
            }
            Self::Gamma { gamma, offset } => write!(out, "logarithmic with base {gamma} and offset {offset}"),
        }
    }
}
