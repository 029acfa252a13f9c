//! Everything that Grafana's data source for Prometheus asks, asked of Ogive and of a real Prometheus (Debian's 2.42)
//! that took the same remote write requests: status, content type and shape of the answers are the same, and the values
//! where the data is.
//!
//! `OGIVE_PROMETHEUS` names another binary.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use crate::common::programs::{Program, free_address};
use crate::common::{PATIENCE, Server, eventually, now_ms};
use serde_json::Value;

/// Ten minutes of 15 s.
const STEPS: i64 = 40;
const STEP_MS: i64 = 15_000;

/// Objects whose keys are data, not shape.
const MAPS: [&str; 3] = ["metric", "labels", "seriesLabels"];

/// Keys that later versions of Prometheus have, and 2.42 has not, and those in which Ogive speaks of itself.
const LATER: [&str; 8] = [
    "$.data.ogiveVersion",
    "$.data.destinations",
    "$.data.application",
    "$.data.features",
    "$.data.GOMEMLIMIT",
    "$.data.serverTime",
    "$.data.state",
    "$.data.droppedTargetCounts",
];

/// A protocol buffers message in the making.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(mut self, field: u64, value: i64) -> Self {
        self.varint(field << 3);
        self.varint(value.cast_unsigned());
        self
    }

    fn signed(self, field: u64, value: i64) -> Self {
        self.number(field, (value << 1) ^ (value >> 63))
    }

    fn double(mut self, field: u64, value: f64) -> Self {
        self.varint(field << 3 | 1);
        self.0.extend(value.to_le_bytes());
        self
    }

    fn bytes(mut self, field: u64, value: &[u8]) -> Self {
        self.varint(field << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend(value);
        self
    }

    fn labels(self, field: u64, labels: &[(&str, &str)]) -> Self {
        labels.iter().fold(self, |message, (name, value)| {
            let label = Self::default().bytes(1, name.as_bytes()).bytes(2, value.as_bytes());
            message.bytes(field, &label.0)
        })
    }
}

/// A time series of samples, each with an exemplar where `exemplars` says so.
fn floats(labels: &[(&str, &str)], begin_ms: i64, value: impl Fn(i64) -> f64, exemplars: bool) -> Message {
    let mut out = Message::default().labels(1, labels);
    for step in 0..STEPS {
        let time = begin_ms + step * STEP_MS;
        out = out.bytes(2, &Message::default().double(1, value(step)).number(2, time).0);
        if exemplars && step % 10 == 3 {
            let exemplar = Message::default().labels(1, &[("trace_id", &format!("t{step}"))]);
            out = out.bytes(3, &exemplar.double(2, step as f64).number(3, time - 7).0);
        }
    }
    out
}

/// A cumulative native histogram that grows by the same counts at each step.
fn native(labels: &[(&str, &str)], begin_ms: i64) -> Message {
    let mut out = Message::default().labels(1, labels);
    for step in 1..=STEPS {
        let counts = [step * 2, step * 5, step];
        let span = Message::default().signed(1, -2).number(2, 3);
        let mut deltas = Message::default();
        for (at, count) in counts.into_iter().enumerate() {
            let delta = count - if at > 0 { counts[at - 1] } else { 0 };
            deltas.varint(((delta << 1) ^ (delta >> 63)).cast_unsigned());
        }
        let histogram = Message::default()
            .number(1, counts.iter().sum())
            .double(3, step as f64 * 1.5)
            .signed(4, 1)
            .double(5, 0.001)
            .number(6, 0)
            .bytes(11, &span.0)
            .bytes(12, &deltas.0)
            .number(15, begin_ms + (step - 1) * STEP_MS);
        out = out.bytes(4, &histogram.0);
    }
    out
}

/// One remote write request with everything.
fn data(begin_ms: i64) -> Vec<u8> {
    let mut all = Message::default();
    let mut add = |series: Message| all = std::mem::take(&mut all).bytes(1, &series.0);
    for (number, instance) in ["a:1", "b:2"].into_iter().enumerate() {
        for (at, route) in ["/a", "/b", "/c"].into_iter().enumerate() {
            let labels = [("__name__", "app_requests_total"), ("instance", instance), ("job", "app"), ("route", route)];
            let rate = (number * 10 + at + 1) as f64;
            add(floats(&labels, begin_ms, |step| step as f64 * rate, at == 0));
        }
        for (at, bound) in ["0.1", "0.5", "1", "+Inf"].into_iter().enumerate() {
            let labels = [("__name__", "app_seconds_bucket"), ("instance", instance), ("job", "app"), ("le", bound)];
            add(floats(&labels, begin_ms, |step| (step * (at as i64 + 1)) as f64, false));
        }
    }
    let labels = [("__name__", "app_temperature"), ("instance", "a:1"), ("job", "app")];
    add(floats(&labels, begin_ms, |step| 20.0 + (step as f64 / 5.0).sin(), false));
    add(native(&[("__name__", "app_native_seconds"), ("instance", "a:1"), ("job", "app")], begin_ms));
    snap::raw::Encoder::new().compress_vec(&all.0).unwrap()
}

