//! How many samples of remote write does a server take in for each CPU-second, from the compressed request to the
//! answer after the journal is durable? Without HTTP: the block is decompressed, the message decoded, the batch encoded
//! for the journal, and the store checks, journals, syncs and applies it, on the real disk.
//!
//! `cargo bench -p ogive-store --bench remote_write [-- native floats runs] [ROUNDS]`: native histograms of both
//! versions (300 series x 240, 200 measurements a step), numbers (20,000 series x 120), and numbers twenty of a series
//! at a time (1,000 x 4,000). Two requests are in flight, as of two connections. CPU time is the whole process's, with
//! the server's allocator; making the requests is not in it. A checksum names what is journalled, to compare it with
//! another build's.

mod common;

use std::sync::{Arc, mpsc};
use std::time::Instant;

use common::cpu_seconds;
use ogive_hist::{Bins, Histogram, Scheme};
use ogive_journal::RealDisk;
use ogive_model::{
    HistogramValue, Kind, Labels, MonoNs, SeriesData, SeriesMeta, SourceId, Temporality, Tenant, Verdict, WallNs,
};
use ogive_protocol::remote_write::{DecodedRequest, KnownSeries, v1, v2, write_request};
use ogive_protocol::snappy;
use ogive_store::{Clock, Options, Refusal, Store};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// 2023-11-14; the clock stands a day later.
const BEGIN_MS: i64 = 1_700_000_000_000;
const STEP_MS: i64 = 10_000;
/// Samples of a request.
const REQUEST_SAMPLES: usize = 5_000;
/// Requests that are sent before the first of them is answered.
const IN_FLIGHT: usize = 2;
/// Above what any request here unfolds to.
const UNPACKED_MAX: usize = 64 << 20;

struct Standing(Instant);

impl Clock for Standing {
    fn now(&self) -> MonoNs {
        MonoNs(u64::try_from(self.0.elapsed().as_nanos()).expect("less than 584 years"))
    }

    fn wall(&self) -> WallNs {
        WallNs((BEGIN_MS + 86_400_000) * 1_000_000)
    }
}

/// Of which version a request is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// A workload as compressed requests.
struct Load {
    name: &'static str,
    version: Version,
    requests: Vec<Vec<u8>>,
    samples: u64,
}

fn labels(number: usize) -> Labels {
    let host = number / 40;
    let labels = Labels::new([
        ("__name__", "bench_http_requests_total".to_owned()),
        ("cluster", "eu-central-1-production".to_owned()),
        ("dc", format!("dc{}", host % 4)),
        ("handler", format!("/api/v2/resource/{}", number % 40)),
        ("instance", format!("node-{host:05}.example.org:9100")),
        ("job", format!("service-{}", number % 17)),
        ("method", ["GET", "PUT", "POST"][number % 3].to_owned()),
        ("run", "r0".to_owned()),
        ("status", ["200", "204", "404", "500"][number % 4].to_owned()),
    ]);
    labels.expect("labels are valid")
}

/// Series `number` with samples that are yet to be put in.
fn series(number: usize, kind: Kind) -> SeriesData {
    let temporality = Temporality::Cumulative;
    SeriesData::new(labels(number), SeriesMeta { kind, temporality, unit: String::new(), width_ms: 0 })
}

