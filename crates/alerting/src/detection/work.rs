//! The thread that reads what closed, runs the detectors and stores what they find.
//!
//! Failure: what cannot be read or written is counted, said once on standard error, and tried again.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use ogive_detect::detectors::feed::feed;
use ogive_detect::detectors::monitor::{Monitor, Options as MonitorOptions, Reported};
use ogive_model::{
    Batch, Kind, METRIC_NAME, Matcher, Memory, MemoryScope, Opening, Resolution, Sample, Selection, SeriesData,
    SeriesDef, SeriesMeta, Temporality, Tenant, TimeRange, Value,
};
use ogive_query::series_bytes;

use super::board::{Board, Figures};
use super::options::{Options, selector};
use ogive_door::Door;
use ogive_door::counters::Protocol;
use ogive_door::submission::stored;

/// 2 s: between two looks at what closed.
const EVERY: Duration = Duration::from_secs(2);

/// The thread sleeps so many times as long as it worked: 4 % of a core at the most.
const REST: u32 = 24;

/// 3 h: what a start reads again, an hour to learn from among it.
const RECALL_MS: i64 = 3 * 3_600_000;

/// A minute is read at once while a start catches up; less when that is too much.
const SLICE_MS: i64 = 60_000;

/// A second, the least that is read: when that is too much, it is left out.
const SLICE_MS_MIN: i64 = 1_000;

/// 4,000,000 samples of a slice, a histogram counting as its bins: those of 20,000 series for 5 s.
const SAMPLES_MAX: usize = 4_000_000;

/// 64 MiB for a slice: what is more is read in halves.
const SLICE_BYTES_MAX: usize = 64 << 20;

/// What is written of each finding: 1 while it lasts, 0 at its end, and its sentence as a text.
pub(super) const SERIES: &str = "ogive_finding";

/// The running thread.
pub struct Detector {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Detector {
    /// Starts it; none when the options switch it off.
    ///
    /// # Errors
    /// The selector is none, or there is no thread.
    pub fn start(
        options: &Options,
        (door, board): (Arc<Door>, Arc<Board>),
        runtime: tokio::runtime::Handle,
    ) -> anyhow::Result<Option<Self>> {
        let matchers =
            selector(&options.detect).map_err(|error| anyhow::anyhow!("--detect {}: {error}", options.detect))?;
        if options.detect_series == 0 {
            return Ok(None);
        }
        let monitor = MonitorOptions {
            // The source has its own patience; what came too late is not seen again.
            lateness_ms: i64::from(options.detect_lateness_ms),
            series_max: options.detect_series as usize,
        };
        let (stop, stopped) = channel();
        let lateness_ms = i64::from(options.detect_lateness_ms);
        let mut work = Work {
            matchers,
            monitor: Monitor::new(monitor),
            series_max: options.detect_series as usize,
            lateness_ms,
            door,
            board,
            runtime,
            failures: 0,
            has_failed: false,
        };
        let thread = std::thread::Builder::new().name("detect".into()).spawn(move || work.run(&stopped));
        Ok(Some(Self { stop, thread: thread.context("cannot start the thread of the detectors")? }))
    }

    /// Ends it; what closes meanwhile is read by the next start.
    pub fn stop(self) {
        drop(self.stop);
        let _ = self.thread.join();
    }
}

struct Work {
    matchers: Vec<Matcher>,
    monitor: Monitor,
    series_max: usize,
    lateness_ms: i64,
    door: Arc<Door>,
    board: Arc<Board>,
    runtime: tokio::runtime::Handle,
    failures: u64,
    has_failed: bool,
}

impl Work {
    /// The last second that is complete.
    fn closed_ms(&self) -> i64 {
        (self.door.clock.wall().div_euclid(1_000_000) - self.lateness_ms).div_euclid(1_000) * 1_000
    }

    fn run(&mut self, stopped: &Receiver<()>) {
        let began_ms = self.closed_ms();
        let mut done_ms = began_ms - RECALL_MS;
        let (mut pause, mut slice_ms) = (Duration::ZERO, SLICE_MS);
        while matches!(stopped.recv_timeout(pause), Err(RecvTimeoutError::Timeout)) {
            let from = self.door.clock.now();
            let until_ms = self.closed_ms().min(done_ms + slice_ms);
            if until_ms > done_ms {
                match self.step((done_ms, until_ms), began_ms) {
                    Ok(()) => {
                        (done_ms, self.has_failed) = (until_ms, false);
                        slice_ms = (2 * slice_ms).min(SLICE_MS);
                    }
                    Err(error) => {
                        self.failures += 1;
                        if slice_ms == SLICE_MS_MIN {
                            done_ms = until_ms;
                        }
                        slice_ms = (slice_ms / 2).max(SLICE_MS_MIN);
                        if !std::mem::replace(&mut self.has_failed, true) {
                            tracing::warn!("detecting: {error:#}; it is tried again");
                        }
                    }
                }
            }
            let took = Duration::from_nanos(self.door.clock.now().saturating_sub(from));
            let is_behind = done_ms + SLICE_MS < self.closed_ms() && !self.has_failed;
            pause = if is_behind { took.min(EVERY) } else { EVERY.max(took * REST).min(Duration::from_secs(60)) };
        }
    }

