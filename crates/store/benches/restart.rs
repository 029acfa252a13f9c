//! What does a restart cost after a crash, with millions of recent samples in the journal?
//!
//! `cargo bench -p ogive-store --bench restart` writes 20,000 series of 120 samples each, as labels and by identity, and
//! opens the store again in a new process, which replays them: CPU-seconds until it is ready, and the most memory that it ever
//! had beside that of the process that wrote. Then with 980,000 series in a block and nothing in the journal: until it is ready,
//! until the first batch that names a tenth of them by identity is acknowledged, and until one with a new series is
//! (OGIVE_BENCH_SERIES for another number).

mod common;

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, mpsc};
use std::time::{Instant, SystemTime};

use common::cpu_seconds;
use ogive_journal::RealDisk;
use ogive_model::{
    Batch, Kind, Labels, MonoNs, Sample, SeriesDef, SeriesId, SeriesMeta, SourceId, Temporality, Tenant, Value, WallNs,
};
use ogive_store::{Clock, Options, Refusal, Store};

const SERIES: u32 = 20_000;
const SAMPLES_EACH: u64 = 120;
/// Series of which each has one sample in a block.
const STORED: u32 = 980_000;
/// Says that the new process is to name stored series.
const STORED_SERIES: &str = "OGIVE_BENCH_SERIES";
/// The variable that gives the new process its directory.
const DIRECTORY: &str = "OGIVE_BENCH_RESTART";

struct WallClock(Instant);

impl Clock for WallClock {
    fn now(&self) -> MonoNs {
        MonoNs(self.0.elapsed().as_nanos() as u64)
    }

    fn wall(&self) -> WallNs {
        WallNs(SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos() as i64))
    }
}

fn memory_peak_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmHWM")).expect("Linux");
    let kib: f64 = line.split_whitespace().nth(1).and_then(|text| text.parse().ok()).expect("a number");
    kib / 1024.0
}

fn series(number: u32) -> SeriesDef {
    let labels = Labels::new([
        ("__name__", "rpc_requests".to_owned()),
        ("cluster", "eu-central-1".to_owned()),
        ("instance", format!("10.2.{}.{}:9100", number / 250, number % 250)),
        ("job", "payments".to_owned()),
        ("method", format!("method_{}", number % 20)),
        ("status", "200".to_owned()),
    ]);
    let meta = SeriesMeta { kind: Kind::Float, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };
    SeriesDef { labels: labels.expect("labels are valid"), meta }
}

fn batch(sequence: u64, by_identity: bool, wall_ns: i64) -> Batch {
    let time_ns = wall_ns - 600_000_000_000 + sequence as i64 * 1_000_000_000;
    let value = |number: u32| Value::Float(f64::from(number % 977) + sequence as f64 * 0.25);
    let defs = (0..SERIES).map(series);
    let (series, known) = match by_identity {
        true => (Vec::new(), defs.map(|def| def.id(&Tenant::default())).collect()),
        false => (defs.map(Ok).collect(), Vec::new()),
    };
    let samples =
        (0..SERIES).map(|series| Ok(Sample { series, time_ns, start_ns: None, value: value(series) })).collect();
    Batch { source: SourceId(1), sequence, series, known, samples, ..Batch::default() }
}

fn open(directory: &Path) -> Store {
    let clock: Arc<dyn Clock> = Arc::new(WallClock(Instant::now()));
    Store::open(Arc::new(RealDisk), directory, Options::default(), clock).expect("the store opens")
}

fn stored_series() -> u32 {
    std::env::var(STORED_SERIES).ok().and_then(|text| text.parse().ok()).unwrap_or(STORED)
}

fn submit(store: &Store, batch: Batch) {
    let (reply, answer) = mpsc::channel();
    let reported = Box::new(move |verdict: Result<_, Refusal>| reply.send(verdict).unwrap_or(()));
    let samples = batch.samples.len() as u64;
    store.submit(batch, reported).expect("there is room");
    assert_eq!(answer.recv().expect("a reply comes").expect("the disk works").accepted, samples);
}

