//! Prometheus remote write: the messages `prometheus.WriteRequest` (1.0, [`v1`]) and `io.prometheus.write.v2.Request`
//! (2.0, [`v2`]), and both as a batch.
//!
//! Format: prometheus.io/docs/specs/prw/remote_write_spec and remote_write_spec_2_0; `prompb/{remote,types}.proto` and
//! `prompb/io/prometheus/write/v2/types.proto` of github.com/prometheus/prometheus. Unknown fields are skipped, as
//! protobuf requires.
//! Invariants: a message is decoded in place; a series that breaks a rule is an error of its own, and the next one can
//! be read.

mod batch;
mod items;
pub(crate) mod known;
pub(crate) mod native;
mod plain;
mod request;
pub mod v1;
pub mod v2;

use ogive_model::MetricKind;

use crate::Error;
use crate::protobuf::{Fields, varint};

pub use batch::{DecodedRequest, meta_of_name};
pub use items::{ItemReader, SkippedItems};
pub use known::{Declared, KnownSeries};
pub use native::{Counts, Native};
pub(crate) use native::{Number, Raw, SidePart};
pub use request::write as write_request;

/// A number at an instant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Milliseconds since the Unix epoch.
    pub time_ms: i64,
    /// When it began to count, milliseconds since the Unix epoch; 0 when that is not known. Version 1.0 has none.
    pub start_ms: i64,
    /// The number, bit for bit: a stale marker is a NaN with bits of its own.
    pub value: f64,
}

impl Sample {
    fn read(message: &[u8]) -> Result<Self, Error> {
        if let Some(sample) = Self::plain(message) {
            return Ok(sample);
        }
        let mut sample = Self { time_ms: 0, start_ms: 0, value: 0.0 };
        for field in Fields::new(message) {
            match field? {
                (1, value) => sample.value = value.double("a sample's value is not a double")?,
                (2, time) => sample.time_ms = time.varint("a sample's time is not a number")? as i64,
                (3, time) => sample.start_ms = time.varint("a sample's start is not a number")? as i64,
                _ => {}
            }
        }
        Ok(sample)
    }

    /// Value and time, each once and in this order, as every known sender writes them; None of any other message.
    fn plain(message: &[u8]) -> Option<Self> {
        let (head, mut time) = message.split_first_chunk::<10>()?;
        let [VALUE, value @ .., TIME] = head else { return None };
        let time_ms = varint(&mut time, "a sample's time").ok()? as i64;
        time.is_empty().then(|| Self { time_ms, start_ms: 0, value: f64::from_le_bytes(*value) })
    }
}

/// The tags of a sample's value, which has 64 bits, and of its time.
const VALUE: u8 = 1 << 3 | 1;
const TIME: u8 = 2 << 3;

/// A measurement of its own, beside those that were only counted. Its labels are read as its version has them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exemplar<'a> {
    message: &'a [u8],
    /// Milliseconds since the Unix epoch; 0 when it has none.
    pub time_ms: i64,
    /// What was measured.
    pub value: f64,
}

impl<'a> Exemplar<'a> {
    fn read(message: &'a [u8]) -> Result<Self, Error> {
        let mut exemplar = Self { message, time_ms: 0, value: 0.0 };
        for field in Fields::new(message) {
            match field? {
                (2, value) => exemplar.value = value.double("an exemplar's value is not a double")?,
                (3, time) => exemplar.time_ms = time.varint("an exemplar's time is not a number")? as i64,
                _ => {}
            }
        }
        Ok(exemplar)
    }
}

/// What a sender says of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata<'a> {
    /// What it is.
    pub kind: MetricKind,
    /// The metric's name, without the suffixes of a classic histogram.
    pub family: &'a str,
    /// A sentence for people.
    pub help: &'a str,
    /// Its unit, mostly empty.
    pub unit: &'a str,
}

/// The type that has number `code` in both versions.
fn metric_kind(code: u64) -> MetricKind {
    match code {
        1 => MetricKind::Counter,
        2 => MetricKind::Gauge,
        3 => MetricKind::Histogram,
        4 => MetricKind::GaugeHistogram,
        5 => MetricKind::Summary,
        6 => MetricKind::Info,
        7 => MetricKind::StateSet,
        _ => MetricKind::Unknown,
    }
}

/// The fields `number` of `message`, which are messages.
fn messages<'a>(
    message: &'a [u8],
    number: u32,
    what: &'static str,
) -> impl Iterator<Item = Result<&'a [u8], Error>> + use<'a> {
    Fields::new(message).filter_map(move |field| match field {
        Ok((found, value)) => (found == number).then(|| value.bytes(what)),
        Err(error) => Some(Err(error)),
    })
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod v2_tests;
