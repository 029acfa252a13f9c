//! What does encoding a chunk cost, and how small is it? The thread that makes blocks of the head does little else.
//!
//! `cargo bench -p ogive-store --bench encode [-- NAME]` writes blocks of series of one chunk each to a simulated disk.
//! CPU µs are those of the thread a sample, the least and the median of some rounds; bytes are those of the whole file
//! a sample, and the checksum says whether two builds write the same.

use std::path::Path;

use ogive_hist::{Histogram, Scheme};
use ogive_journal::{Disk, SimulatedDisk};
use ogive_model::{HistogramValue, Kind, Labels, SeriesData, SeriesMeta, Temporality};
use ogive_store::block::{self, Effort};
use ogive_store::{Block, BlockId};

// The server's allocator.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const ROUNDS: usize = 9;
const BEGIN_MS: i64 = 1_700_000_000_000;

fn series(number: usize, kind: Kind, temporality: Temporality, width_ms: u32) -> SeriesData {
    let labels = Labels::new([
        ("__name__", "bench_seconds".to_owned()),
        ("host", format!("node-{:05}.example.org", number / 20)),
        ("number", format!("{number:05}")),
    ]);
    SeriesData::new(labels.expect("good labels"), SeriesMeta { kind, temporality, unit: "s".into(), width_ms })
}

/// A latency in seconds: near enough to log-normal around 2 ms, one in 200 ten times slower.
fn latency(random: &mut fastrand::Rng) -> f64 {
    let slow = if random.u32(..200) == 0 { 10.0 } else { 1.0 };
    let normal = (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
    ((normal * 0.5 - 6.2).exp() * slow * 1e9).round() / 1e9
}

/// Cells of `measurements` each, log-linear.
fn cells(count: usize, length: usize, measurements: usize, width_ms: u32) -> Vec<SeriesData> {
    let mut random = fastrand::Rng::with_seed(7);
    let one = |number| {
        let mut data = series(number, Kind::Histogram, Temporality::Delta, width_ms);
        for step in 0..length as i64 {
            let mut cell = Histogram::log_linear();
            (0..measurements).for_each(|_| cell.record(latency(&mut random)));
            data.histograms.times.push(BEGIN_MS + step * i64::from(width_ms));
            data.histograms.values.push(HistogramValue::Integer(cell));
        }
        data
    };
    (0..count).map(one).collect()
}

/// Native histograms that add up, with 200 measurements more each step.
fn native(count: usize, length: usize) -> Vec<SeriesData> {
    let mut random = fastrand::Rng::with_seed(7);
    let scheme = Scheme::exp2(3).expect("a scale of Prometheus");
    let one = |number| {
        let mut data = series(number, Kind::Histogram, Temporality::Cumulative, 0);
        let mut total = Histogram::new(scheme.clone());
        for step in 0..length as i64 {
            (0..200).for_each(|_| total.record(latency(&mut random)));
            data.histograms.times.push(BEGIN_MS + step * 15_000);
            data.histograms.values.push(HistogramValue::Integer(total.clone()));
        }
        data
    };
    (0..count).map(one).collect()
}

/// Numbers, each made of the one before.
fn floats(count: usize, length: usize, next: impl Fn(&mut fastrand::Rng, f64) -> f64) -> Vec<SeriesData> {
    let mut random = fastrand::Rng::with_seed(7);
    let one = |number| {
        let mut data = series(number, Kind::Float, Temporality::Gauge, 0);
        let mut value = 0.0;
        for step in 0..length as i64 {
            value = next(&mut random, value);
            data.floats.times.push(BEGIN_MS + step * 15_000);
            data.floats.values.push(value);
        }
        data
    };
    (0..count).map(one).collect()
}

fn counter(random: &mut fastrand::Rng, last: f64) -> f64 {
    last + f64::from(random.u32(..64))
}

fn gauge(random: &mut fastrand::Rng, last: f64) -> f64 {
    ((last + (random.f64() - 0.5)) * 100.0).round() / 100.0
}

fn noise(random: &mut fastrand::Rng, _: f64) -> f64 {
    random.f64() + random.f64()
}

/// CPU time of this thread: other load of the machine does not count.
fn cpu_us() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

fn measure(name: &str, source: &[SeriesData]) {
    let directory = Path::new("/bench");
    let samples: usize = source.iter().map(|data| data.floats.times.len() + data.histograms.times.len()).sum();
    let (mut times, mut written) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let disk = SimulatedDisk::new(1);
        disk.create_dir_all(directory).expect("a directory");
        let copy: Vec<_> = source.iter().cloned().map(Ok).collect();
        let start = cpu_us();
        block::write_as(&disk, directory, BlockId(1), 0, Effort::Quick, copy).expect("written").expect("not empty");
        times.push((cpu_us() - start) / samples as f64);
        let path = directory.join(block::file_name(BlockId(1)));
        written = disk.read(&path).expect("read");
        Block::open(&disk, &path).expect("opened").verify().expect("whole");
    }
    times.sort_by(f64::total_cmp);
    println!(
        "{name:<22} {:>7.3} µs/sample (median {:>7.3})  {:>8.3} B/sample  checksum {:08x}",
        times[0],
        times[ROUNDS / 2],
        written.len() as f64 / samples as f64,
        crc32c::crc32c(&written),
    );
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let run = |name: &str, source: &dyn Fn() -> Vec<SeriesData>| {
        if wanted.is_empty() || wanted.iter().any(|text| name.contains(text)) {
            measure(name, &source());
        }
    };
    run("cells of 20, 256", &|| cells(100, 256, 20, 1_000));
    run("cells of 20, 10", &|| cells(2_000, 10, 20, 60_000));
    run("cells of 200, 256", &|| cells(60, 256, 200, 1_000));
    run("native, 240", &|| native(60, 240));
    run("native, 10", &|| native(1_000, 10));
    run("counters, 120", &|| floats(1_000, 120, counter));
    run("counters, 4096", &|| floats(50, 4_096, counter));
    run("gauges, 120", &|| floats(1_000, 120, gauge));
    run("gauges, 4096", &|| floats(50, 4_096, gauge));
    run("noise, 120", &|| floats(1_000, 120, noise));
    run("noise, 4096", &|| floats(50, 4_096, noise));
}
