//! What a program shows of itself for scraping: the text format of Prometheus, OpenMetrics, and their protobuf form.
//!
//! Format: prometheus.io/docs/instrumenting/exposition_formats (text 0.0.4, 1.0.0 with quoted names, and
//! `io.prometheus.client.MetricFamily` behind its length), prometheus.io/docs/specs/om/open_metrics_spec (1.0), and of the draft of
//! 2.0 the histograms in one line and the start times.
//! Invariants: pure; an exposition is taken whole or not at all, so that a cut or a mixed-up one never passes for a smaller one.
//! A series is known by the bytes that name it ([`Series::key`]) before its labels are read.
//! Limits: what is held of a body is bounded by its bytes, as of any request: a point takes some 250 with what its checks keep, and
//! the lines that make one have mostly sixty.
//! Failure: [`Error::Line`] with the number of the line and the rule that it breaks.

mod line;
mod message;
mod number;
mod openmetrics;
mod series;
#[cfg(test)]
mod tests;
mod text;
mod value;

use std::borrow::Cow;

use ogive_model::{MetricKind, Temporality};

use crate::Error;
use crate::remote_write::Counts;
use crate::room::{ENTRY_BYTES, Room, histogram_bytes};
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
    pub fn of_content_type(kind: &str) -> Option<Self> {
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

/// What an exposition holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Exposition<'a> {
    /// What is said of the metrics.
    pub families: Vec<Family<'a>>,
    /// The values, in their order.
    pub points: Vec<Point<'a>>,
}

/// What is said of a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Family<'a> {
    /// Its name, in OpenMetrics without the `_total` of a counter.
    pub name: Cow<'a, str>,
    /// What it is.
    pub kind: MetricKind,
    /// What it tells.
    pub help: Cow<'a, str>,
    /// Its unit, when one is named.
    pub unit: Cow<'a, str>,
}

/// How the series `sample` of a metric of this type relates to time. Of unknown ones the name tells.
fn temporality(kind: MetricKind, sample: &str) -> Temporality {
    /// The names of what only grows, by convention.
    const CUMULATIVE: [&str; 4] = ["_total", "_count", "_sum", "_bucket"];
    let ends = |endings: &[&str]| endings.iter().any(|ending| sample.ends_with(ending));
    let grows = match kind {
        MetricKind::Counter | MetricKind::Histogram => true,
        MetricKind::Summary => ends(&["_count", "_sum"]),
        MetricKind::Unknown => ends(&CUMULATIVE),
        MetricKind::Gauge | MetricKind::GaugeHistogram | MetricKind::Info | MetricKind::StateSet => false,
    };
    if grows { Temporality::Cumulative } else { Temporality::Gauge }
}

/// One value of one series.
#[derive(Clone, Debug, PartialEq)]
pub struct Point<'a> {
    /// Of which series.
    pub series: Series<'a>,
    /// How its values relate to time.
    pub temporality: Temporality,
    /// When it was, in milliseconds since the Unix epoch, where the exposition says so.
    pub time_ms: Option<i64>,
    /// Since when it counts, in milliseconds since the Unix epoch, where the exposition says so.
    pub start_ms: Option<i64>,
    /// What it is.
    pub value: Value,
    /// Single events among what it counts.
    pub exemplars: Vec<Exemplar<'a>>,
    /// Whether it is a part of the classic form of a histogram that is there as a native one too.
    pub has_native: bool,
}

/// What a point is.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number, bit for bit.
    Float(f64),
    /// A native histogram, or the rule that it breaks.
    Histogram(Result<Counts, &'static str>),
}

/// A single event.
#[derive(Clone, Debug, PartialEq)]
pub struct Exemplar<'a> {
    /// What names it, such as a trace's id.
    pub labels: Labels<'a>,
    /// What was measured.
    pub value: f64,
    /// When, in milliseconds since the Unix epoch, where it is told.
    pub time_ms: Option<i64>,
}

/// What an exposition takes in memory, paid for as it grows.
struct Meter {
    room: Room,
    families: usize,
    points: usize,
}

impl Meter {
    fn of(body: impl AsRef<[u8]>) -> Self {
        Self { room: Room::fetched(body.as_ref().len()), families: 0, points: 0 }
    }

    /// Pays for what `out` has more than before.
    #[inline]
    fn pay(&mut self, out: &Exposition<'_>) -> Result<(), Error> {
        let families = out.families.len() - self.families;
        self.room.take(families * (size_of::<Family<'_>>() + ENTRY_BYTES))?;
        for point in &out.points[self.points..] {
            let value = match &point.value {
                Value::Histogram(Ok(Counts::Integer(histogram))) => histogram_bytes(histogram),
                Value::Histogram(Ok(Counts::Float(histogram))) => histogram_bytes(histogram),
                _ => 0,
            };
            self.room.take(size_of::<Point<'_>>() + ENTRY_BYTES + value)?;
        }
        (self.families, self.points) = (out.families.len(), out.points.len());
        Ok(())
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
