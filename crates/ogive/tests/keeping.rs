//! Retention, rollups, deletion and a quick restart, as an operator meets them.

use std::process::Command;

use crate::common::{SOURCE, Server, eventually, form, now_ms};
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
    // The first server may have made it before it ended: its answers show it, not the second one's counter.
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

/// What was deleted came back with a snapshot, which nobody had named.
#[test]
fn a_deletion_names_the_snapshots_that_hold_it() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = start(directory.path(), &["--enable-admin-api"]);
    gauges(&server, 0, now_ms() - 60_000, 0..5);
    for name in ["one", "two"] {
        assert_eq!(ogive(&server, &["snapshot", "create", name]).0, Some(0));
    }
    let (code, said) = ogive(&server, &["delete", "kept", "--yes", "--snapshots=refuse"]);
    assert!(code == Some(2) && said.contains("one, two"), "{code:?} {said}");
    assert_eq!(server.number("count(kept)"), Some(1.0), "nothing was deleted");
    let (code, said) = ogive(&server, &["delete", "kept", "--yes", "--clean"]);
    assert!(code == Some(0) && said.contains("one, two") && said.contains("bring it back"), "{code:?} {said}");
    assert_eq!(server.number("count(kept)"), None);
    let (_, said) = ogive(&server, &["snapshot", "delete", "two"]);
    assert!(said.contains("two"), "{said}");
    server.terminate();
    let data = directory.path().to_str().unwrap().to_owned();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ogive"));
    let rolled = command.args(["snapshot", "rollback", "one", "--data", &data, "--yes"]).output().unwrap();
    let said = String::from_utf8_lossy(&rolled.stderr).into_owned();
    assert!(rolled.status.success() && said.contains("1 deletions") && said.contains("kept"), "{said}");
    let server = start(directory.path(), &["--enable-admin-api"]);
    assert_eq!(server.number("count(kept)"), Some(1.0));
    let (code, said) = ogive(&server, &["delete", "kept", "--yes", "--clean", "--snapshots", "--json"]);
    assert!(code == Some(0) && said.contains(r#""snapshots_deleted":true"#) && said.contains(r#""one""#), "{said}");
    let (_, listed) = ogive(&server, &["snapshot", "list"]);
    assert!(!listed.contains("one"), "{listed}");
}

#[test]
fn the_time_of_retention_is_shown_and_confirmed() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path(), &["--retention", "1s=1d,logs=30d,audit=ever"]);
    let (code, said) = ogive(&server, &["retention", "show", "--json"]);
    let shown: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((code, &shown["held"]), (Some(0), &json!(false)), "{said}");
    assert!((shown["clock_ms"].as_i64().unwrap() - now_ms()).abs() < 600_000, "{said}");
    assert_eq!(ogive(&server, &["retention", "confirm"]).0, Some(0));
    let (_, status) = server.get("/v1/status");
    assert_eq!(status["retention_held"], 0);
    assert_eq!(server.batch(SOURCE, 1, json!([]), json!([])).0, 200);
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
    let expected = r#"{"cleaned":true,"series":1,"snapshots":[],"snapshots_deleted":false}"#;
    assert_eq!((code, said.trim()), (Some(0), expected));
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
