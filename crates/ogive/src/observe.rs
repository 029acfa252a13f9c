//! Self observation: what the server and its machine do, measured by its own probe and stored as its own series.
//!
//! Format: histograms are delta cells of one second in seconds; counters are cumulative. Every second, as the wall
//! clock's second ends, the recorders' snapshots become one batch under a source id of this process.
//! Invariants: a cell leaves the recorder once; a batch that the store refuses is kept and sent again under its number,
//! so it counts once; what is given up after [`WAITING_MAX`] seconds is counted as lost.
//! Threads: one, beside the meter's thread on each CPU.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use ogive_hist::Histogram;
use ogive_model::{Batch, Kind, Sample, SeriesDef, SeriesMeta, SourceId, Temporality, Tenant, Value};
use ogive_probe::{Clock, HiccupMeter, Recorder, snapshot_all};

use crate::backend::{Backend, Fact};
use crate::clock::AskKernel;
use crate::clock::series::{self, ClockSeries};
use crate::counters::Counters;
use crate::ingest_path::{self, Ingest, Publisher};

const SECOND_NS: i64 = 1_000_000_000;

/// A minute of cells waits while the disk is full or the store is busy.
const WAITING_MAX: usize = 60;

/// A batch is waited for this long within its second; later the same batch is sent again.
const REPLY: Duration = Duration::from_millis(800);

/// Counters are stored each 10 s: a rate over a minute has six of them.
const COUNTERS_SECONDS: i64 = 10;

/// Own series and what they tell.
const HELP: [(&str, &str); 9] = [
    ("ogive_hiccup_seconds", "How much longer a sleep of 1 ms took, on each CPU: what the machine adds to any wait."),
    ("ogive_http_request_seconds", "From a request's head to the head of its answer."),
    ("ogive_journal_fsync_seconds", "Making a group of batches durable."),
    ("ogive_query_seconds", "Evaluating a query and writing its answer."),
    ("ogive_flush_seconds", "Writing the head's samples as a block."),
    (ingest_path::METRIC, "A batch from its first byte to its answer, in all and by stage."),
    ("ogive_ingest_slow", "Batches that took long, with every stage."),
    ("ogive_ingest_samples_total", "Samples received, by what became of them."),
    (
        "ogive_ingest_folded_samples_total",
        "Accepted samples beyond a limit of their tenant: they are in ogive_overflow.",
    ),
];

/// What a metric tells; empty for those that are not Ogive's own.
pub(crate) fn help(metric: &str) -> &'static str {
    HELP.iter().chain(&series::HELP).find(|(name, _)| *name == metric).map_or("", |(_, help)| help)
}

/// The recorders that the server writes.
#[derive(Default)]
pub(crate) struct Meters {
    http: Mutex<BTreeMap<(&'static str, u16), Recorder>>,
    query: Recorder,
    /// Batches on their way.
    pub(crate) ingest: Ingest,
    /// The journal's fsyncs.
    pub(crate) fsync: Recorder,
    /// The store's flushes.
    pub(crate) flush: Recorder,
}

impl Meters {
    /// A request was answered.
    pub(crate) fn http_request(&self, route: &'static str, status: u16, ns: u64) {
        let mut http = self.http.lock().unwrap_or_else(PoisonError::into_inner);
        http.entry((route, status)).or_default().record_ns(ns);
    }

    /// A query ended.
    pub(crate) fn query(&self, ns: u64) {
        self.query.record_ns(ns);
    }

    /// Every recorder with its series' name and labels.
    fn recorders(&self, hiccups: &HiccupMeter) -> Vec<(SeriesDef, Recorder)> {
        let mut out = Vec::new();
        for cpu in hiccups.cpus() {
            out.push((cells("ogive_hiccup_seconds", &[("cpu", &cpu.cpu().to_string())]), cpu.recorder().clone()));
        }
        for ((route, status), recorder) in self.http.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let labels = [("route", *route), ("status", &status.to_string())];
            out.push((cells("ogive_http_request_seconds", &labels), recorder.clone()));
        }
        out.push((cells("ogive_journal_fsync_seconds", &[]), self.fsync.clone()));
        out.push((cells("ogive_query_seconds", &[]), self.query.clone()));
        out.push((cells("ogive_flush_seconds", &[]), self.flush.clone()));
        out
    }
}

