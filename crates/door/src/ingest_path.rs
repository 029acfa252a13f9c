//! The way of a batch through the server, measured as any message is: every batch is counted in each stage, the slow
//! ones are kept whole.
//!
//! Format: cells and slow traces as [`ogive_export::trace_series`] says, under [`METRIC`].
//! Invariants: a batch that was answered with a verdict is counted once.
//! Threads: the listener's and the observer's hold a publisher's writer for the 60 ns of `finish`; the store's threads
//! stamp without a lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ogive_probe::{Clock, InFlight, ListedPath, Point, Threshold, TraceRecorder, TraceWriter, trace_path};

use crate::backend::{Stamps, Step};
use crate::counters::Protocol;

/// The metric of the batches' way.
pub const METRIC: &str = "ogive_ingest_seconds";

/// A batch is slow if it took three times as long as nearly all of the last second, and more than 5 ms: twice the fsync
/// of an idle machine. Then even one batch a second, the server's own, shows its spikes.
const THRESHOLD: Threshold = Threshold::Tail { times: 3.0, floor_ns: 5_000_000 };

trace_path! {
    /// From a batch's first byte to its response.
    pub OgiveIngest {
        received: infra @ordered,
        // Its body is here.
        read: infra @ordered,
        // It is a batch, and handed to the store.
        decoded: infra @ordered,
        // The store's writer took it.
        queued: infra @ordered,
        // The verdict on each sample is decided, and the record is in the journal.
        journaled: infra,
        // The fsync that it waited for is done.
        durable: infra @ordered,
        // Every query sees it.
        applied: logic @ordered,
        answered: infra @ordered,
    }
}

/// The listener that answers batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Publisher {
    /// A listener.
    Of(Protocol),
    /// The server's own cells.
    Own,
}

/// The name of the listener of `protocol` in slow traces: its route, if it has one.
const fn publisher_name(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Batch => "/v1/batch",
        Protocol::RemoteWrite => "/api/v1/write",
        other => other.name(),
    }
}

/// Stamps of the store's threads: 0 until the point is reached.
pub struct Steps {
    clock: Clock,
    ticks: [AtomicU64; 4],
    /// Lists the batch for a crash report until everybody is done with it.
    in_flight: InFlight,
}

const TAKEN: usize = 0;
const JOURNALED: usize = 1;
const DURABLE: usize = 2;
const APPLIED: usize = 3;

/// Where the steps are on the path.
const STEP_POINTS: [Point<OgiveIngest>; 4] =
    [OgiveIngest::queued, OgiveIngest::journaled, OgiveIngest::durable, OgiveIngest::applied];

impl Steps {
    fn new(clock: Clock, listed: ListedPath, path: &OgiveIngest) -> Arc<Self> {
        Arc::new(Self { clock, ticks: Default::default(), in_flight: InFlight::begin(listed, path) })
    }

    fn set(&self, step: usize, ticks: u64) {
        self.in_flight.mark(STEP_POINTS[step], ticks);
        // ORDERING: Relaxed; the reply, which comes through a channel, orders the stamps before whoever reads them.
        self.ticks[step].store(ticks, Ordering::Relaxed);
    }

    fn get(&self, step: usize) -> u64 {
        // ORDERING: Relaxed; see `set`.
        self.ticks[step].load(Ordering::Relaxed)
    }

