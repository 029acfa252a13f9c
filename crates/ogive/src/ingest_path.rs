//! The way of a batch through the server, measured as any message is: every batch is counted in each stage, the slow ones are
//! kept whole.
//!
//! Format: cells and slow traces as [`link`] says, under [`METRIC`].
//! Invariants: a batch that was answered with a verdict is counted once; a slow trace belongs to the cell that counted it.
//! Threads: the listener's and the observer's hold a publisher's writer for the 60 ns of `finish`; the store's threads stamp
//! without a lock.
//! Limits: [`SLOW_MAX`] slow traces a second; the others are counted.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ogive_hist::Histogram;
use ogive_model::{Kind, SeriesDef, SeriesMeta, Temporality, Value};
use ogive_probe::{Clock, SlowTrace, Threshold, TraceCell, TraceRecorder, TraceWriter, trace_path};

use crate::backend::{Stamps, Step};
use crate::link;

/// The metric of the batches' way.
pub(crate) const METRIC: &str = "ogive_ingest_seconds";

/// A hundred a second, 100 kB: what a person can read of, and far below what the store takes.
const SLOW_MAX: usize = 100;

/// A batch is slow when it took three times as long as nearly all of the last second, and more than 5 ms: that is an idle
/// machine's fsync, twice. One batch a second, the server's own, then shows its spikes.
const THRESHOLD: Threshold = Threshold::Tail { times: 3.0, floor_ns: 5_000_000 };

trace_path! {
    /// From a batch's first byte to its answer.
    pub(crate) OgiveIngest {
        received: infra @ordered,
        // Its body is here.
        read: infra @ordered,
        // It is a batch, and handed to the store.
        decoded: infra @ordered,
        // The store's writer took it.
        queued: infra @ordered,
        // Each sample is decided about, and the record is in the journal.
        journaled: infra,
        // The fsync that it waited for is done.
        durable: infra @ordered,
        // Every query sees it.
        applied: logic @ordered,
        answered: infra @ordered,
    }
}

/// Who answers batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Publisher {
    /// `POST /v1/batch`.
    Batch,
    /// `POST /api/v1/write`.
    RemoteWrite,
    /// The server's own cells.
    Own,
}

/// Stamps made on the store's threads: 0 until its point is reached.
pub(crate) struct Steps {
    clock: Clock,
    ticks: [AtomicU64; 4],
}

const TAKEN: usize = 0;
const JOURNALED: usize = 1;
const DURABLE: usize = 2;
const APPLIED: usize = 3;

impl Steps {
    fn set(&self, step: usize, ticks: u64) {
        // ORDERING: Relaxed; the reply, which comes through a channel, orders the stamps before whoever reads them.
        self.ticks[step].store(ticks, Ordering::Relaxed);
    }

    fn get(&self, step: usize) -> u64 {
        // ORDERING: Relaxed; see `set`.
        self.ticks[step].load(Ordering::Relaxed)
    }

    /// The store replies.
    pub(crate) fn applied(&self) {
        self.set(APPLIED, self.clock.ticks_ordered());
    }
}

impl Stamps for Steps {
    fn stamp(&self, step: Step) {
        match step {
            Step::Taken => self.set(TAKEN, self.clock.ticks_ordered()),
            Step::Journaled => self.set(JOURNALED, self.clock.ticks()),
            Step::Durable => self.set(DURABLE, self.clock.ticks_ordered()),
        }
    }
}

/// The stamps of one batch.
pub(crate) struct OnTheWay {
    path: OgiveIngest,
    steps: Arc<Steps>,
}

impl OnTheWay {
    /// The body is here.
    pub(crate) fn read(&mut self) {
        self.path.mark(self.steps.clock, OgiveIngest::read);
    }

    /// It is a batch.
    pub(crate) fn decoded(&mut self) {
        self.path.mark(self.steps.clock, OgiveIngest::decoded);
    }

    /// What the store stamps.
    pub(crate) fn steps(&self) -> Arc<Steps> {
        self.steps.clone()
    }
}

/// What measures the batches.
pub(crate) struct Ingest {
    clock: Clock,
    recorder: TraceRecorder<OgiveIngest>,
    batch: Mutex<TraceWriter<OgiveIngest>>,
    remote_write: Mutex<TraceWriter<OgiveIngest>>,
    own: Mutex<TraceWriter<OgiveIngest>>,
    /// Drained before the cell that counted them was taken.
    early: Mutex<VecDeque<SlowTrace>>,
}

impl Default for Ingest {
    fn default() -> Self {
        Self::new(Clock::global(), THRESHOLD)
    }
}

