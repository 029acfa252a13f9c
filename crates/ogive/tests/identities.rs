//! Series named by their identity, and the limits of tenants and queries, against a real server that is killed in
//! between.

use crate::common::{FRAME, JSON, Server, now_ms};
use ogive_model::{
    Batch, Kind, Sample, SeriesDef, SeriesId, SeriesMeta, SourceId, Temporality, Tenant, Value as ModelValue,
};
use serde_json::{Value, json};

fn def(name: &str) -> SeriesDef {
    let meta = SeriesMeta { kind: Kind::Float, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };
    SeriesDef::new([("__name__", name), ("host", "a")], meta).unwrap()
}

fn id(name: &str) -> SeriesId {
    def(name).id(&Tenant::default())
}

/// A moment that was, for those who look at once.
fn lately_ms() -> i64 {
    now_ms() - 1_000
}

/// A sample of each series, all of one value.
fn frame(sequence: u64, declared: &[&str], known: &[&str], value: f64) -> Vec<u8> {
    let time_ns = (lately_ms() + sequence as i64) * 1_000_000;
    let count = (declared.len() + known.len()) as u32;
    let sample = |series| Ok(Sample { series, time_ns, start_ns: None, value: ModelValue::Float(value) });
    let batch = Batch {
        source: SourceId(7),
        sequence,
        series: declared.iter().map(|name| Ok(def(name))).collect(),
        known: known.iter().map(|name| id(name)).collect(),
        samples: (0..count).map(sample).collect(),
        ..Batch::default()
    };
    batch.encode().unwrap()
}

#[test]
fn a_sender_learns_what_to_declare_and_identities_outlive_a_kill() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::start(directory.path());
    let (status, answer) = server.post(FRAME, &frame(1, &["a"], &["b", "c"], 1.0));
    assert_eq!((status, &answer["errorType"]), (409, &json!("unknown_series")), "{answer}");
    assert_eq!(answer["unknown"], json!([0, 1]));
    // The same number with what was asked for; then names are enough.
    assert_eq!(server.post(FRAME, &frame(1, &["a", "b", "c"], &[], 1.0)).1["accepted"], 3);
    assert_eq!(server.post(FRAME, &frame(1, &[], &["a", "b", "c"], 1.0)).1["duplicate"], 3);
    assert_eq!(server.post(FRAME, &frame(2, &[], &["c", "b", "a"], 2.0)).1["accepted"], 3);
    server.kill();
    let server = Server::start(directory.path());
    assert_eq!(server.post(FRAME, &frame(2, &[], &["c", "b", "a"], 2.0)).1["duplicate"], 3);
    assert_eq!(server.post(FRAME, &frame(3, &[], &["c", "b", "a"], 3.0)).1["accepted"], 3);
    for name in ["a", "b", "c"] {
        assert_eq!(server.number(&format!("count_over_time({name}[1h])")), Some(3.0), "{name}");
    }
    // JSON says it too.
    let time = lately_ms() + 4;
    let body = |known: Value| {
        json!({"source": crate::common::SOURCE, "sequence": 1, "known": known,
               "samples": [{"series": 0, "time_ms": time, "float": 4.5}]})
        .to_string()
    };
    let (status, answer) = server.post(JSON, body(json!([format!("{:?}", id("a"))])).as_bytes());
    assert_eq!((status, &answer["accepted"]), (200, &json!(1)), "{answer}");
    assert_eq!(server.number("max_over_time(a{host=\"a\"}[1h])"), Some(4.5));
    for wrong in [json!(["xyz"]), json!([1]), json!("a")] {
        assert_eq!(server.post(JSON, body(wrong).as_bytes()).0, 400);
    }
    let (_, status) = server.get("/v1/status");
    assert_eq!(status["unknown_series_batches_total"], 0, "since this start: {status}");
}

#[test]
fn what_is_beyond_a_limit_is_in_the_overflow_and_counted() {
    let directory = tempfile::tempdir().unwrap();
    let flags = ["--listen", "127.0.0.1:0", "--limit-labels", "3", "--limit-batch-series", "4"];
    let server = Server::try_start(directory.path(), &flags).unwrap();
    // The server's own series of many labels are in the overflow too, but not ten minutes ago.
    let time = now_ms() - 600_000;
    let wide = |n: usize| json!({"labels": {"__name__": "w", "a": "1", "b": "2", "n": n.to_string()}, "kind": "float"});
    let sample = |n: usize| json!({"series": n, "time_ms": time, "float": 1.5});
    let (status, answer) =
        server.batch(crate::common::SOURCE, 1, json!([wide(0), wide(1)]), json!([sample(0), sample(1)]));
    assert_eq!((status, &answer["accepted"], &answer["folded"]), (200, &json!(2), &json!(2)), "{answer}");
    let overflow = format!("ogive_overflow{{reason=\"labels_limit\"}} @ {}.{:03}", time / 1_000, time % 1_000);
    assert_eq!(server.number(&overflow), Some(3.0), "both, at one instant");
    let (_, figures) = server.get("/v1/status");
    assert_eq!(figures["folded_total"], 2, "{figures}");
    let (status, answer) = server.batch(crate::common::SOURCE, 2, (0..5).map(wide).collect(), json!([sample(0)]));
    // More series than a batch may have are stored in parts.
    assert_eq!((status, &answer["accepted"], &answer["folded"]), (200, &json!(1), &json!(1)), "{answer}");
}

#[test]
fn a_query_beyond_a_limit_is_told_which() {
    let directory = tempfile::tempdir().unwrap();
    let flags = ["--listen", "127.0.0.1:0", "--query-series", "2", "--query-samples", "450", "--query-timeout-s", "9"];
    let server = Server::try_start(directory.path(), &flags).unwrap();
    let time = now_ms() - 250_000;
    let labels = |name: &str, n: usize| json!({"labels": {"__name__": name, "n": n.to_string()}, "kind": "float"});
    let series = json!([labels("m", 0), labels("m", 1), labels("k", 0), labels("k", 1), labels("k", 2)]);
    let mut samples: Vec<Value> =
        (0..600).map(|at| json!({"series": at % 2, "time_ms": time + at * 400, "float": 1})).collect();
    samples.extend((2..5).map(|series| json!({"series": series, "time_ms": time + 240_000, "float": 1})));
    assert_eq!(server.batch(crate::common::SOURCE, 1, series, samples.into()).0, 200);
    let ask = |query: &str| server.get(&format!("/api/v1/query?query={}", crate::common::form(query)));
    for (query, flag) in [("count(k)", "--query-series"), ("count_over_time(m[5m])", "--query-samples")] {
        let (status, answer) = ask(query);
        assert_eq!((status, &answer["errorType"]), (422, &json!("execution")), "{query}: {answer}");
        assert!(answer["error"].as_str().unwrap().contains(flag), "{query}: {answer}");
    }
    for query in ["count(k{n!=\"0\"})", "count_over_time(m{n=\"0\"}[5m])"] {
        let (status, answer) = ask(query);
        assert_eq!(status, 200, "{query}: {answer}");
    }
}
