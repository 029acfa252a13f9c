//! A request as a batch for the store.
//!
//! Limits: those of [`Room`].
//!
//! Remote write has no sequence numbers, so the receiver assigns them: a request that is sent again gets another
//! number. That is harmless, because its samples are states at an instant and the same state twice is one.

use ogive_model::{
    Batch, Error as SeriesError, Exemplar, Kind, Labels, Reason, Sample, SeriesDef, SeriesId, SeriesMeta, Temporality,
    Value,
};
use ogive_model::{BatchId, Tenant};

use super::known::{Declared, Ids, Key, KeySeed, Lookup};
use super::{Counts, Native, Sample as Sampled};
use crate::Error;
use crate::room::{Room, sample_bytes, series_bytes};

/// The names of metrics that only grow, by the convention of OpenMetrics: a counter, and the parts of a classic
/// histogram or summary. Version 2.0 says types too, but not always from the first sample on, and what a series is must
/// not change.
const CUMULATIVE: [&str; 4] = ["_total", "_count", "_sum", "_bucket"];

/// Marks the number of a known series until it is known how many are declared in front of them.
const KNOWN: u32 = 1 << 31;

/// Descriptions kept of what is wrong: the first few are enough for a person.
const DETAILS_MAX: usize = 10;

/// A request that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct DecodedRequest {
    /// Its samples. A sample that breaks a rule carries the reason. An exemplar is a text.
    pub batch: Batch,
    /// What each sample is, also one that breaks a rule.
    pub kinds: Vec<Kind>,
    /// What is wrong with the first bad samples: index into the batch's, and a sentence.
    pub details: Vec<(u32, String)>,
    /// The series that the batch declares, to be remembered when it is stored whole.
    pub declared: Declared,
    /// About what it takes in memory.
    pub memory_bytes: usize,
}

/// A request that is being read. A series is looked up by its key, and its labels are read only when that fails.
pub(super) struct Builder<'k> {
    read: DecodedRequest,
    seed: KeySeed,
    known: Option<Lookup<'k>>,
    /// Of the last sample, for exemplars without a time.
    time_ms: i64,
    room: Room,
}

impl<'k> Builder<'k> {
    pub(super) fn new(
        tenant: &Tenant,
        BatchId { source, sequence }: BatchId,
        ids: Option<&'k Ids>,
        body: usize,
    ) -> Self {
        let batch = Batch { source, sequence, tenant: tenant.clone(), ..Batch::default() };
        let read = DecodedRequest {
            batch,
            kinds: Vec::new(),
            details: Vec::new(),
            declared: Declared::default(),
            memory_bytes: 0,
        };
        Self {
            read,
            seed: KeySeed::from_tenant(tenant),
            known: ids.map(Lookup::new),
            time_ms: 0,
            room: Room::new(body),
        }
    }

    /// What follows is of another series than what was before; its keys are made with the seed.
    pub(super) fn begin_series(&mut self) -> KeySeed {
        self.time_ms = 0;
        self.seed
    }

    /// The batch's number for the float series with `labels`.
    pub(super) fn float(
        &mut self,
        key: Option<Key>,
        labels: impl FnOnce() -> Result<Labels, SeriesError>,
    ) -> Result<u32, Error> {
        self.number(key, || {
            let labels = labels();
            let temporality = match &labels {
                Ok(labels) if is_cumulative(labels.metric_name()) => Temporality::Cumulative,
                _ => Temporality::Gauge,
            };
            (labels, Kind::Float, temporality)
        })
    }

    /// The batch's number for the histogram series with `labels`.
    pub(super) fn histogram(
        &mut self,
        key: Option<Key>,
        is_gauge: bool,
        labels: impl FnOnce() -> Result<Labels, SeriesError>,
    ) -> Result<u32, Error> {
        let temporality = if is_gauge { Temporality::Gauge } else { Temporality::Cumulative };
        self.number(key, || (labels(), Kind::Histogram, temporality))
    }

    /// The batch's number for the exemplars of the series with `labels`.
    pub(super) fn exemplars(
        &mut self,
        key: Option<Key>,
        labels: impl FnOnce() -> Result<Labels, SeriesError>,
    ) -> Result<u32, Error> {
        let of_exemplars = |labels: Labels| match labels.metric_name() {
            "" => Err(SeriesError::NoMetricName),
            _ => Ok(Exemplar::series_labels(&labels)),
        };
        self.number(key, || (labels().and_then(of_exemplars), Kind::Text, Temporality::Gauge))
    }

    fn number(
        &mut self,
        key: Option<Key>,
        declare: impl FnOnce() -> (Result<Labels, SeriesError>, Kind, Temporality),
    ) -> Result<u32, Error> {
        if let Some(id) = key.and_then(|key| self.known.as_mut()?.find(key)) {
            self.room.take(size_of::<SeriesId>())?;
            self.read.batch.known.push(id);
            return Ok(KNOWN | (self.read.batch.known.len() as u32 - 1));
        }
        let (labels, kind, temporality) = declare();
        self.read.declare(labels, kind, temporality);
        let batch = &self.read.batch;
        self.room.take(series_bytes(batch.series.last().and_then(|series| series.as_ref().ok())))?;
        if let (Some(key), Some(Ok(series))) = (key, batch.series.last()) {
            self.read.declared.0.push((key, series.id(&batch.tenant)));
        }
        Ok(self.read.batch.series.len() as u32 - 1)
    }

