//! Series of histograms over a span of time, and the requests that bring their cells in order.
//!
//! Invariants: a cell is one of some hundred made beforehand, by the numbers of its series and its step, so that making
//! a request costs the client little and holds nothing.

use std::ops::Range;

use ogive_hist::Histogram;
use ogive_model::{Batch, Kind, Sample, SeriesDef, SeriesId, SeriesMeta, SourceId, Temporality, Tenant, Value};

use crate::numbers::{mix, normal};
use crate::sender::{LANES, Request};

pub(crate) const METRIC: &str = "bench_seconds";
/// Different cells.
const CELLS: u64 = 509;
/// Measurements of a cell: an operation that runs twenty times in its time.
const CELL_COUNT: u64 = 20;
/// Cells of a request, about.
const REQUEST_CELLS: usize = 5_000;

/// Series whose cells fill a span.
pub(crate) struct Cells {
    ids: Vec<SeriesId>,
    width_ms: u32,
    /// End of the time before the first cell.
    begin_ms: i64,
    made: Vec<Histogram>,
}

/// Some requests of each lane: which source numbers them, and what they bring.
pub(crate) struct Phase {
    pub(crate) number: usize,
    pub(crate) steps: Range<usize>,
    /// The series come with their labels.
    pub(crate) is_declared: bool,
}

impl Cells {
    pub(crate) fn new(series: usize, width_ms: u32, begin_ms: i64) -> Self {
        let tenant = Tenant::default();
        let ids = (0..series).map(|index| definition(index, width_ms).id(&tenant)).collect();
        Self { ids, width_ms, begin_ms, made: (0..CELLS).map(cell).collect() }
    }

    /// Bins of a cell on average.
    pub(crate) fn bins(&self) -> f64 {
        let bins: usize = self.made.iter().map(|cell| cell.positive.len()).sum();
        bins as f64 / self.made.len() as f64
    }

    /// The request of `lane` with a number within a phase: as many series of it as fit, and as many steps of those.
    pub(crate) fn request(&self, phase: &Phase, lane: usize, number: usize) -> Option<Request> {
        let own = lane * self.ids.len() / LANES..(lane + 1) * self.ids.len() / LANES;
        if own.is_empty() {
            return None;
        }
        let parts = own.len().div_ceil(REQUEST_CELLS);
        let first = own.start + (number % parts) * REQUEST_CELLS;
        let series = first..own.end.min(first + REQUEST_CELLS);
        let length = (REQUEST_CELLS / own.len()).max(1);
        let begin = phase.steps.start + (number / parts) * length;
        if begin >= phase.steps.end {
            return None;
        }
        let steps = begin..phase.steps.end.min(begin + length);
        let mut batch = Batch {
            source: SourceId(((phase.number as u128) << 64) | (lane as u128 + 1)),
            sequence: number as u64,
            samples: Vec::with_capacity(series.len() * steps.len()),
            ..Batch::default()
        };
        if phase.is_declared {
            batch.series = series.clone().map(|index| Ok(definition(index, self.width_ms))).collect();
        } else {
            batch.known = self.ids[series.clone()].to_vec();
        }
        for step in steps {
            for (at, index) in (0..).zip(series.clone()) {
                batch.samples.push(Ok(self.sample(at, index, step)));
            }
        }
        let body = batch.encode().expect("some thousand cells fit a frame");
        Some(Request { body, samples: batch.samples.len() as u64 })
    }

    /// The cell of series `index` in a step, in a batch in which the series has the number `series`.
    fn sample(&self, series: u32, index: usize, step: usize) -> Sample {
        let picked = mix(mix(index as u64) ^ step as u64) % CELLS;
        let time_ms = self.begin_ms + (step as i64 + 1) * i64::from(self.width_ms);
        let value = Value::Histogram(Box::new(self.made[picked as usize].clone()));
        Sample { series, time_ns: time_ms * 1_000_000, start_ns: None, value }
    }
}

fn definition(index: usize, width_ms: u32) -> SeriesDef {
    let labels = [
        ("__name__", METRIC.to_owned()),
        ("host", format!("node-{:05}.example.org", index / 20)),
        ("job", "bench".to_owned()),
        ("number", index.to_string()),
        ("route", format!("/api/v1/things/{}", index % 20)),
    ];
    let meta = SeriesMeta { kind: Kind::Histogram, temporality: Temporality::Delta, unit: "s".into(), width_ms };
    SeriesDef::new(labels, meta).expect("five labels are within the limits")
}

/// Latencies in seconds: log-normal around 2 ms.
fn cell(seed: u64) -> Histogram {
    let mut out = Histogram::log_linear();
    for at in 0..CELL_COUNT {
        out.record((normal(mix(seed * CELL_COUNT + at)) * 0.5 - 6.2).exp());
    }
    out
}
