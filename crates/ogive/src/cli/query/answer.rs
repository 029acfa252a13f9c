//! The server's JSON as it is documented in docs/http.md, for everything that is printed of it.

use std::collections::BTreeMap;

use anyhow::Context;
use ogive_hist::{DecimalBin, Histogram};
use serde::Deserialize;

/// A response of `/api/v1/query` and `/api/v1/query_range`.
#[derive(Deserialize)]
pub(super) struct Answer {
    pub(super) data: Data,
    #[serde(default)]
    pub(super) warnings: Vec<String>,
    #[serde(default)]
    pub(super) infos: Vec<String>,
}

/// The result.
#[derive(Deserialize)]
#[serde(tag = "resultType", content = "result", rename_all = "lowercase")]
pub(super) enum Data {
    Scalar((f64, String)),
    String((f64, String)),
    Vector(Vec<Series>),
    Matrix(Vec<Series>),
}

impl Data {
    /// Whether no series was found.
    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::Vector(series) | Self::Matrix(series) if series.is_empty())
    }
}

/// One series: a point for an instant, or those of a range.
#[derive(Deserialize)]
pub(super) struct Series {
    pub(super) metric: BTreeMap<String, String>,
    pub(super) value: Option<(f64, String)>,
    pub(super) histogram: Option<(f64, Distribution)>,
    #[serde(default)]
    pub(super) values: Vec<(f64, String)>,
    #[serde(default)]
    pub(super) histograms: Vec<(f64, Distribution)>,
}

/// A native histogram: buckets as rule, bounds and count.
#[derive(Deserialize)]
pub(super) struct Distribution {
    pub(super) count: String,
    pub(super) sum: String,
    #[serde(default)]
    pub(super) buckets: Vec<(u8, String, String, String)>,
}

impl Distribution {
    /// As a histogram of the decimal scheme: exact for those that already were one, by the bins' middles for others.
    pub(super) fn histogram(&self) -> anyhow::Result<Histogram<f64>> {
        let mut out = Histogram::<f64>::new(ogive_hist::Scheme::LogLinear10);
        for (_, lo, hi, count) in &self.buckets {
            let (lo, hi, count) = (go_float(lo)?, go_float(hi)?, go_float(count)?);
            let near = if lo >= 0.0 { lo } else { hi };
            let is_bin = DecimalBin::from_value(lo.max(-f64::MAX) / 2.0 + hi.min(f64::MAX) / 2.0)
                == DecimalBin::from_value(near);
            let value = match (lo.is_finite(), hi.is_finite()) {
                _ if is_bin => near,
                (true, true) if lo > 0.0 => (lo * hi).sqrt(),
                (true, true) => f64::midpoint(lo, hi),
                (true, false) => lo,
                _ => hi,
            };
            out.record_n(value, count);
        }
        out.sum = Some(go_float(&self.sum)?);
        (out.min, out.max) = (None, None);
        out.count = go_float(&self.count)?;
        Ok(out)
    }
}

/// A number as the API writes it.
pub(super) fn go_float(text: &str) -> anyhow::Result<f64> {
    text.parse().with_context(|| format!("{text:?} is not a number"))
}