    pub(super) fn take_float(
        &mut self,
        series: u32,
        Sampled { time_ms, start_ms, value }: Sampled,
    ) -> Result<(), Error> {
        self.time_ms = time_ms;
        self.take(series, Kind::Float, time_ms, start_ms, Ok(Value::Float(value)))
    }

    pub(super) fn take_histogram(
        &mut self,
        series: u32,
        Native { time_ms, start_ms, histogram }: Native,
    ) -> Result<(), Error> {
        let value = histogram.map(|counts| match counts {
            Counts::Integer(histogram) => Value::Histogram(histogram),
            Counts::Float(histogram) => Value::FloatHistogram(histogram),
        });
        self.time_ms = time_ms;
        let value = value.map_err(|rule| (Reason::HistogramInvalid, rule.to_owned()));
        self.take(series, Kind::Histogram, time_ms, start_ms, value)
    }

    pub(super) fn take_exemplar(
        &mut self,
        series: u32,
        time_ms: i64,
        value: f64,
        labels: Result<Labels, SeriesError>,
    ) -> Result<(), Error> {
        let text = labels.and_then(|labels| Exemplar { labels, value }.to_text());
        let text = text.map(Value::Text).map_err(|error| match error {
            SeriesError::TooLarge { .. } => (Reason::TextTooLarge, error.to_string()),
            error => (Reason::LabelsInvalid, error.to_string()),
        });
        let time_ms = if time_ms == 0 { self.time_ms } else { time_ms };
        self.take(series, Kind::Text, time_ms, 0, text)
    }

    fn take(
        &mut self,
        series: u32,
        kind: Kind,
        time_ms: i64,
        start_ms: i64,
        value: Result<Value, (Reason, String)>,
    ) -> Result<(), Error> {
        self.room.take(sample_bytes(value.as_ref().map_err(|(reason, _)| reason)))?;
        self.read.take(series, kind, time_ms, start_ms, value);
        Ok(())
    }

    pub(super) fn finish(mut self) -> DecodedRequest {
        let declared = self.read.batch.series.len() as u32;
        for sample in self.read.batch.samples.iter_mut().flatten().filter(|sample| sample.series & KNOWN != 0) {
            sample.series = declared + (sample.series ^ KNOWN);
        }
        self.read.memory_bytes = self.room.taken();
        self.read
    }
}

/// The number of a series that was asked for already, or the one that `make` gives it.
#[inline]
pub(super) fn held_or(held: &mut Option<u32>, make: impl FnOnce() -> Result<u32, Error>) -> Result<u32, Error> {
    match held {
        Some(number) => Ok(*number),
        None => Ok(*held.insert(make()?)),
    }
}

fn is_cumulative(name: &str) -> bool {
    CUMULATIVE.iter().any(|end| name.ends_with(end))
}

/// What is known of a series of Prometheus by its name alone.
#[must_use]
pub fn meta_of_name(kind: Kind, name: &str) -> SeriesMeta {
    let grows = kind == Kind::Float && is_cumulative(name);
    let temporality = if grows { Temporality::Cumulative } else { Temporality::Gauge };
    SeriesMeta { kind, temporality, unit: String::new(), width_ms: 0 }
}

impl DecodedRequest {
    fn declare(&mut self, labels: Result<Labels, SeriesError>, kind: Kind, temporality: Temporality) {
        let meta = SeriesMeta { kind, temporality, unit: String::new(), width_ms: 0 };
        let named = labels.and_then(|labels| match labels.metric_name() {
            "" => Err(SeriesError::NoMetricName),
            _ => Ok(SeriesDef { labels, meta }),
        });
        self.batch.series.push(named);
    }

    fn take(&mut self, series: u32, kind: Kind, time_ms: i64, start_ms: i64, value: Result<Value, (Reason, String)>) {
        let index = self.batch.samples.len() as u32;
        let sample = match (value, time_ms.checked_mul(1_000_000)) {
            (Ok(value), Some(time_ns)) => {
                // A start that is not before its time says nothing: some senders repeat the time.
                let start_ns = (0 < start_ms && start_ms < time_ms).then(|| start_ms * 1_000_000);
                Ok(Sample { series, time_ns, start_ns, value })
            }
            (Ok(_), None) => Err(if time_ms > 0 { Reason::TimeTooNew } else { Reason::TimeTooOld }),
            (Err((reason, rule)), _) => {
                self.detail(index, || rule);
                Err(reason)
            }
        };
        if let Some(Err(error)) = self.batch.series.get(series as usize) {
            let error = error.to_string();
            self.detail(index, || error);
        }
        self.batch.samples.push(sample);
        self.kinds.push(kind);
    }

    fn detail(&mut self, sample: u32, text: impl FnOnce() -> String) {
        if self.details.len() < DETAILS_MAX {
            self.details.push((sample, text()));
        }
    }
}