/// A series of cells of one second.
fn cells(name: &str, labels: &[(&str, &str)]) -> SeriesDef {
    let meta = SeriesMeta { kind: Kind::Histogram, temporality: Temporality::Delta, unit: "s".into(), width_ms: 1_000 };
    series(name, labels, meta)
}

fn series(name: &str, labels: &[(&str, &str)], meta: SeriesMeta) -> SeriesDef {
    let pairs = labels.iter().copied().chain([("__name__", name)]);
    SeriesDef::new(pairs, meta).expect("own labels keep the rules")
}

/// The thread that stores what was measured; stopping it stores what is left.
pub(crate) struct Observer {
    stop: mpsc::Sender<()>,
    thread: JoinHandle<()>,
}

/// What the thread works with.
struct Work {
    backend: Arc<dyn Backend>,
    meters: Arc<Meters>,
    counters: Arc<Counters>,
    clock: Clock,
    clock_series: ClockSeries,
    hiccups: HiccupMeter,
    source: SourceId,
    sequence: u64,
    /// Batches that are not yet durable, the oldest first.
    waiting: VecDeque<Batch>,
}

impl Observer {
    pub(crate) fn start(
        backend: Arc<dyn Backend>,
        meters: Arc<Meters>,
        counters: Arc<Counters>,
        clock: Clock,
        kernel: AskKernel,
    ) -> anyhow::Result<Self> {
        let hiccups = HiccupMeter::start(clock).context("cannot start the hiccup meter")?;
        let mut work = Work {
            backend,
            meters,
            counters,
            clock,
            clock_series: ClockSeries::new(clock, kernel),
            hiccups,
            source: random_source(),
            sequence: 0,
            waiting: VecDeque::new(),
        };
        let (stop, stopped) = mpsc::channel();
        let run = move || {
            loop {
                let now = work.clock.wall();
                let next = (now.div_euclid(SECOND_NS) + 1) * SECOND_NS;
                let ended = stopped.recv_timeout(Duration::from_nanos((next - now) as u64));
                if ended != Err(RecvTimeoutError::Timeout) {
                    work.hiccups.stop();
                    // What was measured in the second that has begun belongs to the cell at its end.
                    let now = work.clock.wall();
                    work.second((now.div_euclid(SECOND_NS) + 1) * SECOND_NS);
                    return;
                }
                work.second(next);
            }
        };
        let thread = std::thread::Builder::new().name("observe".into()).spawn(run).context("cannot start a thread")?;
        Ok(Self { stop, thread })
    }

    /// Stores what is left and ends.
    pub(crate) fn stop(self) {
        let _ = self.stop.send(());
        let _ = self.thread.join();
    }
}

impl Work {
    /// Takes the cells that end at `time_ns` and sends what waits.
    fn second(&mut self, time_ns: i64) {
        let mut way = self.meters.ingest.begin();
        way.read();
        let batch = self.batch(time_ns);
        way.decoded();
        let mut way = Some(way);
        if !batch.samples.is_empty() {
            self.waiting.push_back(batch);
        }
        if self.waiting.len() > WAITING_MAX {
            let lost = self.waiting.pop_front().expect("it is not empty");
            self.counters.own_lost.add(lost.samples.len() as u64);
        }
        while let Some(batch) = self.waiting.front() {
            // The last is the one that was made now; one that waited is measured from its sending.
            let made_now = if self.waiting.len() == 1 { way.take() } else { None };
            let way = made_now.unwrap_or_else(|| self.meters.ingest.begin_made());
            let (sender, receiver) = mpsc::channel();
            let steps = way.steps();
            let reply = Box::new(move |outcome| {
                steps.applied();
                let _ = sender.send(outcome);
            });
            if self.backend.submit_stamped(batch.clone(), None, way.steps(), reply).is_err() {
                return;
            }
            let Ok(Ok(verdict)) = receiver.recv_timeout(REPLY) else { return };
            self.meters.ingest.finish(way, Publisher::Own);
            self.counters.own_lost.add(verdict.rejected.len() as u64);
            self.waiting.pop_front();
        }
    }

