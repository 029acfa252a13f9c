//! OTLP from the SDKs that people use: each delivers N observations, and N are read back.

use std::path::Path;

use crate::common::clients::Client;
use crate::common::programs::free_address;
use crate::common::{Server, form};
use serde_json::Value;

/// Observations of each instrument.
const N: u64 = 600;

/// What a client's `job` and `instance` select.
fn selector(job: &str, temporality: &str) -> String {
    format!("job=\"{job}\",instance=\"{temporality}\"")
}

/// Over all of a series' life: deltas add up, of what is cumulative the last value counts.
fn all(metric: &str, labels: &str, temporality: &str) -> String {
    match temporality {
        "delta" => format!("sum_over_time({metric}{{{labels}}}[1h])"),
        _ => format!("{metric}{{{labels}}}"),
    }
}

fn assert_number(server: &Server, expr: &str, expected: f64) {
    assert_eq!(server.number(expr), Some(expected), "{expr}");
}

/// A counter, a level and both kinds of histograms hold what was observed, once.
fn assert_all_is_there(server: &Server, job: &str, temporality: &str) {
    let labels = selector(job, temporality);
    let sum = |metric: &str| format!("sum({})", all(metric, &labels, temporality));
    assert_number(server, &sum("client_requests_total"), N as f64);
    for metric in ["coarse_seconds", "fine_seconds"] {
        let counted = format!("histogram_count(sum({}))", all(metric, &labels, temporality));
        assert_number(server, &counted, N as f64);
        let each = format!("count(count by (http_route) ({metric}{{{labels}}}))");
        assert_number(server, &each, 3.0);
    }
    // Bounds stay bounds: 1 of 600 is at most 1 ms, 100 are at most 0.1 s.
    let fraction = |upper: &str| {
        format!("histogram_fraction(-Inf, {upper}, sum({}))", all("coarse_seconds", &labels, temporality))
    };
    let share = |count: f64| count / N as f64;
    assert_number(server, &fraction("0.1"), share(101.0));
    assert_number(server, &fraction("0.001"), share(2.0));
}

/// OTLP's traces were answered with 405. Each span counts once, though its sender sends everything twice, and the slow
/// one is a slow trace.
fn spans_of(protocol: &str) {
    const SPANS: usize = 120;
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path());
    let begin = (crate::common::now_ms() - 60_000).to_string() + "000000";
    let mut client = Client::start("otel_spans.py", &[protocol, &server.address, &SPANS.to_string(), &begin]);
    client.wait_for("sent");
    let trace_id = client.finish().pop().expect("the id of the slow one's trace");
    let labels = format!("job=\"spans-{protocol}\",span_name=\"GET /a\",span_kind=\"SPAN_KIND_SERVER\"");
    let count = |more: &str| format!("histogram_count(sum(sum_over_time(traces_span_seconds{{{labels}{more}}}[1h])))");
    assert_number(&server, &count(""), (SPANS + 1) as f64);
    assert_number(&server, &count(",status_code=\"STATUS_CODE_ERROR\""), (SPANS / 10) as f64);
    let fast = format!("histogram_fraction(0, 0.01, sum(sum_over_time(traces_span_seconds{{{labels}}}[1h])))");
    assert_number(&server, &fast, SPANS as f64 / (SPANS + 1) as f64);
    let (_, status) = server.get("/v1/status");
    // The slow one is a sample of its own as well.
    let figures = ["accepted", "duplicate"].map(|name| status[format!("otlp_traces_{name}_total")].as_u64().unwrap());
    assert_eq!(figures, [SPANS as u64 + 2, SPANS as u64 + 1], "{status}");
    let (_, found) = server.get(&format!("/v1/traces?query={}", form(&format!("traces_span_seconds{{{labels}}}"))));
    let traces = found["data"]["traces"].as_array().unwrap();
    assert_eq!(traces.len(), 1, "{found}");
    assert!(traces[0].to_string().contains(&trace_id) && traces[0].to_string().contains("half way"), "{found}");
}

#[test]
fn spans_over_http() {
    spans_of("http");
}

#[test]
fn spans_over_grpc() {
    spans_of("grpc");
}

/// How many log records of `job` are stored.
fn logs(server: &Server, labels: &str) -> usize {
    let query = form(&format!("log{{{labels},severity=\"WARN\"}}"));
    let (status, body) = server.get(&format!("/v1/cells?match[]={query}&start=0&end=9999999999"));
    assert_eq!(status, 200, "{body}");
    count_texts(&body)
}