    /// The store replies.
    pub fn applied(&self) {
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
pub struct OnTheWay {
    path: OgiveIngest,
    listed: ListedPath,
    steps: Arc<Steps>,
}

impl OnTheWay {
    /// The body is here.
    pub fn read(&mut self) {
        self.mark(OgiveIngest::read);
    }

    /// It is a batch.
    pub fn decoded(&mut self) {
        self.mark(OgiveIngest::decoded);
    }

    fn mark(&mut self, point: Point<OgiveIngest>) {
        let ticks = self.steps.clock.ticks_ordered();
        self.path.mark_at(point, ticks);
        self.steps.in_flight.mark(point, ticks);
    }

    /// The path of one of several batches that arrived together: it copies the stamps so far, and gets its own from the
    /// store.
    pub fn another(&self) -> Self {
        Self { path: self.path, listed: self.listed, steps: Steps::new(self.steps.clock, self.listed, &self.path) }
    }

    /// The stamps of the store.
    pub fn steps(&self) -> Arc<Steps> {
        self.steps.clone()
    }
}

/// Measures the batches.
pub struct Ingest {
    clock: Clock,
    listed: ListedPath,
    recorder: TraceRecorder<OgiveIngest>,
    protocols: [Mutex<TraceWriter<OgiveIngest>>; Protocol::ALL.len()],
    own: Mutex<TraceWriter<OgiveIngest>>,
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
        let protocols = Protocol::ALL.map(|protocol| writer(publisher_name(protocol)));
        let own = writer("own cells");
        Self { clock, listed: ListedPath::new::<OgiveIngest>(), recorder, protocols, own }
    }

    /// A batch begins to arrive.
    pub fn begin(&self) -> OnTheWay {
        let path = OgiveIngest::begin(self.clock);
        OnTheWay { path, listed: self.listed, steps: Steps::new(self.clock, self.listed, &path) }
    }

    /// A batch that already exists begins its path.
    pub fn begin_made(&self) -> OnTheWay {
        let mut way = self.begin();
        way.read();
        way.decoded();
        way
    }

    /// A batch was answered with a verdict.
    pub fn finish(&self, way: OnTheWay, publisher: Publisher) {
        let OnTheWay { mut path, steps, .. } = way;
        for (step, point) in STEP_POINTS.into_iter().enumerate() {
            // Stamps that a store does not make are missing, and counted as such.
            match steps.get(step) {
                0 => {}
                ticks => path.mark_at(point, ticks),
            }
        }
        let writer = match publisher {
            Publisher::Of(protocol) => &self.protocols[protocol as usize],
            Publisher::Own => &self.own,
        };
        let writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
        // Inside, so that the gaps between responses are those of their stamps.
        path.mark(self.clock, OgiveIngest::answered);
        writer.finish(&path);
    }

    /// The recorder of its cells and slow traces.
    pub fn recorder(&self) -> &TraceRecorder<OgiveIngest> {
        &self.recorder
    }
}

#[cfg(test)]
mod tests {
    use ogive_export::{CellEnd, Cells, Measured};
    use ogive_model::{Value, WallNs};
    use ogive_probe::SlowTrace;

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

    /// The cells and texts of the first second, as the observer takes them.
    fn taken(ingest: &Ingest) -> Vec<Measured> {
        let cells = Cells::new(ingest.clock, &[], 1_000);
        cells.traces_named(METRIC, &[], ingest.recorder()).unwrap();
        cells.take(CellEnd { time: WallNs(1_000_000_000), is_last: false })
    }

    fn slow(values: &[Measured]) -> Vec<SlowTrace> {
        let texts = values.iter().filter_map(|measured| match &measured.value {
            Value::Text(text) => Some((&measured.series, text)),
            _ => None,
        });
        texts
            .map(|(series, text)| {
                assert_eq!(series.labels.to_string(), "ogive_ingest_slow{stage=\"total\"}");
                text.parse().expect("a written trace reads back")
            })
            .collect()
    }

    #[test]
    fn every_batch_is_counted_in_each_stage() {
        let ingest = ingest();
        (0..3).for_each(|_| batch(&ingest, Publisher::Own, MS));
        batch(&ingest, Publisher::Of(Protocol::Batch), MS);
        let values = taken(&ingest);
        let count = |labels: &str| {
            let name = format!("{METRIC}{{{labels}}}");
            let found = values.iter().find(|measured| measured.series.labels.to_string() == name);
            found.map(|measured| match &measured.value {
                Value::Histogram(cell) => cell.count,
                other => panic!("{name} is {other:?}"),
            })
        };
        assert_eq!(count("stage=\"total\""), Some(4), "{values:?}");
        for stage in ["read", "decoded", "queued", "journaled", "durable", "answered"] {
            assert_eq!(count(&format!("class=\"infra\", stage=\"{stage}\"")), Some(4), "{stage}");
        }
        assert_eq!(count("class=\"logic\", stage=\"applied\""), Some(4));
        assert_eq!((count("stage=\"class:infra\""), count("stage=\"class:logic\"")), (Some(4), Some(4)));
        assert_eq!(count("publisher=\"own cells\", stage=\"gap\""), Some(2));
        assert!(slow(&values).is_empty());
    }

    #[test]
    fn a_slow_batch_is_kept_whole_and_the_threshold_follows_the_tail() {
        let ingest = ingest();
        batch(&ingest, Publisher::Own, 4 * MS);
        batch(&ingest, Publisher::Own, 8 * MS);
        let slow_ones = slow(&taken(&ingest));
        assert_eq!(slow_ones.len(), 1);
        let culprit = slow_ones[0].culprit().map(|stage| (stage.name.clone(), stage.ns));
        assert_eq!((culprit, &*slow_ones[0].publisher), (Some(("durable".into(), 8 * MS)), "own cells"));
        // Three times the last second's 8 ms: 20 ms are usual now, 30 ms are not.
        batch(&ingest, Publisher::Own, 20 * MS);
        batch(&ingest, Publisher::Own, 30 * MS);
        assert_eq!(slow(&taken(&ingest)).iter().map(|trace| trace.total_ns / MS).collect::<Vec<_>>(), [30]);
    }
}
