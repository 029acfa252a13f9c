//! A quantile over the sum of the rates of 300 histograms: the same measurements as cumulative histograms, as
//! Prometheus sends them, and as cells; 40 minutes, a sample each 10 s of 200 latencies.

use ogive_hist::{Histogram, Scheme};
use ogive_model::{Batch, Kind, Labels, Sample, SeriesDef, SeriesMeta, SourceId, Temporality, Value};
use ogive_store::Store;

use crate::{NOW_MS, Question, Wanted, open, submit};

const SERIES: usize = 300;
const STEPS: usize = 240;
const STEP_MS: i64 = 10_000;
/// Measurements between two samples.
const LATENCIES: usize = 200;

const NATIVE: &str = "histogram_quantile(0.99, sum(rate(native_seconds[5m])))";
const CELLS: &str = "histogram_quantile(0.99, sum(rate(cells_seconds[5m])))";

const QUESTIONS: [Question; 4] = [
    Question { name: "native range", text: NATIVE, range: Some((1800, 60)) },
    Question { name: "native instant", text: NATIVE, range: None },
    Question { name: "cells range", text: CELLS, range: Some((1800, 60)) },
    Question { name: "cells instant", text: CELLS, range: None },
];

/// Asks what is wanted of it.
pub(crate) fn ask(wanted: &Wanted) {
    let questions = wanted.of(&QUESTIONS);
    if questions.is_empty() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(directory.path());
    fill(&store);
    println!("{SERIES} histograms x {STEPS} of {STEP_MS} ms, {LATENCIES} measurements each");
    drop(store);
    wanted.ask_stored(directory.path(), &questions);
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

/// Both forms of the measurements, in blocks.
fn fill(store: &Store) {
    let defs: Vec<SeriesDef> = (0..SERIES)
        .map(|number| series("native_seconds", number, Temporality::Cumulative))
        .chain((0..SERIES).map(|number| series("cells_seconds", number, Temporality::Delta)))
        .collect();
    let exponential = Histogram::new(Scheme::exp2(3).expect("a scale of Prometheus"));
    let mut totals = vec![exponential; SERIES];
    let mut random = Random(11);
    for step in 0..STEPS {
        let time_ns = (NOW_MS - (STEPS - 1 - step) as i64 * STEP_MS) * 1_000_000;
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
                let value = Value::Histogram(Box::new(value));
                samples.push(Ok(Sample { series: index as u32, time_ns, start_ns: None, value }));
            }
        }
        let series = defs.iter().cloned().map(Ok).collect();
        submit(store, Batch { source: SourceId(1), sequence: step as u64, series, samples, ..Batch::default() });
    }
    store.flush_whole().expect("the disk works");
}
