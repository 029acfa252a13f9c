//! What do continuous queries cost a second, with the windows of `/v1/stream` and without?
//!
//! `cargo bench -p ogive-storage --bench continuous` fills a store whose disk is memory with 1,000 counters and 1,000
//! histograms, then evaluates 100 expressions at each of 20 seconds as it comes: over the store, and over windows that
//! are kept. Both answer the same, which is checked. CPU time of this thread, which evaluates alone, each second;
//! median and range.

use std::sync::{Arc, mpsc};

use ogive_hist::Histogram;
use ogive_journal::SimulatedDisk;
use ogive_model::{Batch, Kind, Sample, Select, SeriesDef, SeriesMeta, SourceId, Temporality, Tenant, Value, WallMs};
use ogive_probe::Clock;
use ogive_query::{Engine, EngineOptions};
use ogive_storage::Time;
use ogive_storage::live::{Live, Options, RecentReader};
use ogive_store::Store;

const SERIES: usize = 1_000;
const BEFORE: i64 = 70;
const SECONDS: i64 = 20;

/// CPU seconds of this thread so far.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).expect("nanoseconds on a CPU come first") / 1e9
}

fn def(kind: Kind, at: usize) -> SeriesDef {
    let (name, temporality) = match kind {
        Kind::Histogram => ("rpc_seconds", Temporality::Delta),
        _ => ("rpc_total", Temporality::Cumulative),
    };
    let (host, job) = (at.to_string(), (at % 20).to_string());
    let meta =
        SeriesMeta { kind, temporality, unit: "s".into(), width_ms: if kind == Kind::Histogram { 1_000 } else { 0 } };
    SeriesDef::new([("__name__", name.to_owned()), ("host", host), ("job", job)], meta).expect("labels are valid")
}

fn cell(second: i64, at: usize) -> Value {
    let mut histogram = Histogram::<u64>::log_linear();
    for number in 0..50 {
        histogram.record(0.01 * (1.0 + ((second as usize * 31 + at * 17 + number * 7) % 97) as f64 / 30.0));
    }
    Value::Histogram(Box::new(histogram))
}

fn put(store: &Store, kind: Kind, second: i64) {
    let sample = |at: usize| {
        let value = match kind {
            Kind::Histogram => cell(second, at),
            _ => Value::Float((second * 3 + at as i64) as f64),
        };
        Ok(Sample { series: at as u32, time_ns: second * 1_000_000_000, start_ns: None, value })
    };
    let series = (0..SERIES).map(|at| Ok(def(kind, at))).collect();
    let source = SourceId(if kind == Kind::Histogram { 1 } else { 2 });
    let batch = Batch {
        source,
        sequence: second as u64,
        series,
        samples: (0..SERIES).map(sample).collect(),
        ..Batch::default()
    };
    let (done, answer) = mpsc::channel();
    store.submit(batch, Box::new(move |verdict| done.send(verdict).unwrap_or(()))).expect("there is room");
    let verdict = answer.recv().expect("an answer").expect("the disk works");
    assert_eq!(verdict.rejected.len(), 0, "{:?}", verdict.rejected.first());
}

/// A hundred of those that people stream.
fn expressions(kind: Kind) -> Vec<String> {
    let forms: &[&str] = match kind {
        Kind::Histogram => &[
            "histogram_quantile(0.99, sum by (job) (rate(rpc_seconds[R])))",
            "sum by (job) (histogram_count(increase(rpc_seconds[R])))",
        ],
        _ => &[
            "sum by (job) (rate(rpc_total[R]))",
            "sum(increase(rpc_total[R]))",
            "max by (job) (avg_over_time(rpc_total[R]))",
            "topk(3, rate(rpc_total[R]))",
        ],
    };
    let ranges = ["5s", "10s", "20s", "30s", "60s"];
    let all = (0..100).map(|at| forms[at % forms.len()].replace('R', ranges[at / forms.len() % ranges.len()]));
    all.collect()
}

fn run(kind: Kind, name: &str) {
    let clock = Clock::global();
    let store = Store::open(
        Arc::new(SimulatedDisk::new(1)),
        "bench".as_ref(),
        ogive_store::Options::default(),
        Arc::new(Time(clock)),
    );
    let store = Arc::new(store.expect("the store opens"));
    let live = Live::new(&store, clock, Options::default());
    let (recent, tenant) = (live.recent(), Tenant::default());
    let using = recent.using();
    let engine = Engine::new(EngineOptions::default());
    let end = clock.wall() / 1_000_000_000;
    let begin = end - SECONDS;
    (begin - BEFORE..begin).for_each(|second| put(&store, kind, second));
    let all = expressions(kind);
    let mut took: [Vec<f64>; 2] = [Vec::new(), Vec::new()];
    for second in begin..end {
        put(&store, kind, second);
        let raw = store.tenant(&tenant);
        let kept = RecentReader::new(Box::new(store.tenant(&tenant)), Some(recent), &tenant);
        let evaluated = |select: &dyn Select| {
            let from = cpu_seconds();
            let values: Vec<_> = all
                .iter()
                .map(|text| engine.instant(select, text, WallMs(second * 1_000)).expect("it is evaluated").value)
                .collect();
            (cpu_seconds() - from, values)
        };
        let (without, expected) = evaluated(&raw);
        let (with, found) = evaluated(&kept);
        assert!(expected == found, "windows answer what the store does at {second}");
        took[0].push(without);
        took[1].push(with);
    }
    for (way, took) in ["read from the store", "windows kept"].into_iter().zip(&mut took) {
        took.sort_by(f64::total_cmp);
        let ms = |at: usize| took[at] * 1e3;
        println!(
            "100 expressions over {SERIES} {name}, {way}: {:.0} ms a second ({:.0} to {:.0})",
            ms(took.len() / 2),
            ms(0),
            ms(took.len() - 1)
        );
    }
    println!("windows: {:.1} MB", recent.bytes() as f64 / 1e6);
    drop(using);
}

fn main() {
    run(Kind::Float, "counters");
    run(Kind::Histogram, "histograms");
}
