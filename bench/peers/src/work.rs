//! The workloads, as requests that are ready to go.

use ogive_hist::{Histogram, Scheme};
use ogive_model::{Batch, Kind, SeriesDef, SeriesId, SeriesMeta, SourceId, Temporality, Value};

use crate::data::{Random, Sample, Series, latencies};
use crate::recorded::Recording;
use crate::send::{BATCH, REMOTE_WRITE, Request};
use crate::server::Peer;
use crate::wire::WriteRequest;

/// Connections that send at once. A series belongs to one of them, so that its samples arrive in order.
pub const LANES: usize = 2;
/// Samples of a request.
const REQUEST_SAMPLES: usize = 5_000;
/// Marks the number of a series that is named by identity until it is known how many are declared in front.
const KNOWN: u32 = 1 << 31;
/// Measurements of a cell of a histogram.
const CELL_COUNT: usize = 200;

/// What is sent.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    pub name: &'static str,
    pub what: &'static str,
    pub series: usize,
    pub steps: usize,
    pub step_ms: i64,
    /// Samples that follow each other in one series of a request.
    pub run_length: usize,
    pub histograms: bool,
}

/// Something to send.
pub enum Load {
    Generated(Work),
    /// With what it is called.
    Recorded(&'static str, String, Recording),
}

pub const WORKS: [Work; 5] = [
    Work {
        name: "settled",
        what: "20,000 series x 120, a sample of each every 10 s",
        series: 20_000,
        steps: 120,
        step_ms: 10_000,
        run_length: 1,
        histograms: false,
    },
    Work {
        name: "wide",
        what: "100,000 series x 20, a sample of each every 10 s",
        series: 100_000,
        steps: 20,
        step_ms: 10_000,
        run_length: 1,
        histograms: false,
    },
    Work {
        name: "new",
        what: "200,000 new series, one sample each",
        series: 200_000,
        steps: 1,
        step_ms: 10_000,
        run_length: 1,
        histograms: false,
    },
    Work {
        name: "bytes",
        what: "1,000 series x 4,000 of 1 s, 20 at a time",
        series: 1_000,
        steps: 4_000,
        step_ms: 1_000,
        run_length: 20,
        histograms: false,
    },
    Work {
        name: "histograms",
        what: "300 series x 240 of 10 s, 200 measurements a cell",
        series: 300,
        steps: 240,
        step_ms: 10_000,
        run_length: 1,
        histograms: true,
    },
];

/// How it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Form {
    /// Prometheus remote write 1.0; histograms native and cumulative.
    RemoteWrite,
    /// Ogive's batches; histograms are cells.
    Batch,
}

impl Form {
    pub fn name(self) -> &'static str {
        match self {
            Self::RemoteWrite => "remote write",
            Self::Batch => "batch",
        }
    }

    pub fn fits(self, peer: Peer, load: &Load) -> bool {
        match self {
            // Native histograms came to VictoriaMetrics later than to Debian.
            Self::RemoteWrite => !(load.histograms() && peer == Peer::Victoria),
            Self::Batch => peer == Peer::Ogive,
        }
    }
}

impl Load {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Generated(work) => work.name,
            Self::Recorded(name, ..) => name,
        }
    }

    pub fn what(&self) -> &str {
        match self {
            Self::Generated(work) => work.what,
            Self::Recorded(_, what, _) => what,
        }
    }

    pub fn histograms(&self) -> bool {
        match self {
            Self::Generated(work) => work.histograms,
            Self::Recorded(.., recording) => recording.histograms,
        }
    }

    pub fn series(&self) -> usize {
        match self {
            Self::Generated(work) => work.series,
            Self::Recorded(.., recording) => recording.series(),
        }
    }

    pub fn samples(&self) -> usize {
        match self {
            Self::Generated(work) => work.series * work.steps,
            Self::Recorded(.., recording) => recording.samples(),
        }
    }

    /// Selectors of what is sent, each of series whose labels differ without their names.
    pub fn metrics(&self) -> Vec<String> {
        match self {
            Self::Generated(_) => vec!["{__name__=~\"bench_.+\"}".into()],
            Self::Recorded(.., recording) => recording.metrics(),
        }
    }

    /// The requests of each lane. The last sample is of `now_ms`.
    pub fn requests(&self, form: Form, run: &str, now_ms: i64) -> Vec<Vec<Request>> {
        match self {
            Self::Generated(work) => (0..LANES).map(|lane| work.lane(form, run, now_ms, lane)).collect(),
            Self::Recorded(.., recording) => recording.requests(form, now_ms),
        }
    }
}

impl Work {
    pub fn scaled(self, scale: f64) -> Self {
        let series = ((self.series as f64 * scale) as usize).max(10);
        Self { series, ..self }
    }

