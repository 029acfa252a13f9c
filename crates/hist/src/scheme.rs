//! How a bin's index maps to the values it holds.

use std::sync::Arc;

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
    /// Explicit upper bounds, strictly ascending and finite: bin `i` holds (bounds[i-1], bounds[i]], bin 0
    /// starts at -Inf and the bin after the last bound ends at +Inf (Prometheus schema -53, OTLP explicit).
    Custom {
        /// Upper bounds, without the +Inf one.
        bounds: Arc<[f64]>,
    },
}