    /// Judges what closed in (from, until]; what was found before `began_ms` is stored already.
    fn step(&mut self, (from_ms, until_ms): (i64, i64), began_ms: i64) -> anyhow::Result<()> {
        let tenant = Tenant::default();
        let range = TimeRange { start_ms: from_ms, end_ms: until_ms };
        let (series, unread) = self.read(&tenant, range)?;
        let found = feed(&mut self.monitor, &tenant, &series, (from_ms, until_ms));
        drop(series);
        self.board.add(&found, Figures::of(&self.monitor, until_ms, (self.failures, unread)));
        let news: Vec<&Reported> = found.iter().filter(|one| one.finding.at_ms > began_ms).collect();
        // A finding that cannot be stored is on the board all the same.
        if let Err(error) = self.store(&tenant, &news) {
            self.failures += 1;
            tracing::error!("{} findings were not stored: {error:#}", news.len());
        }
        Ok(())
    }

    /// The samples of the first series, as many as are judged, and how many series there are more.
    fn read(&self, tenant: &Tenant, range: TimeRange) -> anyhow::Result<(Vec<SeriesData>, u64)> {
        let resolution = Resolution::Width(0);
        let matchers = self.matchers.clone();
        let selection = Selection { matchers, range, samples_max: SAMPLES_MAX, labels_only: false, resolution };
        let memory = Memory::new(MemoryScope::Query, SLICE_BYTES_MAX);
        let opening = Opening { memory: Some(&memory), ..Opening::UNBOUNDED };
        let reader = self.door.backend.of(tenant);
        let set = reader.open(&selection, &opening)?;
        let count = set.count().min(self.series_max);
        let (mut series, mut held) = (Vec::new(), memory.empty());
        for number in 0..count {
            for one in set.take(number)? {
                held.grow(series_bytes(&one))?;
                series.push(one);
            }
        }
        Ok((series, (set.count() - count) as u64))
    }

    fn store(&self, tenant: &Tenant, found: &[&Reported]) -> anyhow::Result<()> {
        let series_max = (self.door.batch_series_max / 2).max(1);
        for found in found.chunks(series_max) {
            let (source, sequence) = self.door.numbers.next();
            let mut batch = Batch { source, sequence, tenant: tenant.clone(), ..Batch::default() };
            for one in found {
                let value = f64::from(u8::from(one.finding.is_active));
                for (kind, value) in
                    [(Kind::Float, Value::Float(value)), (Kind::Text, Value::Text(one.finding.sentence.clone()))]
                {
                    let Some(series) = definition(one, kind) else { continue };
                    batch.series.push(Ok(series));
                    let place = batch.series.len() as u32 - 1;
                    let time_ns = one.finding.at_ms.saturating_mul(1_000_000);
                    batch.samples.push(Ok(Sample { series: place, time_ns, start_ns: None, value }));
                }
            }
            let way = self.door.meters.ingest.begin_made();
            let frame = batch.encode().context("the findings make no batch")?;
            let verdict = self.runtime.block_on(stored(&self.door, Protocol::Detect, batch, frame, &way));
            verdict.map_err(|refusal| anyhow::anyhow!("{refusal}"))?;
        }
        Ok(())
    }
}

/// `ogive_finding{kind=..,metric=..}` with the labels of what it is about.
fn definition(one: &Reported, kind: Kind) -> Option<SeriesDef> {
    let labels = one.labels.iter().filter(|(name, _)| ![METRIC_NAME, "kind", "metric"].contains(name));
    let own = [(METRIC_NAME, SERIES), ("kind", one.finding.kind.as_str()), ("metric", one.labels.metric_name())];
    let own = own.into_iter().filter(|(_, value)| !value.is_empty());
    let temporality = Temporality::Gauge;
    SeriesDef::new(labels.chain(own), SeriesMeta { kind, temporality, unit: String::new(), width_ms: 0 }).ok()
}
