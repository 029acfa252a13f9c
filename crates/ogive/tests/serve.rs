//! `ogive serve` as a whole: it starts, shows itself, is asked, ends, and starts again.

use std::io::{BufRead, BufReader, Write};
use std::process::Command;

use crate::common::{Server, eventually, histogram, now_ms};
use serde_json::json;

#[test]
fn a_fresh_server_shows_real_measurements() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path());
    eventually("hiccups of every CPU", || {
        let t = now_ms() / 1000;
        let path = format!("/v1/heatmap?query=ogive_hiccup_seconds&start={}&end={t}&step=1&quantiles=0.99", t - 10);
        let (status, body) = server.get(&path);
        assert_eq!(status, 200, "{body}");
        let columns = body["data"]["columns"].as_array().unwrap().clone();
        assert_eq!(columns.is_empty(), body["data"]["unit"] == "");
        // The first second may have been short, and the machine busy.
        let count = |column: &serde_json::Value| column["count"].as_str().unwrap().parse::<u64>().unwrap();
        (columns.iter().map(count).sum::<u64>() > 50).then_some(())
    });
    // What was asked meanwhile is measured too.
    eventually("own requests", || server.number("sum(histogram_count(increase(ogive_http_request_seconds[1m])))"));
    eventually("own queries", || server.number("sum(histogram_count(increase(ogive_query_seconds[1m])))"));
    eventually("own fsyncs", || server.number("sum(histogram_count(increase(ogive_journal_fsync_seconds[1m])))"));
    let (_, metadata) = server.get("/api/v1/metadata");
    assert_eq!(metadata["data"]["ogive_hiccup_seconds"][0]["type"], "histogram");
    assert_eq!(metadata["data"]["ogive_hiccup_seconds"][0]["unit"], "s");
    let (status, page) = server.get("/");
    assert!(status == 200 && page.as_str().unwrap().contains("<html"));
}

#[test]
fn live_columns_arrive_each_second_and_end_with_the_server() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::start(directory.path());
    let mut stream = server.connect();
    stream
        .write_all(b"GET /v1/live?query=ogive_hiccup_seconds&quantiles=0.5 HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .unwrap();
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let mut times = Vec::new();
    let mut counted = 0;
    let mut is_column = false;
    // On a busy machine cells may come too late for their second's column, and are a correction of it: it goes on until
    // there are some.
    while times.len() < 4 || counted <= 100 {
        assert!(times.len() < 60, "{counted} hiccups in {times:?}");
        let line = lines.next().expect("the stream goes on");
        if let Some(event) = line.strip_prefix("event: ") {
            is_column = event == "column";
        }
        if let Some(data) = line.strip_prefix("data: ") {
            let column: serde_json::Value = serde_json::from_str(data).unwrap();
            times.extend(column["t"].as_i64().filter(|_| is_column));
            // Nothing is claimed before the first cells.
            counted += column["count"].as_str().map_or(0, |count| count.parse::<u64>().unwrap());
        }
    }
    assert!(times.windows(2).all(|pair| pair[1] == pair[0] + 1), "{times:?}");
    assert_eq!(server.terminate(), Some(0));
    // An open stream does not hold the server until it loses patience: it ends in order, by its last chunk of no bytes.
    assert_eq!(lines.filter(|line| !line.is_empty()).last().as_deref(), Some("0"));
}

#[test]
fn what_was_stored_is_there_after_an_orderly_end_and_after_a_kill() {
    let directory = tempfile::tempdir().unwrap();
    let t = now_ms();
    let samples = json!([{"series": 0, "time_ms": t, "histogram": {"bins": {"1.2e-3": 4, "3.5e-2": 1}, "sum": 0.04, "min": 0.00125, "max": 0.035}}]);
    let mut server = Server::start(directory.path());
    assert_eq!(server.batch(crate::common::SOURCE, 1, json!([histogram("rpc_seconds")]), samples).0, 200);
    let requested = format!("/v1/heatmap?query=rpc_seconds&start={0}&end={0}&step=1", t / 1000);
    let (_, before) = server.get(&requested);
    assert_eq!(before["data"]["columns"][0]["bins"], json!([[0.0012, 0.0013, 4], [0.035, 0.036, 1]]));
    assert_eq!(server.terminate(), Some(0));
    let mut server = Server::start(directory.path());
    assert_eq!(server.get(&requested).1, before);
    server.kill();
    let server = Server::start(directory.path());
    assert_eq!(server.get(&requested).1, before);
}

