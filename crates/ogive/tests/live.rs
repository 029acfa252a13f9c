//! `/v1/live` of a real server: what it reads from closed live cells, also over a kill.

mod common;

use std::io::{BufRead, BufReader, Lines, Write};
use std::net::TcpStream;

use common::{SOURCE, Server, eventually, float, histogram, now_ms};
use serde_json::{Value, json};

/// A live stream.
struct Live {
    lines: Lines<BufReader<TcpStream>>,
}

impl Live {
    fn open(server: &Server, query: &str, after: Option<i64>) -> Self {
        let mut stream = server.connect();
        let after = after.map_or(String::new(), |second| format!("last-event-id: {second}\r\n"));
        let head = format!("GET /v1/live?query={query}&quantiles=0.5 HTTP/1.1\r\nhost: x\r\n{after}\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        Self { lines: BufReader::new(stream).lines() }
    }

    /// The next column.
    fn column(&mut self) -> (i64, Value) {
        loop {
            let line = self.lines.next().expect("the stream goes on").unwrap();
            if let Some(data) = line.strip_prefix("data: ") {
                let column: Value = serde_json::from_str(data).unwrap();
                assert!(column.get("error").is_none(), "{column}");
                return (column["t"].as_i64().unwrap(), column);
            }
        }
    }

    /// The columns of these seconds.
    fn columns(&mut self, seconds: &std::ops::RangeInclusive<i64>) -> Vec<(i64, Value)> {
        let mut out = Vec::new();
        while out.len() < seconds.clone().count() {
            let column = self.column();
            assert!(column.0 <= *seconds.end(), "{seconds:?} had passed when the stream began at {}", column.0);
            out.extend(Some(column).filter(|column| seconds.contains(&column.0)));
        }
        out
    }
}

fn figure(server: &Server, name: &str) -> u64 {
    server.get("/v1/status").1[name].as_u64().unwrap_or_else(|| panic!("no figure {name}"))
}

fn point(start_ms: i64, time_ms: i64, bins: &Value) -> Value {
    json!([{"series": 0, "time_ms": time_ms, "start_ms": start_ms, "histogram": {"bins": bins}}])
}

/// A stream reads seconds from closed cells; the server is killed; a stream that goes on where the first one was cut off reads the
/// same seconds from the journal's replay, and further ones from cells again.
#[test]
fn closed_seconds_are_the_same_after_a_kill() {
    let directory = tempfile::tempdir().unwrap();
    // Seconds close late enough for this test to have sent everything of them.
    let late = ["--live-lateness-ms", "3000", "--listen", "127.0.0.1:0"];
    let mut server = Server::try_start(directory.path(), &late).unwrap();
    let mut live = Live::open(&server, "rpc_seconds", None);
    let (mut begun, _) = live.column();
    let mut sequence = 0;
    // Tried again with later seconds when the machine was too slow to send everything before they closed.
    let seconds = [5, 10, 20, 40].into_iter().find_map(|ahead| {
        let seconds = begun + ahead..=begun + ahead + 2;
        for (at, second) in seconds.clone().enumerate() {
            let (start, time) = (second * 1_000 - 500, second * 1_000 - 100);
            let bins = json!({"1e-3": 1 + at, "2e-2": 1});
            for again in 0..2 {
                sequence += 1;
                let answer =
                    server.batch(SOURCE, sequence, json!([histogram("rpc_seconds")]), point(start, time, &bins)).1;
                assert_eq!((&answer["accepted"], &answer["duplicate"]), (&json!(1 - again), &json!(again)), "{answer}");
            }
        }
        begun = now_ms() / 1_000;
        (now_ms() < seconds.start() * 1_000 + 2_900).then_some(seconds)
    });
    let seconds = seconds.expect("six small batches in less than 40 s");
    let before = live.columns(&seconds);
    let counts: Vec<&str> = before.iter().map(|column| column.1["count"].as_str().unwrap()).collect();
    assert_eq!(counts, ["2", "3", "4"], "a point that was sent again counts once");
    assert!(figure(&server, "live_fed_total") >= 3);
    eventually("a column from cells, however busy the machine", || {
        live.column();
        (figure(&server, "live_columns_from_cells_total") > 0).then_some(())
    });
    server.kill();

    let server = Server::try_start(directory.path(), &late).unwrap();
    let mut live = Live::open(&server, "rpc_seconds", Some(seconds.start() - 1));
    assert_eq!(live.columns(&seconds), before);
    eventually("columns from cells again", || {
        live.column();
        (figure(&server, "live_columns_from_cells_total") > 0).then_some(())
    });
}

#[test]
fn what_cells_do_not_hold_is_read_from_the_store() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::try_start(directory.path(), &["--live-series", "1", "--listen", "127.0.0.1:0"]).unwrap();
    let time = now_ms() + 2_000;
    let series = json!([histogram("one"), histogram("two"), float("level")]);
    let sample = |series: u64| json!({"series": series, "time_ms": time, "histogram": {"bins": {"1": 1}}});
    let samples = json!([sample(0), sample(1), {"series": 2, "time_ms": time, "float": 1}]);
    assert_eq!(server.batch(SOURCE, 1, series, samples).1["accepted"], 3);
    let second = (time - 1).div_euclid(1_000) + 1;
    let count =
        |query: &str| Live::open(&server, query, Some(second - 1)).columns(&(second..=second))[0].1["count"].clone();
    assert_eq!(count("%7B__name__%3D~%22one%7Ctwo%22%7D"), "2", "more series than may be followed");
    assert_eq!(count("sum(one)"), "1", "no selector");
    assert_eq!(count("one"), "1", "a second that was there before the stream");
    assert_eq!(count("%7B__name__%3D~%22level%7Cone%22%7D"), "1", "numbers among them");
    let mut stream = server.connect();
    stream.write_all(b"GET /v1/live?query=one HTTP/1.1\r\nhost: x\r\nlast-event-id: then\r\n\r\n").unwrap();
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    assert!(lines.next().unwrap().contains("400"));
    eventually("streams that ended are followed no more", || (figure(&server, "live_series") == 0).then_some(()));
}

