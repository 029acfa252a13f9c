//! The thread that takes what closed, runs the detectors and stores what they find.
//!
//! Failure: what cannot be read or written is counted, said once on standard error, and tried again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use ogive_detect::detectors::feed::feed;
use ogive_detect::detectors::forecasts::Forecasts;
use ogive_detect::detectors::monitor::{FORGOTTEN, Monitor, Options as MonitorOptions, Reported};
use ogive_model::{
    Batch, BatchId, Kind, METRIC_NAME, Matcher, Memory, MemoryScope, MonoNs, Ms, Opening, Resolution, Sample,
    Selection, SeriesData, SeriesDef, SeriesId, SeriesMeta, Temporality, Tenant, TimeRange, Value, WallMs, WallNs,
};
use ogive_query::series_bytes;
use ogive_store::{Audience, Store, Watch};

use super::board::{Board, Figures, TenantUsage};
use super::feed::{ClosedCells, Feed, JUDGED, Tap};
use super::options::{Options, selector};
use ogive_door::Door;
use ogive_door::counters::Protocol;
use ogive_door::submission::stored;

/// 2 s until a retry after a failure.
const AGAIN: Duration = Duration::from_secs(2);

/// While it catches up it sleeps as long as it worked: half a core.
const CATCHING_UP_MAX: Duration = Duration::from_secs(2);

/// 500 ms: a shard that has not passed an instant by then is busy, and the store is read.
const PASSING: Duration = Duration::from_millis(500);

/// 3 h: how much a start reads again, including an hour to learn from.
const RECALL: Ms = Ms::from_secs(3 * 3_600);

/// A minute is read at once while a start catches up; less when that is too much.
const SLICE: Ms = Ms::from_secs(60);

/// A second, the smallest slice: if that is too much, it is left out.
const SLICE_MIN: Ms = SECOND;

const SECOND: Ms = Ms::from_secs(1);

/// 4,000,000 samples in a slice, a histogram counting as its bins: those of 20,000 series for 5 s.
const SAMPLES_MAX: usize = 4_000_000;

/// 64 MiB for a slice: a larger one is halved.
const SLICE_BYTES_MAX: usize = 64 << 20;

/// 10 seconds: how often the monitors' memory is counted, and removed series are forgotten.
const COUNT_EVERY: Ms = Ms::from_secs(10);

/// The series of each finding: 1 while it lasts, 0 at its end, and its sentence as a text.
pub(super) const SERIES: &str = "ogive_finding";

/// The running thread.
pub struct Detector {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Detector {
    /// Starts it; None when the options disable it.
    ///
    /// # Errors
    /// An invalid selector or limit, or no thread can be created.
    pub fn start(
        options: &Options,
        door: Arc<Door>,
        board: Arc<Board>,
        store: Arc<Store>,
        runtime: tokio::runtime::Handle,
    ) -> anyhow::Result<Option<Self>> {
        let matchers =
            selector(&options.detect).map_err(|error| anyhow::anyhow!("--detect {}: {error}", options.detect))?;
        let limits = options.limits().map_err(anyhow::Error::msg)?;
        if options.detect_series == 0 {
            return Ok(None);
        }
        let (stop, stopped) = channel();
        let series_max = options.detect_series as usize;
        let numbers = limits.iter().map(|(_, limit)| *limit).collect();
        let mut work = Work {
            matchers,
            limits,
            feed: Feed::new(store.shards(), series_max, numbers),
            series_max,
            lateness: Ms::from(options.detect_lateness_ms),
            tenants: BTreeMap::new(),
            door,
            board,
            store,
            runtime,
            figures: Figures { is_on: true, ..Figures::default() },
            counted: WallMs(0),
            has_failed: false,
        };
        let thread = std::thread::Builder::new().name("detect".into()).spawn(move || work.run(&stopped));
        Ok(Some(Self { stop, thread: thread.context("cannot start the thread of the detectors")? }))
    }

    /// Stops it; what closes meanwhile is read after the next start.
    pub fn stop(self) {
        drop(self.stop);
        let _ = self.thread.join();
    }
}

/// The detectors of one tenant.
struct Judges {
    monitor: Monitor,
    forecasts: Forecasts,
}

struct Work {
    matchers: Vec<Matcher>,
    limits: Vec<(Vec<Matcher>, f64)>,
    feed: Arc<Feed>,
    series_max: usize,
    lateness: Ms,
    tenants: BTreeMap<Tenant, Judges>,
    door: Arc<Door>,
    board: Arc<Board>,
    store: Arc<Store>,
    runtime: tokio::runtime::Handle,
    figures: Figures,
    counted: WallMs,
    has_failed: bool,
}

impl Work {
    fn now(&self) -> WallMs {
        WallNs(self.door.clock.wall()).to_ms()
    }

