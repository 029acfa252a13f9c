//! How long do the queries of a dashboard take? A rate over 1,000 series of a day, and a quantile over the exact merge
//! of 300 series of cells.
//!
//! Each query runs a few times in turn with the others; printed are CPU milliseconds (least and median) of the query
//! with its read, and of the read alone (this store copies what it holds). `cargo bench -p ogive-query --bench engine`.

use std::hint::black_box;

use ogive_hist::Histogram;
use ogive_model::{
    FloatColumn, HistogramColumn, HistogramValue, Kind, Labels, MatchOp, Matcher, Ms, Select, SelectError, Selection,
    SeriesData, SeriesMeta, Temporality, TextColumn, TimeRange, WallMs,
};
use ogive_query::{Engine, EngineOptions, Value};

/// Runs of each query.
const ROUNDS: usize = 5;
/// Counters: a day of samples each 30 s.
const COUNTERS: usize = 1000;
const DAY_MS: i64 = 24 * 3600 * 1000;
/// Series of cells: an hour of cells of 10 s.
const CELLS: usize = 300;
const HOUR_MS: i64 = 3600 * 1000;

/// Series with all their samples.
struct FixedStore(Vec<SeriesData>);

impl Select for FixedStore {
    fn select(&self, selection: &Selection) -> Result<Vec<SeriesData>, SelectError> {
        let wanted = |series: &&SeriesData| selection.matchers.iter().all(|m| m.matches(series.labels.get(&m.name)));
        Ok(self.0.iter().filter(wanted).map(|series| cut(series, selection.range)).collect())
    }
}

fn cut(series: &SeriesData, range: TimeRange) -> SeriesData {
    let inside = |times: &[i64]| {
        let from = times.partition_point(|time| *time <= range.start.0);
        from..times.partition_point(|time| *time <= range.end.0)
    };
    let (floats, histograms) = (inside(&series.floats.times), inside(&series.histograms.times));
    SeriesData {
        labels: series.labels.clone(),
        meta: series.meta.clone(),
        floats: FloatColumn {
            times: series.floats.times[floats.clone()].to_vec(),
            values: series.floats.values[floats].to_vec(),
            starts: Vec::new(),
            aggregates: Vec::new(),
        },
        histograms: HistogramColumn {
            times: series.histograms.times[histograms.clone()].to_vec(),
            values: series.histograms.values[histograms].to_vec(),
            starts: Vec::new(),
        },
        texts: TextColumn::default(),
        rollup_ms: 0,
    }
}

/// Reproducible pseudo-random numbers.
struct Random(u64);

impl Random {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}

fn series(name: &str, number: usize, kind: Kind, temporality: Temporality) -> SeriesData {
    let labels =
        [("__name__", name.to_owned()), ("host", format!("h{number}")), ("route", format!("/{}", number % 10))];
    SeriesData::new(
        Labels::new(labels).expect("three short labels"),
        SeriesMeta { kind, temporality, unit: String::new(), width_ms: 10_000 },
    )
}

fn store() -> FixedStore {
    let mut random = Random(11);
    let mut out = Vec::new();
    for number in 0..COUNTERS {
        let mut one = series("requests_total", number, Kind::Float, Temporality::Cumulative);
        let mut total = 0.0;
        for time in (30_000..=DAY_MS).step_by(30_000) {
            total += (random.unit() * 50.0).floor();
            one.floats.times.push(time);
            one.floats.values.push(total);
        }
        out.push(one);
    }
    for number in 0..CELLS {
        let mut one = series("rpc_seconds", number, Kind::Histogram, Temporality::Delta);
        for time in (10_000..=HOUR_MS).step_by(10_000) {
            let mut cell = Histogram::log_linear();
            for _ in 0..40 {
                cell.record(0.0005 * (random.unit() * 9.0).exp());
            }
            one.histograms.times.push(time);
            one.histograms.values.push(HistogramValue::Integer(cell));
        }
        out.push(one);
    }
    FixedStore(out)
}

/// CPU nanoseconds that this thread has run, as the scheduler accounts for them.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|field| field.parse().ok()).unwrap_or(0)
}

fn measured<T>(run: impl FnOnce() -> T) -> (f64, T) {
    let before = cpu_ns();
    let out = run();
    ((cpu_ns() - before) as f64 / 1e6, out)
}

struct Question {
    text: &'static str,
    metric: &'static str,
    end: i64,
    step: i64,
}

const QUESTIONS: [Question; 6] = [
    Question { text: "rate(requests_total[5m])", metric: "requests_total", end: DAY_MS, step: 30_000 },
    Question { text: "sum by (route) (rate(requests_total[5m]))", metric: "requests_total", end: DAY_MS, step: 30_000 },
    Question { text: "sum(requests_total)", metric: "requests_total", end: DAY_MS, step: 30_000 },
    Question {
        text: "histogram_quantile(0.99, increase(rpc_seconds[5m]))",
        metric: "rpc_seconds",
        end: HOUR_MS,
        step: 10_000,
    },
    Question {
        text: "histogram_quantile(0.99, sum by (route) (increase(rpc_seconds[5m])))",
        metric: "rpc_seconds",
        end: HOUR_MS,
        step: 10_000,
    },
    Question { text: "histogram_quantile(0.99, sum(rpc_seconds))", metric: "rpc_seconds", end: HOUR_MS, step: 10_000 },
];

fn main() {
    if std::env::args().any(|argument| argument == "--list") {
        return;
    }
    let store = store();
    let engine = Engine::new(EngineOptions::default());
    println!("{COUNTERS} counters x 24 h @ 30 s; {CELLS} series of 10 s cells x 1 h, 40 samples a cell");
    println!("{:>9} {:>9} {:>9} {:>9}  query", "least ms", "median", "read ms", "points");
    let mut times = vec![Vec::new(); QUESTIONS.len()];
    let mut reads = vec![Vec::new(); QUESTIONS.len()];
    let mut points = vec![0; QUESTIONS.len()];
    for _ in 0..ROUNDS {
        for (index, question) in QUESTIONS.iter().enumerate() {
            let (cpu, result) = measured(|| {
                engine.range(&store, question.text, WallMs(question.step), WallMs(question.end), Ms(question.step))
            });
            times[index].push(cpu);
            if let Value::Matrix(rows) = result.expect("the queries are right").value {
                points[index] = rows.iter().map(|row| row.floats.len() + row.histograms.len()).sum();
            }
            reads[index].push(measured(|| black_box(store.select(&everything(question.metric)))).0);
        }
    }
    for (index, question) in QUESTIONS.iter().enumerate() {
        let (times, reads) = (&mut times[index], &mut reads[index]);
        times.sort_by(f64::total_cmp);
        reads.sort_by(f64::total_cmp);
        let (least, median, read) = (times[0], times[ROUNDS / 2], reads[ROUNDS / 2]);
        println!("{least:9.1} {median:9.1} {read:9.1} {:9}  {}", points[index], question.text);
    }
}

fn everything(metric: &str) -> Selection {
    Selection::new(
        vec![Matcher::new("__name__", MatchOp::Equal, metric).expect("no pattern to be wrong")],
        TimeRange::ALL,
    )
}
