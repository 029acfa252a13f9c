//! Lines of real clients that begin and end something: each becomes a duration once, whichever way and in whatever
//! order they come.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::{directory, outcome, port_of, serve};
use crate::common::{SOURCE, Server, eventually, now_ms};

const FILTER: &str = r#"
    [[filter]]
    name = "calls"
    where = '{job="calls"}'
    parse = "logfmt"
    time = "at"

    [[filter.session]]
    name = "call_seconds"
    id = "id"
    begin = "step=begin"
    end = "step=end"
    labels = { path = "{begin.path}", status = "{end.status}" }
"#;

/// Sends each line as a message of its own with util-linux' logger.
fn logger(server: &Server, directory: &Path, transport: &str, tag: &str, lines: &[String]) {
    let path = directory.join("lines");
    std::fs::write(&path, lines.iter().map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    let (flag, port) = match transport {
        "udp" => ("-d", port_of(server, "udp")),
        _ => ("-T", port_of(server, "tcp")),
    };
    let mut command = Command::new("logger");
    command.args(["-n", "127.0.0.1", "-P", &port.to_string(), "--rfc5424=notq", "-t", tag, "-p", "user.info", flag]);
    if transport == "tcp" {
        command.arg("--octet-count");
    }
    assert!(command.arg("-f").arg(&path).status().expect("run scripts/need").success());
}

/// The line of `/metrics` with this beginning.
fn metric(server: &Server, begin: &str) -> f64 {
    let (_, text) = server.request("GET /metrics HTTP/1.1", b"").unwrap();
    text.lines()
        .find_map(|line| line.strip_prefix(begin))
        .unwrap_or_else(|| panic!("no {begin}"))
        .trim()
        .parse()
        .unwrap()
}

fn sessions(server: &Server, outcome: &str) -> f64 {
    let labels = format!("filter=\"calls\",outcome=\"{outcome}\",session=\"call_seconds\"");
    metric(server, &format!("ogive_filter_sessions_total{{{labels}}} "))
}

fn open(server: &Server) -> f64 {
    metric(server, "ogive_filter_sessions_open{filter=\"calls\",session=\"call_seconds\"} ")
}

/// Seconds of all sessions.
fn sum(server: &Server) -> f64 {
    server.number("histogram_sum(sum(increase(call_seconds[5m])))").unwrap_or(0.0)
}

/// Eighths of a second, so that sums are exact.
fn eighths(at: u32) -> u32 {
    at % 40
}

fn begin(at: u32) -> String {
    format!("step=begin id={at} path=/p{} at=1700000{:03}", at % 2, at % 1_000)
}

fn end(at: u32) -> String {
    let ms = u64::from(at % 1_000) * 1_000 + u64::from(eighths(at)) * 125;
    format!("step=end id={at} status={} at={}", 200 + at % 3, 1_700_000_000_000 + ms)
}

#[test]
fn lines_of_two_clients_become_durations_that_count_once() {
    let directory = directory();
    let filter = directory.path().join("calls.toml");
    std::fs::write(&filter, FILTER).unwrap();
    let more = ["--filters", filter.to_str().unwrap()];
    let mut server = serve(directory.path(), &more);
    let send = |server: &Server, transport: &str, lines: Vec<String>| {
        logger(server, directory.path(), transport, "calls", &lines);
    };
    // Half of the begins come before their ends, half behind them; seven have none.
    send(&server, "tcp", (0..207).filter(|at| at % 2 == 1 || *at >= 200).map(begin).collect());
    eventually("the first begins", || (open(&server) == 107.0).then_some(()));
    send(&server, "udp", (0..200).map(end).collect());
    eventually("the ends", || (open(&server) == 107.0 && sessions(&server, "matched") == 100.0).then_some(()));
    send(&server, "tcp", (0..200).filter(|at| at % 2 == 0).map(begin).collect());
    server.grows_to("histogram_count(sum(increase(call_seconds[5m])))", 200.0);
    let seconds: f64 = (0..200).map(|at| f64::from(eighths(at)) / 8.0).sum();
    assert!((sum(&server) - seconds).abs() < 1e-9, "{seconds}");
    let expected = (0..200).filter(|at| at % 2 == 1 && at % 3 == 2).count() as f64;
    let query = r#"histogram_count(sum(increase(call_seconds{path="/p1", status="202"}[5m])))"#;
    assert_eq!(server.number(query), Some(expected));
    assert_eq!(
        (open(&server), sessions(&server, "matched"), outcome(&server, "calls", "numbers")),
        (7.0, 200.0, 200.0)
    );
    // A restart forgets what is open: these ends have no begin any more.
    server.kill();
    let server = serve(directory.path(), &more);
    send(&server, "tcp", (200..207).map(end).collect());
    eventually("the ends of forgotten begins", || (open(&server) == 7.0).then_some(()));
    assert_eq!(sessions(&server, "matched"), 0.0);
    server.grows_to("histogram_count(sum(increase(call_seconds[5m])))", 200.0);
}

/// A sender that did not receive its acknowledgement sends its batches again, under their numbers.
#[test]
fn batches_that_are_sent_again_add_no_duration() {
    let directory = directory();
    let filter = directory.path().join("calls.toml");
    std::fs::write(&filter, FILTER).unwrap();
    let server = serve(directory.path(), &["--filters", filter.to_str().unwrap()]);
    let series = json!([{"labels": {"__name__": "log", "job": "calls"}, "kind": "text"}]);
    let now_ms = now_ms();
    let batch = |sequence: u64, lines: &[String]| {
        let sample = |line: &String| json!({"series": 0, "time_ms": now_ms, "text": line});
        let (status, body) = server.batch(SOURCE, sequence, series.clone(), lines.iter().map(sample).collect());
        assert_eq!(status, 200, "{body}");
        body["duplicate"].as_u64().unwrap_or(0)
    };
    let (begins, ends): (Vec<_>, Vec<_>) = (1..40).map(|at| (begin(at), end(at))).unzip();
    assert_eq!((batch(1, &begins), batch(2, &ends[..20]), batch(2, &ends[..20])), (0, 0, 20));
    assert_eq!((batch(1, &begins), batch(3, &ends[20..]), batch(3, &ends[20..])), (39, 0, 19));
    server.grows_to("histogram_count(sum(increase(call_seconds[5m])))", 39.0);
    let seconds: f64 = (1..40).map(|at| f64::from(eighths(at)) / 8.0).sum();
    assert!((sum(&server) - seconds).abs() < 1e-9, "{seconds}");
    assert_eq!((sessions(&server, "matched"), open(&server)), (39.0, 0.0));
}

#[test]
fn lines_of_kubernetes_have_their_labels_and_numbers() {
    let directory = directory();
    let server = serve(directory.path(), &["--filters", "kubernetes"]);
    let line = |at: u32| {
        let klog = "I0101 00:00:00.000000       1 httplog.go:132] \"HTTP\"";
        format!(
            "2026-01-01T00:00:00.000000000Z stderr F {klog} verb=\"GET\" URI=\"/livez\" latency=\"{at}ms\" resp=200"
        )
    };
    logger(&server, directory.path(), "tcp", "kube-apiserver", &(1..=100).map(line).collect::<Vec<_>>());
    server.grows_to(
        "histogram_count(sum(increase(kubernetes_request_seconds{verb=\"GET\", status=\"200\"}[5m])))",
        100.0,
    );
    let seconds = server.number("histogram_sum(sum(increase(kubernetes_request_seconds[5m])))").unwrap();
    assert!((seconds - 5.05).abs() < 1e-9, "{seconds}");
    server.grows_to("sum(increase(kubernetes_lines_total{stream=\"stderr\"}[5m]))", 100.0);
    server.grows_to("sum(increase(kubernetes_messages_total{level=\"info\", file=\"httplog.go\"}[5m]))", 100.0);
    assert_eq!(outcome(&server, "kubernetes", "unparsed"), 0.0);
}
