//! What does a series take in memory, and what of it are its samples?
//!
//! `cargo bench -p ogive-store --bench memory` has a store on the real disk take one sample after the other of 100,000
//! series of nine labels, declared with the first and named by their identity from then on, and prints after 1, 13 and
//! 120 of them, and after a flush: bytes a series that the allocator (the server's) set aside for them, that its pages
//! with any of these take, and that are resident; and what the store counts. `-- SERIES SAMPLES...` for other numbers.

mod common;

use std::ops::Range;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use common::{WallClock, cpu_seconds};
use ogive_journal::RealDisk;
use ogive_model::{Batch, Kind, Sample, SeriesDef, SeriesId, SeriesMeta, SourceId, Temporality, Tenant, Value};
use ogive_store::{Clock, Options, Refusal, Store};
use tikv_jemallocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// Bytes of memory, each a part of the next.
#[derive(Clone, Copy)]
struct Held {
    /// The allocator set them aside for what the program asked for.
    allocated: f64,
    /// The allocator's pages with any of these.
    active: f64,
    /// The process has them, files apart.
    resident: f64,
}

impl Held {
    fn now() -> Self {
        // Freed pages go back in ten seconds; what is measured is not how long ago they were freed.
        std::thread::sleep(Duration::from_secs(12));
        // The statistics are a copy that is renewed by this call.
        tikv_jemalloc_ctl::epoch::advance().expect("jemalloc has statistics");
        let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
        let anonymous = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("Linux");
        let kib: f64 = anonymous.trim().trim_end_matches(" kB").parse().expect("a number");
        Self {
            allocated: tikv_jemalloc_ctl::stats::allocated::read().expect("jemalloc has statistics") as f64,
            active: tikv_jemalloc_ctl::stats::active::read().expect("jemalloc has statistics") as f64,
            resident: kib * 1024.0,
        }
    }
}

/// Series of a host, as `cargo bench -p ogive --bench scale` has them.
const HOST_SERIES: usize = 100;
const REQUEST_SERIES: usize = 1000;
const STEP_MS: i64 = 15_000;

fn definition(index: usize) -> SeriesDef {
    let host = index / HOST_SERIES;
    let labels = [
        ("__name__", "bench_value".to_owned()),
        ("cluster", format!("eu-{}", host % 4)),
        ("handler", format!("/api/v1/things/{}", index % HOST_SERIES)),
        ("host", format!("node-{host:06}.example.org")),
        ("instance", format!("10.{}.{}.{}:9100", (host >> 16) & 255, (host >> 8) & 255, host & 255)),
        ("job", "bench".to_owned()),
        ("method", ["GET", "PUT", "POST"][index % 3].to_owned()),
        ("service", format!("service-{}", host % 20)),
        ("status", ["200", "204", "404", "500"][index % 4].to_owned()),
    ];
    let meta = SeriesMeta { kind: Kind::Float, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };
    SeriesDef::new(labels, meta).expect("nine labels are within the limits")
}

/// Half of the series count, three tenths wander, two tenths are latencies of six decimals.
fn value(index: usize, step: i64) -> f64 {
    let mut random = fastrand::Rng::with_seed(index as u64 ^ (step.cast_unsigned() << 32));
    match index % 10 {
        0..5 => (step * (16 + (index % 64) as i64)) as f64 + random.u64(..16) as f64,
        5..8 => {
            let slow = 50.0 + 20.0 * (step as f64 / 40.0 + index as f64).sin();
            (slow * 100.0 + random.u64(..200) as f64).round() / 100.0
        }
        _ => (((0..4).map(|_| random.f64()).sum::<f64>() - 8.0).exp() * 1e6).round() / 1e6,
    }
}

/// The store, and what it is sent.
struct Load {
    store: Store,
    ids: Vec<SeriesId>,
    sequence: u64,
    steps: i64,
    begin_ms: i64,
}

