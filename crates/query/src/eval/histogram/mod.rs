//! Float histograms for PromQL: addition with layout reconciliation, counter resets, quantiles, fractions, trimming and
//! text.
//!
//! Semantics: native histograms of Prometheus 3 (<https://prometheus.io/docs/specs/native_histograms/>), and the same
//! operations on log-linear bins. Only histograms of one scheme family combine.

mod arithmetic;
mod bin_sum;
mod buckets;
mod classic;
mod layout;
mod reset;
mod statistics;
mod sum;
mod text;
mod trim;

pub(crate) use arithmetic::{Combined, Incompatible, add, difference, divide, scale, subtract};
pub(crate) use buckets::{Bucket, ascending, is_custom};
pub(crate) use classic::{ClassicBucket, classic_bounds, classic_fraction, classic_fraction_bounds, classic_quantile};
pub(crate) use reset::{detect_reset, equal};
pub(crate) use statistics::{NanNote, count_below, fraction, fraction_bounds, quantile, quantile_bounds, variance};
pub(crate) use sum::{HistogramMean, HistogramSum};
pub(crate) use text::text;
pub(crate) use trim::{Keep, trim};

use ogive_hist::Histogram;
use ogive_model::{HistogramValue, STALE};

/// The histogram of query arithmetic.
pub(crate) type Hist = Histogram<f64>;

/// Whether `value` is the staleness marker.
pub(crate) fn is_stale(value: f64) -> bool {
    value.to_bits() == STALE
}

/// Whether a stored histogram is a staleness marker: its sum is one.
pub(crate) fn is_stale_histogram(value: &HistogramValue) -> bool {
    let sum = match value {
        HistogramValue::Integer(histogram) => histogram.sum,
        HistogramValue::Float(histogram) => histogram.sum,
    };
    sum.is_some_and(is_stale)
}

/// As [`to_float`], for a value that is not needed otherwise.
pub(crate) fn into_float(value: HistogramValue) -> Hist {
    match value {
        HistogramValue::Float(histogram) => histogram,
        HistogramValue::Integer(histogram) => histogram.into_float(),
    }
}

/// A stored histogram with float counts.
pub(crate) fn to_float(value: &HistogramValue) -> Hist {
    match value {
        HistogramValue::Float(histogram) => histogram.clone(),
        HistogramValue::Integer(histogram) => histogram.to_float(),
    }
}