/// Status, content type and body.
struct Answer {
    status: u16,
    kind: String,
    body: String,
}

fn ask(address: &str, head: &str, body: &[u8]) -> std::io::Result<Answer> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "{head}\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len())?;
    stream.write_all(body)?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let kinds = text.lines().take_while(|line| !line.is_empty()).filter_map(|line| line.split_once(':'));
    let kind = kinds.into_iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    let kind = kind.map(|(_, value)| value.trim().to_ascii_lowercase()).unwrap_or_default();
    let (status, body) = crate::common::answer_of(&bytes)?;
    Ok(Answer { status, kind, body })
}

/// A Prometheus that takes remote writes; killed when dropped.
struct Prometheus {
    _program: Program,
    address: String,
}

impl Prometheus {
    fn start(directory: &Path) -> Self {
        let config = directory.join("prometheus.yml");
        std::fs::write(&config, "global: {scrape_interval: 1h}\nstorage: {exemplars: {max_exemplars: 1000}}\n")
            .unwrap();
        let address = free_address();
        let program = std::env::var("OGIVE_PROMETHEUS").unwrap_or_else(|_| "prometheus".into());
        let mut command = Command::new(program);
        command
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", directory.join("tsdb").display()))
            .arg(format!("--web.listen-address={address}"))
            .args(["--web.enable-remote-write-receiver", "--enable-feature=native-histograms,exemplar-storage"]);
        let started = Self { _program: Program::start(command), address };
        let ready = || ask(&started.address, "GET /-/ready HTTP/1.1", b"").ok().filter(|answer| answer.status == 200);
        eventually("Prometheus is ready", ready);
        started
    }
}

/// One line of the list.
struct Request {
    method: String,
    path: String,
    parameters: String,
    /// Values are compared too.
    is_equal: bool,
}

fn requests(now_s: i64, begin_ms: i64) -> Vec<Request> {
    let end = begin_ms / 1000 + STEPS * STEP_MS / 1000 + 7;
    let mut out = Vec::new();
    let lines = include_str!("grafana/requests.txt").lines().map(str::trim);
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let line = line
            .replace("START", &(begin_ms / 1000 + 67).to_string())
            .replace("END", &end.to_string())
            .replace("NOW", &now_s.to_string())
            .replace("[]", "%5B%5D");
        let (is_equal, line) = line.strip_prefix("= ").map_or((false, &*line), |line| (true, line));
        let mut words = line.split(' ').map(str::to_owned);
        let (method, path) = (words.next().unwrap(), words.next().unwrap());
        out.push(Request { method, path, parameters: words.next().unwrap_or_default(), is_equal });
    }
    out
}

impl Request {
    fn ask(&self, address: &str) -> Answer {
        let Self { method, path, parameters, .. } = self;
        let answer = if method == "POST" {
            let head = format!("POST {path} HTTP/1.1\r\ncontent-type: application/x-www-form-urlencoded");
            ask(address, &head, parameters.as_bytes())
        } else {
            let mark = if parameters.is_empty() { "" } else { "?" };
            ask(address, &format!("GET {path}{mark}{parameters} HTTP/1.1"), b"")
        };
        answer.unwrap_or_else(|error| panic!("{method} {path} {parameters}: {error}"))
    }

    fn name(&self) -> String {
        format!("{} {} {}", self.method, self.path, self.parameters)
    }
}

/// Each path in a value and the types that stand there.
fn shape(value: &Value, path: &str, is_map: bool, out: &mut BTreeMap<String, &'static str>) {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(items) => {
            items.iter().for_each(|item| shape(item, &format!("{path}[]"), is_map, out));
            "list"
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                let below = if is_map { format!("{path}.*") } else { format!("{path}.{name}") };
                shape(field, &below, MAPS.contains(&&**name), out);
            }
            "object"
        }
    };
    // A pair of a time and a value has two types at one path.
    let path = if out.get(path).is_some_and(|known| *known != kind) { format!("{path}|{kind}") } else { path.into() };
    out.insert(path, kind);
}

