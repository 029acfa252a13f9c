//! The detectors of a running server, and over the past.

mod common;

use std::process::Command;

use common::{PATIENCE, SOURCE, Server, now_ms};
use serde_json::{Value, json};

/// Hole of 1.5 s each minute, in the cells that end at :18 and :19.
fn cut(begin_ms: i64, seconds: i64) -> Vec<Value> {
    let count = |time_ms: i64, second: i64| match time_ms / 1_000 % 60 {
        18 if second > 600 => 0,
        19 if second > 600 => 50,
        _ => 100,
    };
    (1..=seconds)
        .map(|second| (begin_ms + second * 1_000, second))
        .filter(|(time_ms, second)| count(*time_ms, *second) > 0)
        .map(|(time_ms, second)| json!({"series": 0, "time_ms": time_ms, "histogram": {"bins": {"1e-3": count(time_ms, second)}}}))
        .chain((1..=seconds).map(|second| json!({"series": 1, "time_ms": begin_ms + second * 1_000, "float": 1})))
        .collect()
}

fn ogive(server: &Server, arguments: &[&str]) -> (Option<i32>, String) {
    let url = format!("http://{}", server.address);
    let output = Command::new(env!("CARGO_BIN_EXE_ogive")).args(arguments).args(["--server", &url]).output().unwrap();
    (
        output.status.code(),
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr),
    )
}

/// Waits until the detections of the server pass `test`.
fn detections(server: &Server, test: impl Fn(&Value) -> bool) -> Value {
    let from = std::time::Instant::now();
    loop {
        let document = server.get("/v1/detections").1;
        if test(&document) {
            return document;
        }
        assert!(from.elapsed() < PATIENCE, "not found: {document:#}");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}

fn is_listed(list: &Value, kind: &str, part: &str) -> bool {
    let listed = list.as_array().unwrap();
    listed.iter().any(|one| one["kind"] == kind && one["sentence"].as_str().unwrap().contains(part))
}

/// A crash loop elsewhere cut a stream for 1.5 s each minute, and operators found it, not a detector. Here it is found over the past, by a
/// start that reads the last hours again, and what is lost from then on is stored as series.
#[test]
fn a_stream_that_is_cut_each_minute_is_found_and_a_lost_source_is_stored() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::start(directory.path());
    let series = json!([
        {"labels": {"__name__": "cut_seconds", "instance": "a"}, "kind": "histogram", "temporality": "delta", "unit": "s", "width_ms": 1000},
        {"labels": {"__name__": "there", "instance": "b"}, "kind": "float", "temporality": "gauge", "unit": "", "width_ms": 1000},
    ]);
    let begin_ms = now_ms() - 1_500_000;
    let answer = server.batch(SOURCE, 1, series, cut(begin_ms, 1_500).into()).1;
    assert_eq!(answer["rejected"], json!([]), "{answer}");

    let start = (begin_ms / 1_000).to_string();
    let (code, said) = ogive(&server, &["detect", "--selector", "cut_seconds", "--start", &start]);
    assert!(said.contains("instability cut_seconds{instance=\"a\"}: a gap every 60 s at :17, 1.5 s, next"), "{said}");
    assert_eq!(code, Some(1), "{said}");
    let (code, said) = ogive(&server, &["detect", "--selector", "there", "--start", &start]);
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = ogive(&server, &["detect", "--selector", "rate(there[1m])"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("plain selector"), "{said}");

    server.kill();
    let server = Server::start(directory.path());
    let known = detections(&server, |document| is_listed(&document["active"], "instability", "every 60 s at :17"));
    assert_eq!(known["on"], true, "{known:#}");
    detections(&server, |document| is_listed(&document["active"], "lost_parent", "{instance=\"b\"} did not come"));
    let (code, said) = ogive(&server, &["findings"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("instability cut_seconds{instance=\"a\"}") && said.contains("lost_parent"), "{said}");
    // What was found now is stored; what the start found again is not.
    let from = std::time::Instant::now();
    loop {
        let stored = server.get("/v1/cells?match[]=ogive_finding").1;
        let texts = stored.to_string();
        if texts.contains("did not come for") {
            assert!(!texts.contains("every 60 s"), "{texts}");
            break;
        }
        assert!(from.elapsed() < PATIENCE, "nothing was stored: {texts}");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}

#[test]
fn detectors_that_are_off_say_so_and_a_wrong_selector_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::try_start(directory.path(), &["--listen", "127.0.0.1:0", "--detect-series", "0"]).unwrap();
    let document = server.get("/v1/detections").1;
    assert_eq!((&document["on"], &document["active"]), (&json!(false), &json!([])), "{document}");
    let (code, said) = ogive(&server, &["findings"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("are off"), "{said}");
    let other = tempfile::tempdir().unwrap();
    let said =
        Server::try_start(other.path(), &["--listen", "127.0.0.1:0", "--detect", "sum(up)"]).err().expect("no start");
    assert!(said.contains("plain selector"), "{said}");
}
