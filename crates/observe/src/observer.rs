//! Self observation: what the server and its machine do, measured by its own probe and stored as its own series.
//!
//! Format: histograms are delta cells of one second in seconds; counters are cumulative. Every second, as the wall
//! clock's second ends, the recorders' snapshots become one batch under a source id of this process.
//! Invariants: a cell leaves the recorder once; a batch that the store refuses is kept and sent again under its number,
//! so it counts once; what is given up after [`WAITING_MAX`] seconds is counted as lost.
//! Threads: one, beside the meter's thread on each CPU.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use ogive_export::{CellEnd, Measured, random_source};
use ogive_model::{Batch, Ns, SeriesDef, SourceId, Tenant, Value, WallNs};
use ogive_probe::{Clock, HiccupMeter};

use crate::clock::AskKernel;
use crate::clock::series::ClockSeries;
use crate::help::{CRASHES, SLOW_DROPPED, TURNED_AWAY, UNREADABLE};
use ogive_door::backend::{Backend, Fact};
use ogive_door::counters::{Counters, Entry};
use ogive_door::ingest_path::Publisher;
use ogive_door::metadata::Metadata;
use ogive_door::meters::Meters;
use ogive_door::own_value::{OwnValue, WIDTH_SECONDS};

const SECOND: Ns = Ns::from_secs(1);

/// A minute of cells waits while the disk is full or the store is busy.
const WAITING_MAX: usize = 60;

/// A batch is waited for this long within its second; later the same batch is sent again.
const REPLY: Duration = Duration::from_millis(800);

/// The thread that stores what was measured; stopping it stores what is left.
pub struct Observer {
    stop: mpsc::Sender<()>,
    thread: JoinHandle<()>,
}

/// What the thread works with.
struct Work {
    backend: Arc<dyn Backend>,
    meters: Arc<Meters>,
    counters: Arc<Counters>,
    metadata: Arc<Metadata>,
    clock: Clock,
    clock_series: ClockSeries,
    hiccups: HiccupMeter,
    source: SourceId,
    sequence: u64,
    /// Batches that are not yet durable, the oldest first.
    waiting: VecDeque<Batch>,
}

impl Observer {
    /// Starts the thread. `kernel` says what the kernel says of its clock sources.
    pub fn start(
        backend: Arc<dyn Backend>,
        meters: Arc<Meters>,
        counters: Arc<Counters>,
        metadata: Arc<Metadata>,
        clock: Clock,
        kernel: AskKernel,
    ) -> anyhow::Result<Self> {
        let hiccups = HiccupMeter::start(clock).context("cannot start the hiccup meter")?;
        meters.cells.hiccups(&hiccups).context("cannot measure hiccups")?;
        let mut work = Work {
            backend,
            meters,
            counters,
            metadata,
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
                let now = WallNs(work.clock.wall());
                let next = now.align_down(SECOND) + SECOND;
                let ended = stopped.recv_timeout((next - now).to_duration());
                if ended != Err(RecvTimeoutError::Timeout) {
                    work.hiccups.stop();
                    // What was measured in the second that has begun belongs to the cell at its end.
                    let now = WallNs(work.clock.wall());
                    work.second(CellEnd { time: now.align_down(SECOND) + SECOND, is_last: true });
                    return;
                }
                work.second(CellEnd { time: next, is_last: false });
            }
        };
        let thread = std::thread::Builder::new().name("observe".into()).spawn(run).context("cannot start a thread")?;
        Ok(Self { stop, thread })
    }

    /// Stores what is left and ends.
    pub fn stop(self) {
        let _ = self.stop.send(());
        let _ = self.thread.join();
    }
}

impl Work {
    /// Takes the cells of a second and sends what waits.
    fn second(&mut self, turn: CellEnd) {
        let mut way = self.meters.ingest.begin();
        way.read();
        let batch = self.batch(turn);
        way.decoded();
        let mut way = Some(way);
        for (tenant, values) in self.metadata.take_due(turn.time) {
            self.sequence += 1;
            self.waiting.push_back(Measured::batch(self.source, self.sequence, tenant, values));
        }
        if !batch.samples.is_empty() {
            self.waiting.push_back(batch);
        }
        while self.waiting.len() > WAITING_MAX {
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
            if self.backend.submit(batch.clone(), None, way.steps(), reply).is_err() {
                return;
            }
            let Ok(Ok(verdict)) = receiver.recv_timeout(REPLY) else { return };
            self.meters.ingest.finish(way, Publisher::Own);
            self.counters.own_lost.add(verdict.rejected.len() as u64);
            self.waiting.pop_front();
        }
    }