/// A latency in seconds: near enough to log-normal around 2 ms, one in 200 ten times slower.
fn latency(random: &mut fastrand::Rng) -> f64 {
    let slow = if random.u32(..200) == 0 { 10.0 } else { 1.0 };
    let normal = (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
    ((normal * 0.5 - 6.2).exp() * slow * 1e9).round() / 1e9
}

/// Cumulative native histograms of 300 series.
fn native(version: Version) -> Load {
    const SERIES: usize = 300;
    const STEPS: i64 = 240;
    let mut random = fastrand::Rng::with_seed(7);
    let scheme = Scheme::exp2(3).expect("a scale of Prometheus");
    let mut totals: Vec<Histogram> = (0..SERIES).map(|_| Histogram::new(scheme.clone())).collect();
    let mut rows = Vec::new();
    let mut order: Vec<usize> = (0..SERIES).collect();
    for step in 0..STEPS {
        random.shuffle(&mut order);
        for at in &order {
            (0..200).for_each(|_| totals[*at].record(latency(&mut random)));
            let mut one = series(*at, Kind::Histogram);
            one.histograms.times.push(BEGIN_MS + step * STEP_MS);
            one.histograms.values.push(HistogramValue::Integer(totals[*at].clone()));
            rows.push(one);
        }
    }
    let name = if version == Version::One { "native histograms, 1.0" } else { "native histograms, 2.0" };
    load(name, version, &rows, 1)
}

/// Numbers, `run_length` of a series after each other.
fn floats(name: &'static str, count: usize, steps: usize, run_length: usize, step_ms: i64) -> Load {
    let mut random = fastrand::Rng::with_seed(7);
    let mut values: Vec<f64> = (0..count).map(|_| f64::from(random.u32(..1_000_000))).collect();
    let mut order: Vec<usize> = (0..count).collect();
    let mut rows = Vec::new();
    for step in (0..steps).step_by(run_length) {
        random.shuffle(&mut order);
        for at in &order {
            let mut one = series(*at, Kind::Float);
            for step in step..step + run_length {
                values[*at] += f64::from(random.u32(..64));
                one.floats.times.push(BEGIN_MS + step as i64 * step_ms);
                one.floats.values.push(values[*at]);
            }
            rows.push(one);
        }
    }
    load(name, Version::One, &rows, run_length)
}

fn load(name: &'static str, version: Version, rows: &[SeriesData], run_length: usize) -> Load {
    let message = |rows: &[SeriesData]| match version {
        Version::One => request_v1(rows),
        Version::Two => write_request(rows),
    };
    let requests = rows.chunks(REQUEST_SAMPLES / run_length).map(|rows| snappy::pack(&message(rows)).expect("small"));
    Load { name, version, requests: requests.collect(), samples: (rows.len() * run_length) as u64 }
}

/// A `prometheus.WriteRequest`.
fn request_v1(rows: &[SeriesData]) -> Vec<u8> {
    let mut out = Vec::new();
    for one in rows {
        let mut message = Vec::new();
        for (name, value) in one.labels.iter() {
            let mut label = Vec::new();
            bytes(&mut label, 1, name.as_bytes());
            bytes(&mut label, 2, value.as_bytes());
            bytes(&mut message, 1, &label);
        }
        for (time, value) in one.floats.times.iter().zip(&one.floats.values) {
            let mut sample = Vec::new();
            double(&mut sample, 1, *value);
            number(&mut sample, 2, time.cast_unsigned());
            bytes(&mut message, 2, &sample);
        }
        for (time, value) in one.histograms.times.iter().zip(&one.histograms.values) {
            let HistogramValue::Integer(histogram) = value else { panic!("integers were recorded") };
            bytes(&mut message, 4, &native_message(histogram, *time));
        }
        bytes(&mut out, 1, &message);
    }
    out
}

fn native_message(histogram: &Histogram, time_ms: i64) -> Vec<u8> {
    let Scheme::Exp2 { scale } = histogram.scheme else { panic!("native histograms are exponential") };
    let mut out = Vec::new();
    number(&mut out, 1, histogram.count);
    double(&mut out, 3, histogram.sum.expect("not empty"));
    number(&mut out, 4, zigzag(scale.into()));
    double(&mut out, 5, histogram.zero_threshold);
    number(&mut out, 6, histogram.zero);
    let (spans, deltas) = spans_of(&histogram.positive);
    for (offset, length) in spans {
        let mut span = Vec::new();
        number(&mut span, 1, zigzag(offset));
        number(&mut span, 2, length);
        bytes(&mut out, 11, &span);
    }
    let mut packed = Vec::new();
    deltas.iter().for_each(|delta| varint(&mut packed, zigzag(*delta)));
    bytes(&mut out, 12, &packed);
    number(&mut out, 15, time_ms.cast_unsigned());
    out
}

fn spans_of(bins: &Bins<u64>) -> (Vec<(i64, u64)>, Vec<i64>) {
    let mut spans: Vec<(i64, u64)> = Vec::new();
    let (mut deltas, mut end, mut before) = (Vec::new(), 0_i64, 0_i64);
    for (index, count) in bins.iter() {
        let (index, count) = (i64::from(index), count.cast_signed());
        match spans.last_mut() {
            Some(span) if index == end => span.1 += 1,
            _ => spans.push((index - end, 1)),
        }
        end = index + 1;
        deltas.push(count - before);
        before = count;
    }
    (spans, deltas)
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn number(out: &mut Vec<u8>, field: u64, value: u64) {
    varint(out, field << 3);
    varint(out, value);
}

fn double(out: &mut Vec<u8>, field: u64, value: f64) {
    varint(out, field << 3 | 1);
    out.extend_from_slice(&value.to_le_bytes());
}

fn bytes(out: &mut Vec<u8>, field: u64, value: &[u8]) {
    varint(out, field << 3 | 2);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

fn decode(load: &Load, at: usize, known: &KnownSeries) -> DecodedRequest {
    let message = snappy::unpack(&load.requests[at], UNPACKED_MAX).expect("just packed");
    let (tenant, source, sequence) = (Tenant::default(), SourceId(1), at as u64 + 1);
    let read = match load.version {
        Version::One => v1::read(&message, &tenant, source, sequence, Some(known), |_| {}),
        Version::Two => v2::read(&message, &tenant, source, sequence, Some(known), |_| {}),
    };
    read.expect("a request of our own")
}

/// CPU seconds of the steps before the store, each for all requests, the series known.
fn steps(load: &Load) -> [f64; 3] {
    let known = KnownSeries::default();
    let all = 0..load.requests.len();
    all.clone().for_each(|at| known.remember(&decode(load, at, &known).declared));
    let timed = |step: &mut dyn FnMut(usize)| {
        let from = cpu_seconds();
        all.clone().for_each(step);
        cpu_seconds() - from
    };
    let unpacking = timed(&mut |at| drop(snappy::unpack(&load.requests[at], UNPACKED_MAX)));
    let decoding = timed(&mut |at| drop(decode(load, at, &known)));
    let whole = timed(&mut |at| drop(decode(load, at, &known).batch.encode().expect("it fits")));
    [unpacking, decoding - unpacking, whole - decoding]
}

/// Decodes a request and gives it to the store; `done` hears of it.
fn send(store: &Store, read: DecodedRequest, done: &mpsc::Sender<u64>) {
    let frame = read.batch.encode().expect("it fits");
    let done = done.clone();
    let reply = Box::new(move |verdict: Result<Verdict, Refusal>| {
        done.send(verdict.expect("the disk works").accepted).unwrap_or(());
    });
    store.submit_framed(read.batch, frame, reply).expect("there is room");
}

/// Microseconds of CPU that a sample takes until it is acknowledged, and until it is in a block.
fn run(load: &Load) -> (f64, f64) {
    let directory = tempfile::tempdir().expect("a directory");
    let clock: Arc<dyn Clock> = Arc::new(Standing(Instant::now()));
    let store = Store::open(Arc::new(RealDisk), directory.path(), Options::default(), clock).expect("the store opens");
    let known = KnownSeries::default();
    let (done, answers) = mpsc::channel();
    let (mut accepted, mut waiting) = (0, 0);
    let from = cpu_seconds();
    for at in 0..load.requests.len() {
        let mut read = decode(load, at, &known);
        let declared = std::mem::take(&mut read.declared);
        send(&store, read, &done);
        waiting += 1;
        if waiting == IN_FLIGHT {
            accepted += answers.recv().expect("an answer comes");
            waiting -= 1;
        }
        known.remember(&declared);
    }
    accepted += answers.iter().take(waiting).sum::<u64>();
    let acknowledged = cpu_seconds() - from;
    assert_eq!(accepted, load.samples, "each sample is taken");
    store.flush().expect("the disk works");
    let settled = cpu_seconds() - from;
    let each = 1e6 / accepted as f64;
    (acknowledged * each, settled * each)
}

/// A checksum of what the journal gets.
fn checksum(load: &Load) -> u32 {
    let known = KnownSeries::default();
    (0..load.requests.len()).fold(0, |sum, at| {
        let read = decode(load, at, &known);
        known.remember(&read.declared);
        crc32c::crc32c_append(sum, &read.batch.encode().expect("it fits"))
    })
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let rounds = arguments.iter().find_map(|text| text.parse::<usize>().ok()).unwrap_or(3);
    let is_wanted = |name: &str| {
        !arguments.iter().any(|text| ["native", "floats", "runs"].contains(&text.as_str()))
            || arguments.iter().any(|text| text == name)
    };
    let mut loads = Vec::new();
    if is_wanted("native") {
        loads.extend([native(Version::One), native(Version::Two)]);
    }
    if is_wanted("floats") {
        loads.push(floats("numbers", 20_000, 120, 1, STEP_MS));
    }
    if is_wanted("runs") {
        loads.push(floats("numbers, runs of 20", 1_000, 4_000, 20, 1_000));
    }
    for load in &loads {
        let bytes = load.requests.iter().map(Vec::len).sum::<usize>() as f64 / load.samples as f64;
        println!("{}: {bytes:.0} bytes each, checksum {:08x}", load.name, checksum(load));
    }
    for _ in 0..rounds {
        for load in &loads {
            let [unpacking, decoding, encoding] = steps(load).map(|step| step * 1e6 / load.samples as f64);
            let (acknowledged, settled) = run(load);
            println!(
                "{}: {acknowledged:.3} us each until acknowledged ({:.0} a CPU-second), {settled:.3} until in blocks; \
                 decompressing {unpacking:.3}, decoding {decoding:.3}, encoding {encoding:.3}",
                load.name,
                1e6 / acknowledged,
            );
        }
    }
}
