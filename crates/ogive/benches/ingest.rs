//! What does a CPU-second of the server take in through `POST /v1/batch` and OTLP, each batch acknowledged when it is
//! durable: with labels, with identities, as JSON, by OTLP; and what does a new series cost, in time and in memory?
//!
//! Starts the real server on the disk of the temporary directory, sends prepared batches over several connections, and
//! divides what was accepted by the processor time of the server's process (user and system, the hiccup meter and
//! everything else included). The kinds of batch take turns, so that a busy machine hurts all alike. Then a million new
//! series with a few samples each show what one takes: the growth of the server's anonymous memory.
//!
//! `cargo bench -p ogive --bench ingest`; `OGIVE_BENCH_ROUNDS` (default 3) rounds of one second a kind,
//! `OGIVE_BENCH_SERIES` (default 1,000,000) new series, 0 for none.

#[path = "../tests/common/mod.rs"]
mod common;
#[path = "common/connection.rs"]
mod connection;
#[path = "common/otlp.rs"]
mod otlp;
#[path = "common/process.rs"]
mod process;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::{FRAME, JSON, Server, now_ms};
use connection::Connection;
use ogive_hist::Histogram;
use ogive_model::{Batch, Kind, Sample, SeriesDef, SeriesMeta, SourceId, Temporality, Value};
use process::{cpu_seconds, memory, spread};
use serde_json::json;

/// The content type of an OTLP request.
const OTLP: &str = "application/x-protobuf";
const CONNECTIONS: usize = 4;
/// Batches that each connection has ready.
const PREPARED: u64 = 100;
const ROUND: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    /// Every series with its labels.
    Labels,
    /// Every series by its identity.
    Identities,
    /// Series that were never seen.
    New,
    Json,
    /// An OTLP request, as protobuf.
    Otlp,
}

/// What is sent in one kind of round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Load {
    form: Form,
    kind: Kind,
    /// Samples of a batch, each of a series of its own.
    samples: usize,
}

const LOADS: [Load; 10] = [
    Load { form: Form::Labels, kind: Kind::Float, samples: 1_000 },
    Load { form: Form::Labels, kind: Kind::Float, samples: 5_000 },
    Load { form: Form::Identities, kind: Kind::Float, samples: 1_000 },
    Load { form: Form::Identities, kind: Kind::Float, samples: 5_000 },
    Load { form: Form::New, kind: Kind::Float, samples: 1_000 },
    // Some 60 bins each.
    Load { form: Form::Labels, kind: Kind::Histogram, samples: 200 },
    Load { form: Form::Identities, kind: Kind::Histogram, samples: 200 },
    Load { form: Form::Json, kind: Kind::Float, samples: 1_000 },
    Load { form: Form::Otlp, kind: Kind::Float, samples: 5_000 },
    Load { form: Form::Otlp, kind: Kind::Histogram, samples: 200 },
];

impl Load {
    fn name(self) -> String {
        let kind = if self.kind == Kind::Float { "floats" } else { "histograms" };
        format!("{:?}, {} {kind}", self.form, self.samples)
    }

    /// The batch of `connection` with number `sequence`: one sample of each series, a second after the one before.
    fn batch(self, connection: usize, sequence: u64) -> Batch {
        let time_ns = (now_ms() - 3_000_000 + (sequence as i64 % 3_000) * 1_000) * 1_000_000;
        let mut series = Vec::new();
        let mut samples = Vec::new();
        for index in 0..self.samples {
            let temporality = if self.kind == Kind::Float { Temporality::Gauge } else { Temporality::Delta };
            let meta = SeriesMeta { kind: self.kind, temporality, unit: "s".into(), width_ms: 1_000 };
            let of = if self.form == Form::New { sequence as usize * self.samples } else { 0 };
            series.push(SeriesDef::new(labels(self, connection, of + index), meta));
            let value = match self.kind {
                Kind::Float => Value::Float(sequence as f64 * 0.25 + index as f64),
                _ => Value::Histogram(Box::new(distribution(sequence + index as u64))),
            };
            samples.push(Ok(Sample { series: index as u32, time_ns, start_ns: None, value }));
        }
        let source =
            SourceId(1 + connection as u128 + 16 * LOADS.iter().position(|load| *load == self).unwrap() as u128);
        Batch { source, sequence, series, samples, ..Batch::default() }
    }

