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
    Batch, BatchId, Kind, METRIC_NAME, Matcher, Memory, MemoryScope, Ms, Opening, Resolution, Sample, Selection,
    SeriesData, SeriesDef, SeriesId, SeriesMeta, Temporality, Tenant, TimeRange, Value, WallMs, WallNs,
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
const RECALL_MS: i64 = 3 * 3_600_000;

/// A minute is read at once while a start catches up; less when that is too much.
const SLICE_MS: i64 = 60_000;

/// A second, the smallest slice: if that is too much, it is left out.
const SLICE_MS_MIN: i64 = 1_000;

/// 4,000,000 samples in a slice, a histogram counting as its bins: those of 20,000 series for 5 s.
const SAMPLES_MAX: usize = 4_000_000;

/// 64 MiB for a slice: a larger one is halved.
const SLICE_BYTES_MAX: usize = 64 << 20;

/// 10 seconds: how often the monitors' memory is counted, and removed series are forgotten.
const COUNT_EVERY_MS: i64 = 10_000;

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
            lateness_ms: i64::from(options.detect_lateness_ms),
            tenants: BTreeMap::new(),
            door,
            board,
            store,
            runtime,
            figures: Figures { is_on: true, ..Figures::default() },
            counted_ms: 0,
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
    lateness_ms: i64,
    tenants: BTreeMap<Tenant, Judges>,
    door: Arc<Door>,
    board: Arc<Board>,
    store: Arc<Store>,
    runtime: tokio::runtime::Handle,
    figures: Figures,
    counted_ms: i64,
    has_failed: bool,
}

impl Work {
    fn now_ms(&self) -> i64 {
        self.door.clock.wall().div_euclid(1_000_000)
    }

    /// The last second that is complete.
    fn closed_ms(&self) -> i64 {
        (self.now_ms() - self.lateness_ms).div_euclid(1_000) * 1_000
    }

    /// From here on every sample is received; returns the end of the last second for which that is not certain.
    fn follow(&self) -> i64 {
        let mut shard = 0..;
        self.store.follow(Audience::Detectors, || {
            Box::new(Tap::new(&self.feed, shard.next().expect("fewer shards than numbers")))
        });
        let all = std::iter::once(&self.matchers).chain(self.limits.iter().map(|(matchers, _)| matchers));
        for (id, matchers) in (JUDGED..).zip(all) {
            self.store.watch(Audience::Detectors, Watch { id, tenant: None, matchers: matchers.clone() });
        }
        let now_ms = self.now_ms();
        // If a shard is too busy even for this, it is notified later; until then the store is read.
        self.pass(now_ms);
        (now_ms.max(self.feed.applied_ms()).div_euclid(1_000) + 1) * 1_000
    }

    /// Whether everything that was acknowledged so far is in the feed.
    fn pass(&self, until_ms: i64) -> bool {
        self.store.pass(Audience::Detectors, WallNs(until_ms * 1_000_000));
        self.feed.wait(until_ms, PASSING)
    }

    fn run(&mut self, stopped: &Receiver<()>) {
        let followed_ms = self.follow();
        let began_ms = self.closed_ms();
        let mut done_ms = began_ms - RECALL_MS;
        let (mut pause, mut slice_ms) = (Duration::ZERO, SLICE_MS);
        while matches!(stopped.recv_timeout(pause), Err(RecvTimeoutError::Timeout)) {
            let from = self.door.clock.now();
            let closed_ms = self.closed_ms();
            let is_live = done_ms >= followed_ms;
            let until_ms = closed_ms.min(done_ms + slice_ms);
            if until_ms > done_ms {
                let done = self.step(done_ms, until_ms, is_live, began_ms);
                self.figures.watermark_ms = until_ms;
                match done {
                    Ok(()) => {
                        (done_ms, self.has_failed) = (until_ms, false);
                        slice_ms = (2 * slice_ms).min(SLICE_MS);
                    }
                    Err(error) => {
                        self.figures.failures += 1;
                        if slice_ms == SLICE_MS_MIN {
                            done_ms = until_ms;
                        }
                        slice_ms = (slice_ms / 2).max(SLICE_MS_MIN);
                        if !std::mem::replace(&mut self.has_failed, true) {
                            tracing::warn!("detecting: {error:#}; it is tried again");
                        }
                    }
                }
                self.board.set(self.figures);
            }
            pause = if self.has_failed {
                AGAIN
            } else if done_ms + SLICE_MS < self.closed_ms() {
                Duration::from_nanos(self.door.clock.now().saturating_sub(from)).min(CATCHING_UP_MAX)
            } else {
                // Until the next second closes.
                let wait_ms = done_ms + 1_000 + self.lateness_ms - self.now_ms();
                Duration::from_millis(wait_ms.clamp(1, 1_000).unsigned_abs())
            };
        }
        self.store.unfollow(Audience::Detectors);
    }

