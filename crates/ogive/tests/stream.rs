//! `/v1/stream` of a real server: each value is what a query answers later, and late cells correct it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::{PATIENCE, SOURCE, Server, StopAtEnd, now_ms};
use ogive_model::{METRIC_NAME, MatchOp};
use ogive_query::ast::{Expr, ExprKind};
use serde_json::{Value, json};

/// Streams at once: less than the places that a server has.
const AT_ONCE: usize = 48;

/// The bytes of an answer in chunks (RFC 9112, 7.1): an event may be longer than a chunk, which then ends within its
/// line.
struct Chunks {
    inner: BufReader<TcpStream>,
    /// Bytes of the chunk that are still to come.
    rest: usize,
}

impl Read for Chunks {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let mut line = String::new();
        while self.rest == 0 {
            // The end of the chunk before is an empty line.
            line.clear();
            if self.inner.read_line(&mut line)? == 0 {
                return Ok(0);
            }
            if let Some(size) = Some(line.trim_end()).filter(|size| !size.is_empty()) {
                self.rest = usize::from_str_radix(size, 16).map_err(std::io::Error::other)?;
                if self.rest == 0 {
                    return Ok(0);
                }
            }
        }
        let most = out.len().min(self.rest);
        let count = self.inner.read(&mut out[..most])?;
        self.rest -= count;
        Ok(count)
    }
}

/// A stream of values.
pub(crate) struct Stream {
    /// None when the answer was no stream.
    lines: Option<Lines<BufReader<Chunks>>>,
}

pub(crate) fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

impl Stream {
    fn open(server: &Server, query: &str, more: &str, after: Option<i64>) -> Self {
        Self::from_connection(server.connect(), &format!("/v1/stream?query={}{more}", encoded(query)), after)
    }

    /// The stream of an address.
    pub(crate) fn from_connection(mut stream: TcpStream, address: &str, after: Option<i64>) -> Self {
        let after = after.map_or(String::new(), |second| format!("last-event-id: {second}\r\n"));
        let head = format!("GET {address} HTTP/1.1\r\nhost: localhost\r\n{after}\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { lines: Self::behind_head(BufReader::new(stream)) }
    }

    fn behind_head(mut inner: BufReader<TcpStream>) -> Option<Lines<BufReader<Chunks>>> {
        let (mut head, mut line) = (String::new(), String::new());
        while line != "\r\n" {
            line.clear();
            assert!(inner.read_line(&mut line).unwrap() > 0, "the head ends: {head}");
            head.push_str(&line);
        }
        let is_stream = head.starts_with("HTTP/1.1 200");
        assert!(!is_stream || head.to_ascii_lowercase().contains("transfer-encoding: chunked"), "{head}");
        is_stream.then(|| BufReader::new(Chunks { inner, rest: 0 }).lines())
    }

    /// The next event: its name, its second and its data; none when the answer was no stream.
    pub(crate) fn event(&mut self) -> Option<(String, i64, String)> {
        let (mut name, mut id) = (String::new(), 0);
        let from = Instant::now();
        loop {
            // Comments may come for ever.
            assert!(from.elapsed() < PATIENCE, "no event");
            let line = self.lines.as_mut()?.next()?.unwrap();
            if let Some(event) = line.strip_prefix("event: ") {
                event.clone_into(&mut name);
            } else if let Some(second) = line.strip_prefix("id: ") {
                id = second.parse().unwrap();
            } else if let Some(data) = line.strip_prefix("data: ") {
                return Some((name, id, data.to_owned()));
            }
        }
    }

    /// The value of the next second.
    fn value(&mut self) -> (i64, String) {
        loop {
            let (name, second, data) = self.event().expect("the stream goes on");
            assert!(["value", "correction"].contains(&&*name), "{name}: {data}");
            if name == "value" {
                return (second, data);
            }
        }
    }
}

/// What the server answers for a time.
fn query(server: &Server, expr: &str, second: i64) -> (u16, String) {
    let head = format!("GET /api/v1/query?query={}&time={second} HTTP/1.1", encoded(expr));
    let (status, body) = server.request(&head, b"").unwrap();
    (status, body.trim_end().to_owned())
}

/// The expressions of the project's set whose values are of one instant.
fn expressions() -> Vec<String> {
    let own = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vectors/promql");
    let directory = std::env::var_os("OGIVE_PROMQL_DIR").map_or(own, PathBuf::from);
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(&directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "test") {
            let text = std::fs::read_to_string(&path).unwrap();
            let expr = |line: &str| Some(line.strip_prefix("eval instant at ")?.split_once(' ')?.1.trim().to_owned());
            found.extend(text.lines().filter_map(expr));
        }
    }
    found.into_iter().filter(|text| ogive_query::parse(text).is_ok()).collect()
}