    fn lane(&self, form: Form, run: &str, now_ms: i64, lane: usize) -> Vec<Request> {
        let mut series: Vec<(Series, Histogram)> = (lane..self.series)
            .step_by(LANES)
            .map(|index| (Series::new(run, index), Histogram::new(Scheme::exp2(3).expect("a scale of Prometheus"))))
            .collect();
        let mut order: Vec<usize> = (0..series.len()).collect();
        let mut random = Random::new(7 + lane as u64);
        let mut out = Out::new(form, lane, series.len());
        let meta = |kind, temporality, width_ms| SeriesMeta { kind, temporality, unit: String::new(), width_ms };
        let float = meta(Kind::Float, Temporality::Gauge, 0);
        let cells = meta(Kind::Histogram, Temporality::Delta, self.step_ms as u32);
        let begin = now_ms - (self.steps as i64 - 1) * self.step_ms;
        for step in (0..self.steps).step_by(self.run_length) {
            random.shuffle(&mut order);
            for at in &order {
                let (one, total) = &mut series[*at];
                let time = |step: usize| begin + step as i64 * self.step_ms;
                if self.histograms {
                    let mut cell = Histogram::log_linear();
                    for value in latencies(&mut random, CELL_COUNT) {
                        cell.record(value);
                        total.record(value);
                    }
                    out.histogram(*at, &one.labels, &cells, total, &cell, time(step));
                } else {
                    let steps = step..(step + self.run_length).min(self.steps);
                    let samples: Vec<Sample> =
                        steps.map(|step| Sample { time_ms: time(step), value: one.next() }).collect();
                    out.floats(*at, &one.labels, &float, &samples);
                }
            }
        }
        out.close();
        out.requests
    }
}

/// Requests under construction.
pub struct Out {
    form: Form,
    lane: usize,
    pub requests: Vec<Request>,
    message: WriteRequest,
    batch: Option<Batch>,
    /// Number in the open batch of each series.
    declared: Vec<u32>,
    /// Identity of each series that was declared.
    ids: Vec<Option<SeriesId>>,
}

impl Out {
    /// For a lane of so many series.
    pub fn new(form: Form, lane: usize, series: usize) -> Self {
        let (declared, ids) = (vec![u32::MAX; series], vec![None; series]);
        Self { form, lane, requests: Vec::new(), batch: None, message: WriteRequest::default(), declared, ids }
    }

    pub fn floats(&mut self, at: usize, labels: &[(String, String)], meta: &SeriesMeta, samples: &[Sample]) {
        match self.form {
            Form::RemoteWrite => self.message.floats(labels, samples),
            Form::Batch => {
                let number = self.declare(at, labels, meta);
                let batch = self.batch.as_mut().expect("it was declared in one");
                for sample in samples {
                    batch.samples.push(Ok(sample_of(number, sample.time_ms, Value::Float(sample.value))));
                }
            }
        }
        self.close_if_full();
    }

    /// A cell as it is, or `total`, which holds it and all before it.
    pub fn histogram(
        &mut self,
        at: usize,
        labels: &[(String, String)],
        meta: &SeriesMeta,
        total: &Histogram,
        cell: &Histogram,
        time_ms: i64,
    ) {
        match self.form {
            Form::RemoteWrite => self.message.histogram(labels, total, time_ms),
            Form::Batch => {
                let number = self.declare(at, labels, meta);
                let batch = self.batch.as_mut().expect("it was declared in one");
                batch.samples.push(Ok(sample_of(number, time_ms, Value::Histogram(Box::new(cell.clone())))));
            }
        }
        self.close_if_full();
    }

    /// The series' number in the open batch: declared in the first of its lane that has it, named by identity in the others.
    fn declare(&mut self, at: usize, labels: &[(String, String)], meta: &SeriesMeta) -> u32 {
        let (sequence, source) = (self.requests.len() as u64, SourceId(1 + self.lane as u128));
        let batch = self.batch.get_or_insert_with(|| Batch { source, sequence, ..Batch::default() });
        if self.declared[at] == u32::MAX {
            self.declared[at] = match self.ids[at] {
                Some(id) => {
                    batch.known.push(id);
                    KNOWN | (batch.known.len() as u32 - 1)
                }
                None => {
                    let series = SeriesDef::new(labels.iter().cloned(), meta.clone()).expect("labels within limits");
                    self.ids[at] = Some(series.id(&batch.tenant));
                    batch.series.push(Ok(series));
                    batch.series.len() as u32 - 1
                }
            };
        }
        self.declared[at]
    }

    fn close_if_full(&mut self) {
        let samples = self.batch.as_ref().map_or(self.message.samples, |batch| batch.samples.len());
        if samples >= REQUEST_SAMPLES {
            self.close();
        }
    }

    pub fn close(&mut self) {
        if let Some(mut batch) = self.batch.take() {
            let declared = batch.series.len() as u32;
            for sample in batch.samples.iter_mut().flatten().filter(|sample| sample.series & KNOWN != 0) {
                sample.series = declared + (sample.series ^ KNOWN);
            }
            let body = batch.encode().expect("5,000 samples fit a frame");
            self.requests.push(Request { path: "/v1/batch", headers: BATCH, body, samples: batch.samples.len() });
            self.declared.fill(u32::MAX);
        }
        let message = std::mem::take(&mut self.message);
        if message.samples > 0 {
            let (body, samples) = (message.body(), message.samples);
            self.requests.push(Request { path: "/api/v1/write", headers: REMOTE_WRITE, body, samples });
        }
    }
}

fn sample_of(series: u32, time_ms: i64, value: Value) -> ogive_model::Sample {
    ogive_model::Sample { series, time_ns: time_ms * 1_000_000, start_ns: None, value }
}
