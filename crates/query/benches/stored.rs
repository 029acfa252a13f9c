//! What does a quantile over the sum of the rates of 300 stored histograms cost, from the blocks on disk to the answer?
//!
//! The same measurements are stored twice: as cumulative histograms as Prometheus sends them, and as cells; 40 minutes,
//! a sample each 10 s of 200 latencies. Each query runs some times in turn with the others; printed are CPU milliseconds
//! (least and median) of the thread that asks, and the value at the last instant. An argument selects the queries whose
//! name contains it, OGIVE_BENCH_ROUNDS says how often each is asked.
//!
//! `cargo bench -p ogive-query --bench stored`

use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::{Instant, SystemTime};

use ogive_hist::{Histogram, Scheme};
use ogive_journal::RealDisk;
use ogive_model::{
    Batch, Kind, Labels, MonoNs, Ms, Sample, SeriesDef, SeriesMeta, SourceId, Temporality, Value as SampleValue,
    WallMs, WallNs,
};
use ogive_query::value::Point;
use ogive_query::{Engine, EngineOptions, Value};
use ogive_store::{Clock, Options, Refusal, Store};

/// How often each query is asked.
const ROUNDS: usize = 9;
const SERIES: usize = 300;
const STEPS: usize = 240;
const STEP_MS: i64 = 10_000;
/// Measurements between two samples.
const LATENCIES: usize = 200;

struct WallClock(Instant);

impl Clock for WallClock {
    fn now(&self) -> MonoNs {
        MonoNs(self.0.elapsed().as_nanos() as u64)
    }

    fn wall(&self) -> WallNs {
        WallNs(SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos() as i64))
    }
}

/// Reproducible pseudo-random numbers.
struct Random(u64);

impl Random {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Log-normal around 2 ms, one in 200 ten times slower.
    fn latency(&mut self) -> f64 {
        let normal = (0..12).map(|_| self.unit()).sum::<f64>() - 6.0;
        let slow = if self.unit() < 0.005 { 10.0 } else { 1.0 };
        ((normal * 0.5 - 6.2).exp() * slow * 1e9).round() / 1e9
    }
}

fn series(metric: &str, number: usize, temporality: Temporality) -> SeriesDef {
    let labels = [
        ("__name__", metric.to_owned()),
        ("handler", format!("/api/v2/resource/{}", number % 40)),
        ("instance", format!("node-{:05}.example.org:9100", number / 40)),
        ("job", format!("service-{}", number % 17)),
    ];
    let width_ms = if temporality == Temporality::Delta { STEP_MS as u32 } else { 0 };
    let meta = SeriesMeta { kind: Kind::Histogram, temporality, unit: String::new(), width_ms };
    SeriesDef { labels: Labels::new(labels).expect("four short labels"), meta }
}

fn submit(store: &Store, batch: Batch) {
    let (reply, answer) = mpsc::channel();
    let reported = Box::new(move |verdict: Result<_, Refusal>| reply.send(verdict).unwrap_or(()));
    store.submit(batch, reported).expect("there is room");
    answer.recv().expect("a reply comes").expect("the disk works");
}