/// The labels of series that an expression selects, and whether a function of distributions reads them.
fn selected(expr: &Expr, is_histogram: bool, out: &mut BTreeMap<BTreeMap<String, String>, bool>) {
    let selector = match &expr.kind {
        ExprKind::VectorSelector(selector) => Some(selector),
        ExprKind::MatrixSelector(matrix) => Some(&matrix.selector),
        _ => None,
    };
    let equal = |selector: &ogive_query::ast::VectorSelector| {
        let matchers = selector.matchers.iter().filter(|one| one.op == MatchOp::Equal && !one.value.is_empty());
        matchers.map(|one| (one.name.clone(), one.value.clone())).collect::<BTreeMap<_, _>>()
    };
    if let Some(labels) = selector.map(equal).filter(|labels| labels.contains_key(METRIC_NAME)) {
        for instance in ["a", "b"] {
            let mut labels = labels.clone();
            labels.entry("instance".into()).or_insert(instance.into());
            let is_native = is_histogram && !labels[METRIC_NAME].ends_with("_bucket");
            out.entry(labels).or_insert(is_native);
        }
    }
    let is_of = matches!(&expr.kind, ExprKind::Call(call) if call.function.name.starts_with("histogram_"));
    for child in expr.children() {
        selected(child, is_histogram || is_of, out);
    }
}

/// Sends a sample of each series, for the second that ends at `second`.
fn send(server: &Server, sequence: u64, series: &BTreeMap<BTreeMap<String, String>, bool>, second: i64) {
    let kind = |is_histogram: bool| if is_histogram { ("histogram", "delta") } else { ("float", "gauge") };
    let defs: Vec<Value> = series
        .iter()
        .map(|(labels, is)| json!({"labels": labels, "kind": kind(*is).0, "temporality": kind(*is).1, "unit": "", "width_ms": if *is { 1_000 } else { 0 }}))
        .collect();
    let samples: Vec<Value> = series
        .values()
        .enumerate()
        .map(|(at, is)| {
            let value = (second * 7 + at as i64 * 13) % 50 + second % 60;
            match is {
                true => json!({"series": at, "time_ms": second * 1_000, "histogram": {"bins": {"1e-3": value + 1, "5e-2": value % 7}}}),
                false => json!({"series": at, "time_ms": second * 1_000, "float": value}),
            }
        })
        .collect();
    for (part, (defs, samples)) in defs.chunks(500).zip(samples.chunks(500)).enumerate() {
        let samples: Vec<Value> = samples
            .iter()
            .enumerate()
            .map(|(at, sample)| {
                let mut sample = sample.clone();
                sample["series"] = at.into();
                sample
            })
            .collect();
        let (status, answer) = server.batch(SOURCE, sequence * 100 + part as u64, json!(defs), json!(samples));
        assert_eq!(status, 200, "{answer}");
    }
}

/// Sends every second as it comes, from five seconds ago on.
fn send_until(is_over: &AtomicBool, server: &Server, series: &BTreeMap<BTreeMap<String, String>, bool>) {
    let mut sent = now_ms() / 1_000 - 5;
    let mut sequence = 0;
    while !is_over.load(Ordering::Relaxed) {
        while sent < now_ms() / 1_000 + 1 {
            sent += 1;
            sequence += 1;
            send(server, sequence, series, sent);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Each value that a stream sent for a second, with the corrections behind it, is byte for byte what a query answers
/// for that second later.
#[test]
fn each_streamed_value_is_what_a_query_answers_later() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path());
    let all = expressions();
    assert!(all.len() > 800, "{} expressions", all.len());
    // Each takes two seconds, and 48 run at once.
    let step: u32 = if std::env::var_os("OGIVE_STREAM_ALL").is_some() { 1 } else { 4 };
    let all: Vec<String> = all.into_iter().step_by(step as usize).collect();
    let series: BTreeMap<BTreeMap<String, String>, bool> = all.iter().fold(BTreeMap::new(), |mut series, text| {
        selected(&ogive_query::parse(text).unwrap(), false, &mut series);
        series
    });
    let is_over = AtomicBool::new(false);
    let (mut compared, mut empty, mut refused, mut corrected) = (0, 0, 0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| send_until(&is_over, &server, &series));
        // Also when an assertion fails.
        let _over = StopAtEnd(&is_over);
        for some in all.chunks(AT_ONCE) {
            let mut streams: Vec<_> = some.iter().map(|text| (text, Stream::open(&server, text, "", None))).collect();
            for (text, stream) in &mut streams {
                let (mut values, mut has_failed) = (BTreeMap::<i64, String>::new(), false);
                while values.len() < 2 {
                    let Some((name, second, data)) = stream.event() else { break };
                    if name == "error" {
                        has_failed = true;
                        break;
                    }
                    corrected += u32::from(name == "correction");
                    values.insert(second, data);
                }
                assert!(has_failed || values.len() == 2, "{text}: the stream ended without an error");
                let from = Instant::now();
                values.retain(|_, _| !has_failed);
                for second in values.keys().copied().collect::<Vec<_>>() {
                    loop {
                        let (status, later) = query(&server, text, second);
                        if values[&second] == later {
                            assert_eq!(status, 200, "{text}");
                            empty += u32::from(later.contains("\"result\":[]"));
                            compared += 1;
                            break;
                        }
                        assert!(from.elapsed() < PATIENCE, "{text} at {second}:\n{}\n{later}", values[&second]);
                        // What came late is corrected.
                        let (name, second, data) = stream.event().expect("the stream goes on");
                        corrected += u32::from(name == "correction");
                        values.insert(second, data);
                    }
                }
                // What cannot be evaluated, or not with the series that came meanwhile, ends the stream.
                if has_failed {
                    let (status, later) = query(&server, text, now_ms() / 1_000 - 1);
                    assert!((400..500).contains(&status), "{text}: {status} {later}");
                    refused += 1;
                }
            }
        }
    });
    println!(
        "{} expressions over {} series: {compared} values equal, {empty} of them empty, {corrected} corrections, {refused} refused by both",
        all.len(),
        series.len()
    );
    assert!(compared * step > 1_500 && empty < compared / 2, "{compared} values, {empty} empty");
}

