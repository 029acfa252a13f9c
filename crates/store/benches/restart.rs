//! What does a restart cost after a crash, with millions of recent samples in the journal?
//!
//! `cargo bench -p ogive-store --bench restart` writes 20,000 series of 120 samples each, as labels and by identity,
//! and opens the store again in a new process, which replays them: CPU-seconds until it is ready, and the most memory
//! that it ever had beside that of the process that wrote. Then with 980,000 series in a block and nothing in the
//! journal: until it is ready, until the first batch that names a tenth of them by identity is acknowledged, and until
//! one with a new series is (OGIVE_BENCH_SERIES for another number).
//!
//! `-- journal` writes 10 million samples of counters, gauges and latencies by identity into the journal alone, in
//! batches of 20,000, 1,000 and 20 series, and then a million new series with seven samples each: bytes of the disk for
//! each sample, CPU for each until it is acknowledged, and what a restart costs as above. OGIVE_BENCH_SAMPLES for
//! another number of millions.

mod common;

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, mpsc};
use std::time::Instant;

use common::{WallClock, cpu_seconds};
use ogive_journal::RealDisk;
use ogive_model::{Batch, Kind, Labels, Sample, SeriesDef, SeriesId, SeriesMeta, SourceId, Temporality, Tenant, Value};
use ogive_store::{Clock, Options, Refusal, Store, TenantLimits};

const SERIES: u32 = 20_000;
const SAMPLES_EACH: u64 = 120;
/// Series of which each has one sample in a block.
const STORED: u32 = 980_000;
/// Says that the new process is to name stored series.
const STORED_SERIES: &str = "OGIVE_BENCH_SERIES";
/// The variable that gives the new process its directory.
const DIRECTORY: &str = "OGIVE_BENCH_RESTART";

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

/// Says that the new process is to open a journal with everything in it.
const JOURNAL_ONLY: &str = "OGIVE_BENCH_JOURNAL";

/// Options by which nothing is flushed.
fn unflushed() -> Options {
    let tenant_limits = TenantLimits { series: usize::MAX, ..TenantLimits::default() };
    Options { head_bytes_max: 8 << 30, replay_bytes_max: 8 << 30, tenant_limits, ..Options::default() }
}

fn open_unflushed(directory: &Path) -> Store {
    let clock: Arc<dyn Clock> = Arc::new(WallClock(Instant::now()));
    Store::open(Arc::new(RealDisk), directory, unflushed(), clock).expect("the store opens")
}

const fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// Half of the series are counters, three tenths gauges of two places, the rest latencies in microseconds.
fn value(index: u32, step: u64) -> f64 {
    let noise = mix(mix(u64::from(index)) ^ step);
    match index % 10 {
        0..5 => (step * (16 + u64::from(index % 64)) + noise % 16) as f64,
        5..8 => {
            let slow = 50.0 + 20.0 * (step as f64 / 40.0 + f64::from(index)).sin();
            (slow * 100.0 + (noise % 200) as f64).round() / 100.0
        }
        _ => {
            let sum: u64 = (0..4_u32).map(|at| (noise >> (16 * at)) & 0xffff).sum();
            (((sum as f64 / 65_536.0 - 2.0) * 1.04 - 6.0).exp() * 1e6).round() / 1e6
        }
    }
}

/// Sends `steps` samples of each of `count` series, `width` a batch, and opens the journal in new processes.
fn run_journal(name: &str, count: u32, steps: u64, width: usize) {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open_unflushed(directory.path());
    let begun = WallClock(Instant::now()).wall().0 - steps as i64 * 15_000_000_000;
    let tenant = Tenant::default();
    let ids: Vec<SeriesId> = (0..count).map(|number| series(number).id(&tenant)).collect();
    let (mut cpu, mut declared, mut sequence) = (0.0, 0.0, 0);
    let (reply, answers) = mpsc::channel();
    for step in 0..steps {
        let time_ns = begun + step as i64 * 15_000_000_000;
        // A new series comes with its labels.
        let width = if step == 0 { width.max(1_000) } else { width };
        for first in (0..count).step_by(width) {
            let numbers = first..count.min(first + width as u32);
            let sample = |(at, number)| {
                Ok(Sample { series: at, time_ns, start_ns: None, value: Value::Float(value(number, step)) })
            };
            let mut batch = Batch { source: SourceId(1), sequence, ..Batch::default() };
            batch.samples = (0..).zip(numbers.clone()).map(sample).collect();
            match step {
                0 => batch.series = numbers.map(|number| Ok(series(number))).collect(),
                _ => batch.known = ids[first as usize..numbers.end as usize].to_vec(),
            }
            let frame = batch.encode().expect("it fits");
            let batch_cpu = cpu_seconds();
            let reply = reply.clone();
            let done = Box::new(move |verdict: Result<_, Refusal>| reply.send(verdict).unwrap_or(()));
            store.submit_framed(batch, frame, done).expect("there is room");
            sequence += 1;
            // Some hundred in flight, as from many senders.
            if sequence % 100 == 0 || width > 1_000 {
                let rest = if width > 1_000 { 1 } else { 100 };
                answers.iter().take(rest).for_each(|answer| drop(answer.expect("the disk works")));
            }
            *(if step == 0 { &mut declared } else { &mut cpu }) += cpu_seconds() - batch_cpu;
        }
    }
    drop(reply);
    let before_end = cpu_seconds();
    let journal_bytes = store.status().journal_bytes;
    drop(store);
    answers.iter().for_each(|answer| drop(answer.expect("the disk works")));
    cpu += cpu_seconds() - before_end;
    let (samples, known) = (u64::from(count) * steps, u64::from(count) * (steps - 1));
    println!(
        "{name}: {:.2} bytes of journal a sample, labels included; {:.3} CPU us a sample by identity, {:.2} a new series",
        journal_bytes as f64 / samples as f64,
        cpu * 1e6 / known as f64,
        declared * 1e6 / f64::from(count),
    );
    for _ in 0..3 {
        let program = std::env::current_exe().expect("a program has a path");
        let mut command = Command::new(program);
        command.env(DIRECTORY, directory.path()).env(JOURNAL_ONLY, samples.to_string());
        assert!(command.status().expect("it runs").success());
    }
}

/// In the new process.
fn restart_journal(directory: &Path, samples: &str) {
    let (cpu, wall) = (cpu_seconds(), Instant::now());
    let store = open_unflushed(directory);
    let (cpu, wall) = (cpu_seconds() - cpu, wall.elapsed().as_secs_f64());
    assert_eq!(store.status().recovered.samples.to_string(), samples);
    println!("  ready after {cpu:.3} CPU-seconds ({wall:.2} s); at most {:.0} MiB", memory_peak_mib());
}

fn run_journals() {
    let millions = std::env::var("OGIVE_BENCH_SAMPLES").ok().and_then(|text| text.parse().ok()).unwrap_or(10);
    let steps = |count: u32| (millions * 1_000_000_u64 / u64::from(count)).max(2);
    run_journal("20,000 series a batch", 20_000, steps(20_000), 20_000);
    run_journal("1,000 series a batch", 20_000, steps(20_000), 1_000);
    run_journal("20 series a batch", 20_000, steps(20_000) / 10 + 2, 20);
    run_journal("new series with seven samples each", (millions * 100_000) as u32, 7, 1_000);
}

fn main() {
    if let (Some(directory), Ok(samples)) = (std::env::var_os(DIRECTORY), std::env::var(JOURNAL_ONLY)) {
        return restart_journal(Path::new(&directory), &samples);
    }
    if std::env::args().any(|argument| argument == "journal") {
        return run_journals();
    }
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
