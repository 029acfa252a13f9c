//! The batches of the bench as OTLP requests: a gauge's points, or exponential histograms of deltas.

use ogive_model::{Batch, Sample, SeriesDef, Value};

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn bytes(out: &mut Vec<u8>, field: u8, value: &[u8]) {
    out.push(field << 3 | 2);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

fn fixed64(out: &mut Vec<u8>, field: u8, value: u64) {
    out.push(field << 3 | 1);
    out.extend_from_slice(&value.to_le_bytes());
}

/// A point whose attributes are all labels but the name.
fn point(series: &SeriesDef, sample: &Sample) -> Vec<u8> {
    let mut out = Vec::new();
    let attributes = if matches!(sample.value, Value::Float(_)) { 7 } else { 1 };
    for (name, value) in series.labels.iter().skip(1) {
        let (mut text, mut pair) = (Vec::new(), Vec::new());
        bytes(&mut text, 1, value.as_bytes());
        bytes(&mut pair, 1, name.as_bytes());
        bytes(&mut pair, 2, &text);
        bytes(&mut out, attributes, &pair);
    }
    fixed64(&mut out, 2, sample.time_ns as u64 - 1_000_000_000);
    fixed64(&mut out, 3, sample.time_ns as u64);
    match &sample.value {
        Value::Float(value) => fixed64(&mut out, 4, value.to_bits()),
        Value::Histogram(histogram) => {
            // As many bins as the cell has, beside each other: what SDKs make of such a second.
            fixed64(&mut out, 4, histogram.count);
            fixed64(&mut out, 5, histogram.sum.unwrap_or(0.0).to_bits());
            out.extend_from_slice(&[6 << 3, 8]);
            let (mut counts, mut bins) = (Vec::new(), vec![1 << 3, 99]);
            histogram.positive.counts().iter().for_each(|count| varint(&mut counts, *count));
            bytes(&mut bins, 2, &counts);
            bytes(&mut out, 8, &bins);
        }
        other => unreachable!("{other:?}"),
    }
    out
}

/// The request that brings the samples of `batch`, all of one metric.
pub(crate) fn request(batch: &Batch) -> Vec<u8> {
    let mut data = Vec::new();
    let first = batch.series[0].as_ref().unwrap();
    for sample in batch.samples.iter().flatten() {
        bytes(&mut data, 1, &point(batch.series[sample.series as usize].as_ref().unwrap(), sample));
    }
    let is_float = matches!(batch.samples[0].as_ref().unwrap().value, Value::Float(_));
    data.extend_from_slice(&[2 << 3, 1]);
    let (mut metric, mut scope, mut resource, mut out) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    bytes(&mut metric, 1, first.labels.metric_name().as_bytes());
    bytes(&mut metric, if is_float { 5 } else { 10 }, &data);
    bytes(&mut scope, 2, &metric);
    bytes(&mut resource, 2, &scope);
    bytes(&mut out, 1, &resource);
    out
}
