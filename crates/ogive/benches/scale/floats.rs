//! Series of floats as a fleet of hosts has them, and the requests that bring their samples: declared, by identity, or
//! by remote write.
//!
//! Invariants: series and values are functions of their numbers, so that nothing but the identities is held, 16 bytes
//! each.

use std::ops::Range;

use ogive_model::{Batch, Kind, Sample, SeriesDef, SeriesId, SeriesMeta, SourceId, Temporality, Tenant, Value};

use crate::common::remote;
use crate::numbers::{mix, normal};
use crate::sender::{Form, LANES, Request};

pub(crate) const METRIC: &str = "bench_value";
/// Series of a host: what a query for one label value selects.
const HOST_SERIES: usize = 100;
/// Series of a request, one sample each: ten hosts behind one agent.
const REQUEST_SERIES: usize = 1_000;
/// A round of samples has at least so many, or the work would be small beside what the server does by itself.
const ROUND_SAMPLES_MIN: usize = 200_000;
/// Between two samples of a series.
pub(crate) const STEP_MS: i64 = 15_000;

/// The series that the server has, and up to when it has their samples.
pub(crate) struct Floats {
    wanted: usize,
    ids: Vec<SeriesId>,
    /// Requests of each lane whose series were declared.
    declared: Vec<usize>,
    /// Of the next step.
    pub(crate) time_ms: i64,
    /// Numbers sources apart.
    phases: u64,
}

impl Floats {
    /// `count` series, of which the first sample is at `time_ms`.
    pub(crate) fn new(count: usize, time_ms: i64) -> Self {
        let tenant = Tenant::default();
        let ids = (0..count).map(|index| definition(index).id(&tenant)).collect();
        Self { wanted: count, ids, declared: vec![0; LANES], time_ms, phases: 0 }
    }

    /// Steps of a round.
    pub(crate) fn round_steps(&self) -> usize {
        (ROUND_SAMPLES_MIN / self.wanted).max(1)
    }

    /// Series whose first samples were accepted.
    pub(crate) fn series(&self) -> usize {
        let of_lane = |(lane, requests): (usize, &usize)| -> usize {
            (0..*requests).filter_map(|number| self.range(lane, number)).map(|range| range.len()).sum()
        };
        self.declared.iter().enumerate().map(of_lane).sum()
    }

    /// The series of a lane's request.
    fn range(&self, lane: usize, number: usize) -> Option<Range<usize>> {
        let first = (number * LANES + lane) * REQUEST_SERIES;
        (first < self.wanted).then(|| first..self.wanted.min(first + REQUEST_SERIES))
    }

    /// The first samples of the series, declared with their labels: part `part` of `parts`.
    pub(crate) fn new_series(&self, part: usize, parts: usize) -> impl Fn(usize, usize) -> Option<Request> + Sync {
        let lane_requests = self.wanted.div_ceil(REQUEST_SERIES * LANES);
        let end = lane_requests * (part + 1) / parts;
        move |lane, number| {
            let at = self.declared[lane] + number;
            let range = self.range(lane, at).filter(|_| at < end)?;
            let batch = Batch {
                source: self.source(lane),
                sequence: number as u64,
                series: range.clone().map(|index| Ok(definition(index))).collect(),
                samples: samples(range, self.time_ms),
                ..Batch::default()
            };
            Some(request(&batch))
        }
    }

    /// `steps` further samples of each declared series.
    pub(crate) fn known_series(&self, form: Form, steps: usize) -> impl Fn(usize, usize) -> Option<Request> + Sync {
        move |lane, number| {
            let requests = self.declared[lane];
            // A lane without series has no request.
            let step = number.checked_div(requests).filter(|step| *step < steps)?;
            let range = self.range(lane, number % requests)?;
            let time_ms = self.time_ms + step as i64 * STEP_MS;
            if form == Form::RemoteWrite {
                return Some(written(range, time_ms));
            }
            let batch = Batch {
                source: self.source(lane),
                sequence: number as u64,
                known: self.ids[range.clone()].to_vec(),
                samples: samples(range, time_ms),
                ..Batch::default()
            };
            Some(request(&batch))
        }
    }

