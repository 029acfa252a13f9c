//! Batches of every kind of sample: in order, late, repeated, in fragments.

use ogive_hist::Histogram;
use ogive_model::{Batch, Kind, Sample, SeriesDef, SeriesMeta, SourceId, Temporality, Value};

/// A generator of numbers whose seed is all that a run needs to be repeated.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    /// Of `OGIVE_SEED`, or of the time; printed.
    pub(crate) fn seeded() -> Self {
        let seed = std::env::var("OGIVE_SEED").ok().and_then(|text| text.parse().ok());
        let seed = seed.unwrap_or_else(|| ogive_export::random_source().0 as u64 | 1);
        println!("OGIVE_SEED={seed}");
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

fn def(name: &str, host: &str, kind: Kind, temporality: Temporality) -> SeriesDef {
    let width_ms = if temporality == Temporality::Delta { 1_000 } else { 0 };
    let meta = SeriesMeta { kind, temporality, unit: "s".into(), width_ms };
    SeriesDef::new([("__name__", name), ("host", host)], meta).unwrap()
}

/// The series of every batch.
pub(crate) fn series() -> Vec<SeriesDef> {
    use Kind::{Float, Histogram, Text};
    use Temporality::{Cumulative, Delta, Gauge};
    let kinds = [
        ("gauge", Float, Gauge),
        ("counter_total", Float, Cumulative),
        ("parts", Float, Delta),
        ("points", Float, Delta),
        ("latency", Histogram, Delta),
        ("native", Histogram, Cumulative),
        ("scaled", Histogram, Delta),
        ("line", Text, Gauge),
    ];
    let of = |host| kinds.map(|(name, kind, temporality)| def(name, host, kind, temporality));
    ["a", "b", "c"].into_iter().flat_map(of).collect()
}

fn histogram(numbers: &mut Numbers, mut histogram: Histogram) -> Box<Histogram> {
    for _ in 0..=numbers.below(20) {
        // Dyadic, so that sums of any order are the same number.
        histogram.record((1 + numbers.below(4_096)) as f64 / 1_024.0);
    }
    Box::new(histogram)
}

/// Value and start of a sample at `second` of the series at `place`.
fn value(numbers: &mut Numbers, place: usize, second: i64) -> (Value, Option<i64>) {
    match place % 8 {
        0 => (Value::Float(numbers.below(1_000) as f64 / 8.0), None),
        1 => (Value::Float(second as f64), Some(1)),
        2 => (Value::Float(numbers.below(64) as f64 / 4.0), None),
        3 => (Value::Float(numbers.below(4) as f64), Some(second - 1)),
        4 => (Value::Histogram(histogram(numbers, Histogram::log_linear())), None),
        5 => {
            let mut all = Histogram::new(ogive_hist::Scheme::Exp2 { scale: 3 });
            (1..=(second % 600).max(1)).for_each(|at| all.record(at as f64 / 16.0));
            (Value::Histogram(Box::new(all)), None)
        }
        6 => {
            let scale = if numbers.below(2) == 0 { 2 } else { 4 };
            (Value::Histogram(histogram(numbers, Histogram::new(ogive_hist::Scheme::Exp2 { scale }))), None)
        }
        _ => (Value::Text(format!("line {} at {second}", numbers.below(100))), None),
    }
}

/// How far a batch is from its place among all: what is much older, an embedded store does not know to be new.
const SHUFFLED: u64 = 200;

/// Batches of three sources over `minutes` from `from_s` on: shuffled, some late, some twice.
pub(crate) fn batches(numbers: &mut Numbers, from_s: i64, minutes: i64) -> Vec<Batch> {
    let series = series();
    let mut out = Vec::new();
    for source in 1..=3_u128 {
        for (sequence, second) in (from_s..from_s + minutes * 60).step_by(5).enumerate() {
            let mut samples = Vec::new();
            for place in 0..series.len() {
                // A source has its own hosts; cells in fragments come from all.
                let is_fragment = matches!(place % 8, 2 | 4 | 6);
                if !is_fragment && place / 8 + 1 != source as usize {
                    continue;
                }
                for second in second..second + 5 {
                    if numbers.below(4) == 0 {
                        continue;
                    }
                    let late = if numbers.below(50) == 0 { 180 } else { 0 };
                    let (value, start) = value(numbers, place, second - late);
                    let ns = |second: i64| second * 1_000_000_000;
                    let (time_ns, start_ns) = (ns(second - late), start.map(ns));
                    samples.push(Ok(Sample { series: place as u32, time_ns, start_ns, value }));
                }
            }
            let source = SourceId(source);
            let sequence = sequence as u64 + 1;
            let series = series.iter().cloned().map(Ok).collect();
            out.push(Batch { source, sequence, series, samples, ..Batch::default() });
        }
    }
    out.sort_by_key(|batch| batch.sequence);
    let again: Vec<Batch> = out.iter().filter(|_| numbers.below(10) == 0).cloned().collect();
    out.extend(again);
    for at in (1..out.len()).rev() {
        out.swap(at, at - numbers.below(SHUFFLED.min(at as u64 + 1)) as usize);
    }
    out
}

/// Questions over all of it.
pub(crate) const QUERIES: [&str; 16] = [
    "gauge",
    "sum by (host) (gauge)",
    "counter_total",
    "rate(counter_total[2m])",
    "sum_over_time(parts[1m])",
    "sum(sum_over_time(points[1m]))",
    "points",
    "latency",
    "sum(latency)",
    "histogram_quantile(0.99, sum(rate(latency[1m])))",
    "histogram_count(sum_over_time(latency[2m]))",
    "native",
    "histogram_quantile(0.5, native)",
    "sum(scaled)",
    "count({host=~\"a|b\"})",
    "topk(2, gauge) + on (host) group_left counter_total",
];