/// Every text in an answer of cells that is a log record.
fn count_texts(body: &Value) -> usize {
    match body {
        Value::Array(values) => values.iter().map(count_texts).sum(),
        Value::Object(members) => members.values().map(count_texts).sum(),
        Value::String(text) => usize::from(text.starts_with("{\"body\":\"record ")),
        _ => 0,
    }
}

fn deliver(directory: &Path, script: &str, job: &str, protocol: &str) {
    let server = Server::start(directory);
    for temporality in ["delta", "cumulative"] {
        let client = Client::start(script, &[protocol, &server.address, temporality, &N.to_string()]);
        assert_eq!(client.finish(), ["done"]);
        assert_all_is_there(&server, job, temporality);
        let labels = selector(job, temporality);
        assert_eq!(logs(&server, &labels), N as usize);
        if !script.ends_with(".cjs") {
            let level = format!("sum({})", all("client_level_bytes", &labels, temporality));
            assert_number(&server, &level, N as f64 / 2.0);
            assert_number(&server, &format!("client_temperature_celsius{{{labels}}}"), 23.5);
            // SDKs send the extremes of each interval.
            let greatest = format!("histogram_max(sum({}))", all("fine_seconds", &labels, temporality));
            assert_number(&server, &greatest, (N - 1) as f64 * 0.001);
        }
    }
    let (_, status) = server.get("/v1/status");
    assert_eq!((&status["rejected_total"], &status["unreadable_total"]), (&0.into(), &0.into()), "{status}");
}

#[test]
fn python_delivers_over_http() {
    deliver(tempfile::tempdir().unwrap().path(), "otel.py", "otel-http", "http");
}

#[test]
fn python_delivers_over_grpc() {
    deliver(tempfile::tempdir().unwrap().path(), "otel.py", "otel-grpc", "grpc");
}

#[test]
fn javascript_delivers_protobuf() {
    deliver(tempfile::tempdir().unwrap().path(), "otel.cjs", "js-proto", "proto");
}

#[test]
fn javascript_delivers_json() {
    deliver(tempfile::tempdir().unwrap().path(), "otel.cjs", "js-json", "json");
}

#[test]
#[ignore = "run by scripts/heavy-clients"]
fn java_delivers_over_http() {
    deliver(tempfile::tempdir().unwrap().path(), "Otel.java", "java-http", "http");
}

#[test]
#[ignore = "run by scripts/heavy-clients"]
fn java_delivers_over_grpc() {
    deliver(tempfile::tempdir().unwrap().path(), "Otel.java", "java-grpc", "grpc");
}

/// A sender that did not hear the answer sends again: every point of every export comes twice here.
#[test]
fn what_is_sent_twice_counts_once() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path());
    for (script, job, protocol) in [("otel.py", "otel-http", "http"), ("otel.cjs", "js-json", "json")] {
        for temporality in ["delta", "cumulative"] {
            let client = Client::start(script, &[protocol, &server.address, temporality, &N.to_string(), "twice"]);
            client.finish();
            assert_all_is_there(&server, job, temporality);
        }
    }
    let (_, status) = server.get("/v1/status");
    assert!(status["otlp_duplicate_total"].as_u64().unwrap() >= 4 * 4 * 3, "{status}");
}

/// The server is killed half way; the SDK's exporter tries again until another one answers at that address.
fn survives_a_kill(script: &str, job: &str, protocol: &str) {
    let directory = tempfile::tempdir().unwrap();
    // While the server is away, nobody else gets it.
    let address = free_address();
    let mut server = Server::start_at(directory.path(), &address);
    let mut client = Client::start(script, &[protocol, &address, "delta", &N.to_string(), "twice", "pause"]);
    client.wait_for("half");
    server.kill();
    client.say("go on");
    let server = Server::start_at(directory.path(), &address);
    client.finish();
    assert_all_is_there(&server, job, "delta");
}

#[test]
fn a_kill_half_way_loses_and_doubles_nothing_over_http() {
    survives_a_kill("otel.py", "otel-http", "http");
}

#[test]
fn a_kill_half_way_loses_and_doubles_nothing_over_grpc() {
    survives_a_kill("otel.py", "otel-grpc", "grpc");
}

#[test]
#[ignore = "run by scripts/heavy-clients"]
fn a_kill_half_way_loses_and_doubles_nothing_of_java() {
    survives_a_kill("Otel.java", "java-http", "http");
    survives_a_kill("Otel.java", "java-grpc", "grpc");
}

