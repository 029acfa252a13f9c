//! Data beyond a tenant's limits: it folds into a few overflow series, so that totals stay complete.
//!
//! Invariants: an overflow series has one tenant, kind, temporality, scheme and reason; it is stored as delta whatever
//! the samples were, so that values at one instant add and cells merge: `sum` over a metric and `ogive_overflow` at an
//! instant equals the sum without the limit.
//! Limits: below a hundred series for each tenant, which count towards no limit.

use ogive_hist::Scheme;
use ogive_model::{Labels, METRIC_NAME, SeriesDef, Temporality, Value};

use crate::ingest::TenantLimits;

/// Name of the series that stand for others.
pub(crate) const OVERFLOW_NAME: &str = "ogive_overflow";

/// Which limit a series is beyond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beyond {
    Series,
    Labels,
    LabelBytes,
}

impl Beyond {
    /// The limit on labels that `def` is beyond.
    pub(crate) fn labels(def: &SeriesDef, limits: &TenantLimits) -> Option<Self> {
        if def.labels.len() > limits.labels {
            return Some(Self::Labels);
        }
        let bytes: usize = def.labels.iter().map(|(name, value)| name.len() + value.len()).sum();
        (bytes > limits.label_bytes).then_some(Self::LabelBytes)
    }

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Series => "series_limit",
            Self::Labels => "labels_limit",
            Self::LabelBytes => "label_bytes_limit",
        }
    }
}

/// The series that stands for `def`, one of whose samples is `value`.
pub(crate) fn series(def: &SeriesDef, value: &Value, beyond: Beyond) -> SeriesDef {
    let scheme = match value {
        Value::Float(_) | Value::Text(_) => "",
        Value::Histogram(histogram) => scheme_name(&histogram.scheme),
        Value::FloatHistogram(histogram) => scheme_name(&histogram.scheme),
    };
    let (kind, temporality) = (def.meta.kind.as_str(), def.meta.temporality.as_str());
    let pairs = [
        (METRIC_NAME, OVERFLOW_NAME),
        ("kind", kind),
        ("reason", beyond.as_str()),
        ("scheme", scheme),
        ("temporality", temporality),
    ];
    let labels = Labels::new(pairs).expect("own labels keep the rules");
    let mut meta = def.meta.clone();
    (meta.temporality, meta.unit, meta.width_ms) = (Temporality::Delta, String::new(), 0);
    SeriesDef { labels, meta }
}

const fn scheme_name(scheme: &Scheme) -> &'static str {
    match scheme {
        Scheme::LogLinear10 => "log_linear_10",
        Scheme::Exp2 { .. } => "exp2",
        Scheme::Custom { .. } => "custom",
        Scheme::LogLinear2 { .. } => "log_linear_2",
        Scheme::Gamma { .. } => "gamma",
    }
}