    fn batch(&mut self, time_ns: i64) -> Batch {
        let recorders = self.meters.recorders(&self.hiccups);
        let snapshots = snapshot_all(recorders.iter().map(|(_, recorder)| recorder));
        let full = recorders.into_iter().zip(snapshots).filter(|(_, cell): &(_, Histogram)| cell.count > 0);
        let mut values: Vec<(SeriesDef, Value)> =
            full.map(|((series, _), cell)| (series, Value::Histogram(Box::new(cell)))).collect();
        let due = time_ns / SECOND_NS % COUNTERS_SECONDS == 0;
        if due {
            values.extend(counter_values(&self.counters));
            values.extend(self.backend.facts().iter().filter_map(kept_value));
        }
        let (ways, dropped) = self.meters.ingest.take();
        self.counters.own_slow_dropped.add(dropped);
        values.extend(ways);
        values.extend(self.clock_series.second(due, (COUNTERS_SECONDS * 1_000) as u32));
        self.sequence += 1;
        let (source, sequence, tenant) = (self.source, self.sequence, Tenant::default());
        let mut out = Batch { source, sequence, tenant, ..Batch::default() };
        for (series, value) in values {
            // Several slow traces in a row are of one series.
            if !matches!(out.series.last(), Some(Ok(last)) if *last == series) {
                out.series.push(Ok(series));
            }
            out.samples.push(Ok(Sample { series: out.series.len() as u32 - 1, time_ns, value }));
        }
        out
    }
}

/// The ledger of ingest as series.
fn counter_values(counters: &Counters) -> Vec<(SeriesDef, Value)> {
    let meta = || SeriesMeta {
        kind: Kind::Float,
        temporality: Temporality::Cumulative,
        unit: String::new(),
        width_ms: (COUNTERS_SECONDS * 1_000) as u32,
    };
    let fixed = [("accepted", "", counters.accepted.get()), ("duplicate", "", counters.duplicate.get())];
    let rejected = counters.rejected().map(|(reason, count)| ("rejected", reason, count));
    let refused = counters.refused().map(|(reason, count)| ("refused", reason, count));
    let all = fixed.into_iter().chain(rejected).chain(refused);
    all.map(|(outcome, reason, count)| {
        let labels = [("outcome", outcome), ("reason", reason)];
        (series("ogive_ingest_samples_total", &labels, meta()), Value::Float(count as f64))
    })
    .chain([(series("ogive_ingest_folded_samples_total", &[], meta()), Value::Float(counters.folded.get() as f64))])
    .collect()
}

/// What is known of the disks and of what is kept on them, as series.
fn kept_value(fact: &Fact) -> Option<(SeriesDef, Value)> {
    const BEGINNINGS: [&str; 9] =
        ["disk", "scrub_", "block", "compaction", "rollup", "dropped_", "deletion", "journal_bytes", "head_bytes"];
    let is_kept = BEGINNINGS.iter().any(|beginning| fact.name.starts_with(beginning));
    let counts = fact.name.ends_with("_total");
    let temporality = if counts { Temporality::Cumulative } else { Temporality::Gauge };
    let unit = if fact.name.ends_with("_seconds") { "s" } else { "" };
    let meta =
        SeriesMeta { kind: Kind::Float, temporality, unit: unit.into(), width_ms: (COUNTERS_SECONDS * 1_000) as u32 };
    is_kept.then(|| (series(&format!("ogive_{}", fact.name), &[], meta), Value::Float(fact.value)))
}

/// 128 bits that no other process has, from the seeds that the standard library takes from the system.
pub(crate) fn random_source() -> SourceId {
    let half = || u128::from(RandomState::new().build_hasher().finish());
    SourceId(half() << 64 | half())
}

#[cfg(test)]
mod tests {
    use ogive_model::Verdict;

    use super::*;
    use crate::backend::{Reader, Refusal, Reply};
    use crate::clock::Kernel;

    /// Takes batches, or refuses them while told to.
    #[derive(Default)]
    struct Sink {
        batches: Mutex<Vec<Batch>>,
        full: Mutex<bool>,
    }