    fn batch(&mut self, turn: CellEnd) -> Batch {
        let mut values = self.meters.cells.take(turn);
        self.counters.own_slow_dropped.add(slow_dropped(&values));
        let mut figures = Vec::new();
        let due = turn.time.0 / SECOND.0 % WIDTH_SECONDS == 0;
        if due {
            figures.extend(counter_values(&self.counters));
            figures.extend(crate::facts::facts(&*self.backend).iter().filter_map(kept_value));
            figures.extend(self.backend.own_values());
            figures.push(OwnValue::counter(CRASHES, &[], ogive_crash::handler::total() as f64));
            figures.extend(self.meters.rule_values());
        }
        let clock = self.clock_series.second(due);
        if !clock.is_empty() {
            self.meters.set_clock_values(clock.clone());
        }
        figures.extend(clock);
        let events = self.clock_series.take_events().into_iter();
        values.extend(events.map(|(series, text)| Measured { series, time: turn.time, value: Value::Text(text) }));
        values.extend(figures.into_iter().map(|figure| figure.at(turn.time)));
        if let Some((name, value)) = self.backend.own_label() {
            values.iter_mut().for_each(|measured| label(&mut measured.series, name, &value));
        }
        self.sequence += 1;
        Measured::batch(self.source, self.sequence, Tenant::default(), values)
    }
}

/// Adds a label, unless the series has one of this name.
fn label(series: &mut SeriesDef, name: &str, value: &str) {
    let pairs = series.labels.iter().chain([(name, value)]);
    if let Ok(labelled) = SeriesDef::new(pairs, series.meta.clone()) {
        *series = labelled;
    }
}

/// How many slow batches these values say are not there as texts.
fn slow_dropped(values: &[Measured]) -> u64 {
    let counts = values.iter().filter(|measured| measured.series.labels.metric_name() == SLOW_DROPPED);
    counts.map(|measured| if let Value::Float(count) = measured.value { count as u64 } else { 0 }).sum()
}

/// The ledger of ingest as series.
fn counter_values(counters: &Counters) -> impl Iterator<Item = OwnValue> + '_ {
    let samples = counters.entries().map(|Entry { protocol, outcome, reason, samples }| {
        let labels = [("protocol", protocol), ("outcome", outcome), ("reason", reason)];
        OwnValue::counter("ogive_ingest_samples_total", &labels, samples as f64)
    });
    let unreadable = counters.unreadable().map(|(protocol, reason, count)| {
        OwnValue::counter(UNREADABLE, &[("protocol", protocol), ("reason", reason)], count as f64)
    });
    let turned_away = counters.door.failures();
    let turned_away =
        turned_away.map(|(reason, count)| OwnValue::counter(TURNED_AWAY, &[("reason", reason)], count as f64));
    let folded = counters.total(|ledger| ledger.folded.get());
    let door = counters.door.values().into_iter().chain(counters.reloads.values()).chain(counters.forwards.values());
    let door = door.chain(counters.fleet.values());
    samples.chain(unreadable).chain(turned_away).chain(door).chain([OwnValue::counter(
        "ogive_ingest_folded_samples_total",
        &[],
        folded as f64,
    )])
}