/// Threads of the server whose name begins so.
fn threads(server: &Server, name: &str) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap();
    let comm = |task: std::io::Result<std::fs::DirEntry>| std::fs::read_to_string(task.ok()?.path().join("comm")).ok();
    tasks.filter_map(comm).filter(|comm| comm.starts_with(name)).count()
}

#[test]
fn serve_starts_with_what_tune_recommends() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::start(directory.path());
    let samples = |at: i64| json!({"series": 0, "time_ms": now_ms() - at, "float": at});
    let samples: Vec<Value> = (0..500).map(samples).collect();
    assert_eq!(server.batch(SOURCE, 1, json!([float("level")]), samples.into()).1["accepted"], 500);
    // Not ended: that would write its journal to blocks.
    server.kill();
    let tune = |more: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_ogive"));
        command
            .args(["tune", "--samples", "1000", "--rounds", "1", "--threads-max", "2", "--journal"])
            .arg(directory.path());
        let output = command.args(more).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let said = tune(&[]);
    assert!(said.contains("\n    ogive serve --listener-threads ") && said.contains(" --stream-shards "), "{said}");
    let said: Value = serde_json::from_str(&tune(&["--json"])).unwrap();
    let flags: Vec<&str> = said["flags"].as_array().unwrap().iter().map(|flag| flag.as_str().unwrap()).collect();
    let recommended = &said["recommended"];
    let expected = [
        "--listener-threads",
        &recommended["listeners"].to_string(),
        "--stream-shards",
        &recommended["threads"].to_string(),
    ];
    assert_eq!(flags, expected);
    for flags in [flags, vec!["--listener-threads", "3", "--stream-shards", "2"]] {
        let server = Server::try_start(directory.path(), &[&["--listen", "127.0.0.1:0"], &*flags].concat()).unwrap();
        assert_eq!(threads(&server, "cells-"), 0, "nobody watches");
        let mut live = Live::open(&server, "rpc_seconds", None);
        live.column();
        // A thread gives itself its name when it first runs.
        eventually("as many threads", || (threads(&server, "cells-").to_string() == flags[3]).then_some(()));
        drop(live);
        eventually("the threads of live cells end", || (threads(&server, "cells-") == 0).then_some(()));
    }
}