fn one_sample_each(sequence: u64, series: Vec<SeriesDef>, known: Vec<SeriesId>) -> Batch {
    let time_ns = WallClock(Instant::now()).wall();
    let count = (series.len() + known.len()) as u32;
    let value = Value::Float(1.0);
    let samples = (0..count)
        .map(|series| Ok(Sample { series, time_ns: time_ns.0, start_ns: None, value: value.clone() }))
        .collect();
    Batch {
        source: SourceId(2),
        sequence,
        series: series.into_iter().map(Ok).collect(),
        known,
        samples,
        ..Batch::default()
    }
}

fn run_stored() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(directory.path());
    for (first, sequence) in (0..stored_series()).step_by(10_000).zip(0..) {
        let end = stored_series().min(first + 10_000);
        submit(&store, one_sample_each(sequence, (first..end).map(series).collect(), Vec::new()));
    }
    store.flush_whole().expect("the disk works");
    println!("{} series in a block: the process that wrote had at most {:.0} MiB", stored_series(), memory_peak_mib());
    drop(store);
    for _ in 0..3 {
        let program = std::env::current_exe().expect("a program has a path");
        let mut command = Command::new(program);
        command.env(DIRECTORY, directory.path()).env(STORED_SERIES, stored_series().to_string());
        assert!(command.status().expect("it runs").success());
    }
}

/// In the new process: how long it takes to open, and what the first batches of stored and of new series take.
fn restart_stored(directory: &Path) {
    let begun = cpu_seconds();
    let store = open(directory);
    let opened = cpu_seconds();
    let ids: Vec<_> = (0..stored_series() / 10).map(|at| series(at * 10).id(&Tenant::default())).collect();
    let sequence = WallClock(Instant::now()).wall().to_ms().0 as u64;
    let before = cpu_seconds();
    submit(&store, one_sample_each(sequence, Vec::new(), ids));
    let named = cpu_seconds();
    submit(&store, one_sample_each(sequence + 1, vec![series(u32::MAX)], Vec::new()));
    println!(
        "  ready after {:.3} CPU-seconds, a tenth named by identity after {:.3} more, a new series after {:.3} more; at most {:.0} MiB",
        opened - begun,
        named - before,
        cpu_seconds() - named,
        memory_peak_mib()
    );
}

/// In the new process.
fn restart(directory: &Path) {
    let (cpu, wall) = (cpu_seconds(), Instant::now());
    let store = open(directory);
    let (cpu, wall) = (cpu_seconds() - cpu, wall.elapsed().as_secs_f64());
    let (status, peak) = (store.status(), memory_peak_mib());
    println!(
        "  ready after {cpu:.2} CPU-seconds ({wall:.2} s): {} samples replayed of {:.0} MiB of journal, {} in blocks; \
         at most {peak:.0} MiB",
        status.recovered.samples,
        status.recovered.bytes as f64 / f64::from(1 << 20),
        u64::from(SERIES) * SAMPLES_EACH - status.recovered.samples,
    );
}

fn run(name: &str, by_identity: bool) {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(directory.path());
    let wall_ns = WallClock(Instant::now()).wall();
    for sequence in 0..SAMPLES_EACH {
        let (reply, answer) = mpsc::channel();
        let batch = batch(sequence, by_identity && sequence > 0, wall_ns.0);
        let reported = Box::new(move |verdict: Result<_, Refusal>| reply.send(verdict).unwrap_or(()));
        store.submit(batch, reported).expect("there is room");
        let verdict = answer.recv().expect("a reply comes").expect("the disk works");
        assert_eq!(verdict.accepted, u64::from(SERIES));
    }
    println!("{name}: the process that wrote had at most {:.0} MiB", memory_peak_mib());
    // Nothing is flushed at the end: what is in memory is in the journal, as after a crash.
    drop(store);
    for _ in 0..3 {
        let program = std::env::current_exe().expect("a program has a path");
        let status = Command::new(program).env(DIRECTORY, directory.path()).status().expect("it runs");
        assert!(status.success());
    }
}

fn main() {
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        let restart = if std::env::var_os(STORED_SERIES).is_some() { restart_stored } else { restart };
        return restart(Path::new(&directory));
    }
    if std::env::args().any(|argument| argument == "stored") {
        return run_stored();
    }
    run("by identity", true);
    run("with labels", false);
    run_stored();
}
