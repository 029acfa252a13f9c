//! Expositions, the metrics that a program exposes for scraping: Prometheus's text format, OpenMetrics, and the
//! protobuf form.
//!
//! Format: prometheus.io/docs/instrumenting/exposition_formats (text 0.0.4, 1.0.0 with quoted names, and
//! length-delimited `io.prometheus.client.MetricFamily`), prometheus.io/docs/specs/om/open_metrics_spec (1.0), and from
//! the draft of 2.0 histograms in one line and start times.
//! Invariants: pure; an exposition is accepted as a whole or not at all, so that a truncated or corrupted one never
//! passes for a smaller one. A series is known by the bytes that name it ([`Series::key`]) before its labels are
//! decoded.
//! Limits: memory is bounded by the bytes of the body, as for any request: a point takes about 250 bytes with what its
//! checks keep, and its line usually sixty.
//! Failure: [`Error::Line`] with the line number and the rule that the line breaks.

pub mod backfill;
mod line;
mod message;
mod number;
mod openmetrics;
mod point;
mod series;
#[cfg(test)]
mod tests;
mod text;
mod value;

use crate::Error;

pub use point::{Exemplar, Exposition, Family, Point, Value};
pub use series::{Labels, Series};

/// The form of an exposition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus' text, tolerant of spaces, comments and unknown order.
    Text {
        /// Whether the transport proved that nothing is cut off: then the last line may do without its end.
        is_whole: bool,
    },
    /// OpenMetrics, strict.
    OpenMetrics {
        /// 1 or 2.
        version: u8,
    },
    /// Messages, each behind its length.
    Protobuf,
}

impl Format {
    /// The form that a `Content-Type` names.
    #[must_use]
    pub fn from_content_type(kind: &str) -> Option<Self> {
        let mut parts = kind.split(';').map(str::trim);
        let name = parts.next()?.to_ascii_lowercase();
        let parameter = |wanted: &str| {
            let mut pairs = parts.clone().filter_map(|part| part.split_once('='));
            pairs
                .find(|(name, _)| name.trim().eq_ignore_ascii_case(wanted))
                .map(|(_, value)| value.trim().trim_matches('"'))
        };
        match name.as_str() {
            "text/plain" => Some(Self::Text { is_whole: false }),
            "application/openmetrics-text" => {
                let is_second = parameter("version").is_some_and(|version| version.starts_with("2."));
                Some(Self::OpenMetrics { version: if is_second { 2 } else { 1 } })
            }
            "application/vnd.google.protobuf" => {
                let is_family = parameter("proto").is_none_or(|proto| proto == "io.prometheus.client.MetricFamily");
                let is_delimited = parameter("encoding").is_none_or(|encoding| encoding == "delimited");
                (is_family && is_delimited).then_some(Self::Protobuf)
            }
            _ => None,
        }
    }
}

/// Reads `body`.
///
/// # Errors
/// When any part of it breaks a rule of its form.
pub fn decode(format: Format, body: &[u8]) -> Result<Exposition<'_>, Error> {
    match format {
        Format::Text { is_whole } => text::decode(utf8(body)?, is_whole),
        Format::OpenMetrics { version } => openmetrics::decode(utf8(body)?, version),
        Format::Protobuf => message::decode(body),
    }
}

fn utf8(body: &[u8]) -> Result<&str, Error> {
    std::str::from_utf8(body).map_err(|error| {
        let line = body[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count() + 1;
        Error::Line { line, what: "the bytes are not UTF-8" }
    })
}
