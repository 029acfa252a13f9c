//! The protocols over HTTP, each with bodies whose samples are all different.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use ogive_model::{Batch, Kind, Sample, SeriesDef, SeriesMeta, SourceId, Temporality, Value};
use serde_json::json;

use crate::protobuf;

/// Series of a connection.
pub(crate) const SERIES: usize = 50;
/// Samples of a series in a body.
const TIMES: usize = 10;
/// Samples of a body.
pub(crate) const SAMPLES: usize = SERIES * TIMES;

pub(crate) struct Way {
    /// The metric's name.
    pub(crate) name: &'static str,
    /// Path and headers.
    pub(crate) head: &'static str,
    /// The body with this number of a connection, from a time on.
    pub(crate) body: fn(usize, u64, i64) -> Vec<u8>,
}

pub(crate) const WAYS: [Way; 5] = [
    Way { name: "flood_frame", head: "/v1/batch\r\ncontent-type: application/x-ogive-batch-flatbuffer", body: frame },
    Way { name: "flood_json", head: "/v1/batch\r\ncontent-type: application/json", body: batch_json },
    Way {
        name: "flood_rw",
        head: "/api/v1/write\r\ncontent-type: application/x-protobuf\r\ncontent-encoding: snappy",
        body: remote_write,
    },
    Way { name: "flood_otlp", head: "/v1/metrics\r\ncontent-type: application/json", body: otlp },
    Way { name: "flood_influx", head: "/api/v2/write?bucket=b&precision=ms\r\nx-flood: 1", body: influx },
];

/// Times of the body with number `number`, milliseconds.
fn times(number: u64, base_ms: i64) -> impl Iterator<Item = i64> {
    (0..TIMES as i64).map(move |at| base_ms + number as i64 * TIMES as i64 + at)
}

fn frame(lane: usize, number: u64, base_ms: i64) -> Vec<u8> {
    let meta = SeriesMeta { kind: Kind::Float, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };
    let def = |i: usize| {
        let (i, lane) = (i.to_string(), lane.to_string());
        SeriesDef::new([("__name__", "flood_frame"), ("i", i.as_str()), ("lane", lane.as_str())], meta.clone())
    };
    let sample = |series: usize, ms: i64| {
        Ok(Sample { series: series as u32, time_ns: ms * 1_000_000, start_ns: None, value: Value::Float(1.0) })
    };
    let batch = Batch {
        source: SourceId(1_000 + lane as u128),
        sequence: number + 1,
        series: (0..SERIES).map(def).collect(),
        samples: (0..SERIES).flat_map(|i| times(number, base_ms).map(move |ms| sample(i, ms))).collect(),
        ..Batch::default()
    };
    batch.encode().unwrap()
}

fn batch_json(lane: usize, number: u64, base_ms: i64) -> Vec<u8> {
    let series = |i: usize| {
        let labels = json!({"__name__": "flood_json", "i": i.to_string(), "lane": lane.to_string()});
        json!({"labels": labels, "kind": "float"})
    };
    let sample = |i: usize, ms: i64| json!({"series": i, "time_ms": ms, "float": 1});
    let samples: Vec<_> = (0..SERIES).flat_map(|i| times(number, base_ms).map(move |ms| sample(i, ms))).collect();
    let source = format!("123e4567-e89b-12d3-a456-4266141{lane:05}");
    let series: Vec<_> = (0..SERIES).map(series).collect();
    json!({"source": source, "sequence": number + 1, "series": series, "samples": samples}).to_string().into_bytes()
}

fn remote_write(lane: usize, number: u64, base_ms: i64) -> Vec<u8> {
    let label =
        |name: &str, value: &str| protobuf::field(1, [protobuf::field(1, name), protobuf::field(2, value)].concat());
    let series = |i: usize| {
        let labels =
            [label("__name__", "flood_rw"), label("i", &i.to_string()), label("lane", &lane.to_string())].concat();
        let sample = |ms: i64| {
            protobuf::field(2, [protobuf::fixed(1, 1f64.to_le_bytes()), protobuf::number(2, ms as u64)].concat())
        };
        protobuf::field(1, [labels, times(number, base_ms).flat_map(sample).collect()].concat())
    };
    let request: Vec<u8> = (0..SERIES).flat_map(series).collect();
    snap::raw::Encoder::new().compress_vec(&request).unwrap()
}

fn otlp(lane: usize, number: u64, base_ms: i64) -> Vec<u8> {
    let text = |key: &str, value: String| json!({"key": key, "value": {"stringValue": value}});
    let point = |i: usize, ms: i64| {
        let attributes = [text("i", i.to_string()), text("lane", lane.to_string())];
        json!({"attributes": attributes, "timeUnixNano": format!("{ms}000000"), "asDouble": 1.0})
    };
    let points: Vec<_> = (0..SERIES).flat_map(|i| times(number, base_ms).map(move |ms| point(i, ms))).collect();
    let metrics = json!([{"name": "flood_otlp", "gauge": {"dataPoints": points}}]);
    json!({"resourceMetrics": [{"scopeMetrics": [{"metrics": metrics}]}]}).to_string().into_bytes()
}

fn influx(lane: usize, number: u64, base_ms: i64) -> Vec<u8> {
    let mut out = String::new();
    for i in 0..SERIES {
        for ms in times(number, base_ms) {
            writeln!(out, "flood_influx,i={i},lane={lane} value=1 {ms}").unwrap();
        }
    }
    out.into_bytes()
}

/// One connection that stays.
pub(crate) struct Http {
    stream: BufReader<TcpStream>,
}

impl Http {
    pub(crate) fn connect(address: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(crate::common::PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream: BufReader::new(stream) }
    }

    /// Status and body of the answer.
    pub(crate) fn post(&mut self, head: &str, body: &[u8]) -> (u16, String) {
        let (path, headers) = head.split_once("\r\n").unwrap();
        let length = body.len();
        let head = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\n{headers}\r\ncontent-length: {length}\r\n\r\n");
        self.stream.get_mut().write_all(&[head.as_bytes(), body].concat()).unwrap();
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        let status = line.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_else(|| panic!("{line:?}"));
        let mut length = 0;
        loop {
            line.clear();
            self.stream.read_line(&mut line).unwrap();
            if line.trim().is_empty() {
                break;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).unwrap();
        (status, String::from_utf8(body).unwrap())
    }
}
