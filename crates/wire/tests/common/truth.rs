//! Captures and what is true of them: reading both, and comparing.

use std::collections::BTreeMap;
use std::path::{Path as FilePath, PathBuf};

use ogive_wire::frame::Link;
use ogive_wire::{
    Exchange, Finding, Observer, Options, Output, Path, Reason, Summary, TcpEvent, TlsEvent, TlsHandshake, Unanswered,
    file,
};
use serde_json::Value;

/// What is compared of an answered exchange.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Row {
    pub(crate) conn: String,
    pub(crate) proto: String,
    pub(crate) op: String,
    pub(crate) status: String,
    pub(crate) request: (u64, i64, i64),
    pub(crate) response: (u64, i64, i64),
}

/// What is compared of an unanswered one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OpenRow {
    pub(crate) conn: String,
    pub(crate) op: String,
    pub(crate) request: (u64, i64, i64),
    pub(crate) why: String,
}

/// A frame of a capture.
#[derive(Debug, Clone)]
pub(crate) struct OwnedFrame {
    pub(crate) at: i64,
    pub(crate) link: Link,
    pub(crate) bytes: Vec<u8>,
    pub(crate) length: usize,
}

/// What is true of a capture.
#[derive(Debug, Default)]
pub(crate) struct Truth {
    /// Answered exchanges, and whether each was captured whole.
    pub(crate) answered: Vec<(Row, bool)>,
    pub(crate) unanswered: Vec<OpenRow>,
    /// Exchanges were lost to gaps, so that not all can be found.
    pub(crate) has_gaps: bool,
    pub(crate) t0: i64,
    /// The ports of the servers that the truth speaks of; other traffic may be in the capture.
    ports: Vec<String>,
    /// Connections in which bytes were sent more than once.
    copies: Vec<String>,
}

impl Truth {
    /// Whether bytes were sent more than once.
    pub(crate) fn has_copies(&self, conn: &str) -> bool {
        self.copies.iter().any(|other| other == conn)
    }

    /// Whether the truth speaks of this connection's server.
    pub(crate) fn is_of(&self, conn: &str) -> bool {
        self.ports.iter().any(|port| conn.ends_with(port))
    }
}

/// What an observer reported.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) t0: i64,
    pub(crate) answered: Vec<Row>,
    pub(crate) unanswered: Vec<OpenRow>,
    pub(crate) discarded: usize,
    pub(crate) findings: Vec<Finding>,
    pub(crate) summaries: Vec<Summary>,
    pub(crate) exchanges: Vec<Exchange>,
    pub(crate) handshakes: Vec<(Path, TlsHandshake)>,
    /// Service time of a turn, and the name that the handshake asked for.
    pub(crate) turns: Vec<(i64, String)>,
    /// Bytes of TLS connections, of clients and of servers.
    pub(crate) tls_bytes: [u64; 2],
    pub(crate) tcp: Vec<(Path, Option<&'static str>, TcpEvent)>,
}

impl Output for Report {
    fn answered(&mut self, path: &Path, exchange: &Exchange) {
        let span = |span: ogive_wire::Span| {
            (span.bytes, span.first.expect("timed") - self.t0, span.last.expect("timed") - self.t0)
        };
        self.exchanges.push(exchange.clone());
        self.answered.push(Row {
            conn: path.to_string(),
            proto: exchange.protocol.to_owned(),
            op: exchange.op.clone(),
            status: exchange.status.clone(),
            request: span(exchange.request),
            response: span(exchange.response),
        });
    }

    fn unanswered(&mut self, path: &Path, exchange: &Exchange, why: Unanswered) {
        let time = |at: Option<i64>| at.map_or(i64::MIN, |at| at - self.t0);
        self.unanswered.push(OpenRow {
            conn: path.to_string(),
            op: exchange.op.clone(),
            request: (exchange.request.bytes, time(exchange.request.first), time(exchange.request.last)),
            why: why.name().to_owned(),
        });
    }

    fn discarded(&mut self, _path: &Path, _exchange: &Exchange, _reason: Reason) {
        self.discarded += 1;
    }

    fn connected(&mut self, _path: &Path, _took: i64, _at: i64) {}