/// What is known of the disks and of what is kept on them, as series.
fn kept_value(fact: &Fact) -> Option<OwnValue> {
    const BEGINNINGS: [&str; 11] = [
        "memory_",
        "spool_",
        "disk",
        "scrub_",
        "block",
        "compaction",
        "rollup",
        "dropped_",
        "deletion",
        "journal_bytes",
        "head_bytes",
    ];
    let is_kept = BEGINNINGS.iter().any(|beginning| fact.name.starts_with(beginning));
    let (name, unit) = (format!("ogive_{}", fact.name), if fact.name.ends_with("_seconds") { "s" } else { "" });
    is_kept.then(|| match fact.name.ends_with("_total") {
        true => OwnValue::counter(&name, &[], fact.value),
        false => OwnValue::gauge(&name, &[], unit, fact.value),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Mutex;

    use ogive_model::{Matcher, MetricKind, Opening, Select, SelectError, Selection, SeriesData, TimeRange, Verdict};

    use ogive_probe::Recorder;

    use super::*;
    use crate::clock::Kernel;
    use crate::help::{HELP, help};
    use ogive_door::backend::{Reader, Refusal, Reply};
    use ogive_door::{ingest_path, metadata};

    /// Takes batches, or refuses them while asked to.
    #[derive(Default)]
    struct Sink {
        batches: Mutex<Vec<Batch>>,
        full: Mutex<bool>,
    }

    /// Has nothing.
    struct Empty;

    impl Select for Empty {
        fn select(&self, _: &Selection) -> Result<Vec<SeriesData>, SelectError> {
            Ok(Vec::new())
        }
    }

    impl Reader for Empty {
        fn label_names(&self, _: &[Matcher], _: TimeRange, _: &Opening<'_>) -> Result<Vec<String>, SelectError> {
            Ok(Vec::new())
        }
        fn label_values(
            &self,
            _: &str,
            _: &[Matcher],
            _: TimeRange,
            _: usize,
            _: &Opening<'_>,
        ) -> Result<Vec<String>, SelectError> {
            Ok(Vec::new())
        }
    }

    impl Backend for Sink {
        fn submit(
            &self,
            batch: Batch,
            _: Option<Vec<u8>>,
            _: Arc<dyn ogive_door::backend::Stamps>,
            reply: Reply,
        ) -> Result<(), Refusal> {
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
            Box::new(Empty)
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
        let _ = ogive_probe::snapshot_all(hiccups.cpus().iter().map(ogive_probe::CpuMeter::recorder));
        // Nor is what the clock says at the beginning.
        let mut clock_series = ClockSeries::new(Clock::manual(1, 1), Box::new(Kernel::default));
        let _ = clock_series.second(true);
        Work {
            backend: sink.clone(),
            meters: Arc::default(),
            counters: Arc::default(),
            metadata: Arc::new(Metadata::new(sink.clone(), clock)),
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
            work.second(CellEnd { time: WallNs(0) + SECOND * second, is_last: false });
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
        // The first samples of counters.
        let _ = work.meters.cells.take(CellEnd { time: WallNs(0), is_last: false });
        for second in 1..=WAITING_MAX as i64 + 5 {
            work.meters.query(1);
            work.second(CellEnd { time: WallNs(1) + SECOND * second, is_last: false });
        }
        assert_eq!(work.counters.own_lost.get() as usize, 5);
        assert_eq!(work.waiting.len(), WAITING_MAX);
    }

    #[test]
    fn stopping_stores_what_is_left() {
        let sink = Arc::new(Sink::default());
        let meters = Arc::<Meters>::default();
        let metadata = Arc::new(Metadata::new(sink.clone(), Clock::global()));
        metadata.learn(&Tenant::default(), "m", MetricKind::Gauge, "A metric.", "");
        let observer = Observer::start(
            sink.clone(),
            meters.clone(),
            Arc::default(),
            metadata,
            Clock::global(),
            Box::new(Kernel::default),
        )
        .unwrap();
        meters.query(5);
        observer.stop();
        let batches = sink.batches.lock().unwrap();
        // A slow machine's own slow batches are texts too.
        let of_metadata = |batch: &&Batch| {
            batch.series.iter().flatten().any(|series| series.labels.metric_name() == metadata::SERIES)
        };
        assert_eq!(batches.iter().filter(of_metadata).map(|batch| batch.samples.len()).sum::<usize>(), 1);
        assert_eq!(counted(&batches, "ogive_query_seconds"), 1);
    }

    #[test]
    fn every_own_series_has_a_help_text() {
        let sink = Arc::new(Sink::default());
        let mut work = work(&sink);
        work.meters.cells.hiccups(&work.hiccups).unwrap();
        work.meters.http_request("/", 200, 1);
        for recorder in [&work.meters.fsync, &work.meters.flush, work.hiccups.cpus()[0].recorder()] {
            recorder.record_ns(1);
        }
        work.meters.query(1);
        let scrape = Recorder::default();
        work.meters.scrape(&[("job", "x")], &scrape);
        scrape.record_ns(1);
        let batch = work.batch(CellEnd { time: WallNs(0) + SECOND * 10, is_last: false });
        let names: BTreeSet<String> =
            batch.series.into_iter().map(|series| series.unwrap().labels.metric_name().to_owned()).collect();
        assert!(names.iter().all(|name| !help(name).is_empty()), "{names:?}");
        // Stages of batches, metadata and rules of the quantizer are not there without any.
        let silent = [ingest_path::METRIC, "ogive_ingest_slow", metadata::SERIES];
        for (name, _) in HELP.iter().filter(|(name, _)| !silent.contains(name) && !name.starts_with("ogive_quantize_"))
        {
            assert!(names.contains(*name), "{name} is not among {names:?}");
        }
        assert_eq!(help("other"), "");
    }
}
