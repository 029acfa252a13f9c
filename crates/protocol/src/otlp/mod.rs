//! OTLP, the protocol of OpenTelemetry: metrics, logs and traces.
//!
//! Format: github.com/open-telemetry/opentelemetry-proto, `collector/{metrics,logs,trace}/v1` and the messages they
//! refer to, as protobuf; the JSON form is converted to it first. Unknown fields are skipped, as protobuf requires.
//! docs/otlp.md describes what each message becomes.
//! Invariants: nothing is converted; each point has its own verdict, so that an invalid one affects only itself. The
//! labels of a series that was written before are not decoded: their bytes are looked up in place.
//! Limits: [`POINTS_MAX`] samples per request, and those of each part.

mod answer;
mod any;
mod build;
pub mod json;
mod labels;
mod logs;
mod metrics;
mod names;
mod points;
mod request;
mod span_table;
mod spans;
#[cfg(test)]
mod tests;

use ogive_model::Batch;

pub use answer::{PartialSuccess, RETRY_INFO, partial_success, status};
pub(crate) use any::{decimal, quoted};
pub use labels::Options;
pub use logs::read as read_logs;
pub use metrics::read as read_metrics;
pub use names::Translation;
pub use request::{Written, write as write_request};
pub use span_table::{OPERATIONS_MAX, Reserved, SPANS_MAX, SpanTable};
pub use spans::{
    FOLDED as SPANS_FOLDED, SLOW_MAX as SPANS_SLOW_MAX, SlowSpan, SpanNotes, SpanRules, read as read_spans,
};

use crate::remote_write::{Declared, KnownSeries};

/// 524,288 samples: more than fit into 32 MiB when each brings a value, a time and one attribute.
pub const POINTS_MAX: usize = 1 << 19;

/// Descriptions kept of what is wrong: the first few are enough for a person.
const DETAILS_MAX: usize = 10;

/// What a request is read with.
#[derive(Clone, Copy)]
pub struct Context<'c> {
    /// Whose series these are.
    pub tenant: &'c ogive_model::Tenant,
    /// Who numbers the batches.
    pub source: ogive_model::SourceId,
    /// The batch's number.
    pub sequence: u64,
    /// Names and labels.
    pub options: &'c Options,
    /// Series that need not be declared again.
    pub known: Option<&'c KnownSeries>,
    /// The receiver's time, for log records that have none.
    pub now_ns: i64,
}

/// A request that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct DecodedRequest {
    /// Its samples. A sample that breaks a rule carries the reason.
    pub batch: Batch,
    /// The point or log record of each sample; none for what the receiver adds.
    pub origins: Vec<Option<u32>>,
    /// Points or log records of the request.
    pub points: u32,
    /// Points that say that nothing was recorded in an interval: there is nothing to store.
    pub unrecorded: u64,
    /// Log records that have no time of their own.
    pub untimed: u32,
    /// Samples that nothing of themselves distinguishes from another of the same series and time: delta points without
    /// a start, log records.
    pub fragments: u32,
    /// What is wrong with the first bad samples: index into the batch's, and a sentence.
    pub details: Vec<(u32, String)>,
    /// The series that the batch declares, to be remembered when it is stored whole.
    pub declared: Declared,
    /// What the request says of its metrics.
    pub metadata: Vec<Metadata>,
    /// About what it takes in memory.
    pub memory_bytes: usize,
}

/// What is known of a metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// The metric's name as it is stored.
    pub metric: String,
    /// What its samples are.
    pub kind: ogive_model::MetricKind,
    /// What it measures, in words.
    pub help: String,
    /// The unit, as UCUM writes it.
    pub unit: String,
}

impl DecodedRequest {
    /// How many points have a sample in `rejected`, and what is wrong with the first.
    #[must_use]
    pub fn rejected(&self, rejected: &[(u32, ogive_model::Reason)]) -> (u64, String) {
        let mut points: Vec<u32> =
            rejected.iter().filter_map(|(sample, _)| *self.origins.get(*sample as usize)?).collect();
        points.sort_unstable();
        points.dedup();
        let first = rejected.iter().find(|(sample, _)| self.origins.get(*sample as usize).is_some_and(Option::is_some));
        let sentence = first.map_or_else(String::new, |(sample, reason)| {
            let detail = self.details.iter().find(|(at, _)| at == sample).map(|(_, text)| format!(": {text}"));
            let point = self.origins[*sample as usize].unwrap_or_default();
            format!("the first, number {point}, as {}{}", reason.as_str(), detail.unwrap_or_default())
        });
        (points.len() as u64, sentence)
    }
}