impl Ingest {
    fn new(clock: Clock, threshold: Threshold) -> Self {
        let recorder = TraceRecorder::new(clock, threshold);
        let writer = |publisher: &str| Mutex::new(recorder.handle(publisher));
        let (batch, remote_write, own) = (writer("/v1/batch"), writer("/api/v1/write"), writer("own cells"));
        Self { clock, recorder, batch, remote_write, own, early: Mutex::default() }
    }

    /// A batch begins to arrive.
    pub(crate) fn begin(&self) -> OnTheWay {
        let steps = Arc::new(Steps { clock: self.clock, ticks: Default::default() });
        OnTheWay { path: OgiveIngest::begin(self.clock), steps }
    }

    /// A batch that is there already begins its way.
    pub(crate) fn begin_made(&self) -> OnTheWay {
        let mut way = self.begin();
        way.read();
        way.decoded();
        way
    }

    /// A batch was answered with a verdict.
    pub(crate) fn finish(&self, way: OnTheWay, publisher: Publisher) {
        let OnTheWay { mut path, steps } = way;
        let points = [OgiveIngest::queued, OgiveIngest::journaled, OgiveIngest::durable, OgiveIngest::applied];
        for (step, point) in points.into_iter().enumerate() {
            // What a store does not stamp is missing, and counted so.
            match steps.get(step) {
                0 => {}
                ticks => path.mark_at(point, ticks),
            }
        }
        let writer = match publisher {
            Publisher::Batch => &self.batch,
            Publisher::RemoteWrite => &self.remote_write,
            Publisher::Own => &self.own,
        };
        let writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
        // Inside, so that the gaps between answers are those of their stamps.
        path.mark(self.clock, OgiveIngest::answered);
        writer.finish(&path);
    }

    /// What was finished since the last call, as series; and how many slow traces had no room.
    pub(crate) fn take(&self) -> (Vec<(SeriesDef, Value)>, u64) {
        let cell = self.recorder.snapshot();
        let mut early = self.early.lock().unwrap_or_else(PoisonError::into_inner);
        early.extend(self.recorder.drain());
        // What was finished between the snapshot and the draining belongs to the next cell.
        let counted = early.len().min(usize::try_from(cell.counts.slow).unwrap_or(usize::MAX));
        let mut slow: Vec<SlowTrace> = early.drain(..counted).collect();
        let dropped = slow.len().saturating_sub(SLOW_MAX);
        if dropped > 0 {
            slow.sort_by_key(|trace| std::cmp::Reverse(trace.total_ns));
            slow.truncate(SLOW_MAX);
        }
        let mut out = cells(&cell);
        out.extend(slow.iter().map(|trace| (texts(), Value::Text(trace.to_string()))));
        (out, dropped as u64)
    }
}

fn cells(cell: &TraceCell) -> Vec<(SeriesDef, Value)> {
    let mut out = Vec::new();
    let mut put = |labels: &[(&str, &str)], histogram: &Histogram| {
        if histogram.count > 0 {
            out.push((measured(labels), Value::Histogram(Box::new(histogram.clone()))));
        }
    };
    put(&[(link::STAGE, link::TOTAL)], &cell.total);
    put(&[(link::STAGE, link::CLASS_INFRA)], &cell.infrastructure);
    put(&[(link::STAGE, link::CLASS_LOGIC)], &cell.logic);
    for stage in &cell.stages {
        put(&[(link::STAGE, stage.name), (link::CLASS, stage.class.name())], &stage.times);
    }
    for publisher in &cell.publishers {
        put(&[(link::STAGE, link::GAP), (link::PUBLISHER, &publisher.name)], &publisher.gaps);
    }
    out
}

fn measured(labels: &[(&str, &str)]) -> SeriesDef {
    let meta = SeriesMeta { kind: Kind::Histogram, temporality: Temporality::Delta, unit: "s".into(), width_ms: 1_000 };
    series(METRIC, labels, meta)
}

fn texts() -> SeriesDef {
    let meta = SeriesMeta { kind: Kind::Text, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };
    series(&link::slow_name(METRIC), &[(link::STAGE, link::TOTAL)], meta)
}