    /// The last second that is complete.
    fn closed(&self) -> WallMs {
        (self.now() - self.lateness).align_down(SECOND)
    }

    /// From here on every sample is received; returns the end of the last second for which that is not certain.
    fn follow(&self) -> WallMs {
        let mut shard = 0..;
        self.store.follow(Audience::Detectors, || {
            Box::new(Tap::new(&self.feed, shard.next().expect("fewer shards than numbers")))
        });
        let all = std::iter::once(&self.matchers).chain(self.limits.iter().map(|(matchers, _)| matchers));
        for (id, matchers) in (JUDGED..).zip(all) {
            self.store.watch(Audience::Detectors, Watch { id, tenant: None, matchers: matchers.clone() });
        }
        let now = self.now();
        // If a shard is too busy even for this, it is notified later; until then the store is read.
        self.pass(now);
        now.max(self.feed.applied()).align_down(SECOND) + SECOND
    }

    /// Whether everything that was acknowledged so far is in the feed.
    fn pass(&self, until: WallMs) -> bool {
        self.store.pass(Audience::Detectors, until.to_ns());
        self.feed.wait(until, PASSING)
    }

    fn run(&mut self, stopped: &Receiver<()>) {
        let followed = self.follow();
        let began = self.closed();
        let mut done = began - RECALL;
        let (mut pause, mut slice) = (Duration::ZERO, SLICE);
        while matches!(stopped.recv_timeout(pause), Err(RecvTimeoutError::Timeout)) {
            let from = MonoNs(self.door.clock.now());
            let is_live = done >= followed;
            let until = self.closed().min(done + slice);
            if until > done {
                let result = self.step(TimeRange { start: done, end: until }, is_live, began);
                self.figures.watermark = until;
                match result {
                    Ok(()) => {
                        (done, self.has_failed) = (until, false);
                        slice = (slice * 2).min(SLICE);
                    }
                    Err(error) => {
                        self.figures.failures += 1;
                        if slice == SLICE_MIN {
                            done = until;
                        }
                        slice = (slice / 2).max(SLICE_MIN);
                        if !std::mem::replace(&mut self.has_failed, true) {
                            tracing::warn!("detecting: {error:#}; it is tried again");
                        }
                    }
                }
                self.board.set(self.figures);
            }
            pause = if self.has_failed {
                AGAIN
            } else if done + SLICE < self.closed() {
                MonoNs(self.door.clock.now()).since(from).to_duration().min(CATCHING_UP_MAX)
            } else {
                // Until the next second closes.
                let wait = done + SECOND + self.lateness - self.now();
                wait.clamp(Ms(1), SECOND).to_duration()
            };
        }
        self.store.unfollow(Audience::Detectors);
    }

    /// Judges what closed in a range; findings from before `began` are stored already.
    fn step(&mut self, range: TimeRange, is_live: bool, began: WallMs) -> anyhow::Result<()> {
        let closed = if is_live && self.pass(range.end) { self.feed.closed(range) } else { None };
        let seconds = (range.length() / SECOND).unsigned_abs();
        let (mut closed, unread) = match closed {
            Some(closed) => {
                self.figures.seconds.0 += seconds;
                (closed, 0)
            }
            None => {
                let read = self.read(range)?;
                self.figures.seconds.1 += seconds;
                self.feed.skip(range.end);
                read
            }
        };
        self.figures.refused = self.feed.refused().max(unread);
        for tenant in closed.keys() {
            self.tenants.entry(tenant.clone()).or_insert_with(|| Judges {
                monitor: Monitor::new(MonitorOptions { lateness: self.lateness, series_max: self.series_max }),
                forecasts: Forecasts::default(),
            });
        }
        let is_counted = range.end >= self.counted + COUNT_EVERY || range.length() >= COUNT_EVERY;
        if is_counted {
            self.counted = range.end;
            self.feed.forget(range.end - FORGOTTEN);
        }
        let mut all: usize = self.tenants.values().map(|judges| judges.monitor.series()).sum();
        let mut news = Vec::new();
        for (tenant, judges) in &mut self.tenants {
            let ClosedCells { judged, limited } = closed.remove(tenant).unwrap_or_default();
            let before = judges.monitor.series();
            judges.monitor.set_series_max(self.series_max.saturating_sub(all - before));
            let mut found = feed(&mut judges.monitor, tenant, &judged, range);
            all += judges.monitor.series() - before.min(judges.monitor.series());
            found.extend(judges.forecast(tenant, &limited, range.end));
            let own = (is_counted || !found.is_empty()).then(|| TenantUsage::from_monitor(&judges.monitor));
            if own.is_some() || !found.is_empty() {
                self.board.add(tenant, &found, own);
            }
            found.retain(|one| one.finding.at > began);
            if !found.is_empty() {
                news.push((tenant.clone(), found));
            }
        }
        if is_counted {
            let monitors: usize = self.tenants.values().map(|judges| judges.monitor.memory_bytes()).sum();
            self.figures.memory_bytes = (self.feed.memory_bytes() + monitors) as u64;
        }
        for (tenant, found) in news {
            // A finding that cannot be stored is on the board all the same.
            if let Err(error) = self.keep(&tenant, &found.iter().collect::<Vec<_>>()) {
                self.figures.failures += 1;
                tracing::error!("{} findings were not stored: {error:#}", found.len());
            }
        }
        Ok(())
    }

