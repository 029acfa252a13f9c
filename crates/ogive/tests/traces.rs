//! Slow traces as a user meets them: sent in a batch, listed by the command line, and the server's own.

use std::process::Command;

use crate::common::{Server, histogram, now_ms};
use serde_json::{Value, json};

const EXAMPLE: &str = include_str!("../../../vectors/trace/slow.txt");

/// `ogive` with these arguments: exit code, standard output, standard error.
fn run(server: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ogive"));
    let output = command.args(arguments).env("OGIVE_SERVER", format!("http://{server}")).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn send(server: &Server, text: &str) {
    let mut cells = histogram("order_path_seconds");
    cells["labels"]["stage"] = json!("total");
    let texts = json!({"labels": {"__name__": "order_path_slow", "stage": "total"}, "kind": "text"});
    let t = now_ms() / 1000 * 1000;
    let samples = json!([{"series": 0, "time_ms": t, "histogram": {"bins": {"1e-2": 1}}},
        {"series": 1, "time_ms": t, "text": EXAMPLE.trim_end()}, {"series": 1, "time_ms": t - 1000, "text": text}]);
    let (status, body) = server.batch(crate::common::SOURCE, 1, json!([cells, texts]), samples);
    assert_eq!((status, &body["accepted"]), (200, &json!(3)), "{body}");
}

#[test]
fn slow_traces_are_listed_and_shown() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path());
    let run = |arguments: &[&str]| run(&server.address, arguments);
    let (code, out, err) = run(&["trace", "list", "order_path_seconds"]);
    assert!(code == Some(0) && out.is_empty() && err.contains("no slow traces"), "{out}{err}");
    assert_eq!(run(&["trace", "show", "order_path_seconds"]).0, Some(1), "there is none to show");

    send(&server, "by hand");
    let (code, out, err) = run(&["trace", "list", "order_path_seconds"]);
    assert_eq!((code, out.lines().count()), (Some(1), 3), "one text is no slow trace: {out}");
    assert!(out.contains("journal 99.93 %") && out.contains("  order_path_seconds{stage=\"total\"}"), "{out}");
    assert!(err.contains("1 texts are no slow traces"), "{err}");
    let (code, out, _) = run(&["trace", "list", "order_path_slow", "--limit", "1"]);
    assert!(code == Some(0) && out.lines().count() == 2, "{out}");
    let (_, out, err) = run(&["trace", "list", "order_path_slow", "--slowest", "--min", "11ms"]);
    assert!(
        out.lines().count() == 2 && out.contains("not a slow trace") && !err.contains("no slow traces:"),
        "{out}{err}"
    );
    let (code, out, _) = run(&["trace", "show", "order_path_slow"]);
    assert!(code == Some(0) && out.contains("journal infra     10041210 ns  99.93 %"), "{out}");
    let (_, out, _) = run(&["trace", "list", "order_path_slow", "--json"]);
    let answer: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(answer["data"]["traces"][0]["worst"], "journal");

    assert_eq!(run(&["trace", "list", "sum("]).0, Some(2));
    assert_eq!(run(&["trace", "list", "--since", "soon"]).0, Some(2));
    assert_eq!(run(&["trace", "list", "--server", "http://127.0.0.1:9"]).0, Some(3));
}

/// With nothing set up, the server measures the way of every batch and keeps the slow ones: a large batch among its own
/// small ones is one of them.
#[test]
fn the_server_shows_slow_batches_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path());
    let mut sequence = 0;
    let found = crate::common::eventually("a large batch among the slow traces", || {
        sequence += 1;
        let t = now_ms();
        let samples: Vec<Value> = (0..20_000).map(|at| json!({"series": 0, "time_ms": t + at, "float": 1.5})).collect();
        assert_eq!(
            server.batch(crate::common::SOURCE, sequence, json!([crate::common::float("load")]), json!(samples)).0,
            200
        );
        let (status, body) = server.get("/v1/traces?query=ogive_ingest_seconds&limit=1000");
        assert_eq!(status, 200, "{body}");
        let traces = body["data"]["traces"].as_array().unwrap().clone();
        // They came in one batch, which is visible series by series: the text may be there before its histogram.
        traces.into_iter().find(|trace| trace["publisher"] == "/v1/batch" && !trace["cell"].is_null())
    });
    let stages: Vec<&str> =
        found["stages"].as_array().unwrap().iter().map(|stage| stage["name"].as_str().unwrap()).collect();
    assert_eq!(stages, ["read", "decoded", "queued", "journaled", "durable", "applied", "answered"]);
    // Its cell is there and has counted it.
    let (t, selector) = (found["cell"]["t"].as_i64().unwrap(), found["cell"]["selector"].as_str().unwrap());
    let path = format!("/v1/heatmap?query={}&start={t}&end={t}&step=1", crate::common::form(selector));
    let column = crate::common::eventually("its cell", || {
        Some(server.get(&path).1["data"]["columns"][0].clone()).filter(|column| !column.is_null())
    });
    // Ticks are turned into time once for each, and the rate may have sharpened in between: by far less than a
    // thousandth.
    let (max, total_ns) = (column["max"].as_f64().unwrap(), found["total_ns"].as_f64().unwrap());
    assert!(max * 1e9 >= total_ns * 0.999, "{column} {found}");
}