/// Both forms of the measurements, in blocks; and the time of the last sample.
fn stored(directory: &Path) -> (Store, i64) {
    let clock: Arc<dyn Clock> = Arc::new(WallClock(Instant::now()));
    let wall_ms = clock.wall().to_ms().0;
    let store = Store::open(Arc::new(RealDisk), directory, Options::default(), clock).expect("the store opens");
    let end = wall_ms.div_euclid(STEP_MS) * STEP_MS;
    let defs: Vec<SeriesDef> = (0..SERIES)
        .map(|number| series("native_seconds", number, Temporality::Cumulative))
        .chain((0..SERIES).map(|number| series("cells_seconds", number, Temporality::Delta)))
        .collect();
    let exponential = Histogram::new(Scheme::exp2(3).expect("a scale of Prometheus"));
    let mut totals = vec![exponential; SERIES];
    let mut random = Random(11);
    for step in 0..STEPS {
        let time_ns = (end - (STEPS - 1 - step) as i64 * STEP_MS) * 1_000_000;
        let mut samples = Vec::new();
        for (number, total) in totals.iter_mut().enumerate() {
            let mut cell = Histogram::log_linear();
            for _ in 0..LATENCIES {
                let value = random.latency();
                total.record(value);
                cell.record(value);
            }
            let native = Histogram { min: None, max: None, ..total.clone() };
            for (index, value) in [(number, native), (SERIES + number, cell)] {
                let value = SampleValue::Histogram(Box::new(value));
                samples.push(Ok(Sample { series: index as u32, time_ns, start_ns: None, value }));
            }
        }
        let series = defs.iter().cloned().map(Ok).collect();
        submit(&store, Batch { source: SourceId(1), sequence: step as u64, series, samples, ..Batch::default() });
    }
    store.flush_whole().expect("the disk works");
    (store, end)
}

/// CPU nanoseconds that this thread has run, as the scheduler accounts for them.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|field| field.parse().ok()).unwrap_or(0)
}

struct Question {
    name: &'static str,
    text: &'static str,
    /// Length and step in seconds; None for an instant.
    range: Option<(i64, i64)>,
}

const NATIVE: &str = "histogram_quantile(0.99, sum(rate(native_seconds[5m])))";
const CELLS: &str = "histogram_quantile(0.99, sum(rate(cells_seconds[5m])))";

const QUESTIONS: [Question; 4] = [
    Question { name: "native range", text: NATIVE, range: Some((1800, 60)) },
    Question { name: "native instant", text: NATIVE, range: None },
    Question { name: "cells range", text: CELLS, range: Some((1800, 60)) },
    Question { name: "cells instant", text: CELLS, range: None },
];

impl Question {
    /// The value at the last instant.
    fn ask(&self, engine: &Engine, store: &Store, end: i64) -> f64 {
        let answer = match self.range {
            None => engine.instant(store, self.text, WallMs(end)),
            Some((length, step)) => {
                engine.range(store, self.text, WallMs(end - length * 1000), WallMs(end), Ms(step * 1000))
            }
        };
        match answer.expect("the queries are right").value {
            Value::Vector(rows) => match &rows[0].value {
                Point::Float(value) => *value,
                Point::Histogram(_) => f64::NAN,
            },
            Value::Matrix(rows) => rows[0].floats.last().expect("a value at the last instant").1,
            _ => f64::NAN,
        }
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    if std::env::args().any(|argument| argument == "--list") {
        return;
    }
    let wanted = arguments.find(|argument| !argument.starts_with('-')).unwrap_or_default();
    let rounds = std::env::var("OGIVE_BENCH_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(ROUNDS);
    let directory = tempfile::tempdir().expect("a directory");
    let (store, end) = stored(directory.path());
    let engine = Engine::new(EngineOptions::default());
    let questions: Vec<&Question> = QUESTIONS.iter().filter(|question| question.name.contains(&wanted)).collect();
    let mut times = vec![Vec::new(); questions.len()];
    let mut values = vec![f64::NAN; questions.len()];
    for _ in 0..rounds {
        for (at, question) in questions.iter().enumerate() {
            let before = cpu_ns();
            values[at] = question.ask(&engine, &store, end);
            times[at].push((cpu_ns() - before) as f64 / 1e6);
        }
    }
    println!("{SERIES} series x {STEPS} of {STEP_MS} ms, {LATENCIES} measurements each; {rounds} rounds");
    println!("{:>9} {:>9}  query", "least ms", "median");
    for ((question, times), value) in questions.iter().zip(&mut times).zip(values) {
        times.sort_by(f64::total_cmp);
        println!("{:9.2} {:9.2}  {} = {value}", times[0], times[times.len() / 2], question.name);
    }
}
