//! How many samples does a store take in for each CPU-second, durable and applied?
//!
//! `cargo bench -p ogive-store --bench ingest` sends batches of floats and of histogram cells to a store on the real
//! disk: decoded from their frame, as FlatBuffers come, and without a frame, as JSON comes (which has to be encoded
//! for the journal). CPU time is the whole process's; decoding is in it, HTTP and the parsing of JSON are not.
//! With `OGIVE_RECORDING` (a file that `make bench-peers ARGS='--record ADDRESS --recording FILE'` wrote) the
//! histograms of a server's own measurements too, as from four servers and five times after each other: what do they
//! cost in memory?

mod common;

use std::sync::{Arc, mpsc};
use std::time::{Instant, SystemTime};

use common::{WallClock, cell, cpu_seconds};
use ogive_journal::RealDisk;
use ogive_model::{Batch, Kind, Labels, Sample, SeriesDef, SeriesId, SeriesMeta, SourceId, Temporality, Value};
use ogive_store::{Clock, Options, Refusal, Store};

fn series(number: u32, kind: Kind, temporality: Temporality) -> SeriesDef {
    let labels = Labels::new([
        ("__name__", "rpc_duration_seconds".to_owned()),
        ("cluster", "eu-central-1".to_owned()),
        ("instance", format!("10.2.{}.{}:9100", number / 250, number % 250)),
        ("job", "payments".to_owned()),
        ("method", format!("method_{}", number % 20)),
        ("status", "200".to_owned()),
    ]);
    SeriesDef {
        labels: labels.expect("labels are valid"),
        meta: SeriesMeta { kind, temporality, unit: "s".into(), width_ms: 1000 },
    }
}

fn batch(sequence: u64, width: u32, kind: Kind, wall_ns: i64) -> Batch {
    let temporality = if kind == Kind::Float { Temporality::Gauge } else { Temporality::Delta };
    let value = |number: u32| match kind {
        Kind::Histogram => cell(u64::from(number) + sequence * 1000, 200),
        _ => Value::Float(f64::from(number) + sequence as f64 * 0.25),
    };
    let time_ns = wall_ns - 3_600_000_000_000 + sequence as i64 * 1_000_000_000;
    Batch {
        source: SourceId(1),
        sequence,
        series: (0..width).map(|number| Ok(series(number, kind, temporality))).collect(),
        samples: (0..width)
            .map(|number| Ok(Sample { series: number, time_ns, start_ns: None, value: value(number) }))
            .collect(),
        ..Batch::default()
    }
}

/// Submits until the store takes it.
fn submit(store: &Store, frame: &[u8], framed: bool, done: &mpsc::Sender<u64>) {
    loop {
        let batch = Batch::decode(frame).expect("a frame of our own");
        let done = done.clone();
        let reply = Box::new(move |verdict: Result<ogive_model::Verdict, Refusal>| {
            done.send(verdict.expect("the disk works").accepted).unwrap_or(());
        });
        let taken = match framed {
            true => store.submit_framed(batch, frame.to_vec(), reply),
            false => store.submit(batch, reply),
        };
        match taken {
            Ok(()) => return,
            Err(Refusal::Busy) => std::thread::sleep(std::time::Duration::from_millis(2)),
            Err(refusal) => panic!("{refusal}"),
        }
    }
}

/// Bytes of memory that the process has.
fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    pages.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).map_or(0, |pages| pages * 4096)
}

fn run(name: &str, batches: u64, width: u32, kind: Kind, framed: bool) {
    let wall_ns = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos() as i64);
    let frames: Vec<Vec<u8>> =
        (0..batches).map(|n| batch(n, width, kind, wall_ns).encode().expect("it fits")).collect();
    run_frames(name, &frames, framed);
}

