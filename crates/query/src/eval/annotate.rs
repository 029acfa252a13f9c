//! The wording of warnings and infos, as in Prometheus 3.

use ogive_model::float::general;

use crate::annotations::{Annotation, Repairs, Tally};
use crate::ast::{BinaryOp, Span};
use crate::eval::histogram::Incompatible;

/// Why histograms were combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Addition,
    Subtraction,
    Aggregation,
}

impl Operation {
    const fn name(self) -> &'static str {
        match self {
            Self::Addition => "addition",
            Self::Subtraction => "subtraction",
            Self::Aggregation => "aggregation",
        }
    }
}

/// `message for metric name "m"`; without a name, the message alone.
fn for_metric(message: String, metric: &str) -> String {
    if metric.is_empty() { message } else { format!("{message} for metric name {metric:?}") }
}

/// A result from cells of a rollup that keeps less than the function needs, or whose cells are not aligned to the
/// windows.
pub(crate) fn from_rollup(span: Span, metric: &str, rollup_ms: u32) -> Annotation {
    let width = match rollup_ms {
        hours if hours % 3_600_000 == 0 => format!("{}h", hours / 3_600_000),
        minutes if minutes % 60_000 == 0 => format!("{}m", minutes / 60_000),
        millis => format!("{}s", f64::from(millis) / 1000.0),
    };
    Annotation::info(span, for_metric(format!("approximate, from a rollup to cells of {width}"), metric))
}

pub(crate) fn invalid_quantile(span: Span, q: f64) -> Annotation {
    Annotation::warning(span, format!("quantile value should be between 0 and 1, got {}", general(q)))
}

pub(crate) fn invalid_ratio(span: Span, ratio: f64, capped: f64) -> Annotation {
    let (ratio, capped) = (general(ratio), general(capped));
    Annotation::warning(span, format!("ratio value should be between -1 and 1, got {ratio}, capping to {capped}"))
}

pub(crate) fn bad_bucket_label(span: Span, metric: &str, value: &str) -> Annotation {
    let message = format!("bucket label \"le\" is missing or has a malformed value of {value:?}");
    Annotation::warning(span, for_metric(message, metric))
}

pub(crate) fn mixed_floats_histograms(span: Span, metric: &str) -> Annotation {
    let message = format!("encountered a mix of histograms and floats for metric name {metric:?}");
    Annotation::warning(span, message)
}

pub(crate) fn mixed_in_aggregation(span: Span) -> Annotation {
    Annotation::warning(span, "encountered a mix of histograms and floats for aggregation")
}

pub(crate) fn mixed_classic_native(span: Span, metric: &str) -> Annotation {
    let message = "vector contains a mix of classic and native histograms".to_owned();
    Annotation::warning(span, for_metric(message, metric))
}

pub(crate) fn not_a_counter(span: Span, metric: &str) -> Annotation {
    Annotation::warning(span, format!("this native histogram metric is not a counter: {metric:?}"))
}

pub(crate) fn not_a_gauge(span: Span, metric: &str) -> Annotation {
    Annotation::warning(span, format!("this native histogram metric is not a gauge: {metric:?}"))
}

pub(crate) fn mixed_schemes(span: Span, metric: &str, why: Incompatible) -> Annotation {
    let schemes = match why {
        Incompatible::ExponentialCustom => "exponential and custom buckets schemas",
        Incompatible::LogLinear => "log-linear and other bins, which no merge keeps exact,",
    };
    Annotation::warning(span, format!("vector contains a mix of histograms with {schemes} for metric name {metric:?}"))
}

pub(crate) fn incompatible_layout(span: Span, op: BinaryOp) -> Annotation {
    Annotation::warning(span, format!("incompatible bucket layout encountered for binary operator {}", op.text()))
}

pub(crate) fn reset_collision(span: Span, operation: Operation) -> Annotation {
    Annotation::warning(span, format!("conflicting counter resets during histogram {}", operation.name()))
}

pub(crate) fn reconciled_bounds(span: Span, operation: Operation) -> Annotation {
    Annotation::info(span, format!("mismatched custom buckets were reconciled during {}", operation.name()))
}

pub(crate) fn sort_in_range(span: Span) -> Annotation {
    Annotation::warning(span, "sort is ineffective for range queries since results are always ordered by labels")
}

pub(crate) fn start_overlap(span: Span, metric: &str) -> Annotation {
    let message = "sample has start time that overlaps with previous sample timestamp for metric";
    let annotation = Annotation::warning(span, format!("{message} {metric:?}"));
    Annotation { tally: Some(Tally::Occurrences(1)), ..annotation }
}

pub(crate) fn maybe_not_a_counter(span: Span, metric: &str) -> Annotation {
    let message = "metric might not be a counter, name does not end in _total/_sum/_count/_bucket:";
    Annotation::info(span, format!("{message} {metric:?}"))
}

pub(crate) fn forced_monotonicity(span: Span, metric: &str, repairs: Repairs) -> Annotation {
    let message = "input to histogram_quantile needed to be fixed for monotonicity (see \
                   https://prometheus.io/docs/prometheus/latest/querying/functions/#histogram_quantile)";
    let annotation = Annotation::info(span, for_metric(message.to_owned(), metric));
    Annotation { tally: Some(Tally::Repairs(repairs)), ..annotation }
}

pub(crate) fn incompatible_types(span: Span, left: &str, op: BinaryOp, right: &str) -> Annotation {
    let op = op.text();
    let message = format!("incompatible sample types encountered for binary operator {op:?}: {left} {op} {right}");
    Annotation::info(span, message)
}

pub(crate) fn ignored_in_aggregation(span: Span, aggregation: &str) -> Annotation {
    Annotation::info(span, format!("ignored histogram in {aggregation} aggregation"))
}

pub(crate) fn ignored_in_mixed_range(span: Span, metric: &str) -> Annotation {
    let message = "ignored histograms in a range containing both floats and histograms for metric name";
    Annotation::info(span, format!("{message} {metric:?}"))
}

pub(crate) fn quantile_is_nan(span: Span, metric: &str) -> Annotation {
    let message = "input to histogram_quantile has NaN observations, result is NaN".to_owned();
    Annotation::info(span, for_metric(message, metric))
}

pub(crate) fn quantile_is_skewed(span: Span, metric: &str) -> Annotation {
    let message = "input to histogram_quantile has NaN observations, result is skewed higher".to_owned();
    Annotation::info(span, for_metric(message, metric))
}

pub(crate) fn too_few_for_modes(span: Span) -> Annotation {
    let needed = ogive_hist::MODES_SAMPLES_MIN;
    let message = format!(
        "histogram_modes passed over histograms of fewer than {needed} samples: modes are not distinguished from noise there"
    );
    Annotation::info(span, message)
}

pub(crate) fn unknown_extreme(span: Span, function: &str) -> Annotation {
    let message = format!(
        "{function} passed over histograms that do not keep it; histogram_quantile_bounds gives the edges of their bins"
    );
    Annotation::info(span, message)
}

pub(crate) fn fraction_without_nan(span: Span, metric: &str) -> Annotation {
    let message = "input to histogram_fraction has NaN observations, which are excluded from all fractions".to_owned();
    Annotation::info(span, for_metric(message, metric))
}
