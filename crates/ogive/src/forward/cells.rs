//! Cells as requests.

use std::collections::HashMap;

use ogive_model::{Batch, BatchId, HistogramValue, Sample, SeriesData, SeriesDef, Tenant, Value};

use super::config::Form;
use super::state::Request;

/// 5,000 samples in a request: as many as an Ogive makes durable at once, and a few hundred KB of native histograms.
const SAMPLES_MAX: usize = 5_000;
/// 1,000 series of a request.
const SERIES_MAX: usize = 1_000;

/// `series` as requests of `form`, and how many samples it has no place for; batches are numbered on from `sequence`.
pub(super) fn requests(
    series: Vec<SeriesData>,
    form: Form,
    tenant: &Tenant,
    BatchId { source, sequence }: BatchId,
) -> anyhow::Result<(Vec<Request>, u64)> {
    let (mut out, mut unfit): (Vec<Request>, u64) = (Vec::new(), 0);
    for part in parts(series) {
        let mut samples =
            part.iter().map(|one| one.floats.times.len() + one.histograms.times.len()).sum::<usize>() as u32;
        let body = match form {
            Form::RemoteWrite => {
                let message = ogive_protocol::remote_write::write_request(&part);
                if message.is_empty() {
                    continue;
                }
                ogive_protocol::snappy::pack(&message)?
            }
            Form::Otlp | Form::OtlpGrpc => {
                let written = ogive_protocol::otlp::write_request(&part);
                unfit += u64::from(written.unfit);
                samples -= written.unfit;
                if written.body.is_empty() {
                    continue;
                }
                written.body
            }
            Form::Batch => batch(&part, tenant, BatchId { source, sequence: sequence + out.len() as u64 }).encode()?,
        };
        out.push(Request { samples, body });
    }
    Ok((out, unfit))
}

/// Late samples as batches, unchanged; numbered on from `sequence`.
pub(super) fn late(
    samples: Vec<(SeriesDef, Sample)>,
    tenant: &Tenant,
    BatchId { source, sequence }: BatchId,
) -> anyhow::Result<Vec<Request>> {
    let mut out = Vec::new();
    for part in samples.chunks(SAMPLES_MAX) {
        let sequence = sequence + out.len() as u64;
        let mut batch = Batch { source, sequence, tenant: tenant.clone(), ..Batch::default() };
        let mut places = HashMap::new();
        for (def, sample) in part {
            let place = *places.entry(def.id(tenant)).or_insert_with(|| {
                batch.series.push(Ok(def.clone()));
                batch.series.len() as u32 - 1
            });
            batch.samples.push(Ok(Sample { series: place, ..sample.clone() }));
        }
        out.push(Request { samples: part.len() as u32, body: batch.encode()? });
    }
    Ok(out)
}

/// Series of numbers and of distributions, in groups of limited size.
fn parts(series: Vec<SeriesData>) -> Vec<Vec<SeriesData>> {
    let (mut out, mut part, mut samples) = (Vec::new(), Vec::new(), 0);
    for one in series {
        let count = one.floats.times.len() + one.histograms.times.len();
        if count == 0 {
            continue;
        }
        if !part.is_empty() && (samples + count > SAMPLES_MAX || part.len() == SERIES_MAX) {
            out.push(std::mem::take(&mut part));
            samples = 0;
        }
        samples += count;
        part.push(one);
    }
    if !part.is_empty() {
        out.push(part);
    }
    out
}

fn batch(series: &[SeriesData], tenant: &Tenant, BatchId { source, sequence }: BatchId) -> Batch {
    let mut out = Batch { source, sequence, tenant: tenant.clone(), ..Batch::default() };
    for (at, one) in series.iter().enumerate() {
        out.series.push(SeriesDef::new(one.labels.iter(), one.meta.clone()));
        let start_ns =
            |starts: &[i64], row: usize| starts.get(row).filter(|start| **start > 0).map(|start| start * 1_000_000);
        let sample = |time: &i64, start_ns: Option<i64>, value| {
            let time_ns = time.saturating_mul(1_000_000);
            Ok(Sample { series: at as u32, time_ns, start_ns: start_ns.filter(|start| *start < time_ns), value })
        };
        let floats = one.floats.times.iter().zip(&one.floats.values).enumerate();
        out.samples.extend(
            floats.map(|(row, (time, value))| sample(time, start_ns(&one.floats.starts, row), Value::Float(*value))),
        );
        let histograms = one.histograms.times.iter().zip(&one.histograms.values).enumerate();
        out.samples.extend(histograms.map(|(row, (time, value))| {
            let value = match value {
                HistogramValue::Integer(histogram) => Value::Histogram(Box::new(histogram.clone())),
                HistogramValue::Float(histogram) => Value::FloatHistogram(Box::new(histogram.clone())),
            };
            sample(time, start_ns(&one.histograms.starts, row), value)
        }));
    }
    out
}