/// What has nothing to distinguish it from the same of another moment, records and delta points without a start, is
/// recognised by the bytes of its request: sent again, also to a server that was killed and started anew, it counts
/// once.
#[test]
fn a_request_that_comes_again_counts_once_through_a_crash() {
    let directory = tempfile::tempdir().unwrap();
    let t = crate::common::now_ms() - 60_000;
    let record =
        |at: i64| format!("{{\"timeUnixNano\":\"{}000000\",\"body\":{{\"stringValue\":\"record {at}\"}}}}", t + at);
    let logs = |from: i64| {
        let records: Vec<String> = (from..from + 50).map(record).collect();
        format!("{{\"resourceLogs\":[{{\"scopeLogs\":[{{\"logRecords\":[{}]}}]}}]}}", records.join(","))
    };
    let delta = format!(
        "{{\"resourceMetrics\":[{{\"scopeMetrics\":[{{\"metrics\":[{{\"name\":\"drops\",\"sum\":{{\"aggregationTemporality\":1,\
         \"isMonotonic\":true,\"dataPoints\":[{{\"timeUnixNano\":\"{t}000000\",\"asInt\":\"7\"}}]}}}}]}}]}}]}}"
    );
    // Those of a sender without a clock: known again for as long as one tries again.
    let record = |at: i64| format!("{{\"body\":{{\"stringValue\":\"record {at}\"}}}}");
    let records: Vec<String> = (100..120).map(record).collect();
    let untimed = format!("{{\"resourceLogs\":[{{\"scopeLogs\":[{{\"logRecords\":[{}]}}]}}]}}", records.join(","));
    let send = |server: &Server| {
        for (path, body) in [
            ("/v1/logs", logs(0)),
            ("/v1/logs", logs(50)),
            ("/v1/logs", untimed.clone()),
            ("/v1/metrics", delta.clone()),
        ] {
            let head = format!("POST {path} HTTP/1.1\r\ncontent-type: application/json");
            let (status, said) = server.request(&head, body.as_bytes()).unwrap();
            assert_eq!((status, said.as_str()), (200, "{}"));
        }
        let (_, cells) = server.get("/v1/cells?match%5B%5D=log&start=0&end=9999999999");
        assert_eq!((count_texts(&cells), server.number("sum_over_time(drops_total[1h])")), (120, Some(7.0)));
    };
    let mut server = Server::start(directory.path());
    send(&server);
    send(&server);
    server.kill();
    let server = Server::start(directory.path());
    send(&server);
    let (_, status) = server.get("/v1/status");
    assert_eq!(
        (&status["otlp_logs_duplicate_total"], &status["otlp_duplicate_total"]),
        (&120.into(), &1.into()),
        "{status}"
    );
}

/// 256 MiB: what two bodies of 32 MiB may take while they are decoded, and a debug build of the program.
const MEMORY_KIB_MAX: u64 = 256 << 10;

/// A million points that are empty, lists in lists without end, a length that is a lie: each is refused, and costs
/// little.
#[test]
fn what_is_made_to_hurt_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path());
    let points = vec!["{}"; 1_000_000].join(",");
    let many = format!(
        "{{\"resourceMetrics\":[{{\"scopeMetrics\":[{{\"metrics\":[{{\"name\":\"m\",\"gauge\":{{\"dataPoints\":[{points}]}}}}]}}]}}]}}"
    );
    let deep = format!(
        "{{\"resourceLogs\":[{{\"scopeLogs\":[{{\"logRecords\":[{{\"body\":{}",
        "{\"arrayValue\":{\"values\":[".repeat(100_000)
    );
    for (path, kind, body, status, word) in [
        ("/v1/metrics", "application/json", many.as_bytes(), 400, "1000000 of 1000000 were rejected"),
        ("/v1/logs", "application/json", deep.as_bytes(), 400, "recursion"),
        ("/v1/metrics", "application/x-protobuf", &[0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f][..], 400, "ends in the middle"),
    ] {
        let head = format!("POST {path} HTTP/1.1\r\ncontent-type: {kind}");
        let (found, answer) = server.request(&head, body).unwrap();
        assert_eq!(found, status, "{answer}");
        assert!(answer.contains(word), "{answer} does not say {word:?}");
    }
    let peak = server.memory_peak_kib();
    assert!(peak < MEMORY_KIB_MAX, "the server held {} MiB", peak >> 10);
    let (_, status) = server.get("/v1/status");
    assert_eq!(
        (&status["otlp_unreadable_total"], &status["otlp_rejected_total"]),
        (&1.into(), &1_000_000.into()),
        "{status}"
    );
}