    fn body(self, connection: usize, sequence: u64, declared: bool) -> Vec<u8> {
        let mut batch = self.batch(connection, sequence);
        if self.form == Form::Identities && !declared {
            let series = std::mem::take(&mut batch.series);
            batch.known = series.iter().flatten().map(|def| def.id(&batch.tenant)).collect();
        }
        match self.form {
            Form::Json => json_of(&batch).into_bytes(),
            Form::Otlp => otlp::request(&batch),
            _ => batch.encode().unwrap(),
        }
    }
}

/// Nine labels, as in the comparison with other servers.
fn labels(load: Load, connection: usize, index: usize) -> Vec<(String, String)> {
    let metric = if load.kind == Kind::Float { "bench_value" } else { "bench_seconds" };
    [
        ("__name__", format!("{metric}_{:?}_{}", load.form, load.samples)),
        ("cluster", "eu-1".into()),
        ("host", format!("host-{connection}.example.org")),
        ("instance", format!("10.0.{}.{}:9100", index / 250 % 250, index % 250)),
        ("job", "bench".into()),
        ("method", "GET".into()),
        ("route", format!("/api/v1/things/{}", index / 20)),
        ("service", format!("service-{}", index % 20)),
        ("status", "200".into()),
    ]
    .map(|(name, value)| (name.to_string(), value))
    .into()
}

/// Some 60 bins and 400 measurements, other ones for each seed.
fn distribution(seed: u64) -> Histogram {
    let mut out = Histogram::log_linear();
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for _ in 0..400 {
        // The sum of four uniform numbers stands in for a normal one.
        let mut sum = 0.0;
        for _ in 0..4 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            sum += (random >> 11) as f64 / (1_u64 << 53) as f64;
        }
        out.record(0.002 * ((sum - 2.0) * 0.8).exp());
    }
    out
}

fn json_of(batch: &Batch) -> String {
    let series = batch.series.iter().flatten().map(|series| {
        let labels: serde_json::Map<String, serde_json::Value> =
            series.labels.iter().map(|(name, value)| (name.to_string(), value.into())).collect();
        let (kind, temporality) =
            if series.meta.kind == Kind::Float { ("float", "gauge") } else { ("histogram", "delta") };
        json!({"labels": labels, "kind": kind, "temporality": temporality, "unit": "s", "width_ms": 1000})
    });
    let series: Vec<_> = series.collect();
    let samples = batch.samples.iter().flatten().map(|sample| match &sample.value {
        Value::Histogram(histogram) => {
            let bins: serde_json::Map<String, serde_json::Value> =
                histogram.buckets().map(|bucket| (format!("{:e}", bucket.lo), bucket.count.into())).collect();
            let (sum, min, max) = (histogram.sum, histogram.min, histogram.max);
            json!({"series": sample.series, "time_ms": sample.time_ms(), "histogram": {"bins": bins, "sum": sum, "min": min, "max": max}})
        }
        Value::Float(value) => json!({"series": sample.series, "time_ms": sample.time_ms(), "float": value}),
        other => unreachable!("{other:?}"),
    });
    let samples: Vec<_> = samples.collect();
    json!({"source": format!("{:032x}", batch.source.0), "sequence": batch.sequence, "series": series, "samples": samples}).to_string()
}

/// Samples that the server took; OTLP's answer, which is empty, says that it took all.
fn post(connection: &mut Connection, kind: &str, body: &[u8]) -> Option<u64> {
    let path = if kind == OTLP { "/v1/metrics" } else { "/v1/batch" };
    let (status, answer) = connection.post(path, &format!("content-type: {kind}\r\n"), body).unwrap();
    if status == 429 {
        return Some(0);
    }
    if kind == OTLP {
        assert!(status == 200 && answer.is_empty(), "{status} {answer}");
        return None;
    }
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(status, 200, "{answer}");
    answer["accepted"].as_u64()
}

/// Figures of one round.
struct Round {
    samples: f64,
    cpu: f64,
    wall: f64,
    bytes: f64,
}

fn kind_of(load: Load) -> &'static str {
    match load.form {
        Form::Json => JSON,
        Form::Otlp => OTLP,
        _ => FRAME,
    }
}