#[test]
fn a_second_server_is_told_what_is_in_its_way() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path());
    let refused = |result: Result<Server, String>| result.err().expect("it must not start");
    let said = refused(Server::try_start(directory.path(), &["--listen", "127.0.0.1:0"]));
    assert!(said.contains("in use by another server") && said.contains("--data"), "{said}");
    assert!(said.contains("exit code Some(1)"), "{said}");
    let other = tempfile::tempdir().unwrap();
    let said = refused(Server::try_start(other.path(), &["--listen", &server.address]));
    assert!(said.contains(&server.address) && said.contains("--listen"), "{said}");
    let said = refused(Server::try_start(other.path(), &["--listen", "nowhere"]));
    assert!(said.contains("HOST:PORT") && said.contains("exit code Some(2)"), "{said}");
    let file = other.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let said = refused(Server::try_start(&file, &["--listen", "127.0.0.1:0"]));
    assert!(said.contains("cannot open the data"), "{said}");
    assert_eq!(server.get("/-/ready").0, 200);
}

#[test]
fn query_and_status_talk_to_the_server() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path());
    let t = now_ms();
    let samples = json!([{"series": 0, "time_ms": t, "histogram": {"bins": {"1.2e-3": 4}}}, {"series": 1, "time_ms": t, "float": 2.5}]);
    server.batch(crate::common::SOURCE, 1, json!([histogram("rpc_seconds"), crate::common::float("load")]), samples);
    let run = |arguments: &[&str]| {
        let address = format!("http://{}", server.address);
        let output =
            Command::new(env!("CARGO_BIN_EXE_ogive")).args(arguments).env("OGIVE_SERVER", address).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let time = (t / 1000).to_string();
    let (code, out, _) = run(&["query", "load", "--time", &time]);
    assert_eq!((code, &*out), (Some(0), "load  2.5\n"));
    let (code, out, _) = run(&["query", "rpc_seconds", "--time", &time]);
    assert!(code == Some(0) && out.contains("1.2ms") && out.contains("count 4"), "{out}");
    let (code, out, _) = run(&["query", "load", "--json", "--start", &time, "--end", &time]);
    let value: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &value["data"]["resultType"]), (Some(0), &json!("matrix")));
    let (code, _, err) = run(&["query", "sum("]);
    assert!(code == Some(2) && err.contains("parse error"), "{err}");
    let (code, out, _) = run(&["status", "--json"]);
    let value: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &value["accepted_total"]), (Some(0), &json!(2)));
    assert!(run(&["status"]).1.contains("accepted_total"));
    let (code, _, err) = run(&["status", "--server", "http://127.0.0.1:9"]);
    assert!(code == Some(3) && err.contains("ogive serve"), "{err}");
}

/// Two addresses; HTTP/1.1 and HTTP/2 by prior knowledge on each, as curl speaks them.
#[test]
fn every_address_speaks_both_versions_of_http() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::try_start(directory.path(), &["--listen", "127.0.0.1:0", "--listen", "127.0.0.1:0"]).unwrap();
    let urls: Vec<&str> = server.said.split_whitespace().filter(|word| word.starts_with("http://")).collect();
    assert_eq!(urls.len(), 2, "{}", server.said);
    let t = now_ms();
    let mut sequence = 0;
    for url in urls {
        for version in ["--http1.1", "--http2-prior-knowledge"] {
            sequence += 1;
            let body = json!({"source": crate::common::SOURCE, "sequence": sequence, "series": [crate::common::float("load")],
                "samples": [{"series": 0, "time_ms": t + sequence, "float": 1}]});
            let output = Command::new("curl")
                .args([
                    "-sS",
                    version,
                    "-w",
                    " HTTP/%{http_version} %{http_code}",
                    "-H",
                    "content-type: application/json",
                ])
                .args(["-d", &body.to_string(), &format!("{url}v1/batch")])
                .output()
                .expect("curl is there");
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            let expected = if version == "--http1.1" { " HTTP/1.1 200" } else { " HTTP/2 200" };
            assert!(said.ends_with(expected) && said.contains("\"accepted\":1"), "{version} {url}: {said}");
        }
    }
    assert_eq!(server.get("/v1/status").1["accepted_total"], json!(4));
}