    /// Each phase and lane has a source of its own, which counts from 0.
    fn source(&self, lane: usize) -> SourceId {
        SourceId((u128::from(self.phases) << 64) | (lane as u128 + 1))
    }

    /// Takes note of the requests that declared series.
    pub(crate) fn declare(&mut self, requests: &[usize]) {
        self.declared.iter_mut().zip(requests).for_each(|(declared, more)| *declared += more);
        self.phases += 1;
    }

    /// Takes note of `steps` that were sent.
    pub(crate) fn advance(&mut self, steps: usize) {
        self.time_ms += steps as i64 * STEP_MS;
        self.phases += 1;
    }
}

/// The label value that selects the series of a host.
pub(crate) fn host_name(host: usize) -> String {
    format!("node-{host:06}.example.org")
}

/// Nine labels, in their order.
fn labels(index: usize) -> [(&'static str, String); 9] {
    let host = index / HOST_SERIES;
    [
        ("__name__", METRIC.to_owned()),
        ("cluster", format!("eu-{}", host % 4)),
        ("handler", format!("/api/v1/things/{}", index % HOST_SERIES)),
        ("host", host_name(host)),
        ("instance", format!("10.{}.{}.{}:9100", (host >> 16) & 255, (host >> 8) & 255, host & 255)),
        ("job", "bench".to_owned()),
        ("method", ["GET", "PUT", "POST"][index % 3].to_owned()),
        ("service", format!("service-{}", host % 20)),
        ("status", ["200", "204", "404", "500"][index % 4].to_owned()),
    ]
}

fn definition(index: usize) -> SeriesDef {
    let meta = SeriesMeta { kind: Kind::Float, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };
    SeriesDef::new(labels(index), meta).expect("nine labels are within the limits")
}

/// Half of the series count, three tenths wander, two tenths are latencies of six decimals.
fn value(index: usize, time_ms: i64) -> f64 {
    let step = time_ms / STEP_MS;
    let noise = mix(mix(index as u64) ^ step.cast_unsigned());
    match index % 10 {
        // The least rise is above the greatest noise: it never falls.
        0..5 => ((step % 100_000) * (16 + (index % 64) as i64)) as f64 + (noise % 16) as f64,
        5..8 => {
            let slow = 50.0 + 20.0 * ((step % 100_000) as f64 / 40.0 + index as f64).sin();
            (slow * 100.0 + (noise % 200) as f64).round() / 100.0
        }
        _ => ((normal(noise) * 0.6 - 6.0).exp() * 1e6).round() / 1e6,
    }
}

/// One sample of each series; the batch numbers them from 0.
fn samples(range: Range<usize>, time_ms: i64) -> Vec<Result<Sample, ogive_model::Reason>> {
    let sample = |(series, index): (u32, usize)| {
        let value = Value::Float(value(index, time_ms));
        Ok(Sample { series, time_ns: time_ms * 1_000_000, start_ns: None, value })
    };
    (0..).zip(range).map(sample).collect()
}

fn request(batch: &Batch) -> Request {
    let body = batch.encode().expect("a thousand samples fit a frame");
    Request { body, samples: batch.samples.len() as u64 }
}

/// The same as remote write.
fn written(range: Range<usize>, time_ms: i64) -> Request {
    let samples = range.len() as u64;
    let mut message = Vec::new();
    for index in range {
        let mut series = Vec::new();
        for (name, value) in labels(index) {
            let mut label = Vec::new();
            remote::bytes(&mut label, 1, name.as_bytes());
            remote::bytes(&mut label, 2, value.as_bytes());
            remote::bytes(&mut series, 1, &label);
        }
        remote::put_float(&mut series, time_ms, value(index, time_ms));
        remote::bytes(&mut message, 1, &series);
    }
    let body = snap::raw::Encoder::new().compress_vec(&message).expect("a request is far below 4 GiB");
    Request { body, samples }
}