/// Sends for [`ROUND`]; batches are made beforehand, and those that declare what others name are sent beforehand.
fn round(server: &Server, load: Load, first: u64) -> (Round, u64) {
    let bodies: Vec<Vec<Vec<u8>>> = (0..CONNECTIONS)
        .map(|connection| (1..PREPARED).map(|at| load.body(connection, first + at, false)).collect())
        .collect();
    if load.form != Form::New {
        for connection in 0..CONNECTIONS {
            post(&mut Connection::new(server.connect()), kind_of(load), &load.body(connection, first, true));
        }
    }
    let bytes = bodies[0][0].len() as f64 / load.samples as f64;
    let accepted = AtomicU64::new(0);
    let (cpu, from) = (cpu_seconds(server), Instant::now());
    std::thread::scope(|scope| {
        for bodies in &bodies {
            let accepted = &accepted;
            scope.spawn(move || {
                let mut line = Connection::new(server.connect());
                for body in bodies {
                    let taken = post(&mut line, kind_of(load), body).unwrap_or(load.samples as u64);
                    accepted.fetch_add(taken, Ordering::Relaxed);
                    if from.elapsed() > ROUND {
                        break;
                    }
                }
            });
        }
    });
    let round = Round {
        samples: accepted.load(Ordering::Relaxed) as f64,
        wall: from.elapsed().as_secs_f64(),
        cpu: cpu_seconds(server) - cpu,
        bytes,
    };
    (round, first + PREPARED)
}

/// Sends `count` new series, then a second sample of each by its identity.
fn new_series(count: usize) {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path());
    std::thread::sleep(Duration::from_secs(1));
    let load = Load { form: Form::New, kind: Kind::Float, samples: 1_000 };
    let mut line = Connection::new(server.connect());
    let (cpu, before, from) = (cpu_seconds(&server), memory(&server), Instant::now());
    let batches = (count / load.samples) as u64;
    let mut sent = 0.0;
    for sequence in 0..batches {
        sent += post(&mut line, FRAME, &load.batch(0, sequence).encode().unwrap()).unwrap_or_default() as f64;
    }
    let (took, wall) = (cpu_seconds(&server) - cpu, from.elapsed().as_secs_f64());
    println!("{sent:.0} new series: {:.0} a CPU-second, {:.0} a second of wall time", sent / took, sent / wall);
    let held = memory(&server) - before;
    println!("memory: {:.0} bytes a series with one sample", held / sent);
    for sequence in 0..batches {
        let mut batch = load.batch(0, sequence);
        batch.sequence += batches;
        batch.samples.iter_mut().flatten().for_each(|sample| sample.time_ns += 1_000_000_000);
        let series = std::mem::take(&mut batch.series);
        batch.known = series.iter().flatten().map(|def| def.id(&batch.tenant)).collect();
        post(&mut line, FRAME, &batch.encode().unwrap());
    }
    println!("memory: {:.0} bytes a series with two samples", (memory(&server) - before) / sent);
    let (_, status) = server.get("/v1/status");
    let counted = status["series_bytes"].as_f64().unwrap() + status["head_bytes"].as_f64().unwrap();
    println!("memory: {:.0} bytes a series as the server counts them", counted / sent);
}

fn main() {
    let rounds = std::env::var("OGIVE_BENCH_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3);
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path());
    std::thread::sleep(Duration::from_secs(1));
    let (cpu, from) = (cpu_seconds(&server), Instant::now());
    std::thread::sleep(Duration::from_secs(2));
    let idle = (cpu_seconds(&server) - cpu) / from.elapsed().as_secs_f64();
    println!("idle: {:.1} % of a processor (self observation)", idle * 100.0);
    let mut figures: Vec<Vec<Round>> = LOADS.iter().map(|_| Vec::new()).collect();
    let mut sequence = 1;
    for _ in 0..rounds {
        for (load, figures) in LOADS.iter().zip(&mut figures) {
            let (round, next) = round(&server, *load, sequence);
            figures.push(round);
            sequence = next;
        }
    }
    println!("{CONNECTIONS} connections, {rounds} rounds: median (least..greatest)");
    for (load, rounds) in LOADS.iter().zip(&figures) {
        let per = |of: fn(&Round) -> f64| spread(rounds.iter().map(of).collect());
        println!(
            "{:28} {} samples a CPU-second; {} a second of wall time; {:.0} bytes each on the wire",
            load.name(),
            per(|round| round.samples / round.cpu.max(0.01)),
            per(|round| round.samples / round.wall),
            rounds[0].bytes,
        );
    }
    println!("most memory held: {} MiB", server.memory_peak_kib() >> 10);
    drop(server);
    let count = std::env::var("OGIVE_BENCH_SERIES").ok().and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    if count > 0 {
        new_series(count);
    }
}
