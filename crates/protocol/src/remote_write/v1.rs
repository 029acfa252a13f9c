//! Version 1.0: each series has its labels as strings.

use ogive_model::{BatchId, Error as SeriesError, Kind, Labels, SourceId, Tenant};

use super::batch::{Builder, held_or};
use super::known::KnownSeries;
use super::{DecodedRequest, Exemplar, Metadata, Native, Sample, messages, metric_kind};
use crate::Error;
use crate::protobuf::Fields;

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

/// Field 1, of bytes.
const LABEL_TAG: u8 = 1 << 3 | 2;

/// Labels, and samples, histograms and exemplars of one series: a `prometheus.TimeSeries`.
#[derive(Clone, Copy, Debug)]
pub struct TimeSeries<'a> {
    message: &'a [u8],
    /// Length of the labels, when they come first.
    labels: usize,
    behind: TrailingFields,
}

/// Which fields are behind the labels, so that each is looked for only where there is one.
#[derive(Clone, Copy, Debug, Default)]
struct TrailingFields {
    labels: bool,
    samples: bool,
    exemplars: bool,
    histograms: bool,
}

impl TrailingFields {
    /// Of a message that is broken somewhere, which is to be found by who reads it.
    const ANYTHING: Self = Self { labels: true, samples: true, exemplars: true, histograms: true };
}

impl<'a> TimeSeries<'a> {
    fn new(message: &'a [u8]) -> Self {
        let mut labels = short_labels(message);
        let mut fields = Fields::new(&message[labels..]);
        let (mut behind, mut is_first) = (TrailingFields::default(), true);
        while let Some(field) = fields.next() {
            let Ok((number, _)) = field else {
                behind = TrailingFields::ANYTHING;
                break;
            };
            is_first &= number == 1;
            match number {
                1 if is_first => labels = message.len() - fields.remaining(),
                1 => behind.labels = true,
                2 => behind.samples = true,
                3 => behind.exemplars = true,
                4 => behind.histograms = true,
                _ => {}
            }
        }
        Self { message, labels, behind }
    }

    /// The labels as they lie, when all of them come first, as every known sender writes them: equal bytes are equal
    /// labels, so who has seen them need not read them again.
    ///
    /// # Errors
    /// When labels follow samples, or the message is broken.
    pub fn label_bytes(&self) -> Result<&'a [u8], Error> {
        for field in Fields::new(self.those(self.behind.labels)) {
            if field?.0 == 1 {
                return Err(Error::Malformed { what: "a series has labels behind its samples; write labels first" });
            }
        }
        Ok(&self.message[..self.labels])
    }

    /// Name and value of each label, in the sender's order.
    pub fn labels(&self) -> impl Iterator<Item = Result<(&'a str, &'a str), Error>> + use<'a> {
        labels(self.message)
    }

    /// Each float sample.
    pub fn samples(&self) -> impl Iterator<Item = Result<Sample, Error>> + use<'a> {
        self.rest(2, self.behind.samples, "a sample is not a message").map(|bytes| Sample::read(bytes?))
    }

    /// Each exemplar.
    pub fn exemplars(&self) -> impl Iterator<Item = Result<Exemplar<'a>, Error>> + use<'a> {
        self.rest(3, self.behind.exemplars, "an exemplar is not a message").map(|bytes| Exemplar::read(bytes?))
    }

    /// Each native histogram.
    pub fn histograms(&self) -> impl Iterator<Item = Result<Native, Error>> + use<'a> {
        self.rest(4, self.behind.histograms, "a histogram is not a message").map(|bytes| Native::read(bytes?))
    }

    /// Those behind the labels that come first, when there is any.
    fn rest(
        &self,
        number: u32,
        any: bool,
        what: &'static str,
    ) -> impl Iterator<Item = Result<&'a [u8], Error>> + use<'a> {
        messages(self.those(any), number, what)
    }

    fn those(&self, any: bool) -> &'a [u8] {
        if any { &self.message[self.labels..] } else { &[] }
    }
}

/// Length of the labels at the front of `message` up to the first that is longer than 127 bytes: nearly all are short,
/// and their tags and lengths are a byte each.
fn short_labels(message: &[u8]) -> usize {
    let mut rest = message;
    while let [LABEL_TAG, length @ 0..=0x7f, tail @ ..] = rest {
        let Some(behind) = tail.get(usize::from(*length)..) else { break };
        rest = behind;
    }
    message.len() - rest.len()
}

/// The labels of a series or an exemplar.
fn labels(message: &[u8]) -> impl Iterator<Item = Result<(&str, &str), Error>> {
    messages(message, 1, "a label is not a message").map(|bytes| label(bytes?))
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

impl<'a> Metadata<'a> {
    fn read(message: &'a [u8]) -> Result<Self, Error> {
        let mut metadata = Self { kind: metric_kind(0), family: "", help: "", unit: "" };
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

/// Reads the request in `message` into the batch `sequence` of `source`. Series that `known` has are named by their
/// identity. `learn` hears what the sender says of its metrics.
///
/// # Errors
/// When the parts of the request cannot be distinguished from each other; a part that breaks a rule is an error in the
/// batch.
pub fn read(
    message: &[u8],
    tenant: &Tenant,
    source: SourceId,
    sequence: u64,
    known: Option<&KnownSeries>,
    mut learn: impl FnMut(&Metadata<'_>),
) -> Result<DecodedRequest, Error> {
    let ids = known.map(KnownSeries::ids);
    let mut builder = Builder::new(tenant, BatchId { source, sequence }, ids.as_deref(), message.len());
    for part in parts(message) {
        match part? {
            Part::Series(series) => take(&mut builder, &series)?,
            Part::Metadata(metadata) => learn(&metadata),
        }
    }
    Ok(builder.finish())
}

fn take(builder: &mut Builder<'_>, series: &TimeSeries<'_>) -> Result<(), Error> {
    let seed = builder.begin_series();
    let key = |kind| series.label_bytes().ok().map(|bytes| seed.key(kind, bytes));
    let labels = || labels_of(series.labels());
    let mut number = None;
    for sample in series.samples() {
        let sample = sample?;
        let number = held_or(&mut number, || builder.float(key(Kind::Float), labels))?;
        builder.take_float(number, sample)?;
    }
    let mut number = None;
    for native in series.histograms() {
        let native = native?;
        let number = held_or(&mut number, || builder.histogram(key(Kind::Histogram), native.is_gauge(), labels))?;
        builder.take_histogram(number, native)?;
    }
    let mut number = None;
    for exemplar in series.exemplars() {
        let exemplar = exemplar?;
        let number = held_or(&mut number, || builder.exemplars(key(Kind::Text), labels))?;
        builder.take_exemplar(number, exemplar.time_ms, exemplar.value, labels_of(self::labels(exemplar.message)))?;
    }
    Ok(())
}

fn labels_of<'a>(pairs: impl Iterator<Item = Result<(&'a str, &'a str), Error>>) -> Result<Labels, SeriesError> {
    let pairs: Result<Vec<(&str, &str)>, Error> = pairs.collect();
    Labels::new(pairs.map_err(|error| SeriesError::Malformed(error.to_string()))?)
}
