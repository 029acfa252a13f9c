//! A request as a batch: what the store takes.
//!
//! Remote write numbers nothing, so the receiver does: a request that is sent again comes under another number. That is
//! harmless, because its samples are states at an instant and the same state twice is one.

use ogive_model::{
    Batch, Error as SeriesError, Kind, Labels, Reason, Sample, SeriesDef, SeriesMeta, Temporality, Value,
};
use ogive_model::{SourceId, Tenant};

use super::{Counts, Native, Part, TimeSeries, parts};
use crate::Error;

/// The names of metrics that only grow, by the convention of OpenMetrics: a counter, and the parts of a classic histogram
/// or summary.
const CUMULATIVE: [&str; 4] = ["_total", "_count", "_sum", "_bucket"];

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
}

/// Reads the request in `message` into the batch `sequence` of `source`.
///
/// # Errors
/// When the parts of the request cannot be told from each other; a part that breaks a rule is an error in the batch.
pub fn read(message: &[u8], tenant: Tenant, source: SourceId, sequence: u64) -> Result<Read, Error> {
    let batch = Batch { source, sequence, tenant, ..Batch::default() };
    let mut read = Read { batch, details: Vec::new(), exemplars: 0 };
    for part in parts(message) {
        if let Part::Series(series) = part? {
            read.series(&series)?;
        }
    }
    Ok(read)
}

impl Read {
    fn series(&mut self, series: &TimeSeries<'_>) -> Result<(), Error> {
        self.exemplars += series.exemplars() as u64;
        let mut samples = series.samples().peekable();
        let mut histograms = series.histograms().peekable();
        if samples.peek().is_none() && histograms.peek().is_none() {
            return Ok(());
        }
        let labels = labels_of(series);
        if samples.peek().is_some() {
            let temporality = match &labels {
                Ok(labels) if CUMULATIVE.iter().any(|end| labels.metric_name().ends_with(end)) => {
                    Temporality::Cumulative
                }
                _ => Temporality::Gauge,
            };
            let number = self.declare(labels.clone(), Kind::Float, temporality);
            for sample in samples {
                let sample = sample?;
                self.take(number, sample.time_ms, Ok(Value::Float(sample.value)));
            }
        }
        let mut declared = None;
        for native in histograms {
            let Native { time_ms, histogram } = native?;
            let is_gauge = matches!(&histogram, Ok(counts) if counts.is_gauge());
            let temporality = if is_gauge { Temporality::Gauge } else { Temporality::Cumulative };
            let number = *declared.get_or_insert_with(|| self.declare(labels.clone(), Kind::Histogram, temporality));
            let value = histogram.map(|counts| match counts {
                Counts::Integer(histogram) => Value::Histogram(histogram),
                Counts::Float(histogram) => Value::FloatHistogram(histogram),
            });
            self.take(number, time_ms, value.map_err(|rule| (Reason::HistogramInvalid, rule)));
        }
        Ok(())
    }

    fn declare(&mut self, labels: Result<Labels, SeriesError>, kind: Kind, temporality: Temporality) -> u32 {
        let meta = SeriesMeta { kind, temporality, unit: String::new(), width_ms: 0 };
        let named = labels.and_then(|labels| match labels.metric_name() {
            "" => Err(SeriesError::NoMetricName),
            _ => Ok(SeriesDef { labels, meta }),
        });
        self.batch.series.push(named);
        self.batch.series.len() as u32 - 1
    }

    fn take(&mut self, series: u32, time_ms: i64, value: Result<Value, (Reason, &'static str)>) {
        let index = self.batch.samples.len() as u32;
        let time_ns = time_ms.checked_mul(1_000_000);
        let sample = match (value, time_ns) {
            (Ok(value), Some(time_ns)) => Ok(Sample { series, time_ns, value }),
            (Ok(_), None) => Err(if time_ms > 0 { Reason::TimeTooNew } else { Reason::TimeTooOld }),
            (Err((reason, rule)), _) => {
                self.detail(index, || rule.to_owned());
                Err(reason)
            }
        };
        if let Err(error) = &self.batch.series[series as usize] {
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