fn series(name: &str, labels: &[(&str, &str)], meta: SeriesMeta) -> SeriesDef {
    SeriesDef::new(labels.iter().copied().chain([("__name__", name)]), meta).expect("own labels keep the rules")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A batch whose fsync takes `ns`.
    fn batch(ingest: &Ingest, publisher: Publisher, ns: u64) {
        let mut way = ingest.begin();
        ingest.clock.advance(10);
        way.read();
        way.decoded();
        let steps = way.steps();
        steps.stamp(Step::Taken);
        steps.stamp(Step::Journaled);
        ingest.clock.advance(ns);
        steps.stamp(Step::Durable);
        steps.applied();
        ingest.finish(way, publisher);
    }

    fn ingest() -> Ingest {
        Ingest::new(Clock::manual(1_000, 1_700_000_000_000_000_000), THRESHOLD)
    }

    fn slow(values: &[(SeriesDef, Value)]) -> Vec<SlowTrace> {
        let texts = values.iter().filter_map(|(series, value)| match value {
            Value::Text(text) => Some((series, text)),
            _ => None,
        });
        texts
            .map(|(series, text)| {
                assert_eq!(series.labels.to_string(), "ogive_ingest_slow{stage=\"total\"}");
                text.parse().expect("a written trace reads back")
            })
            .collect()
    }

    fn counts(values: &[(SeriesDef, Value)]) -> Vec<(String, u64)> {
        let cells = values.iter().filter_map(|(series, value)| match value {
            Value::Histogram(cell) => Some((series.labels.to_string(), cell.count)),
            _ => None,
        });
        cells.collect()
    }

    #[test]
    fn every_batch_is_counted_in_each_stage() {
        let ingest = ingest();
        (0..3).for_each(|_| batch(&ingest, Publisher::Own, MS));
        batch(&ingest, Publisher::Batch, MS);
        let (values, dropped) = ingest.take();
        let counts = counts(&values);
        let count = |labels: &str| {
            let found = counts.iter().find(|(known, _)| known == &format!("{METRIC}{{{labels}}}"));
            found.map(|(_, count)| *count)
        };
        assert_eq!((count("stage=\"total\""), dropped), (Some(4), 0), "{counts:?}");
        for stage in ["read", "decoded", "queued", "journaled", "durable", "answered"] {
            assert_eq!(count(&format!("class=\"infra\", stage=\"{stage}\"")), Some(4), "{stage}");
        }
        assert_eq!(count("class=\"logic\", stage=\"applied\""), Some(4));
        assert_eq!((count("stage=\"class:infra\""), count("stage=\"class:logic\"")), (Some(4), Some(4)));
        assert_eq!(count("publisher=\"own cells\", stage=\"gap\""), Some(2));
        assert!(slow(&values).is_empty());
        assert!(counts_are_gone(&ingest));
    }

    fn counts_are_gone(ingest: &Ingest) -> bool {
        ingest.take().0.is_empty()
    }

    #[test]
    fn a_slow_batch_is_kept_whole_and_the_threshold_follows_the_tail() {
        let ingest = ingest();
        batch(&ingest, Publisher::Own, 4 * MS);
        batch(&ingest, Publisher::Own, 8 * MS);
        let (values, _) = ingest.take();
        let slow_ones = slow(&values);
        assert_eq!(slow_ones.len(), 1);
        let culprit = slow_ones[0].culprit().map(|stage| (stage.name.clone(), stage.ns));
        assert_eq!((culprit, &*slow_ones[0].publisher), (Some(("durable".into(), 8 * MS)), "own cells"));
        // Three times the last second's 8 ms: 20 ms are usual now, 30 ms are not.
        batch(&ingest, Publisher::Own, 20 * MS);
        batch(&ingest, Publisher::Own, 30 * MS);
        assert_eq!(slow(&ingest.take().0).iter().map(|trace| trace.total_ns / MS).collect::<Vec<_>>(), [30]);
    }

    /// What is finished between snapshot and draining is counted by the next cell, and its trace must not come sooner.
    #[test]
    fn a_slow_trace_waits_for_the_cell_that_counts_it() {
        let ingest = ingest();
        batch(&ingest, Publisher::Own, 9 * MS);
        let _ = ingest.recorder.snapshot();
        ingest.early.lock().unwrap().extend(ingest.recorder.drain());
        // That cell is gone with its count; the trace that was drained with it stands for one that came early.
        let (values, _) = ingest.take();
        assert!(slow(&values).is_empty());
        batch(&ingest, Publisher::Own, 50 * MS);
        assert_eq!(slow(&ingest.take().0).iter().map(|trace| trace.total_ns / MS).collect::<Vec<_>>(), [9]);
    }

    #[test]
    fn of_too_many_slow_traces_the_slowest_are_kept_and_the_others_counted() {
        let ingest = ingest();
        let count = SLOW_MAX as u64 + 5;
        (0..count).for_each(|at| batch(&ingest, Publisher::Batch, (10 + at) * MS));
        let (values, dropped) = ingest.take();
        let least = slow(&values).iter().map(|trace| trace.total_ns / MS).min();
        assert_eq!((slow(&values).len(), dropped, least), (SLOW_MAX, 5, Some(15)));
    }
}
