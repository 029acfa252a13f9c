//! The shared PromQL scripts: each query of them answered by the embedded store and by a node over a cluster.

#[path = "../../../query/tests/promql/support/mod.rs"]
#[allow(dead_code)]
mod scripts;

use ogive_door::backend::Backend;
use ogive_model::{
    Batch, HistogramValue, Sample, Select, Selection, SeriesData, SeriesDef, SourceId, Tenant, TimeRange, Value,
};

use crate::support::{Three, answer, answer_of, driven, embedded, node, send, store};
use scripts::script::{self, Command, CommandKind, Times};
use scripts::store::Memory;

/// Most series of a batch.
const SERIES: usize = 500;

/// What a script's store holds, as batches of a tenant.
fn batches(memory: &Memory, tenant: &Tenant) -> Vec<Batch> {
    let range = TimeRange::ALL;
    let all = memory.select(&Selection::new(Vec::new(), range));
    let all = all.unwrap();
    let one = |(number, some): (usize, &[SeriesData])| {
        let mut batch =
            Batch { source: SourceId(1), sequence: number as u64 + 1, tenant: tenant.clone(), ..Batch::default() };
        for data in some {
            add(&mut batch, data);
        }
        batch
    };
    all.chunks(SERIES).enumerate().map(one).collect()
}

/// Floats and histograms of one label set are two series here.
fn add(batch: &mut Batch, data: &SeriesData) {
    let start =
        |starts: &[i64], at: usize| starts.get(at).copied().filter(|start| *start > 0).map(|start| start * 1_000_000);
    let mut declare = |kind| {
        let meta = ogive_model::SeriesMeta { kind, ..data.meta.clone() };
        batch.series.push(Ok(SeriesDef { labels: data.labels.clone(), meta }));
        batch.series.len() as u32 - 1
    };
    let mut samples = Vec::new();
    if !data.floats.times.is_empty() {
        let series = declare(ogive_model::Kind::Float);
        for (at, (time, value)) in data.floats.times.iter().zip(&data.floats.values).enumerate() {
            let (time_ns, start_ns) = (time * 1_000_000, start(&data.floats.starts, at));
            samples.push(Ok(Sample { series, time_ns, start_ns, value: Value::Float(*value) }));
        }
    }
    if !data.histograms.times.is_empty() {
        let series = declare(ogive_model::Kind::Histogram);
        for (at, (time, value)) in data.histograms.times.iter().zip(&data.histograms.values).enumerate() {
            let value = match value {
                HistogramValue::Integer(one) => Value::Histogram(Box::new(one.clone())),
                HistogramValue::Float(one) => Value::FloatHistogram(Box::new(one.clone())),
            };
            let (time_ns, start_ns) = (time * 1_000_000, start(&data.histograms.starts, at));
            samples.push(Ok(Sample { series, time_ns, start_ns, value }));
        }
    }
    batch.samples.extend(samples);
}

#[test]
fn every_shared_script_has_the_answers_of_the_embedded_store() {
    let three = Three::up();
    let directory = tempfile::tempdir().unwrap();
    let node = node(&three.keyspace(), &directory.path().join("node"));
    let reference = embedded(&directory.path().join("store"));
    let (own, _) = scripts::directory();
    let (mut queries, mut differ, mut loads) = (0, Vec::new(), 0);
    for path in scripts::files(&own) {
        let mut memory = Memory::default();
        let mut tenant = Tenant::default();
        let mut is_loaded = true;
        for Command { line, kind } in script::read(&path).unwrap() {
            match kind {
                CommandKind::Clear => (memory, is_loaded) = (Memory::default(), false),
                CommandKind::Load(load) => {
                    memory.load(&load).unwrap();
                    is_loaded = false;
                }
                CommandKind::Eval(eval) => {
                    if !is_loaded {
                        (loads, is_loaded) = (loads + 1, true);
                        tenant = Tenant::new(&format!("load-{loads}")).unwrap();
                        for batch in batches(&memory, &tenant) {
                            let (one, other) = (store(&reference, batch.clone()), send(&node, batch).unwrap());
                            assert_eq!(one, other, "{}:{line}", path.display());
                        }
                        driven(&node);
                    }
                    let times = match eval.times {
                        Times::Instant(time) => (time, 0, 0),
                        Times::Range { start, end, step } => (start, end, step),
                    };
                    let expected = answer(&reference.tenant(&tenant), &eval.query, times);
                    let is = answer_of(&node, &tenant, &eval.query, times);
                    queries += 1;
                    if is != expected {
                        differ.push(format!("{}:{line}: {}\n  {is}\n  {expected}", path.display(), eval.query));
                    }
                }
            }
        }
    }
    println!("{queries} queries over {loads} loads, {} differ", differ.len());
    assert!(queries > 1_000, "{queries} queries");
    assert!(differ.is_empty(), "{}", differ.join("\n"));
    assert!(node.facts().iter().any(|fact| fact.name == "cassandra_rows_total" && fact.value > 0.0));
}
