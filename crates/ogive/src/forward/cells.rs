//! Cells as requests.

use ogive_model::{Batch, HistogramValue, Sample, SeriesData, SeriesDef, SourceId, Tenant, Value};

use super::config::Form;
use super::state::Request;

/// 5,000 samples of a request: what an Ogive makes durable at once, and a few hundred KB of native histograms.
const SAMPLES_MAX: usize = 5_000;
/// 1,000 series of a request.
const SERIES_MAX: usize = 1_000;

/// `series` as requests of `form`; batches are numbered on from `sequence`.
pub(super) fn requests(
    series: Vec<SeriesData>,
    form: Form,
    tenant: &Tenant,
    (source, sequence): (SourceId, u64),
) -> anyhow::Result<Vec<Request>> {
    let mut out: Vec<Request> = Vec::new();
    for part in parts(series) {
        let samples = part.iter().map(|one| one.floats.times.len() + one.histograms.times.len()).sum::<usize>() as u32;
        let body = match form {
            Form::RemoteWrite => {
                let message = ogive_protocol::remote_write::write_request(&part);
                if message.is_empty() {
                    continue;
                }
                ogive_protocol::snappy::pack(&message)?
            }
            Form::Batch => batch(&part, tenant, (source, sequence + out.len() as u64)).encode()?,
        };
        out.push(Request { samples, body });
    }
    Ok(out)
}

/// Series with numbers and distributions, so many together.
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

fn batch(series: &[SeriesData], tenant: &Tenant, (source, sequence): (SourceId, u64)) -> Batch {
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
