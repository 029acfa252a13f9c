//! A sum over very many series at one instant, from memory and from blocks: nine labels and seven samples a series, as
//! the bench `scale` has them. OGIVE_BENCH_SERIES says how many, 100,000 by default.

use ogive_model::{Batch, Kind, Labels, Sample, SeriesDef, SeriesMeta, SourceId, Temporality, Value};
use ogive_store::Store;

use crate::{NOW_MS, Question, Wanted, open, submit};

const SERIES: usize = 100_000;
const STEPS: usize = 7;
const STEP_MS: i64 = 10_000;
/// Series of a batch.
const RUN: usize = 10_000;

const SUM: &str = "sum by (job) (many_requests_total)";

const MEMORY: [Question; 1] = [Question { name: "many from memory", text: SUM, range: None }];
const BLOCKS: [Question; 1] = [Question { name: "many from blocks", text: SUM, range: None }];

/// Asks what is wanted of it.
pub(crate) fn ask(wanted: &Wanted) {
    let (memory, blocks) = (wanted.of(&MEMORY), wanted.of(&BLOCKS));
    if memory.is_empty() && blocks.is_empty() {
        return;
    }
    let count = std::env::var("OGIVE_BENCH_SERIES").ok().and_then(|text| text.parse().ok()).unwrap_or(SERIES);
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(directory.path());
    fill(&store, count);
    println!("{count} counters x {STEPS} of {STEP_MS} ms");
    if !memory.is_empty() {
        wanted.ask(&store, &memory);
    }
    if blocks.is_empty() {
        return;
    }
    store.flush_whole().expect("the disk works");
    store.settle();
    drop(store);
    wanted.ask_stored(directory.path(), &blocks);
}

fn series(number: usize) -> SeriesDef {
    let host = number / 40;
    let labels = [
        ("__name__", "many_requests_total".to_owned()),
        ("cluster", "eu-central-1-production".to_owned()),
        ("dc", format!("dc{}", host % 4)),
        ("handler", format!("/api/v2/resource/{}", number % 40)),
        ("instance", format!("node-{host:05}.example.org:9100")),
        ("job", format!("service-{}", number % 17)),
        ("method", ["GET", "PUT", "POST"][number % 3].to_owned()),
        ("run", "bench".to_owned()),
        ("status", ["200", "204", "404", "500"][number % 4].to_owned()),
    ];
    let meta = SeriesMeta { kind: Kind::Float, temporality: Temporality::Cumulative, unit: String::new(), width_ms: 0 };
    SeriesDef { labels: Labels::new(labels).expect("nine short labels"), meta }
}

fn fill(store: &Store, count: usize) {
    let mut sequence = 0;
    for step in 0..STEPS {
        let time_ns = (NOW_MS - (STEPS - 1 - step) as i64 * STEP_MS) * 1_000_000;
        for first in (0..count).step_by(RUN) {
            let numbers = first..count.min(first + RUN);
            let sample = |(index, number): (usize, usize)| {
                let value = Value::Float((number * 7 % 1009 + step * (number % 13)) as f64);
                Ok(Sample { series: index as u32, time_ns, start_ns: None, value })
            };
            let samples = numbers.clone().enumerate().map(sample).collect();
            let series = numbers.map(|number| Ok(series(number))).collect();
            submit(store, Batch { source: SourceId(1), sequence, series, samples, ..Batch::default() });
            sequence += 1;
        }
    }
}