fn put(server: &Server, sequence: u64, second: i64, value: f64) {
    let series =
        json!([{"labels": {"__name__": "orders"}, "kind": "float", "temporality": "gauge", "unit": "", "width_ms": 0}]);
    let answer =
        server.batch(SOURCE, sequence, series, json!([{"series": 0, "time_ms": second * 1_000, "float": value}])).1;
    assert_eq!(answer["rejected"], json!([]), "{answer}");
}

/// A sender was slow: the seconds that its sample belongs to were sent without it, and come again with it; also to a
/// reader who was cut off.
#[test]
fn late_samples_correct_what_was_sent() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path());
    let mut stream = Stream::open(&server, "sum_over_time(orders[10s])", "&lateness=100ms", None);
    let (first, data) = stream.value();
    assert!(data.contains("\"result\":[]"), "{data}");
    let (last, _) = stream.value();
    put(&server, 1, first, 7.0);
    let mut corrected = BTreeMap::new();
    while corrected.len() < 2 {
        let (name, second, data) = stream.event().expect("the stream goes on");
        if name == "correction" {
            assert!(data.contains("\"7\""), "{second}: {data}");
            corrected.insert(second, data);
        }
    }
    assert!(corrected.contains_key(&first) && corrected.contains_key(&last), "{corrected:?}");
    for (second, data) in &corrected {
        assert_eq!(query(&server, "sum_over_time(orders[10s])", *second), (200, data.clone()));
    }
    drop(stream);
    put(&server, 2, last, 5.0);
    let mut stream = Stream::open(&server, "sum_over_time(orders[10s])", "&lateness=100ms", Some(last));
    loop {
        let (name, second, data) = stream.event().expect("the stream goes on");
        if second == last {
            assert_eq!((&*name, query(&server, "sum_over_time(orders[10s])", last)), ("correction", (200, data)));
            break;
        }
    }
}

/// Values of a histogram come as histograms, within a step, and `ogive stream` prints them as lines.
#[test]
fn a_program_reads_values_as_lines() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path());
    let url = format!("http://{}", server.address);
    let run = |arguments: &[&str]| {
        let output =
            Command::new(env!("CARGO_BIN_EXE_ogive")).arg("stream").args(arguments).args(["--server", &url]).output();
        let output = output.unwrap();
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr),
        )
    };
    let (code, said) = run(&["vector(3) + 4", "--values", "3"]);
    assert_eq!(code, Some(0), "{said}");
    let lines: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let times: Vec<i64> = lines.iter().map(|line| line["t"].as_i64().unwrap()).collect();
    assert!(times.windows(2).all(|pair| pair[1] == pair[0] + 1), "{times:?}");
    for line in &lines {
        assert_eq!((&line["event"], &line["result"][0]["value"][1]), (&json!("value"), &json!("7")), "{line}");
    }
    let own = "sum by (stage) (ogive_stage_seconds)";
    let (code, said) = run(&[own, "--values", "1", "--step", "2s"]);
    assert_eq!(code, Some(0), "{said}");
    for (arguments, part) in [
        (vec!["sum("], "query"),
        (vec!["up", "--step", "1500ms"], "whole seconds"),
        (vec!["up", "--step", "0"], "from 1 s to 3600 s"),
        (vec!["up", "--lateness", "2m"], "from 0 s to 60 s"),
    ] {
        let (code, said) = run(&arguments);
        assert!(code != Some(0) && said.contains(part), "{arguments:?}: {said}");
    }
}
