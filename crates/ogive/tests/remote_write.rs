//! `POST /api/v1/write` of the real server, from a real Prometheus and from hand-made bodies.

use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::clients::{Client, heavy};
use crate::common::programs::{Program, free_address};
use crate::common::{Server, remote};

/// A Prometheus that scrapes the server and writes what it scraped back to it.
fn prometheus_of(directory: &Path, server: &Server) -> Program {
    let address = &server.address;
    let config = format!(
        "global: {{scrape_interval: 1s, external_labels: {{site: here}}}}\n\
         scrape_configs: [{{job_name: ogive, static_configs: [{{targets: ['{address}']}}]}}]\n\
         remote_write: [{{url: 'http://{address}/api/v1/write', queue_config: {{batch_send_deadline: 1s}}}}]\n"
    );
    prometheus(directory, &config, "127.0.0.1:0")
}

fn prometheus(directory: &Path, config: &str, address: &str) -> Program {
    run(Path::new("prometheus"), directory, config, address)
}

fn run(program: &Path, directory: &Path, config: &str, address: &str) -> Program {
    let file = directory.join("prometheus.yml");
    std::fs::write(&file, config).unwrap();
    let mut command = Command::new(program);
    command
        .arg(format!("--config.file={}", file.display()))
        .arg(format!("--storage.tsdb.path={}", directory.join("tsdb").display()))
        .arg("--enable-feature=native-histograms")
        .arg(format!("--web.listen-address={address}"));
    Program::start(command)
}

#[test]
fn a_prometheus_writes_what_it_scrapes() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(&directory.path().join("data"));
    let prometheus = prometheus_of(directory.path(), &server);
    let began = Instant::now();
    // Three scrapes and more: what follows has samples to compare. A scrape's series come in several requests.
    let counted = "count_over_time(ogive_uptime_seconds{job=\"ogive\",site=\"here\"}[1h]) >= 3";
    for expr in [counted, "ogive_uptime_seconds{job=\"ogive\"} > 0", "up{job=\"ogive\"} == 1"] {
        while server.number(expr).is_none() {
            assert!(began.elapsed() < Duration::from_secs(120), "{expr}: nothing within two minutes");
            std::thread::sleep(Duration::from_millis(200));
        }
    }
    drop(prometheus);
    // A counter keeps what it is, and what was scraped of ours is what we say of ourselves: every ten seconds.
    crate::common::eventually("the counter is described as one", || {
        let (_, body) = server.get("/api/v1/metadata?metric=ogive_ingest_batches_total");
        (body["data"]["ogive_ingest_batches_total"][0]["type"] == "counter").then_some(())
    });
    let (_, status) = server.get("/v1/status");
    assert_eq!(status["rejected_total"], 0, "{status}");
}

/// A Prometheus of version 3 scrapes a program and writes version 2.0, with classic histograms made native: the server
/// is killed half way, and has in the end every sample that Prometheus has, once.
#[test]
#[ignore = "run by scripts/heavy-clients"]
fn a_prometheus_3_through_a_crash() {
    const COUNT: f64 = 500.0;
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let mut server = Server::start(&data);
    let (written, address, target) = (server.address.clone(), free_address(), free_address());
    let mut program = Client::start("scraped.py", &[target.rsplit(':').next().unwrap(), &COUNT.to_string()]);
    program.wait_for("ready");
    let config = format!(
        "global: {{scrape_interval: 1s}}\n\
         scrape_configs: [{{job_name: p, convert_classic_histograms_to_nhcb: true, static_configs: [{{targets: ['{target}']}}]}}]\n\
         remote_write: [{{url: 'http://{written}/api/v1/write', protobuf_message: io.prometheus.write.v2.Request, \
         send_exemplars: true, send_native_histograms: true, queue_config: {{batch_send_deadline: 1s, min_backoff: 50ms, max_backoff: 500ms}}}}]\n"
    );
    let program_3 = heavy("bin/prometheus");
    let prometheus = run(&program_3, directory.path(), &config, &address);
    let observed = |server: &Server, times: f64| {
        for expr in ["histogram_count(py_took_seconds)", "py_calls_total", "py_size_bytes_count"] {
            crate::common::eventually(&format!("{expr} = {times} * {COUNT}"), || {
                (server.number(expr) == Some(times * COUNT)).then_some(())
            });
        }
    };
    program.say("more");
    observed(&server, 1.0);
    server.kill();
    program.say("more");
    program.wait_for("done");
    let server = Server::start_at(&data, &written);
    observed(&server, 2.0);
    // All that both have at one moment: as many samples.
    let moment = crate::common::now_ms() / 1000;
    for expr in
        ["count_over_time(py_took_seconds[1h])", "count_over_time(py_calls_total[1h])", "count_over_time(up[1h])"]
    {
        let path = format!("/api/v1/query?query={}&time={moment}", crate::common::form(expr));
        let value = |body: &serde_json::Value| body["data"]["result"][0]["value"][1].as_str().map(str::to_owned);
        let (_, theirs) = crate::common::request_at(&address, &format!("GET {path} HTTP/1.1"), b"").unwrap();
        let theirs = value(&serde_json::from_str(&theirs).unwrap()).expect("Prometheus has them");
        crate::common::eventually(&format!("{expr} = {theirs}"), || {
            (value(&server.get(&path).1).as_ref() == Some(&theirs)).then_some(())
        });
    }
    drop(prometheus);
    let (_, status) = server.get("/v1/status");
    assert_eq!((&status["rejected_total"], &status["unreadable_total"]), (&0.into(), &0.into()), "{status}");
}

