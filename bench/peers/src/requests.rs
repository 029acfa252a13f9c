//! Samples as the requests that carry them.

use ogive_hist::Histogram;
use ogive_model::{Batch, SeriesDef, SeriesId, SeriesMeta, SourceId, Value};

use crate::data::Sample;
use crate::send::{BATCH, REMOTE_WRITE, Request};
use crate::server::Peer;
use crate::wire::WriteRequest;

/// Connections that send at once. A series belongs to one of them, so that its samples arrive in order.
pub const LANES: usize = 2;
/// Samples of a request.
const REQUEST_SAMPLES: usize = 5_000;
/// Marks the number of a series that is named by identity until it is known how many are declared in front.
const KNOWN: u32 = 1 << 31;

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

    pub fn fits(self, peer: Peer, has_histograms: bool) -> bool {
        match self {
            // Native histograms came to VictoriaMetrics later than to Debian.
            Self::RemoteWrite => !(has_histograms && peer == Peer::Victoria),
            Self::Batch => peer == Peer::Ogive,
        }
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

    /// The series' number in the open batch: declared in the first of its lane that has it, named by identity in the
    /// others.
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