    fn finding(&mut self, finding: &Finding) {
        self.findings.push(*finding);
    }

    fn tls(&mut self, path: &Path, event: &TlsEvent<'_>) {
        match event {
            TlsEvent::Handshake(handshake) => self.handshakes.push((*path, (*handshake).clone())),
            TlsEvent::Turn { nanos, handshake, .. } => {
                self.turns.push((*nanos, handshake.map_or(String::new(), |handshake| handshake.server_name.clone())));
            }
            TlsEvent::Bytes(bytes) => (0..2).for_each(|side| self.tls_bytes[side] += bytes[side]),
        }
    }

    fn tcp(&mut self, path: &Path, protocol: Option<&'static str>, event: TcpEvent) {
        self.tcp.push((*path, protocol, event));
    }

    fn closed(&mut self, summary: &Summary) {
        assert!(summary.is_conserved(), "{summary:?}");
        self.summaries.push(summary.clone());
    }
}

/// A capture of the project's own, in `tests/data`.
pub(crate) fn own(name: &str) -> Vec<OwnedFrame> {
    frames(&FilePath::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data")).join(name))
}

/// Where the captures are: `OGIVE_CAPTURES_DIR`, or the few that the project keeps.
pub(crate) fn directory() -> PathBuf {
    std::env::var_os("OGIVE_CAPTURES_DIR")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/captures")), PathBuf::from)
}

/// The captures in the directory that have a truth beside them, with their names.
pub(crate) fn captures() -> Vec<(String, PathBuf, PathBuf)> {
    let directory = directory();
    let entries = std::fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.expect("the directory can be read").path();
        let file = path.file_name().expect("an entry has a name").to_string_lossy().into_owned();
        let Some(name) = file.strip_suffix(".pcap").or_else(|| file.strip_suffix(".pcap.gz")) else { continue };
        let truth = path.with_file_name(format!("{name}.truth.json"));
        assert!(truth.exists(), "{} has no truth", path.display());
        found.push((name.to_owned(), path.clone(), truth));
    }
    found.sort();
    assert!(!found.is_empty(), "{} holds no capture", directory.display());
    found
}

/// The frames of a capture.
pub(crate) fn frames(path: &FilePath) -> Vec<OwnedFrame> {
    let mut reader = file::open(std::fs::File::open(path).expect("the capture opens")).expect("it is a capture");
    let mut frames = Vec::new();
    while let Some(frame) = reader.next_frame().expect("the capture is whole") {
        frames.push(OwnedFrame { at: frame.at, link: frame.link, bytes: frame.bytes.to_vec(), length: frame.length });
    }
    frames
}

/// What an observer says of frames; times count from `t0`.
pub(crate) fn observe<'a>(frames: impl IntoIterator<Item = &'a OwnedFrame>, t0: i64) -> Report {
    observe_with(Options::default(), frames, t0)
}

/// The same, with options.
pub(crate) fn observe_with<'a>(options: Options, frames: impl IntoIterator<Item = &'a OwnedFrame>, t0: i64) -> Report {
    let mut observer = Observer::new(options);
    let mut report = Report { t0, ..Report::default() };
    for frame in frames {
        let frame = file::Frame { at: frame.at, link: frame.link, bytes: &frame.bytes, length: frame.length };
        observer.frame(&frame, &mut report);
    }
    observer.finish(&mut report);
    report
}