fn run_frames(name: &str, frames: &[Vec<u8>], framed: bool) {
    let directory = tempfile::tempdir().expect("a directory");
    let clock: Arc<dyn Clock> = Arc::new(WallClock(Instant::now()));
    let decoding = cpu_seconds();
    frames.iter().for_each(|frame| drop(Batch::decode(frame)));
    let decoding = cpu_seconds() - decoding;
    let memory = resident();
    let store = Store::open(Arc::new(RealDisk), directory.path(), Options::default(), Arc::clone(&clock));
    let store = store.expect("the store opens");
    let (done, answers) = mpsc::channel();
    let (cpu, wall) = (cpu_seconds(), Instant::now());
    frames.iter().for_each(|frame| submit(&store, frame, framed, &done));
    let accepted: u64 = answers.iter().take(frames.len()).sum();
    let (cpu, wall) = (cpu_seconds() - cpu, wall.elapsed().as_secs_f64());
    let memory = resident().saturating_sub(memory) as f64 / accepted as f64;
    let status = store.status();
    let journal = status.journal_bytes as f64 / accepted as f64;
    let head = status.head_bytes as f64 / accepted as f64;
    let flushing = cpu_seconds();
    store.flush().expect("the disk works");
    let flushing = cpu_seconds() - flushing;
    let stored = store.status().block_bytes as f64 / accepted as f64;
    println!(
        "{name}: {:.0} a CPU-second ({:.0} a wall second); decoding is {:.0} % of it; bytes each: journal {journal:.0}, \
         head {head:.1}, resident {memory:.0}, block {stored:.1}; flush {:.2} us each; {accepted} in all",
        accepted as f64 / cpu,
        accepted as f64 / wall,
        100.0 * decoding / cpu,
        flushing * 1e6 / accepted as f64,
    );
}

/// Samples of a request in recorded time: a sender that collects for ten seconds.
const RUN_NS: i64 = 10_000_000_000;

/// The frames of one server's histograms, each of ten seconds.
fn recorded(bytes: &[u8]) -> Vec<Batch> {
    let (mut left, mut runs) = (bytes, std::collections::BTreeMap::new());
    while let Some((length, rest)) = left.split_first_chunk() {
        let (frame, rest) = rest.split_at(u32::from_le_bytes(*length) as usize);
        left = rest;
        let batch = Batch::decode(frame).expect("a frame of our own");
        for sample in batch.samples.into_iter().flatten() {
            if matches!(sample.value, Value::Histogram(_)) {
                let run: &mut Batch = runs.entry(sample.time_ns / RUN_NS).or_default();
                run.series.clone_from(&batch.series);
                run.samples.push(Ok(sample));
            }
        }
    }
    runs.into_values().collect()
}

fn run_recorded(file: &str) {
    let one = recorded(&std::fs::read(file).expect("the recording can be read"));
    let length_ns = one.len() as i64 * RUN_NS;
    let mut frames = Vec::new();
    for number in 0..5 * one.len() {
        for server in 0..4 {
            let mut batch = one[number % one.len()].clone();
            (batch.source, batch.sequence) = (SourceId(server + 1), number as u64);
            for series in batch.series.iter_mut().flatten() {
                let labels = series.labels.iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
                let labels = labels.chain([("instance".to_owned(), format!("node-{server}"))]);
                series.labels = Labels::new(labels).expect("labels are valid");
            }
            for sample in batch.samples.iter_mut().flatten() {
                sample.time_ns -= (4 - (number / one.len()) as i64) * length_ns;
            }
            frames.push(batch.encode().expect("it fits"));
        }
    }
    run_frames("recorded histograms", &frames, true);
}

/// The frames of 20,000 series in requests of 500, a sample of each: declared once, then named by their identity.
fn known_frames() -> Vec<Vec<u8>> {
    const SERIES: u32 = 20_000;
    let wall_ns = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos() as i64);
    let declared = batch(0, SERIES, Kind::Float, wall_ns);
    let ids: Vec<SeriesId> = declared.series.iter().flatten().map(|def| def.id(&declared.tenant)).collect();
    let mut frames = vec![declared.encode().expect("it fits")];
    for step in 1..60 {
        for known in ids.chunks(500) {
            let time_ns = wall_ns - 3_600_000_000_000 + step * 10_000_000_000;
            let value = |number: u32| Value::Float(f64::from(number) + step as f64 * 0.25);
            let sample = |number| Ok(Sample { series: number, time_ns, start_ns: None, value: value(number) });
            let samples = (0..known.len() as u32).map(sample).collect();
            let sequence = frames.len() as u64;
            let batch = Batch { source: SourceId(1), sequence, known: known.to_vec(), samples, ..Batch::default() };
            frames.push(batch.encode().expect("it fits"));
        }
    }
    frames
}

fn main() {
    if let Ok(file) = std::env::var("OGIVE_RECORDING") {
        return run_recorded(&file);
    }
    let known = known_frames();
    for _ in 0..2 {
        run_frames("floats by identity", &known, true);
        run("floats, framed", 1000, 1000, Kind::Float, true);
        run("floats, encoded", 1000, 1000, Kind::Float, false);
        run("histograms, framed", 300, 200, Kind::Histogram, true);
        run("histograms, encoded", 300, 200, Kind::Histogram, false);
    }
}
