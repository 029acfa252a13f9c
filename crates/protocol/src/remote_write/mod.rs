//! Prometheus remote write 1.0: the message `prometheus.WriteRequest`.
//!
//! Format: prometheus.io/docs/specs/prw/remote_write_spec and `prompb/{remote,types}.proto` of github.com/prometheus/prometheus.
//! Unknown fields are skipped, as protobuf wants it.
//! Invariants: a message is read where it lies; a series that breaks a rule is an error of its own, and the next one can be read.

mod batch;
pub(crate) mod known;
mod native;

use ogive_model::MetricKind;

use crate::Error;
use crate::protobuf::Fields;

pub use batch::{Read, read};
pub use known::{Declared, Known};
pub use native::{Counts, Native};
pub(crate) use native::{Number, Raw, SidePart};

/// One part of a request.
#[derive(Clone, Debug)]
pub enum Part<'a> {
    /// Samples of one series.
    Series(TimeSeries<'a>),
    /// What is known of a metric.
    Metadata(Metadata<'a>),
}

/// The parts of the request in `message`. An error ends them: what follows cannot be found.
pub fn parts(message: &[u8]) -> impl Iterator<Item = Result<Part<'_>, Error>> {
    Fields::new(message).filter_map(|field| match field {
        Ok((1, value)) => {
            Some(value.bytes("a time series is not a message").map(|bytes| Part::Series(TimeSeries::new(bytes))))
        }
        Ok((3, value)) => Some(value.bytes("metadata is not a message").and_then(Metadata::read).map(Part::Metadata)),
        Ok(_) => None,
        Err(error) => Some(Err(error)),
    })
}

/// Labels, and samples, histograms and exemplars of one series: a `prometheus.TimeSeries`.
#[derive(Clone, Copy, Debug)]
pub struct TimeSeries<'a> {
    message: &'a [u8],
    /// Length of the labels, when they come first.
    labels: usize,
}

impl<'a> TimeSeries<'a> {
    fn new(message: &'a [u8]) -> Self {
        let mut fields = Fields::new(message);
        let mut labels = 0;
        while let Some(Ok((1, _))) = fields.next() {
            labels = message.len() - fields.remaining();
        }
        Self { message, labels }
    }

    /// The labels as they lie, when all of them come first, as every known sender writes them: equal bytes are equal
    /// labels, so who has seen them need not read them again.
    ///
    /// # Errors
    /// When labels follow samples, or the message is broken.
    pub fn label_bytes(&self) -> Result<&'a [u8], Error> {
        for field in Fields::new(&self.message[self.labels..]) {
            if field?.0 == 1 {
                return Err(Error::Malformed { what: "a series has labels behind its samples; write labels first" });
            }
        }
        Ok(&self.message[..self.labels])
    }

    /// Name and value of each label, in the sender's order.
    pub fn labels(&self) -> impl Iterator<Item = Result<(&'a str, &'a str), Error>> + use<'a> {
        self.fields(1, "a label is not a message").map(|bytes| label(bytes?))
    }

    /// Each float sample.
    pub fn samples(&self) -> impl Iterator<Item = Result<Sample, Error>> + use<'a> {
        self.rest(2, "a sample is not a message").map(|bytes| Sample::read(bytes?))
    }

    /// Each native histogram.
    pub fn histograms(&self) -> impl Iterator<Item = Result<Native, Error>> + use<'a> {
        self.rest(4, "a histogram is not a message").map(|bytes| Native::read(bytes?))
    }

    /// How many exemplars there are.
    #[must_use]
    pub fn exemplars(&self) -> usize {
        self.rest(3, "an exemplar is not a message").filter(Result::is_ok).count()
    }

    fn fields(&self, number: u32, what: &'static str) -> impl Iterator<Item = Result<&'a [u8], Error>> + use<'a> {
        messages(self.message, number, what)
    }

    /// Those behind the labels that come first.
    fn rest(&self, number: u32, what: &'static str) -> impl Iterator<Item = Result<&'a [u8], Error>> + use<'a> {
        messages(&self.message[self.labels..], number, what)
    }
}

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

fn label(message: &[u8]) -> Result<(&str, &str), Error> {
    let (mut name, mut value) = ("", "");
    for field in Fields::new(message) {
        match field? {
            (1, text) => name = text.text("a label's name is not UTF-8")?,
            (2, text) => value = text.text("a label's value is not UTF-8")?,
            _ => {}
        }
    }
    Ok((name, value))
}

/// A number at an instant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Milliseconds since the Unix epoch.
    pub time_ms: i64,
    /// The number, bit for bit: a stale marker is a NaN with bits of its own.
    pub value: f64,
}

impl Sample {
    fn read(message: &[u8]) -> Result<Self, Error> {
        let mut sample = Self { time_ms: 0, value: 0.0 };
        for field in Fields::new(message) {
            match field? {
                (1, value) => sample.value = value.double("a sample's value is not a double")?,
                (2, time) => sample.time_ms = time.varint("a sample's time is not a number")? as i64,
                _ => {}
            }
        }
        Ok(sample)
    }
}

/// What a sender knows of a metric: a `prometheus.MetricMetadata`.
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

impl<'a> Metadata<'a> {
    fn read(message: &'a [u8]) -> Result<Self, Error> {
        let mut metadata = Self { kind: MetricKind::Unknown, family: "", help: "", unit: "" };
        for field in Fields::new(message) {
            match field? {
                (1, kind) => metadata.kind = metric_kind(kind.varint("a metric's type is not a number")?),
                (2, text) => metadata.family = text.text("a metric's name is not UTF-8")?,
                (4, text) => metadata.help = text.text("a metric's help is not UTF-8")?,
                (5, text) => metadata.unit = text.text("a metric's unit is not UTF-8")?,
                _ => {}
            }
        }
        Ok(metadata)
    }
}

/// The type that has number `code` in both versions of the protocol.
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

#[cfg(test)]
mod tests;