/// Reads a truth file.
pub(crate) fn truth(path: &FilePath) -> Truth {
    let bytes = std::fs::read(path).expect("the truth can be read");
    let value: Value = serde_json::from_slice(&bytes).expect("the truth is JSON");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let request = |row: &Value| {
        (
            row["req_bytes"].as_u64().expect("bytes"),
            row["t_req_first"].as_i64().expect("ns"),
            row["t_req_last"].as_i64().expect("ns"),
        )
    };
    let mut truth = Truth { t0: text(&value["t0_ns"]).parse().expect("ns"), ..Truth::default() };
    truth.ports = match &value["server_port"] {
        Value::Array(ports) => ports.iter().map(|port| format!("|{port}")).collect(),
        port => vec![format!("|{port}")],
    };
    let is_copied =
        |row: &&Value| row["client_dup_bytes"].as_u64() > Some(0) || row["server_dup_bytes"].as_u64() > Some(0);
    let connections = value["connections"].as_array().map(Vec::as_slice).unwrap_or_default();
    truth.copies = connections.iter().filter(is_copied).map(|row| text(&row["conn"])).collect();
    for row in value["exchanges"].as_array().expect("exchanges") {
        let captured = row.get("captured").map_or("full".to_owned(), &text);
        truth.has_gaps |= row.get("captured").is_some();
        let response = (
            row["rsp_bytes"].as_u64().expect("bytes"),
            row["t_rsp_first"].as_i64().expect("ns"),
            row["t_rsp_last"].as_i64().expect("ns"),
        );
        let row = Row {
            conn: text(&row["conn"]),
            proto: text(&row["proto"]),
            op: text(&row["op"]),
            status: text(&row["status"]),
            request: request(row),
            response,
        };
        truth.answered.push((row, captured == "full"));
    }
    for row in value["unanswered"].as_array().expect("unanswered") {
        let row =
            OpenRow { conn: text(&row["conn"]), op: text(&row["op"]), request: request(row), why: text(&row["why"]) };
        truth.unanswered.push(row);
    }
    truth
}

/// How a report compares with the truth.
#[derive(Debug, Default, Clone)]
pub(crate) struct Comparison {
    /// Reported as it was.
    pub(crate) equal: usize,
    /// Reported, with other times, bytes, operation or status.
    pub(crate) differ: Vec<String>,
    /// Captured whole and not reported.
    pub(crate) missing: Vec<String>,
    /// Reported, and nothing like it happened.
    pub(crate) invented: Vec<String>,
}

impl Comparison {
    /// `N equal, M differ, K missing, J false`.
    pub(crate) fn line(&self) -> String {
        let (differ, missing, invented) = (self.differ.len(), self.missing.len(), self.invented.len());
        format!("{} equal, {differ} differ, {missing} missing, {invented} false", self.equal)
    }
}

/// Compares a report with the truth, as multisets.
pub(crate) fn compare(report: &Report, truth: &Truth) -> Comparison {
    let mut comparison = Comparison::default();
    let mut left: BTreeMap<&Row, Vec<bool>> = BTreeMap::new();
    for (row, is_full) in &truth.answered {
        left.entry(row).or_default().push(*is_full);
    }
    let mut unmatched = Vec::new();
    for row in report.answered.iter().filter(|row| truth.is_of(&row.conn)) {
        match left.get_mut(row) {
            Some(copies) if !copies.is_empty() => {
                copies.sort_unstable();
                copies.pop();
                comparison.equal += 1;
            }
            _ => unmatched.push(row),
        }
    }
    let mut rest: Vec<(&Row, bool)> =
        left.iter().flat_map(|(row, copies)| copies.iter().map(|is_full| (*row, *is_full))).collect();
    for row in unmatched {
        let same = |(other, _): &(&Row, bool)| {
            other.conn == row.conn && other.request.1 == row.request.1 && other.response.2 == row.response.2
        };
        if let Some(at) = rest.iter().position(same) {
            let (expected, _) = rest.remove(at);
            comparison.differ.push(format!("{row:?}\n  is {expected:?}"));
        } else {
            comparison.invented.push(format!("{row:?}"));
        }
    }
    comparison.missing.extend(rest.iter().filter(|(_, is_full)| *is_full).map(|(row, _)| format!("{row:?}")));
    let mut open: BTreeMap<&OpenRow, usize> = BTreeMap::new();
    for row in &truth.unanswered {
        *open.entry(row).or_default() += 1;
    }
    for row in report.unanswered.iter().filter(|row| truth.is_of(&row.conn)) {
        match open.get_mut(row) {
            Some(count) if *count > 0 => {
                *count -= 1;
                comparison.equal += 1;
            }
            _ => comparison.invented.push(format!("{row:?}")),
        }
    }
    for (row, count) in open {
        comparison.missing.extend(std::iter::repeat_n(format!("{row:?}"), count));
    }
    comparison
}