const VERSION_2: &str = "\r\ncontent-type: application/x-protobuf;proto=io.prometheus.write.v2.Request";

/// A request as Prometheus' own code writes it (prompb/io/prometheus/write/v2 of 3.6, snappy): a counter with a start,
/// an exemplar and metadata, an integer and a float histogram, a staleness marker, and a series without a name.
fn request_2() -> Vec<u8> {
    let digits: String = include_str!("../../../vectors/remote_write/request_2.hex").split_whitespace().collect();
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
}

/// Status, head and body of one write of version 2.0.
fn write_2(server: &Server, body: &[u8]) -> (u16, String) {
    let mut stream = server.connect();
    let length = body.len();
    let head = format!(
        "POST /api/v1/write HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-encoding: snappy{VERSION_2}\r\n\
         x-prometheus-remote-write-version: 2.0.0\r\ncontent-length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer.to_lowercase())
}

#[test]
fn everything_that_version_2_brings_is_kept_over_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::start(directory.path());
    // Sent twice, it counts once.
    for _ in 0..2 {
        let (status, answer) = write_2(&server, &request_2());
        assert_eq!(status, 400, "{answer}");
        assert!(answer.contains("1 of 7 samples were rejected") && answer.contains("__name__"), "{answer}");
        for (kind, count) in [("samples", 3), ("histograms", 2), ("exemplars", 1)] {
            let header = format!("x-prometheus-remote-write-{kind}-written: {count}\r\n");
            assert!(answer.contains(&header), "{header} is not in {answer}");
        }
    }
    // An end in order stores the metadata too.
    assert_eq!(server.terminate(), Some(0));
    let server = Server::start(directory.path());
    let at = "&time=1700000001";
    let number = |expr: &str| {
        let (_, body) = server.get(&format!("/api/v1/query?query={}{at}", crate::common::form(expr)));
        body["data"]["result"][0]["value"][1].as_str().map(str::to_owned)
    };
    assert_eq!(number("jobs_total{queue=\"naïve\"}").as_deref(), Some("5"));
    assert_eq!(number("count_over_time(jobs_total[10s])").as_deref(), Some("2"));
    assert_eq!(number("histogram_count(rpc_seconds)").as_deref(), Some("6"));
    assert_eq!(number("histogram_count(size_bytes)").as_deref(), Some("2.5"));
    assert_eq!(number("histogram_sum(size_bytes)").as_deref(), Some("30"));
    assert_eq!(number("up"), None, "it ended");
    let (_, cells) = server.get("/v1/cells?match[]=jobs_total");
    assert_eq!(cells["data"]["samples"][0]["start_ms"], 1_699_999_940_000_i64, "{cells}");
    let (_, exemplars) = server.get("/api/v1/query_exemplars?query=jobs_total");
    let expected = serde_json::json!([{"seriesLabels": {"__name__": "jobs_total", "queue": "naïve"}, "exemplars": [
        {"labels": {"trace_id": "4bf92f3577b34da6"}, "value": "0.25", "timestamp": 1_700_000_000.5}]}]);
    assert_eq!(exemplars["data"], expected);
    let (_, reported) = server.get("/api/v1/metadata");
    let expected = serde_json::json!([{"type": "counter", "help": "Jobs that ended.", "unit": ""}]);
    assert_eq!(reported["data"]["jobs_total"], expected, "{reported}");
    let expected = serde_json::json!([{"type": "histogram", "help": "Time of a call.", "unit": "seconds"}]);
    assert_eq!(reported["data"]["rpc_seconds"], expected, "{reported}");
}

