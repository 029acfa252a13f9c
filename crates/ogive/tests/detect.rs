//! The detectors of a running server, and over the past.

use std::process::Command;

use crate::common::{PATIENCE, SOURCE, Server, now_ms};
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

/// A crash loop elsewhere cut a stream for 1.5 s each minute, and operators found it, not a detector. Here it is found
/// over the past, by a start that reads the last hours again, and what is lost from then on is stored as series.
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

    // Up to the last sample: behind it everything is silent, the longer the later this is asked.
    let [start, end] = [begin_ms, begin_ms + 1_500_000].map(|time_ms| (time_ms / 1_000).to_string());
    let range = ["--start", &start, "--end", &end];
    let (code, said) = ogive(&server, &[&["detect", "--selector", "cut_seconds"], &range[..]].concat());
    assert!(said.contains("instability cut_seconds{instance=\"a\"}: a gap every 60 s at :17, 1.5 s, next"), "{said}");
    assert_eq!(code, Some(1), "{said}");
    let (code, said) = ogive(&server, &[&["detect", "--selector", "there"], &range[..]].concat());
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = ogive(&server, &["detect", "--selector", "rate(there[1m])"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("plain selector"), "{said}");

    // A disk that loses half a gigabyte a minute, as others measure it.
    let disk = json!([{"labels": {"__name__": "node_filesystem_avail_bytes", "job": "node"}, "kind": "float", "temporality": "gauge", "unit": "By", "width_ms": 0}]);
    let free: Vec<Value> = (1..=170)
        .map(|minute| json!({"series": 0, "time_ms": now_ms() - (171 - minute) * 60_000, "float": 2e11 - 5e8 * minute as f64}))
        .collect();
    let answer = server.batch(SOURCE, 2, disk, free.into()).1;
    assert_eq!(answer["rejected"], json!([]), "{answer}");

    server.kill();
    let server = Server::start(directory.path());
    let known = detections(&server, |document| is_listed(&document["active"], "instability", "every 60 s at :17"));
    assert_eq!(known["on"], true, "{known:#}");
    detections(&server, |document| is_listed(&document["active"], "saturation", "reaches 0 By in 5"));
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
    let said = Server::try_start(other.path(), &["--listen", "127.0.0.1:0", "--detect-limit", "disk"])
        .err()
        .expect("no start");
    assert!(said.contains("SELECTOR=NUMBER"), "{said}");
}

/// Sends what each tenant's two series have now; one of them may be silent.
fn beat(server: &Server, sequence: u64, tenant: &str, is_whole: bool) {
    let series = |name: &str| json!({"labels": {"__name__": name, "instance": tenant}, "kind": "float", "temporality": "gauge", "unit": "", "width_ms": 0});
    // `now_ms` is of whole seconds.
    let time_ms = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis();
    let sample = |at: usize| json!({"series": at, "time_ms": time_ms as u64, "float": 1});
    let body = json!({
        "source": SOURCE, "sequence": sequence, "series": [series("steady"), series("stopped")],
        "samples": if is_whole { vec![sample(0), sample(1)] } else { vec![sample(0)] },
    });
    let head = format!("POST /v1/batch HTTP/1.1\r\ncontent-type: application/json\r\nx-scope-orgid: {tenant}");
    let (status, answer) = server.request(&head, body.to_string().as_bytes()).unwrap();
    assert_eq!(status, 200, "{answer}");
}

fn of_tenant(server: &Server, tenant: &str, path: &str) -> Value {
    let (_, body) = server.request(&format!("GET {path} HTTP/1.1\r\nx-scope-orgid: {tenant}"), b"").unwrap();
    serde_json::from_str(&body).unwrap()
}

/// Seconds come from the cells as they close, of every tenant, and each sees what is its own.
#[test]
fn each_tenant_is_judged_as_its_seconds_close() {
    let directory = tempfile::tempdir().unwrap();
    let server =
        Server::try_start(directory.path(), &["--listen", "127.0.0.1:0", "--detect-lateness-ms", "1000"]).unwrap();
    // What closes while the start still reads the last hours is read, too.
    detections(&server, |document| document["seconds_live"].as_u64() > Some(0));
    let from = std::time::Instant::now();
    let mut sequence = 0;
    let found = loop {
        sequence += 1;
        for tenant in ["one", "two"] {
            beat(&server, sequence, tenant, sequence <= 40);
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
        let all = ["one", "two"].map(|tenant| of_tenant(&server, tenant, "/v1/detections"));
        if all.iter().all(|one| is_listed(&one["active"], "absence", "stopped{")) {
            break all;
        }
        assert!(from.elapsed() < PATIENCE, "not found: {all:#?}");
    };
    for (document, other) in found.iter().zip(["two", "one"]) {
        assert!(!document["active"].to_string().contains(other), "{document:#}");
        assert_eq!(document["series"], 2, "{document:#}");
        assert_eq!(document["failures"], 0, "{document:#}");
        assert!(document["seconds_live"].as_u64().unwrap() > 0, "{document:#}");
    }
    assert_eq!(server.get("/v1/detections").1["active"], json!([]), "nothing of the default tenant");
    let stored = loop {
        let stored = of_tenant(&server, "two", "/v1/cells?match[]=ogive_finding").to_string();
        if stored.contains("did not come for") {
            break stored;
        }
        assert!(from.elapsed() < PATIENCE, "nothing was stored: {stored}");
        std::thread::sleep(std::time::Duration::from_millis(100));
    };
    assert!(!stored.contains("one"), "{stored}");
}