    impl Backend for Sink {
        fn submit(&self, batch: Batch, _: Option<Vec<u8>>, reply: Reply) -> Result<(), Refusal> {
            if *self.full.lock().unwrap() {
                reply(Err(Refusal::DiskFull("full".into())));
                return Ok(());
            }
            let accepted = batch.samples.len() as u64;
            self.batches.lock().unwrap().push(batch);
            reply(Ok(Verdict { accepted, ..Verdict::default() }));
            Ok(())
        }
        fn of<'a>(&'a self, _: &'a Tenant) -> Box<dyn Reader + 'a> {
            unreachable!("the observer does not read")
        }
        fn facts(&self) -> Vec<Fact> {
            Vec::new()
        }
    }

    fn counted(batches: &[Batch], name: &str) -> u64 {
        let mut sum = 0;
        for batch in batches {
            for sample in batch.samples.iter().flatten() {
                let series = batch.series[sample.series as usize].as_ref().unwrap();
                if let Value::Histogram(cell) = &sample.value
                    && series.labels.metric_name() == name
                {
                    sum += cell.count;
                }
            }
        }
        sum
    }

    fn work(sink: &Arc<Sink>) -> Work {
        let clock = Clock::global();
        let mut hiccups = HiccupMeter::start(clock).unwrap();
        hiccups.stop();
        // What it met in its short life is not part of these tests.
        let _ = snapshot_all(hiccups.cpus().iter().map(ogive_probe::CpuMeter::recorder));
        // Nor is what the clock says at the beginning.
        let mut clock_series = ClockSeries::new(Clock::manual(1, 1), Box::new(Kernel::default));
        let _ = clock_series.second(true, 10_000);
        Work {
            backend: sink.clone(),
            meters: Arc::default(),
            counters: Arc::default(),
            clock,
            clock_series,
            hiccups,
            source: random_source(),
            sequence: 0,
            waiting: VecDeque::new(),
        }
    }

    #[test]
    fn every_measurement_is_stored_once_also_over_a_full_disk() {
        let sink = Arc::new(Sink::default());
        let mut work = work(&sink);
        for second in 1..=20_i64 {
            *sink.full.lock().unwrap() = (5..15).contains(&second);
            for at in 0..100 {
                work.meters.http_request("/v1/batch", if at % 2 == 0 { 200 } else { 400 }, 1_000 * at);
            }
            work.second(second * SECOND_NS);
        }
        let batches = sink.batches.lock().unwrap();
        assert_eq!(counted(&batches, "ogive_http_request_seconds"), 2_000);
        let sequences: Vec<u64> = batches.iter().map(|batch| batch.sequence).collect();
        assert_eq!(sequences, (1..=20).collect::<Vec<_>>());
        assert_eq!(work.counters.own_lost.get(), 0);
    }

    #[test]
    fn what_waits_too_long_is_counted_as_lost() {
        let sink = Arc::new(Sink { full: Mutex::new(true), ..Sink::default() });
        let mut work = work(&sink);
        for second in 1..=WAITING_MAX as i64 + 5 {
            work.meters.query(1);
            work.second(second * SECOND_NS + 1);
        }
        assert_eq!(work.counters.own_lost.get() as usize, 5);
        assert_eq!(work.waiting.len(), WAITING_MAX);
    }

    #[test]
    fn stopping_stores_what_is_left() {
        let sink = Arc::new(Sink::default());
        let meters = Arc::<Meters>::default();
        let observer =
            Observer::start(sink.clone(), meters.clone(), Arc::default(), Clock::global(), Box::new(Kernel::default))
                .unwrap();
        meters.query(5);
        observer.stop();
        let batches = sink.batches.lock().unwrap();
        assert_eq!(counted(&batches, "ogive_query_seconds"), 1);
    }

    #[test]
    fn every_own_series_has_a_help_text() {
        let sink = Arc::new(Sink::default());
        let mut work = work(&sink);
        work.meters.http_request("/", 200, 1);
        for (series, _) in work.meters.recorders(&work.hiccups) {
            assert!(!help(series.labels.metric_name()).is_empty(), "{series:?}");
        }
        for series in work.batch(10 * SECOND_NS).series {
            let series = series.unwrap();
            assert!(!help(series.labels.metric_name()).is_empty(), "{series:?}");
        }
        assert_eq!(help("other"), "");
    }
}
