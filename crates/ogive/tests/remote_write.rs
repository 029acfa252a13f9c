//! `POST /api/v1/write` of the real server, from a real Prometheus and from hand-made bodies.

mod common;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::Server;

/// A Prometheus that scrapes the server and writes what it scraped back to it; killed when dropped.
struct Prometheus(Child);

impl Prometheus {
    fn start(directory: &Path, server: &Server) -> Self {
        let address = &server.address;
        let config = format!(
            "global: {{scrape_interval: 1s, external_labels: {{site: here}}}}\n\
             scrape_configs: [{{job_name: ogive, static_configs: [{{targets: ['{address}']}}]}}]\n\
             remote_write: [{{url: 'http://{address}/api/v1/write', queue_config: {{batch_send_deadline: 1s}}}}]\n"
        );
        let file = directory.join("prometheus.yml");
        std::fs::write(&file, config).unwrap();
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", directory.join("tsdb").display()))
            .arg("--web.listen-address=127.0.0.1:0")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("prometheus starts; apt-get install prometheus");
        Self(child)
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn a_prometheus_writes_what_it_scrapes() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(&directory.path().join("data"));
    let prometheus = Prometheus::start(directory.path(), &server);
    let began = Instant::now();
    // Three scrapes and more: what follows has samples to compare.
    let counted = "count_over_time(ogive_uptime_seconds{job=\"ogive\",site=\"here\"}[1m])";
    while server.number(counted).unwrap_or(0.0) < 3.0 {
        assert!(began.elapsed() < Duration::from_secs(60), "nothing arrived within a minute");
        std::thread::sleep(Duration::from_millis(200));
    }
    drop(prometheus);
    let uptime = server.number("ogive_uptime_seconds{job=\"ogive\"}").unwrap();
    assert!(uptime > 0.0, "{uptime}");
    // A counter keeps what it is, and what was scraped of ours is what we say of ourselves.
    let (_, body) = server.get("/api/v1/metadata?metric=ogive_ingest_batches_total");
    assert_eq!(body["data"]["ogive_ingest_batches_total"][0]["type"], "counter", "{body}");
    assert_eq!(server.number("up{job=\"ogive\"}"), Some(1.0));
    let (_, status) = server.get("/v1/status");
    assert_eq!(status["rejected_total"], 0, "{status}");
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
        ("\r\ncontent-type: application/x-protobuf;proto=io.prometheus.write.v2.Request", &[0], 415, "1.0"),
        ("\r\ncontent-type: application/x-protobuf\r\nx-scope-orgid: a/b", &[0], 400, "X-Scope-OrgID"),
    ] {
        let (found, answer) = write(headers, body);
        assert_eq!(found, status, "{headers} {body:x?}: {answer}");
        assert!(answer.contains(word), "{answer} does not say {word:?}");
    }
    let (_, status) = server.get("/v1/status");
    assert_eq!(
        (&status["unreadable_total"], &status["remote_write_unreadable_total"]),
        (&6.into(), &6.into()),
        "{status}"
    );
    assert_eq!(status["batch_unreadable_total"], serde_json::Value::Null, "{status}");
    let (_, metrics) = server.request("GET /metrics HTTP/1.1", b"").unwrap();
    for (reason, count) in [("malformed", 3), ("too_large", 1), ("unsupported", 2)] {
        let line = format!("ogive_ingest_unreadable_total{{protocol=\"remote_write\",reason=\"{reason}\"}} {count}\n");
        assert!(metrics.contains(&line), "{line} is not in {metrics}");
    }
}
