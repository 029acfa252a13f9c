//! What a query holds in memory is bounded in bytes, whatever it makes them of.

#[allow(dead_code)]
mod common;

use common::{record, series};
use ogive_model::{Kind, Memory, MemoryExceeded, MemoryScope, Ms, Temporality, WallMs};
use ogive_query::{Engine, EngineOptions, Error};

/// Queries that make much of little: each grows by labels, rows, cells, groups or histograms that no sample stands for.
fn expansions() -> Vec<String> {
    let nested = |depth: usize| {
        (0..depth).fold("last_over_time({__name__=~\".+\"}[5m])".to_owned(), |inner, _| {
            format!("label_replace({inner}, \"h\", \"${{1}}${{1}}x\", \"h\", \"(.*)\")")
        })
    };
    // 16,383 bytes: the longest value that doubling and one make.
    let long = nested(14);
    let copies = |count: usize, inner: &str| {
        let copy = |at: usize| format!("label_replace({inner}, \"copy\", \"{at}\", \"\", \"\")");
        (0..count).map(copy).collect::<Vec<_>>().join(" or ")
    };
    let labels = (0..90).fold("count_a".to_owned(), |inner, at| {
        format!("label_join({inner}, \"l{at}\", \"\", {})", vec!["\"pad\""; 60].join(", "))
    });
    let scalars = (0..50).fold("time()".to_owned(), |inner, _| format!("(time() + {inner})"));
    vec![
        copies(40, &long),
        format!("sort_by_label({}, \"h\")", copies(40, &long)),
        format!("sum without () ({})", copies(40, &long)),
        format!("count_values(\"v\", {}) or {}", copies(40, &long), copies(40, &nested(14))),
        format!("topk(1e6, {}) + on(h, copy, __name__, n) ({})", copies(20, &long), copies(20, &long)),
        copies(2, &labels),
        format!("avg_over_time(vector({scalars})[4000h:10s])"),
        format!("count_over_time(({})[1000h:10s])", copies(40, "count_a")),
        format!("max_over_time((sum by (n) ({}))[1000h:10s])", copies(40, "count_a")),
        format!("last_over_time(({})[1000h:10s] @ 0)", copies(40, "count_a * 0")),
        format!("max_over_time((count_values(\"v\", time() + count_a))[100h:1s])"),
        format!("max_over_time(histogram_quantiles(rpc_seconds, \"q\", time() / 1e9)[100h:1s])"),
        format!("last_over_time(({})[50m:1s])", copies(40, "(rpc_seconds + rpc_seconds)")),
        format!("last_over_time(({})[1000h:10s])", copies(40, "rate(rpc_seconds[5m])")),
    ]
}

/// A 2 KB query killed an empty server: ten nested `label_replace` made megabytes of labels of each of 285 series, and
/// forty copies gigabytes; labels counted against no limit. Whatever a query holds is charged before it is made, and
/// given back.
#[test]
fn what_expands_is_refused_within_the_budget_and_given_back() {
    let mut store = record(60).store;
    for at in 0..40 {
        let (number, pad) = (at.to_string(), "p".repeat(200));
        let labels = [("__name__", "count_a"), ("n", &*number), ("pad", &*pad)];
        let mut one = series(&labels, Kind::Float, Temporality::Gauge);
        (one.floats.times, one.floats.values) = (vec![50_000], vec![1.0]);
        store.0.push(one);
    }
    store.0.sort_by(|a, b| a.labels.cmp(&b.labels));
    let limit = 4 << 20;
    let memory = Memory::new(MemoryScope::All, 64 << 20);
    let engine = |limit: usize| {
        let memory = memory.within(limit);
        Engine::new(EngineOptions {
            memory,
            samples_max: usize::MAX / 32,
            instants_max: usize::MAX,
            ..EngineOptions::default()
        })
    };
    for query in expansions() {
        let shown: String = query.chars().take(100).collect();
        let refused = engine(limit).instant(&store, &query, WallMs(60_000)).expect_err(&shown);
        let expected = MemoryExceeded { scope: MemoryScope::Query, limit };
        assert_eq!(refused, Error::TooMuchMemory(expected), "{shown}");
        assert_eq!(memory.used(), 0, "{shown}");
    }
    let answer = engine(limit).instant(&store, "sum by (n) (count_a) or count_a", WallMs(60_000)).unwrap();
    assert_eq!(memory.used(), answer.held.bytes());
    assert!(answer.held.bytes() > 80 * 200, "{} bytes", answer.held.bytes());
    drop(answer);
    assert_eq!(memory.used(), 0);
}

/// A range query that does not fit at once is answered in slices of time, and only what is left of them is held.
#[test]
fn a_long_range_that_does_not_fit_at_once_is_answered_in_slices() {
    let store = record(60).store;
    let ask = |limit: usize| {
        let memory = Memory::new(MemoryScope::Query, limit);
        let engine = Engine::new(EngineOptions { memory, ..EngineOptions::default() });
        engine.range(&store, "histogram_count(increase(rpc_seconds[10s])) + 0", WallMs(0), WallMs(60_000), Ms(10))
    };
    let whole = ask(1 << 30).unwrap();
    let sliced = ask(whole.held.bytes() * 3).unwrap();
    assert_eq!(sliced.value, whole.value);
    assert!(matches!(ask(whole.held.bytes() / 2), Err(Error::TooMuchMemory(_))));
}