impl Load {
    /// The next sample of all series; they are declared with the first.
    fn step(&mut self) {
        let (done, answers) = mpsc::channel();
        let mut sent = 0;
        for from in (0..self.ids.len()).step_by(REQUEST_SERIES) {
            let range = from..self.ids.len().min(from + REQUEST_SERIES);
            self.submit(range, &done);
            sent += 1;
        }
        let accepted: u64 = answers.iter().take(sent).sum();
        assert_eq!(accepted, self.ids.len() as u64, "every sample is accepted");
        self.steps += 1;
    }

    fn submit(&mut self, range: Range<usize>, done: &mpsc::Sender<u64>) {
        let time_ns = (self.begin_ms + self.steps * STEP_MS) * 1_000_000;
        let value = |index| Value::Float(value(index, self.steps));
        let samples = (0..).zip(range.clone());
        let samples =
            samples.map(|(series, index)| Ok(Sample { series, time_ns, start_ns: None, value: value(index) }));
        let mut batch =
            Batch { source: SourceId(1), sequence: self.sequence, samples: samples.collect(), ..Batch::default() };
        match self.steps {
            0 => batch.series = range.map(|index| Ok(definition(index))).collect(),
            _ => batch.known = self.ids[range].to_vec(),
        }
        self.sequence += 1;
        let frame = batch.encode().expect("it fits");
        drop(batch);
        loop {
            let done = done.clone();
            let reply = Box::new(move |verdict: Result<ogive_model::Verdict, Refusal>| {
                done.send(verdict.expect("the disk works").accepted).unwrap_or(());
            });
            let batch = Batch::decode(&frame).expect("a frame of our own");
            match self.store.submit_framed(batch, frame.clone(), reply) {
                Ok(()) => return,
                Err(Refusal::Busy) => std::thread::sleep(Duration::from_millis(2)),
                Err(refusal) => panic!("{refusal}"),
            }
        }
    }
}

fn report(what: &str, before: Held, series: usize, cpu: f64, store: &Store) {
    let now = Held::now();
    let each = |now: f64, before: f64| (now - before) / series as f64;
    let status = store.status();
    println!(
        "{what}: bytes a series: {:.0} allocated, {:.0} in active pages, {:.0} resident; the store counts \
         {:.0} in heads and {:.0} for series; {cpu:.3} us of CPU a sample",
        each(now.allocated, before.allocated),
        each(now.active, before.active),
        each(now.resident, before.resident),
        status.head_bytes as f64 / series as f64,
        status.series_bytes as f64 / series as f64,
    );
}

fn main() {
    let mut numbers = std::env::args().filter_map(|argument| argument.parse::<usize>().ok());
    let series = numbers.next().unwrap_or(100_000);
    let mut looks: Vec<usize> = numbers.collect();
    if looks.is_empty() {
        looks = vec![1, 13, 120];
    }
    let directory = tempfile::tempdir().expect("a directory");
    let clock: Arc<dyn Clock> = Arc::new(WallClock(Instant::now()));
    let options = Options {
        flush_interval: Duration::from_secs(86_400),
        replay_bytes_max: u64::MAX,
        head_bytes_max: 1 << 40,
        ..Options::default()
    };
    let store = Store::open(Arc::new(RealDisk), directory.path(), options, Arc::clone(&clock));
    let ids = (0..series).map(|index| definition(index).id(&Tenant::default())).collect();
    // Earlier than now, and in one window.
    let begin_ms = clock.wall().0 / 1_000_000 / 7_200_000 * 7_200_000 - 7_200_000;
    let mut load = Load { store: store.expect("the store opens"), ids, sequence: 0, steps: 0, begin_ms };
    let before = Held::now();
    for samples in looks {
        let (cpu, steps) = (cpu_seconds(), samples - load.steps as usize);
        (0..steps).for_each(|_| load.step());
        let cpu = (cpu_seconds() - cpu) * 1e6 / (steps * series) as f64;
        report(&format!("{series} series, {samples} samples"), before, series, cpu, &load.store);
    }
    let cpu = cpu_seconds();
    load.store.flush().expect("the disk works");
    let cpu = (cpu_seconds() - cpu) * 1e6 / (load.steps as usize * series) as f64;
    report("flushed", before, series, cpu, &load.store);
}