    /// The samples of the first series, up to the limit, and the number of further series.
    fn read(&self, range: TimeRange) -> anyhow::Result<(BTreeMap<Tenant, ClosedCells>, u64)> {
        let mut tenants = self.feed.tenants();
        tenants.extend(self.store.block_tenants());
        let memory = Memory::new(MemoryScope::Query, SLICE_BYTES_MAX);
        let mut held = memory.empty();
        let (mut left, mut unread, mut out) = (self.series_max, 0, BTreeMap::new());
        for tenant in tenants {
            let mut closed = ClosedCells::default();
            let mut select = |matchers: &Vec<Matcher>, left: &mut usize| -> anyhow::Result<Vec<SeriesData>> {
                let resolution = Resolution::Width(0);
                let selection =
                    Selection { samples_max: SAMPLES_MAX, resolution, ..Selection::new(matchers.clone(), range) };
                let opening = Opening { memory: Some(&memory), ..Opening::UNBOUNDED };
                let reader = self.door.backend.of(&tenant);
                let set = reader.open(&selection, &opening)?;
                let count = set.count().min(*left);
                (*left, unread) = (*left - count, unread + (set.count() - count) as u64);
                let mut series = Vec::new();
                for number in 0..count {
                    for one in set.take(number)? {
                        held.grow(series_bytes(&one))?;
                        series.push(one);
                    }
                }
                Ok(series)
            };
            closed.judged = select(&self.matchers, &mut left)?;
            for (matchers, limit) in &self.limits {
                closed.limited.extend(select(matchers, &mut left)?.into_iter().map(|one| (one, *limit)));
            }
            if !closed.judged.is_empty() || !closed.limited.is_empty() {
                out.insert(tenant.clone(), closed);
            }
        }
        Ok((out, unread))
    }

    fn keep(&self, tenant: &Tenant, found: &[&Reported]) -> anyhow::Result<()> {
        let series_max = (self.door.batch_series_max / 2).max(1);
        for found in found.chunks(series_max) {
            let BatchId { source, sequence } = self.door.numbers.next();
            let mut batch = Batch { source, sequence, tenant: tenant.clone(), ..Batch::default() };
            for one in found {
                let value = f64::from(u8::from(one.finding.is_active));
                for (kind, value) in
                    [(Kind::Float, Value::Float(value)), (Kind::Text, Value::Text(one.finding.sentence.clone()))]
                {
                    let Some(series) = definition(one, kind) else { continue };
                    batch.series.push(Ok(series));
                    let place = batch.series.len() as u32 - 1;
                    let time_ns = one.finding.at.to_ns().0;
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

impl Judges {
    /// When numbers reach their limits.
    fn forecast(&mut self, tenant: &Tenant, limited: &[(SeriesData, f64)], until: WallMs) -> Vec<Reported> {
        for (one, limit) in limited {
            let id = SeriesId::from_labels(tenant, one.meta.kind, &one.labels);
            for (time_ms, value) in one.floats.times.iter().zip(&one.floats.values) {
                self.forecasts.sample(id, &one.labels, &one.meta.unit, *limit, WallMs(*time_ms), *value);
            }
        }
        self.forecasts.advance(until)
    }
}

/// `ogive_finding{kind=..,metric=..}` with the labels of its subject.
fn definition(one: &Reported, kind: Kind) -> Option<SeriesDef> {
    let labels = one.labels.iter().filter(|(name, _)| ![METRIC_NAME, "kind", "metric"].contains(name));
    let own = [(METRIC_NAME, SERIES), ("kind", one.finding.kind.as_str()), ("metric", one.labels.metric_name())];
    let own = own.into_iter().filter(|(_, value)| !value.is_empty());
    let temporality = Temporality::Gauge;
    SeriesDef::new(labels.chain(own), SeriesMeta { kind, temporality, unit: String::new(), width_ms: 0 }).ok()
}
