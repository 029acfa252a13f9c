//! Aggregations over a day of 1,000 gauges and 1,000 counters, a sample each 30 s: the workload of bench/peers
//! `queries`.

use ogive_model::{Batch, Kind, Labels, Sample, SeriesDef, SeriesMeta, SourceId, Temporality, Value};
use ogive_store::Store;

use crate::{NOW_MS, Question, Wanted, open, submit};

/// Of each shape.
const SERIES: usize = 1000;
/// A day in steps of 30 s.
const STEPS: usize = 2_880;
const STEP_MS: i64 = 30_000;
/// Samples of a series in a batch: ten minutes.
const RUN: usize = 20;

const DAY: Option<(i64, i64)> = Some((86_400, 300));
const HOUR: Option<(i64, i64)> = Some((3600, 60));
const RAW: &str = "bench_gauge";
const SUM: &str = "sum by (dc) (bench_gauge)";
const RATE: &str = "sum by (job) (rate(bench_counter_total[5m]))";

const QUESTIONS: [Question; 6] = [
    Question { name: "floats day raw", text: RAW, range: DAY },
    Question { name: "floats day sum", text: SUM, range: DAY },
    Question { name: "floats day rate", text: RATE, range: DAY },
    Question { name: "floats hour raw", text: RAW, range: HOUR },
    Question { name: "floats hour sum", text: SUM, range: HOUR },
    Question { name: "floats hour rate", text: RATE, range: HOUR },
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
    let blocks = store.status().blocks;
    println!("{SERIES} gauges and as many counters x {STEPS} of {STEP_MS} ms, {blocks:?}");
    drop(store);
    wanted.ask_stored(directory.path(), &questions);
}

/// Random numbers by xorshift64*, as those of bench/peers.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: u64) -> f64 {
        (self.next() % limit) as f64
    }

    fn normal(&mut self) -> f64 {
        (0..12).map(|_| (self.next() >> 11) as f64 / (1_u64 << 53) as f64).sum::<f64>() - 6.0
    }
}

/// A series that is sent.
struct Sent {
    def: SeriesDef,
    random: Random,
    value: f64,
}

impl Sent {
    fn new(metric: &str, number: usize, temporality: Temporality) -> Self {
        let labels = [
            ("__name__", metric.to_owned()),
            ("dc", format!("dc{}", number % 4)),
            ("instance", format!("node-{number:05}.example.org:9100")),
            ("job", format!("service-{}", number % 17)),
            ("number", number.to_string()),
            ("part", format!("p{}", number % 10)),
        ];
        let meta = SeriesMeta { kind: Kind::Float, temporality, unit: String::new(), width_ms: 0 };
        let mut random = Random::new(number as u64 + 1);
        let value = if is_counter(temporality) { random.below(1_000_000) } else { random.below(10_000) / 100.0 };
        Self { def: SeriesDef { labels: Labels::new(labels).expect("six short labels"), meta }, random, value }
    }

    /// Counters rise by some tens a step; gauges walk randomly with two decimals.
    fn next(&mut self) -> f64 {
        if is_counter(self.def.meta.temporality) {
            self.value += self.random.below(64);
        } else {
            let cents = (self.value * 100.0).round() + (self.random.normal() * 20.0).round();
            self.value = cents.abs() / 100.0;
        }
        self.value
    }
}

fn is_counter(temporality: Temporality) -> bool {
    temporality == Temporality::Cumulative
}

/// All series in blocks, compacted.
fn fill(store: &Store) {
    let shapes = [("bench_gauge", Temporality::Gauge), ("bench_counter_total", Temporality::Cumulative)];
    let mut series: Vec<Sent> =
        shapes.into_iter().flat_map(|(name, what)| (0..SERIES).map(move |at| Sent::new(name, at, what))).collect();
    let begin = NOW_MS - (STEPS as i64 - 1) * STEP_MS;
    let mut sequence = 0;
    for step in (0..STEPS).step_by(RUN) {
        for part in series.chunks_mut(250) {
            let mut samples = Vec::with_capacity(part.len() * RUN);
            for (index, one) in part.iter_mut().enumerate() {
                samples.extend((step..step + RUN).map(|step| {
                    let time_ns = (begin + step as i64 * STEP_MS) * 1_000_000;
                    let value = Value::Float(one.next());
                    Ok(Sample { series: index as u32, time_ns, start_ns: None, value })
                }));
            }
            let series = part.iter().map(|one| Ok(one.def.clone())).collect();
            submit(store, Batch { source: SourceId(1), sequence, series, samples, ..Batch::default() });
            sequence += 1;
        }
    }
    store.flush_whole().expect("the disk works");
    store.settle();
}
