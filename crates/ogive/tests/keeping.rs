//! Retention, rollups, deletion and a quick restart, as an operator meets them.

mod common;

use std::process::Command;

use common::{SOURCE, Server, eventually, form, now_ms};
use serde_json::{Value, json};

fn start(directory: &std::path::Path, more: &[&str]) -> Server {
    let more = [&["--listen", "127.0.0.1:0"], more].concat();
    Server::try_start(directory, &more).unwrap_or_else(|said| panic!("no start: {said}"))
}

/// One gauge sample for each of `seconds`, counted from `from_ms`.
fn gauges(server: &Server, sequence: u64, from_ms: i64, seconds: std::ops::Range<i64>) -> Value {
    let series = json!([{"labels": {"__name__": "kept"}, "kind": "float"}]);
    let sample = |second: i64| json!({"series": 0, "time_ms": from_ms + second * 1000, "float": second});
    server.batch(SOURCE, sequence, series, seconds.map(sample).collect()).1
}

fn ogive(server: &Server, arguments: &[&str]) -> (Option<i32>, String) {
    let url = format!("http://{}", server.address);
    let mut command = Command::new(env!("CARGO_BIN_EXE_ogive"));
    let output = command.args(arguments).args(["--server", &url]).stdin(std::process::Stdio::null()).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(said).unwrap())
}

#[test]
fn what_is_too_old_is_refused_with_its_reason() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path(), &["--retention", "1s=2d,1m=90d", "--retention-size", "1GiB"]);
    let now = now_ms();
    let body = gauges(&server, 0, now - 3 * 86_400_000, 0..2);
    assert!(body.to_string().contains("beyond_retention"), "{body}");
    let body = gauges(&server, 1, now - 86_400_000, 0..2);
    assert!(!body.to_string().contains("beyond_retention"), "{body}");
    let refused = "ogive_ingest_samples_total{protocol=\"batch\",reason=\"beyond_retention\"}";
    eventually("the counter", || server.number(refused).filter(|count| *count > 0.0));
    let said = Server::try_start(&directory.path().join("x"), &["--rollups", "7m"]).err().unwrap();
    assert!(said.contains("widths of rollups") && said.contains("Some(2)"), "{said}");
}

#[test]
fn an_end_in_order_leaves_nothing_to_replay_and_yesterday_is_rolled_up() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = start(directory.path(), &[]);
    // Two hours of seconds that ended long ago, from the start of a window on.
    let from = (now_ms() - 86_400_000) / 7_200_000 * 7_200_000;
    gauges(&server, 0, from, 1..7201);
    assert_eq!(server.terminate(), Some(0));
    let journal = std::fs::read_dir(directory.path().join("journal")).unwrap();
    let left: u64 = journal.map(|segment| segment.unwrap().metadata().unwrap().len()).sum();
    assert!(left < 1024, "{left} bytes of journal stay beside the blocks that hold them");
    let server = start(directory.path(), &[]);
    let (_, status) = server.get("/v1/status");
    assert_eq!(status["recovered_samples"], 0, "{status}");
    let (start, end) = (from / 1000 + 3600, from / 1000 + 7200);
    let ask = |more: &str| {
        let path = format!("/api/v1/query_range?query=sum_over_time(kept[1h])&start={start}&end={end}&step=3600{more}");
        let (status, body) = server.get(&path);
        assert_eq!(status, 200, "{body}");
        body
    };
    // The first server may have made it before it ended: its answers tell, not the second one's counter.
    let rolled_up = || Some(ask("")).filter(|body| body["resolution_ms"].is_u64());
    let auto = eventually("the rollup", rolled_up);
    let (raw, minutes) = (ask("&resolution=1s"), ask("&resolution=1m"));
    assert_eq!(auto["data"], raw["data"]);
    assert_eq!(auto["data"], minutes["data"]);
    assert_eq!(auto["data"]["result"][0]["values"][1][1], (3601..7201_i64).sum::<i64>().to_string());
    // A minute, or an hour when the day is over.
    assert!(auto["resolution_ms"].as_u64() >= Some(60_000) && raw["resolution_ms"].is_null(), "{auto}");
    let (status, body) = server.get("/api/v1/query?query=kept&resolution=fine");
    assert!(status == 400 && body["error"].as_str().unwrap().contains("resolution"), "{body}");
}

#[test]
fn deletion_asks_first_and_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path(), &[]);
    gauges(&server, 0, now_ms() - 60_000, 0..5);
    let (code, said) = ogive(&server, &["delete", "kept", "--yes"]);
    assert!(code == Some(1) && said.contains("--enable-admin-api"), "{code:?} {said}");
    drop(server);
    let server = start(directory.path(), &["--enable-admin-api"]);
    let (code, said) = ogive(&server, &["delete", "kept"]);
    assert!(code == Some(1) && said.contains("nothing was deleted"), "{code:?} {said}");
    assert_eq!(server.number("count(kept)"), Some(1.0));
    let (code, said) = ogive(&server, &["delete", "kept", "--yes", "--clean", "--json"]);
    assert_eq!((code, said.trim()), (Some(0), r#"{"cleaned":true,"series":1}"#));
    assert_eq!(server.number("count(kept)"), None);
    let (_, status) = server.get("/v1/status");
    assert_eq!(status["deletions_pending"], 0);
    // What comes later for the same times stays.
    gauges(&server, 1, now_ms() - 10_000, 0..5);
    assert_eq!(server.number("count(kept)"), Some(1.0));
    let (status, body) = server.request("POST /api/v1/admin/tsdb/delete_series HTTP/1.1", b"").unwrap();
    assert!(status == 400 && body.contains("match[]"), "{body}");
    let head = "PUT /api/v1/admin/tsdb/delete_series?match[]=kept&start=0 HTTP/1.1";
    assert_eq!(server.request(head, b"").unwrap().0, 204);
    assert_eq!(server.number("count(kept)"), None);
}

/// A deletion with 257 matchers was answered as done, and after a kill no start read the manifest again.
#[test]
fn a_deletion_beyond_a_limit_is_refused_and_one_at_it_survives_a_kill() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = start(directory.path(), &["--enable-admin-api"]);
    gauges(&server, 0, now_ms() - 60_000, 0..5);
    let delete = |server: &Server, matchers: usize| {
        let selector = format!("kept{{{}}}", vec!["a!=\"x\""; matchers - 1].join(","));
        let form = format!("match[]={}", form(&selector));
        let head = "POST /api/v1/admin/tsdb/delete_series HTTP/1.1\r\ncontent-type: application/x-www-form-urlencoded";
        server.request(head, form.as_bytes()).unwrap()
    };
    let (status, body) = delete(&server, 257);
    assert!(status == 400 && body.contains("257 matchers where at most 256"), "{status} {body}");
    assert_eq!(server.number("count(kept)"), Some(1.0), "nothing was deleted");
    assert_eq!(delete(&server, 256).0, 204);
    server.kill();
    let server = start(directory.path(), &[]);
    assert_eq!(server.number("count(kept)"), None);
}
