//! Slow traces as a user meets them: sent in a batch, listed by the command line, and the server's own.

mod common;

use std::process::Command;

use common::{Server, histogram, now_ms};
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
    let (status, body) = server.batch(common::SOURCE, 1, json!([cells, texts]), samples);
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
