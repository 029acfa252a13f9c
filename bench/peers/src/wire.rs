//! The bytes of a request: remote write 1.0, and Ogive's batch.

use ogive_hist::{Bins, Histogram, Scheme};

use crate::data::Sample;

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn tag(out: &mut Vec<u8>, field: u32, kind: u32) {
    varint(out, u64::from(field << 3 | kind));
}

fn bytes(out: &mut Vec<u8>, field: u32, value: &[u8]) {
    tag(out, field, 2);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

fn number(out: &mut Vec<u8>, field: u32, value: u64) {
    tag(out, field, 0);
    varint(out, value);
}

fn double(out: &mut Vec<u8>, field: u32, value: f64) {
    tag(out, field, 1);
    out.extend_from_slice(&value.to_le_bytes());
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// A remote write message that grows by series.
#[derive(Default)]
pub struct WriteRequest {
    message: Vec<u8>,
    pub samples: usize,
}

impl WriteRequest {
    pub fn floats(&mut self, labels: &[(String, String)], samples: &[Sample]) {
        let mut series = labels_of(labels);
        let mut one = Vec::new();
        for sample in samples {
            one.clear();
            double(&mut one, 1, sample.value);
            number(&mut one, 2, sample.time_ms as u64);
            bytes(&mut series, 2, &one);
        }
        bytes(&mut self.message, 1, &series);
        self.samples += samples.len();
    }

    /// One cumulative native histogram.
    pub fn histogram(&mut self, labels: &[(String, String)], histogram: &Histogram, time_ms: i64) {
        let mut series = labels_of(labels);
        bytes(&mut series, 4, &native(histogram, time_ms));
        bytes(&mut self.message, 1, &series);
        self.samples += 1;
    }

    /// The body: one snappy block.
    pub fn body(&self) -> Vec<u8> {
        snap::raw::Encoder::new().compress_vec(&self.message).expect("a request is far below 4 GiB")
    }
}

fn labels_of(labels: &[(String, String)]) -> Vec<u8> {
    let (mut out, mut label) = (Vec::new(), Vec::new());
    for (name, value) in labels {
        label.clear();
        bytes(&mut label, 1, name.as_bytes());
        bytes(&mut label, 2, value.as_bytes());
        bytes(&mut out, 1, &label);
    }
    out
}

fn native(histogram: &Histogram, time_ms: i64) -> Vec<u8> {
    let Scheme::Exp2 { scale } = histogram.scheme else { panic!("native histograms are exponential") };
    let mut out = Vec::new();
    number(&mut out, 1, histogram.count);
    double(&mut out, 3, histogram.sum.unwrap_or(0.0));
    number(&mut out, 4, zigzag(scale.into()));
    double(&mut out, 5, histogram.zero_threshold);
    number(&mut out, 6, histogram.zero);
    let (spans, deltas) = spans_of(&histogram.positive);
    for (offset, length) in spans {
        let mut span = Vec::new();
        number(&mut span, 1, zigzag(offset));
        number(&mut span, 2, length);
        bytes(&mut out, 11, &span);
    }
    let mut packed = Vec::new();
    deltas.iter().for_each(|delta| varint(&mut packed, zigzag(*delta)));
    bytes(&mut out, 12, &packed);
    number(&mut out, 15, time_ms as u64);
    out
}

fn spans_of(bins: &Bins<u64>) -> (Vec<(i64, u64)>, Vec<i64>) {
    let mut spans: Vec<(i64, u64)> = Vec::new();
    let (mut deltas, mut end, mut before) = (Vec::new(), 0_i64, 0_i64);
    for (index, count) in bins.iter() {
        let index = i64::from(index);
        match spans.last_mut() {
            Some(span) if index == end => span.1 += 1,
            _ => spans.push((index - end, 1)),
        }
        end = index + 1;
        deltas.push(count as i64 - before);
        before = count as i64;
    }
    (spans, deltas)
}
