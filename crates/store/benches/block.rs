//! What does a stored sample cost, in bytes and in time?
//!
//! `cargo bench -p ogive-store --bench block` writes blocks of realistic streams to a simulated disk and reads them
//! back. Bytes are those of the whole file: index, footer and all. Times are CPU times of the thread, the least of
//! some rounds, with checksums and the copy to and from the simulated disk in them. `-- texts` and `-- index` measure
//! only log lines (OGIVE_BENCH_LOG names a file of them) or the index.

use std::hint::black_box;
use std::path::Path;

use ogive_hist::{Histogram, openhistogram};
use ogive_journal::{Disk, SimulatedDisk};
use ogive_model::{
    FloatColumn, HistogramValue, Kind, Labels, Selection, SeriesData, SeriesMeta, Temporality, TextColumn, TimeRange,
};
use ogive_store::block::Effort;
use ogive_store::{Block, BlockId, Budget, block};

const ROUNDS: usize = 5;

/// Uniform, normal and log-normal numbers of a seed.
struct Random(fastrand::Rng);

impl Random {
    fn uniform(&mut self) -> f64 {
        self.0.f64()
    }

    fn normal(&mut self) -> f64 {
        (-2.0 * (1.0 - self.uniform()).ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }

    fn log_normal(&mut self, median: f64, sigma: f64) -> f64 {
        median * (sigma * self.normal()).exp()
    }
}

fn series(number: usize, kind: Kind, temporality: Temporality) -> SeriesData {
    let labels = [
        ("__name__", "rpc_seconds".to_owned()),
        ("host", format!("host-{:03}", number / 10)),
        ("route", format!("/v1/orders/{number:04}")),
        ("status", "200".to_owned()),
    ];
    SeriesData::new(
        Labels::new(labels).expect("good labels"),
        SeriesMeta { kind, temporality, unit: "s".into(), width_ms: 1000 },
    )
}

fn times(cells: usize) -> Vec<i64> {
    (0..cells as i64).map(|cell| 1_700_000_000_000 + cell * 1000).collect()
}

/// Cells of a service with a cache hit, a disk read and a slow path; the load swings by 30 %.
fn latencies(random: &mut Random, cells: usize, per_cell: f64, modes: &[(f64, f64, f64)]) -> Vec<Histogram> {
    let cell = |cell: usize, random: &mut Random| {
        let mut histogram = Histogram::log_linear();
        let load = per_cell * (1.0 + 0.3 * (cell as f64 / 300.0).sin());
        let count = load + load.sqrt() * random.normal();
        for _ in 0..count.max(1.0) as usize {
            let mut pick = random.uniform();
            let mode = modes.iter().find(|mode| {
                pick -= mode.0;
                pick < 0.0
            });
            let (_, median, sigma) = mode.unwrap_or(&modes[0]);
            // Clocks tick in nanoseconds.
            histogram.record((random.log_normal(*median, *sigma) * 1e9).round() / 1e9);
        }
        histogram
    };
    (0..cells).map(|at| cell(at, random)).collect()
}

/// CPU time of this thread: other load of the machine does not count.
fn cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

struct Cost {
    bytes: u64,
    write_ns: f64,
    read_ns: f64,
}

/// Writes and reads a block of `source`; times are of one of its `samples`.
fn measure(source: &[SeriesData], samples: usize) -> Cost {
    measure_packed(source, samples, Effort::Quick)
}

fn measure_packed(source: &[SeriesData], samples: usize, effort: Effort) -> Cost {
    let directory = Path::new("/bench");
    let mut cost = Cost { bytes: 0, write_ns: f64::MAX, read_ns: f64::MAX };
    for _ in 0..ROUNDS {
        let disk = SimulatedDisk::new(1);
        disk.create_dir_all(directory).expect("a directory");
        let copy: Vec<_> = source.iter().cloned().map(Ok).collect();
        let start = cpu_ns();
        let meta = block::write_as(&disk, directory, BlockId(1), 0, effort, copy);
        let meta = meta.expect("written").expect("not empty");
        cost.write_ns = cost.write_ns.min((cpu_ns() - start) as f64 / samples as f64);
        cost.bytes = meta.bytes;
        let path = directory.join(block::file_name(BlockId(1)));
        let block = Block::open(&disk, &path).expect("opened");
        let all = Selection::new(Vec::new(), TimeRange::ALL);
        block.label_names(&[]).expect("the index is read");
        let start = cpu_ns();
        let found = black_box(block.select(&all, &mut Budget::new(usize::MAX)).expect("read"));
        cost.read_ns = cost.read_ns.min((cpu_ns() - start) as f64 / samples as f64);
        drop(found);
    }
    cost
}

fn histograms(name: &str, per_cell: f64, modes: &[(f64, f64, f64)]) {
    const SERIES: usize = 4;
    const CELLS: usize = 1024;
    let mut random = Random(fastrand::Rng::with_seed(0x5eed));
    let (mut source, mut raw) = (Vec::new(), Vec::new());
    let mut bins = 0;
    for number in 0..SERIES {
        let mut data = series(number, Kind::Histogram, Temporality::Delta);
        data.histograms.times = times(CELLS);
        for histogram in latencies(&mut random, CELLS, per_cell, modes) {
            bins += histogram.positive.len();
            raw.extend(openhistogram::encode(&histogram).expect("a histogram of the default scheme"));
            data.histograms.values.push(HistogramValue::Integer(histogram));
        }
        source.push(data);
    }
    let count = (SERIES * CELLS) as f64;
    let zstd = zstd::bulk::compress(&raw, 3).expect("compressed").len() as f64 / count;
    let cost = measure(&source, SERIES * CELLS);
    let without = {
        let mut bare = source.clone();
        let all = bare.iter_mut().flat_map(|data| &mut data.histograms.values);
        all.for_each(|value| {
            if let HistogramValue::Integer(value) = value {
                (value.sum, value.min, value.max) = (None, None, None);
            }
        });
        measure(&bare, SERIES * CELLS).bytes as f64 / count
    };
    println!(
        "{name:<34} bins {:>5.1}  OpenHistogram {:>6.1}  zstd-3 of it {:>6.1}  block {:>6.1} (bins only {without:>6.1}) B/histogram  write {:>6.0} ns  read {:>6.0} ns",
        bins as f64 / count,
        raw.len() as f64 / count,
        zstd,
        cost.bytes as f64 / count,
        cost.write_ns,
        cost.read_ns,
    );
}

fn floats(name: &str, temporality: Temporality, next: impl Fn(&mut Random, f64) -> f64) {
    const SERIES: usize = 100;
    const CELLS: usize = 4096;
    let mut random = Random(fastrand::Rng::with_seed(0x5eed));
    let source: Vec<SeriesData> = (0..SERIES)
        .map(|number| {
            let mut data = series(number, Kind::Float, temporality);
            data.floats.times = times(CELLS);
            let mut value = 0.0;
            data.floats.values = (0..CELLS)
                .map(|_| {
                    value = next(&mut random, value);
                    value
                })
                .collect();
            data
        })
        .collect();
    let samples = SERIES * CELLS;
    let cost = measure(&source, samples);
    println!(
        "{name:<34} {:>6.3} B/sample  write {:>5.1} ns  read {:>5.1} ns",
        cost.bytes as f64 / samples as f64,
        cost.write_ns,
        cost.read_ns
    );
}

/// Lines of a web server's log, each with its time, 50 a second.
fn access_log(lines: usize) -> (Vec<i64>, Vec<String>) {
    let mut random = Random(fastrand::Rng::with_seed(0x5eed));
    let mut time = 1_700_000_000_000.0;
    let pick = |random: &mut Random, count: usize| (random.uniform() * count as f64) as usize;
    let line = |random: &mut Random, time: f64| {
        let second = time as i64 / 1000;
        let (address, resource) = (pick(random, 3000), pick(random, 200));
        let query = if random.uniform() < 0.5 { format!("?id={}", pick(random, 100_000)) } else { String::new() };
        format!(
            "10.{}.{}.{} - - [{second}] \"{} /api/v2/{}/{resource}{query} HTTP/1.1\" {} {} \"-\" \"Mozilla/5.0 (X11; Linux x86_64) Chrome/{}.0.0.0\" {:.3}",
            address % 4,
            address * 7 % 256,
            address * 13 % 256,
            ["GET", "GET", "POST"][pick(random, 3)],
            ["orders", "users", "items", "carts", "search"][resource % 5],
            [200, 200, 200, 200, 200, 200, 404, 500][pick(random, 8)],
            random.log_normal(1100.0, 1.0) as u64,
            110 + pick(random, 20),
            random.log_normal(0.007, 1.0),
        )
    };
    (0..lines)
        .map(|_| {
            time += -20.0 * (1.0 - random.uniform()).ln();
            (time as i64, line(&mut random, time))
        })
        .unzip()
}

/// A stream of log lines: a generated one, or the lines of the file that OGIVE_BENCH_LOG names, 20 ms apart.
fn texts() {
    let (times, values) = match std::env::var("OGIVE_BENCH_LOG") {
        Ok(path) => {
            let text = std::fs::read(&path).expect("a readable file");
            let lines = String::from_utf8_lossy(&text).lines().map(str::to_owned).collect::<Vec<_>>();
            ((0..lines.len() as i64).map(|at| 1_700_000_000_000 + at * 20).collect(), lines)
        }
        Err(_) => access_log(50_000),
    };
    let file = values.iter().flat_map(|line| [line.as_str(), "\n"]).collect::<String>();
    let zstd = zstd::bulk::compress(file.as_bytes(), 3).expect("compressed").len();
    let lines = values.len();
    let mut data = series(0, Kind::Text, Temporality::Gauge);
    data.texts = TextColumn { times, values };
    for effort in [Effort::Quick, Effort::Hard] {
        let cost = measure_packed(std::slice::from_ref(&data), lines, effort);
        println!(
            "log lines, {:<23} plain {:>6.1}  zstd-3 of it {:>6.2}  block {:>6.2} B/line, {:.3} of zstd-3  write {:>6.0} ns  read {:>6.0} ns",
            format!("{effort:?}"),
            file.len() as f64 / lines as f64,
            zstd as f64 / lines as f64,
            cost.bytes as f64 / lines as f64,
            cost.bytes as f64 / zstd as f64,
            cost.write_ns,
            cost.read_ns,
        );
    }
}

/// A thousand series of a few log lines each, as the containers of a site have them.
fn short_texts(lines_each: usize) {
    const SERIES: usize = 1000;
    let (_, values) = access_log(SERIES * lines_each);
    let mut file_bytes = 0;
    let of = |(number, lines): (usize, &[String])| {
        let mut data = series(number, Kind::Text, Temporality::Gauge);
        file_bytes += zstd::bulk::compress(lines.join("\n").as_bytes(), 3).expect("compressed").len();
        data.texts = TextColumn { times: times(lines_each), values: lines.to_vec() };
        data
    };
    let source: Vec<SeriesData> = values.chunks(lines_each).enumerate().map(of).collect();
    let whole = zstd::bulk::compress(values.join("\n").as_bytes(), 3).expect("compressed").len();
    for effort in [Effort::Quick, Effort::Hard] {
        let cost = measure_packed(&source, SERIES * lines_each, effort);
        println!(
            "1,000 series of {lines_each:>3} lines, {effort:<7?} zstd-3 of each {:>6.2}, of all {:>6.2}  block {:>6.2} B/line, {:.3} of zstd-3 of each  write {:>6.0} ns  read {:>6.0} ns",
            file_bytes as f64 / values.len() as f64,
            whole as f64 / values.len() as f64,
            cost.bytes as f64 / values.len() as f64,
            cost.bytes as f64 / file_bytes as f64,
            cost.write_ns,
            cost.read_ns,
        );
    }
}

/// What a series costs that has one sample: its labels in the index, and its page.
fn index() {
    const SERIES: usize = 100_000;
    let mut source: Vec<SeriesData> = (0..SERIES)
        .map(|number| {
            let host = number / 40;
            let labels = [
                (
                    "__name__",
                    ["http_requests_total", "queue_depth_items", "last_request_seconds"][number % 3].to_owned(),
                ),
                ("cluster", "eu-central-1-production".into()),
                ("dc", format!("dc{}", host % 4)),
                ("handler", format!("/api/v2/resource/{}", number % 40)),
                ("instance", format!("node-{host:05}.example.org:9100")),
                ("job", format!("service-{}", number % 17)),
                ("method", ["GET", "PUT", "POST"][number % 3].into()),
                ("run", "r0".into()),
                ("status", ["200", "204", "404", "500"][number % 4].into()),
            ];
            let mut data = series(number, Kind::Float, Temporality::Gauge);
            data.labels = Labels::new(labels).expect("good labels");
            data.floats = FloatColumn { times: times(1), values: vec![number as f64], ..FloatColumn::default() };
            data
        })
        .collect();
    source.sort_by(|a, b| a.labels.cmp(&b.labels));
    let cost = measure(&source, SERIES);
    println!(
        "series of nine labels, one sample  {:>6.1} B/series  write {:>6.0} ns  read {:>6.0} ns",
        cost.bytes as f64 / SERIES as f64,
        cost.write_ns,
        cost.read_ns
    );
}

fn main() {
    if std::env::args().any(|argument| argument == "texts") {
        texts();
        return [5, 20, 100].into_iter().for_each(short_texts);
    }
    if std::env::args().any(|argument| argument == "index") {
        return index();
    }
    let service = [(0.6, 0.0012, 0.5), (0.3, 0.009, 0.4), (0.1, 0.11, 0.5)];
    let single = [(1.0, 0.012, 0.7)];
    histograms("1 s cells, 200/s, three modes", 200.0, &service);
    histograms("1 s cells, 10k/s, three modes", 10_000.0, &service);
    histograms("1 s cells, 200/s, log-normal 0.7", 200.0, &single);
    histograms("1 s cells, 10k/s, log-normal 0.7", 10_000.0, &single);
    floats("counters", Temporality::Cumulative, |random, value| value + (random.uniform() * 40.0).floor());
    floats("gauges, two decimals", Temporality::Gauge, |random, value| {
        ((value + random.normal() * 0.3) * 100.0).round() / 100.0
    });
    floats("latencies, microseconds", Temporality::Gauge, |random, _| {
        (random.log_normal(0.012, 0.7) * 1e6).round() / 1e6
    });
    floats("noise in every bit", Temporality::Gauge, |random, _| random.normal());
    floats("constant", Temporality::Gauge, |_, _| 1.0);
    texts();
    short_texts(20);
    index();
}
