//! A request as a batch: what the store takes.
//!
//! Remote write numbers nothing, so the receiver does: a request that is sent again comes under another number. That is
//! harmless, because its samples are states at an instant and the same state twice is one.

use ogive_model::{
    Batch, Error as SeriesError, Kind, Labels, Reason, Sample, SeriesDef, SeriesMeta, Temporality, Value,
};
use ogive_model::{SourceId, Tenant};

use super::known::{Declared, Ids, KeySeed, Known};
use super::{Counts, Metadata, Native, Part, Sample as Sampled, TimeSeries, parts};
use crate::Error;

/// The names of metrics that only grow, by the convention of OpenMetrics: a counter, and the parts of a classic histogram
/// or summary.
const CUMULATIVE: [&str; 4] = ["_total", "_count", "_sum", "_bucket"];

/// Marks the number of a known series until it is known how many are declared in front of them.
const KNOWN: u32 = 1 << 31;

/// Descriptions kept of what is wrong: the first few tell a person enough.
const DETAILS_MAX: usize = 10;

/// A request that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    /// Its samples. A sample that breaks a rule carries the reason.
    pub batch: Batch,
    /// What is wrong with the first bad samples: index into the batch's, and a sentence.
    pub details: Vec<(u32, String)>,
    /// Exemplars, which are not stored.
    pub exemplars: u64,
    /// The series that the batch declares, to be remembered when it is stored whole.
    pub declared: Declared,
}

/// Reads the request in `message` into the batch `sequence` of `source`. Series that `known` has are named by their identity.
/// `learn` hears what the sender says of its metrics.
///
/// # Errors
/// When the parts of the request cannot be told from each other; a part that breaks a rule is an error in the batch.
pub fn read(
    message: &[u8],
    tenant: &Tenant,
    source: SourceId,
    sequence: u64,
    known: Option<&Known>,
    mut learn: impl FnMut(&Metadata<'_>),
) -> Result<Read, Error> {
    let batch = Batch { source, sequence, tenant: tenant.clone(), ..Batch::default() };
    let read = Read { batch, details: Vec::new(), exemplars: 0, declared: Declared::default() };
    let ids = known.map(Known::ids);
    let mut reader = Reader { read, seed: KeySeed::of(tenant), ids: ids.as_deref() };
    for part in parts(message) {
        match part? {
            Part::Series(series) => reader.series(&series)?,
            Part::Metadata(metadata) => learn(&metadata),
        }
    }
    Ok(reader.finish())
}

/// A request that is being read.
struct Reader<'k> {
    read: Read,
    seed: KeySeed,
    ids: Option<&'k Ids>,
}

impl Reader<'_> {
    fn series(&mut self, series: &TimeSeries<'_>) -> Result<(), Error> {
        self.read.exemplars += series.exemplars() as u64;
        let mut number = None;
        for sample in series.samples() {
            let Sampled { time_ms, value } = sample?;
            let number = *number.get_or_insert_with(|| self.number(series, Kind::Float, false));
            self.read.take(number, time_ms, Ok(Value::Float(value)));
        }
        let mut number = None;
        for native in series.histograms() {
            let Native { time_ms, histogram } = native?;
            let is_gauge = matches!(&histogram, Ok(counts) if counts.is_gauge());
            let number = *number.get_or_insert_with(|| self.number(series, Kind::Histogram, is_gauge));
            let value = histogram.map(|counts| match counts {
                Counts::Integer(histogram) => Value::Histogram(histogram),
                Counts::Float(histogram) => Value::FloatHistogram(histogram),
            });
            self.read.take(number, time_ms, value.map_err(|rule| (Reason::HistogramInvalid, rule)));
        }
        Ok(())
    }

    /// The batch's number for `series`.
    fn number(&mut self, series: &TimeSeries<'_>, kind: Kind, is_gauge: bool) -> u32 {
        let key = series.label_bytes().ok().map(|bytes| self.seed.key(kind, bytes));
        if let Some(id) = key.and_then(|key| self.ids?.get(&key.0)) {
            self.read.batch.known.push(*id);
            return KNOWN | (self.read.batch.known.len() as u32 - 1);
        }
        let labels = labels_of(series);
        let temporality = match (kind, &labels) {
            (Kind::Histogram, _) if !is_gauge => Temporality::Cumulative,
            (Kind::Float, Ok(labels)) if is_cumulative(labels.metric_name()) => Temporality::Cumulative,
            _ => Temporality::Gauge,
        };
        self.read.declare(labels, kind, temporality);
        let batch = &self.read.batch;
        if let (Some(key), Some(Ok(series))) = (key, batch.series.last()) {
            self.read.declared.0.push((key, series.id(&batch.tenant)));
        }
        self.read.batch.series.len() as u32 - 1
    }

    fn finish(mut self) -> Read {
        let declared = self.read.batch.series.len() as u32;
        for sample in self.read.batch.samples.iter_mut().flatten().filter(|sample| sample.series & KNOWN != 0) {
            sample.series = declared + (sample.series ^ KNOWN);
        }
        self.read
    }
}

fn is_cumulative(name: &str) -> bool {
    CUMULATIVE.iter().any(|end| name.ends_with(end))
}

impl Read {
    fn declare(&mut self, labels: Result<Labels, SeriesError>, kind: Kind, temporality: Temporality) {
        let meta = SeriesMeta { kind, temporality, unit: String::new(), width_ms: 0 };
        let named = labels.and_then(|labels| match labels.metric_name() {
            "" => Err(SeriesError::NoMetricName),
            _ => Ok(SeriesDef { labels, meta }),
        });
        self.batch.series.push(named);
    }

    fn take(&mut self, series: u32, time_ms: i64, value: Result<Value, (Reason, &'static str)>) {
        let index = self.batch.samples.len() as u32;
        let time_ns = time_ms.checked_mul(1_000_000);
        let sample = match (value, time_ns) {
            (Ok(value), Some(time_ns)) => Ok(Sample { series, time_ns, start_ns: None, value }),
            (Ok(_), None) => Err(if time_ms > 0 { Reason::TimeTooNew } else { Reason::TimeTooOld }),
            (Err((reason, rule)), _) => {
                self.detail(index, || rule.to_owned());
                Err(reason)
            }
        };
        if let Some(Err(error)) = self.batch.series.get(series as usize) {
            let error = error.to_string();
            self.detail(index, || error);
        }
        self.batch.samples.push(sample);
    }

    fn detail(&mut self, sample: u32, text: impl FnOnce() -> String) {
        if self.details.len() < DETAILS_MAX {
            self.details.push((sample, text()));
        }
    }
}

fn labels_of(series: &TimeSeries<'_>) -> Result<Labels, SeriesError> {
    let pairs: Result<Vec<(&str, &str)>, Error> = series.labels().collect();
    Labels::new(pairs.map_err(|error| SeriesError::Malformed(error.to_string()))?)
}