    /// Judges what closed in (from, until]; findings from before `began_ms` are stored already.
    fn step(&mut self, from_ms: i64, until_ms: i64, is_live: bool, began_ms: i64) -> anyhow::Result<()> {
        let closed = if is_live && self.pass(until_ms) { self.feed.closed(from_ms, until_ms) } else { None };
        let seconds = (until_ms - from_ms).unsigned_abs() / 1_000;
        let (mut closed, unread) = match closed {
            Some(closed) => {
                self.figures.seconds.0 += seconds;
                (closed, 0)
            }
            None => {
                let read = self.read(TimeRange::from_ms(from_ms, until_ms))?;
                self.figures.seconds.1 += seconds;
                self.feed.skip(until_ms);
                read
            }
        };
        self.figures.refused = self.feed.refused().max(unread);
        for tenant in closed.keys() {
            self.tenants.entry(tenant.clone()).or_insert_with(|| Judges {
                monitor: Monitor::new(MonitorOptions { lateness: Ms(self.lateness_ms), series_max: self.series_max }),
                forecasts: Forecasts::default(),
            });
        }
        let is_counted = until_ms >= self.counted_ms + COUNT_EVERY_MS || until_ms - from_ms >= COUNT_EVERY_MS;
        if is_counted {
            self.counted_ms = until_ms;
            self.feed.forget(until_ms - FORGOTTEN.0);
        }
        let mut all: usize = self.tenants.values().map(|judges| judges.monitor.series()).sum();
        let mut news = Vec::new();
        for (tenant, judges) in &mut self.tenants {
            let ClosedCells { judged, limited } = closed.remove(tenant).unwrap_or_default();
            let before = judges.monitor.series();
            judges.monitor.set_series_max(self.series_max.saturating_sub(all - before));
            let mut found = feed(&mut judges.monitor, tenant, &judged, TimeRange::from_ms(from_ms, until_ms));
            all += judges.monitor.series() - before.min(judges.monitor.series());
            found.extend(judges.forecast(tenant, &limited, until_ms));
            let own = (is_counted || !found.is_empty()).then(|| TenantUsage::of(&judges.monitor));
            if own.is_some() || !found.is_empty() {
                self.board.add(tenant, &found, own);
            }
            found.retain(|one| one.finding.at > WallMs(began_ms));
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
                let matchers = matchers.clone();
                let selection = Selection { matchers, range, samples_max: SAMPLES_MAX, labels_only: false, resolution };
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
    fn forecast(&mut self, tenant: &Tenant, limited: &[(SeriesData, f64)], until_ms: i64) -> Vec<Reported> {
        for (one, limit) in limited {
            let id = SeriesId::of(tenant, one.meta.kind, &one.labels);
            for (time_ms, value) in one.floats.times.iter().zip(&one.floats.values) {
                self.forecasts.sample(id, &one.labels, &one.meta.unit, *limit, WallMs(*time_ms), *value);
            }
        }
        self.forecasts.advance(WallMs(until_ms))
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