fn shape_of(request: &Request, value: &Value) -> BTreeMap<String, &'static str> {
    let mut out = BTreeMap::new();
    let keys_are_data = matches!(&*request.path, "/api/v1/metadata" | "/api/v1/status/flags" | "/api/v1/series");
    match value.get("data").filter(|_| keys_are_data) {
        Some(data) => shape(data, "$.data", true, &mut out),
        None => shape(value, "$", false, &mut out),
    }
    out
}

/// Numbers written as texts or numbers, by their values; lists of series in any order.
fn is_same(ours: &Value, theirs: &Value) -> bool {
    let number = |value: &Value| match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.parse::<f64>().ok(),
        _ => None,
    };
    match (ours, theirs) {
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| is_same(a, b)))
        }
        (a, b) if a == b => true,
        (a, b) => match (number(a), number(b)) {
            (Some(a), Some(b)) => (a - b).abs() <= 1e-9 * (a.abs() + b.abs()),
            _ => false,
        },
    }
}

/// `data` with its series in an order of their own.
fn sorted(mut body: Value) -> Value {
    for list in ["/data/result", "/data"] {
        if let Some(Value::Array(items)) = body.pointer_mut(list)
            && items.iter().all(Value::is_object)
        {
            items.sort_by_key(|item| item.get("metric").or(item.get("seriesLabels")).unwrap_or(item).to_string());
        }
    }
    body["data"].take()
}

/// What differs, if anything does.
fn difference(request: &Request, ours: &Answer, theirs: &Answer) -> Option<String> {
    if ours.status != theirs.status {
        return Some(format!("{} here, {} there: {} / {}", ours.status, theirs.status, ours.body, theirs.body));
    }
    if ours.kind.split(';').next() != theirs.kind.split(';').next() {
        return Some(format!("{:?} here, {:?} there", ours.kind, theirs.kind));
    }
    if !theirs.kind.starts_with("application/json") {
        return None;
    }
    let [mine, other]: [Value; 2] = [&ours.body, &theirs.body].map(|body| serde_json::from_str(body).unwrap());
    if mine["errorType"] != other["errorType"] {
        return Some(format!("{} here, {} there", mine["errorType"], other["errorType"]));
    }
    let (here, there) = (shape_of(request, &mine), shape_of(request, &other));
    // What is empty there has no shape below it, and here it may hold what Ogive says of itself.
    let is_empty = |path: &str| !there.keys().any(|key| key.len() > path.len() && key.starts_with(path));
    let lacking = there.iter().find(|(path, kind)| here.get(*path) != Some(kind));
    if let Some((path, kind)) = lacking {
        return Some(format!("{path} is {:?} here and {kind} there", here.get(path)));
    }
    let more = here.keys().find(|path| {
        let parent = path.rsplit_once(['.', '[']).map_or("", |(parent, _)| parent);
        !there.contains_key(*path) && !LATER.iter().any(|later| path.starts_with(later)) && !is_empty(parent)
    });
    if let Some(path) = more {
        return Some(format!("{path} is only here"));
    }
    let (mine, other) = (sorted(mine), sorted(other));
    (request.is_equal && !is_same(&mine, &other)).then(|| format!("{mine}\n   there {other}"))
}

#[test]
fn grafana_gets_the_answers_of_a_prometheus() {
    let directory = tempfile::tempdir().unwrap();
    let prometheus = Prometheus::start(directory.path());
    let server = Server::start(&directory.path().join("ogive"));
    // Just over, so that a Prometheus takes it; off the steps of queries.
    let begin_ms = (now_ms() - STEPS * STEP_MS - 30_000).div_euclid(60_000) * 60_000 + 1_700;
    let body = data(begin_ms);
    let head = "POST /api/v1/write HTTP/1.1\r\ncontent-type: application/x-protobuf\r\ncontent-encoding: snappy\r\n\
                x-prometheus-remote-write-version: 0.1.0";
    for address in [&server.address, &prometheus.address] {
        let answer = ask(address, head, &body).unwrap();
        assert!(matches!(answer.status, 200 | 204), "{address}: {} {}", answer.status, answer.body);
    }
    let all = requests(now_ms() / 1000, begin_ms);
    assert!(all.len() >= 60, "{} requests", all.len());
    let differences: Vec<String> = all
        .iter()
        .filter_map(|request| {
            let (ours, theirs) = (request.ask(&server.address), request.ask(&prometheus.address));
            difference(request, &ours, &theirs).map(|what| format!("{}\n   {what}", request.name()))
        })
        .collect();
    assert!(differences.is_empty(), "{} of {} differ:\n{}", differences.len(), all.len(), differences.join("\n"));
}