#[test]
fn a_prometheus_reads_what_it_never_scraped() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(&directory.path().join("data"));
    assert_eq!(write_2(&server, &request_2()).0, 400);
    let config = format!("remote_read: [{{url: 'http://{}/api/v1/read', read_recent: true}}]\n", server.address);
    let address = free_address();
    let _prometheus = prometheus(directory.path(), &config, &address);
    let number = |expr: &str| {
        let query = format!("/api/v1/query?query={}&time=1700000001", crate::common::form(expr));
        let (status, body) = crate::common::request_at(&address, &format!("GET {query} HTTP/1.1"), b"").ok()?;
        let body: serde_json::Value = serde_json::from_str(&body).ok().filter(|_| status == 200)?;
        body["data"]["result"][0]["value"][1].as_str().map(str::to_owned)
    };
    let sum = crate::common::eventually("an answer of Prometheus", || {
        number("sum(sum_over_time(jobs_total{queue=~\"na.*\"}[10s]))")
    });
    assert_eq!(sum, "8");
    assert_eq!(number("absent(size_bytes{nobody=\"has\"})").as_deref(), Some("1"));
}

#[test]
fn what_cannot_be_read_is_refused_with_a_reason() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path());
    let write = |headers: &str, body: &[u8]| {
        let head = format!("POST /api/v1/write HTTP/1.1\r\ncontent-encoding: snappy{headers}");
        server.request(&head, body).unwrap()
    };
    let protobuf = "\r\ncontent-type: application/x-protobuf";
    // An empty snappy block is an empty request.
    assert_eq!(write(protobuf, &[0]).0, 204);
    for (headers, body, status, word) in [
        (protobuf, &b"no snappy"[..], 400, "snappy"),
        (protobuf, &[0xff, 0xff, 0xff, 0xff, 0x0f, 0x00], 413, "limit"),
        // A block of three bytes that are no message: field 1 of length 9.
        (protobuf, &[0x03, 0x08, 0x0a, 0x09, 0x01], 400, "remote write"),
        ("\r\ncontent-type: application/json", &[0], 415, "application/x-protobuf"),
        ("\r\ncontent-type: application/x-protobuf;proto=io.prometheus.write.v3.Request", &[0], 415, "2.0"),
        // A table of symbols whose first is "a".
        (VERSION_2, &[0x03, 0x08, 0x22, 0x01, 0x61], 400, "symbol"),
        ("\r\ncontent-type: application/x-protobuf\r\nx-scope-orgid: a/b", &[0], 400, "X-Scope-OrgID"),
    ] {
        let (found, answer) = write(headers, body);
        assert_eq!(found, status, "{headers} {body:x?}: {answer}");
        assert!(answer.contains(word), "{answer} does not say {word:?}");
    }
    let (_, status) = server.get("/v1/status");
    assert_eq!(
        (&status["unreadable_total"], &status["remote_write_unreadable_total"]),
        (&7.into(), &7.into()),
        "{status}"
    );
    assert_eq!(status["batch_unreadable_total"], serde_json::Value::Null, "{status}");
    let (_, metrics) = server.request("GET /metrics HTTP/1.1", b"").unwrap();
    for (reason, count) in [("malformed", 4), ("too_large", 1), ("unsupported", 2)] {
        let line = format!("ogive_ingest_unreadable_total{{protocol=\"remote_write\",reason=\"{reason}\"}} {count}\n");
        assert!(metrics.contains(&line), "{line} is not in {metrics}");
    }
}

/// A Prometheus drops for good what is answered with 413, and 100,001 series in one request were: it is taken in parts,
/// and counts once when it comes again.
#[test]
fn more_series_than_a_batch_may_have_are_stored_in_parts() {
    const SERIES: usize = 12_001;
    let directory = tempfile::tempdir().unwrap();
    let args = ["--listen", "127.0.0.1:0", "--limit-batch-series", "5000"];
    let server = Server::try_start(directory.path(), &args).unwrap_or_else(|said| panic!("no start: {said}"));
    let now_ms = crate::common::now_ms();
    let mut message = Vec::new();
    for at in 0..SERIES {
        let mut series = remote::series(&format!("many_{at}"));
        remote::put_float(&mut series, now_ms, 1.0);
        remote::bytes(&mut message, 1, &series);
    }
    let body = snap::raw::Encoder::new().compress_vec(&message).unwrap();
    let head = "POST /api/v1/write HTTP/1.1\r\ncontent-type: application/x-protobuf\r\ncontent-encoding: snappy";
    for sent in 1..=2 {
        let (status, answer) = server.request(head, &body).unwrap();
        assert_eq!((status, &*answer), (204, ""));
        let (_, status) = server.get("/v1/status");
        let figures = ["accepted", "received"].map(|name| &status[format!("remote_write_{name}_total")]);
        assert_eq!(figures, [sent * SERIES; 2], "{status}");
    }
    let last = SERIES - 1;
    server.becomes(&format!("count({{__name__=~\"many_0|many_{last}\"}} == 1)"), 2.0);
}
