//! `/v1/live` of a real server: what it reads from closed live cells, also over a kill.

use std::io::{BufRead, BufReader, Lines, Write};
use std::net::TcpStream;

use crate::common::{SOURCE, Server, eventually, float, histogram, now_ms};
use serde_json::{Value, json};

/// A live stream.
struct Live {
    lines: Lines<BufReader<TcpStream>>,
}

impl Live {
    fn open(server: &Server, query: &str, after: Option<i64>) -> Self {
        Self::at(server, &format!("/v1/live?query={query}&quantiles=0.5"), after)
    }

    fn at(server: &Server, address: &str, after: Option<i64>) -> Self {
        let mut stream = server.connect();
        let after = after.map_or(String::new(), |second| format!("last-event-id: {second}\r\n"));
        let head = format!("GET {address} HTTP/1.1\r\nhost: localhost\r\n{after}\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        Self { lines: BufReader::new(stream).lines() }
    }

    /// The next event: its name and its data.
    fn event(&mut self) -> (String, Value) {
        let mut name = String::new();
        loop {
            let line = self.lines.next().expect("the stream goes on").unwrap();
            if let Some(event) = line.strip_prefix("event: ") {
                event.clone_into(&mut name);
            } else if let Some(data) = line.strip_prefix("data: ") {
                return (name, serde_json::from_str(data).unwrap());
            }
        }
    }

    /// The next column.
    fn column(&mut self) -> (i64, Value) {
        loop {
            let (name, column) = self.event();
            assert!(name != "error", "{column}");
            if name == "column" {
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

/// A stream reads seconds from closed cells; the server is killed; a stream that goes on where the first one was cut
/// off reads the same seconds from the journal's replay, and further ones from cells again.
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
    stream.write_all(b"GET /v1/live?query=one HTTP/1.1\r\nhost: localhost\r\nlast-event-id: then\r\n\r\n").unwrap();
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
    for flags in [flags, vec!["--listener-threads", "3", "--stream-shards", "2", "--stream-wait", "hybrid:100:100:200"]]
    {
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

/// `time: value` of the cells that are stored under `name`, in order.
fn cells(server: &Server, name: &str, from_ms: i64) -> Vec<(i64, Value)> {
    let from = from_ms as f64 / 1e3;
    let (status, body) = server.get(&format!("/v1/cells?match[]={}&start={from}", crate::common::form(name)));
    assert_eq!(status, 200, "{body}");
    let sample = |sample: &Value| {
        let value = sample.get("float").cloned().unwrap_or_else(|| sample["histogram"]["bins"].clone());
        (sample["time_ms"].as_i64().unwrap() - from_ms, value)
    };
    body["data"]["samples"].as_array().unwrap().iter().map(sample).collect()
}

fn becomes(server: &Server, name: &str, from_ms: i64, expected: &[(i64, Value)]) {
    eventually(&format!("cells of {name}: {expected:?}"), || (cells(server, name, from_ms) == expected).then_some(()));
}

/// A sender of jittered series.
struct Jittered<'a> {
    server: &'a Server,
    base: i64,
    sequence: &'a mut u64,
}

impl Jittered<'_> {
    /// Sends (series, time, value) twice, under one number.
    fn send(&mut self, samples: &[(u64, i64, Value)]) {
        let counter = json!({"labels": {"__name__": "jit_total"}, "kind": "float", "temporality": "cumulative"});
        let series = json!([float("jit_level"), counter, histogram("jit_seconds"), float("other")]);
        *self.sequence += 1;
        let one = |(series, at, value): &(u64, i64, Value)| {
            let kind = if *series == 2 { "histogram" } else { "float" };
            json!({"series": series, "time_ms": self.base + at, kind: value})
        };
        let samples: Vec<Value> = samples.iter().map(one).collect();
        for again in 0..2 {
            let answer = self.server.batch(SOURCE, *self.sequence, series.clone(), samples.clone().into()).1;
            let counts = ["accepted", "duplicate"].map(|outcome| answer[outcome].as_u64().unwrap());
            assert_eq!(counts[again], samples.len() as u64, "{answer}");
        }
    }

    fn becomes(&self, name: &str, expected: &[(i64, Value)]) {
        becomes(self.server, name, self.base, expected);
    }

    /// A figure of the rule for everything jittered.
    fn figure(&self, outcome: &str) -> f64 {
        let body = self.server.get("/metrics").1.as_str().unwrap().to_owned();
        let outcome = format!("outcome=\"{outcome}\"");
        let of =
            |line: &&str| line.starts_with("ogive_quantize_") && line.contains(&outcome) && line.contains("jit_.*");
        body.lines().find(of).unwrap().rsplit(' ').next().unwrap().parse().unwrap()
    }
}

fn bins(count: u64) -> Value {
    json!({"bins": {"1e-3": count}})
}

/// Late: a fragment, a value that is smaller than the one before, and a counter's sample between two that were there.
fn send_late(sender: &mut Jittered<'_>) {
    sender.send(&[(2, 4_100, bins(7)), (0, 1_990, json!(2)), (1, 20_500, json!(20))]);
    sender.becomes("jit_seconds:1s_histogram", &[(5_000, json!({"1.0e-3": 12})), (10_000, json!({"1.0e-3": 1}))]);
    let increases = [(17_000, json!(4.0)), (21_000, json!(6.0)), (32_000, json!(3.0)), (47_000, json!(2.0))];
    sender.becomes("jit_total:1s_increase", &increases);
    sender.becomes("jit_level:1s_last", &[(2_000, json!(2.0)), (3_000, json!(5.0)), (34_000, json!(1.0))]);
    sender.becomes("jit_level:5s_count", &[(5_000, json!(4.0)), (35_000, json!(1.0))]);
    sender.becomes("jit_level:5s_mean", &[(5_000, json!(17.0 / 4.0)), (35_000, json!(1.0))]);
    assert_eq!(sender.figure("on_time") + sender.figure("late"), 14.0);
    assert_eq!((sender.figure("duplicate"), sender.figure("failed")), (14.0, 0.0));
}

/// Senders of 5, 15 and 60 s with jitter, a gap, late samples, batches sent again, and a kill right behind an
/// acknowledgement: the cells are those of the samples, once, whatever came when.
#[test]
fn jittered_senders_are_aligned_to_the_second() {
    let directory = tempfile::tempdir().unwrap();
    let rules = ["{__name__=~\"jit_.*\"}=lateness=1s", "jit_level=number=mean+count,width=5s"];
    let quantize = ["--listen", "127.0.0.1:0", "--quantize", rules[0], "--quantize", rules[1]];
    let mut server = Server::try_start(directory.path(), &quantize).unwrap();
    let base = (now_ms() - 120_000).div_euclid(60_000) * 60_000;
    let mut sequence = 0;
    let mut sender = Jittered { server: &server, base, sequence: &mut sequence };
    // Sixty seconds at once, two samples in a second, a gap, a reset of the counter.
    let level = [(1_020, 4), (1_930, 6), (3_000, 5), (33_001, 1)];
    sender.send(&level.map(|(at, value)| (0, at, json!(value))));
    sender.send(&[(3, 1_500, json!(9))]);
    let total = [(900, 10), (16_100, 14), (31_050, 3), (46_200, 5)];
    sender.send(&total.map(|(at, value)| (1, at, json!(value))));
    sender.send(&[(2, 5_000, bins(3)), (2, 4_700, bins(2)), (2, 9_900, bins(1))]);
    sender.becomes("jit_level:1s_last", &[(2_000, json!(6.0)), (3_000, json!(5.0)), (34_000, json!(1.0))]);
    sender.becomes("jit_total:1s_increase", &[(17_000, json!(4.0)), (32_000, json!(3.0)), (47_000, json!(2.0))]);
    sender.becomes("jit_seconds:1s_histogram", &[(5_000, json!({"1.0e-3": 5})), (10_000, json!({"1.0e-3": 1}))]);
    sender.becomes("jit_level:5s_mean", &[(5_000, json!(5.0)), (35_000, json!(1.0))]);
    let others = cells(&server, "{__name__=~\"other:.*|.*:.*:.*\"}", base);
    assert!(others.is_empty(), "no rule names it, and cells are no samples");
    send_late(&mut sender);
    sender.send(&[(0, 50_500, json!(8)), (2, 50_500, bins(1)), (2, 4_200, bins(1)), (1, 61_000, json!(9))]);
    server.kill();
    let server = Server::try_start(directory.path(), &quantize).unwrap();
    let sender = Jittered { server: &server, base, sequence: &mut sequence };
    let counts = [(5_000, 13), (10_000, 1), (51_000, 1)].map(|(at, count)| (at, json!({"1.0e-3": count})));
    sender.becomes("jit_seconds:1s_histogram", &counts);
    let level = [(2_000, 2.0), (3_000, 5.0), (34_000, 1.0), (51_000, 8.0)].map(|(at, value)| (at, json!(value)));
    sender.becomes("jit_level:1s_last", &level);
    let increases = [(17_000, 4.0), (21_000, 6.0), (32_000, 3.0), (47_000, 2.0), (61_000, 4.0)];
    sender.becomes("jit_total:1s_increase", &increases.map(|(at, value)| (at, json!(value))));
}

#[test]
fn a_rule_that_cannot_be_is_refused_at_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let said = Server::try_start(directory.path(), &["--listen", "127.0.0.1:0", "--quantize", "rate(x[1m])"]);
    let said = said.err().expect("no start");
    assert!(said.contains("plain selector"), "{said}");
}

/// The event `name` of a stream whose second passes `test`, for whom comes first.
fn until(live: &mut Live, name: &str, mut test: impl FnMut(&Value) -> bool) -> Value {
    let from = std::time::Instant::now();
    loop {
        let (event, data) = live.event();
        if event == name && test(&data) {
            return data;
        }
        assert!(from.elapsed() < crate::common::PATIENCE, "no {name} like that; the last event was {event}: {data}");
    }
}

/// Cells of a sender that flushes each few seconds came as `count: 0` and were never corrected. Of a second that may
/// still get data nothing is claimed; when it comes, the second is sent again.
#[test]
fn late_cells_are_unknown_first_and_corrected_then() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::try_start(directory.path(), &["--listen", "127.0.0.1:0"]).unwrap();
    let mut live = Live::open(&server, "late_seconds", None);
    let mut sum = Live::open(&server, "sum(late_level)", None);
    let mut levels = Live::open(&server, "late_level", None);
    let first = until(&mut live, "column", |_| true);
    assert_eq!((&first["state"], &first["count"]), (&json!("unknown"), &Value::Null), "{first}");
    let begun = first["t"].as_i64().unwrap();
    let series = json!([histogram("late_seconds"), float("late_level")]);
    let mut sequence = 0;
    let mut flush = |seconds: &[i64]| {
        sequence += 1;
        let cell = |second: &i64| json!({"series": 0, "time_ms": second * 1_000, "histogram": {"bins": {"1": second - begun + 10}}});
        let level = |second: &i64| json!({"series": 1, "time_ms": second * 1_000 - 300, "float": second - begun + 10});
        let samples: Vec<Value> = seconds.iter().flat_map(|second| [cell(second), level(second)]).collect();
        assert_eq!(server.batch(SOURCE, sequence, series.clone(), samples.into()).1["accepted"], 2 * seconds.len());
    };
    flush(&[begun - 1, begun]);
    let at = |second: i64| move |data: &Value| data["t"].as_i64() == Some(second);
    for (second, count) in [(begun - 1, "9"), (begun, "10")] {
        assert_eq!(until(&mut live, "correction", at(second))["count"], count, "also of a second before the stream");
    }
    let last = until(&mut live, "column", |data| data["t"].as_i64() >= Some(begun + 4))["t"].as_i64().unwrap();
    // Each stream has passed it by then: who has not would get it as a column.
    for stream in [&mut levels, &mut sum] {
        until(stream, "column", |data| data["t"].as_i64() >= Some(last));
    }
    flush(&[last]);
    // The seconds before it are known to be empty now, and it is known.
    let corrected =
        until(&mut live, "correction", |data| data["t"].as_i64() > Some(begun) && data["t"].as_i64() < Some(last));
    assert_eq!((&corrected["state"], &corrected["count"]), (&json!("known"), &json!("0")), "{corrected}");
    let corrected = until(&mut live, "correction", at(last));
    assert_eq!(corrected["count"], (last - begun + 10).to_string(), "{corrected}");
    let value = (last - begun + 10).to_string();
    let corrected = until(&mut levels, "correction", at(last));
    let expected = json!([{"labels": {"__name__": "late_level"}, "value": value}]);
    assert_eq!((&corrected["values"], &corrected["count"]), (&expected, &Value::Null), "{corrected}");
    let corrected = until(&mut sum, "correction", at(last));
    assert_eq!(corrected["values"], json!([{"labels": {}, "value": value}]), "{corrected}");
}

/// A program downstream hears of each cell as its second closes, of what came late, and goes on where it was cut off.
#[test]
fn a_subscription_has_every_cell_at_least_once() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::try_start(directory.path(), &["--listen", "127.0.0.1:0"]).unwrap();
    let address = format!("/v1/subscribe?match[]={}", crate::common::form("{__name__=~\"sub_.*\"}"));
    let mut stream = Live::at(&server, &address, None);
    let begun = until(&mut stream, "watermark", |_| true)["t"].as_i64().unwrap();
    let series = json!([histogram("sub_seconds"), float("sub_level"), float("other")]);
    let mut sequence = 0;
    let mut send = |series_at: u64, time_ms: i64, value: &Value| {
        sequence += 1;
        let kind = if series_at == 0 { "histogram" } else { "float" };
        let samples = json!([{"series": series_at, "time_ms": time_ms, kind: value}]);
        assert_eq!(server.batch(SOURCE, sequence, series.clone(), samples).1["accepted"], 1);
    };
    let time = begun * 1_000;
    send(2, time, &json!(1));
    send(0, time, &json!({"bins": {"1": 2}}));
    send(1, time - 400, &json!(1.5));
    for _ in 0..2 {
        let cell = until(&mut stream, "cell", |_| true);
        match cell["labels"]["__name__"].as_str().unwrap() {
            "sub_seconds" => {
                assert_eq!((&cell["time_ms"], &cell["histogram"]["bins"]["1.0e0"]), (&json!(time), &json!(2)), "{cell}")
            }
            "sub_level" => assert_eq!((&cell["time_ms"], &cell["float"]), (&json!(time - 400), &json!(1.5)), "{cell}"),
            _ => panic!("not asked for: {cell}"),
        }
    }
    send(0, time, &json!({"bins": {"1": 5}}));
    let correction = until(&mut stream, "correction", |_| true);
    assert_eq!(correction["histogram"]["bins"]["1.0e0"], 7, "{correction}");
    let seen = until(&mut stream, "watermark", |_| true)["t"].as_i64().unwrap();
    assert!(seen > begun, "seconds ascend");
    drop(stream);
    send(1, (seen + 1) * 1_000, &json!(2.5));
    let mut again = Live::at(&server, &address, Some(seen));
    let cell = until(&mut again, "cell", |cell| cell["time_ms"] == (seen + 1) * 1_000);
    assert_eq!(cell["float"], 2.5);
    drop(again);
    // Longer ago than is caught up with: what is left out is said.
    let mut late = Live::at(&server, &address, Some(seen - 7_200));
    assert_eq!(until(&mut late, "gap", |_| true)["from"], seen - 7_200);
    for (wrong, status) in
        [("/v1/subscribe", 400), ("/v1/subscribe?match[]=sum(x)", 400), ("/v1/subscribe?match[]=x&lateness=2h", 400)]
    {
        assert_eq!(server.get(wrong).0, status, "{wrong}");
    }
}
