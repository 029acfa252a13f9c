//! Messages of Prometheus as its clients write them, for tests that send the same to several servers.

use std::collections::BTreeMap;

pub fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub fn number(out: &mut Vec<u8>, field: u32, value: u64) {
    varint(out, u64::from(field) << 3);
    varint(out, value);
}

pub fn bytes(out: &mut Vec<u8>, field: u32, value: &[u8]) {
    varint(out, u64::from(field) << 3 | 2);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

fn double(out: &mut Vec<u8>, field: u32, value: f64) {
    varint(out, u64::from(field) << 3 | 1);
    out.extend_from_slice(&value.to_le_bytes());
}

const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// `prometheus.TimeSeries` with the labels alone.
pub fn series(name: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in [("__name__", name), ("job", "a")] {
        let mut label = Vec::new();
        bytes(&mut label, 1, name.as_bytes());
        bytes(&mut label, 2, value.as_bytes());
        bytes(&mut out, 1, &label);
    }
    out
}

/// Adds a number to a series.
pub fn put_float(series: &mut Vec<u8>, time_ms: i64, value: f64) {
    let mut sample = Vec::new();
    double(&mut sample, 1, value);
    number(&mut sample, 2, time_ms as u64);
    bytes(series, 2, &sample);
}

/// Adds a native histogram of schema 3 to a series: its bins of both signs, and of zero; in floats, each a quarter.
pub fn put_histogram(series: &mut Vec<u8>, time_ms: i64, sides: [&BTreeMap<i32, u64>; 2], zero: u64, is_float: bool) {
    let mut out = Vec::new();
    let count = zero + sides.iter().flat_map(|side| side.values()).sum::<u64>();
    let put = |out: &mut Vec<u8>, fields: [u32; 2], count: u64| {
        if is_float { double(out, fields[1], count as f64 / 4.0) } else { number(out, fields[0], count) }
    };
    put(&mut out, [1, 2], count);
    double(&mut out, 3, count as f64 * 1.5);
    number(&mut out, 4, zigzag(3));
    double(&mut out, 5, 2.0_f64.powi(-128));
    put(&mut out, [6, 7], zero);
    for (side, spans, deltas, counts) in [(sides[1], 8, 9, 10), (sides[0], 11, 12, 13)] {
        let mut runs: Vec<(i64, u64)> = Vec::new();
        let mut end = 0;
        for index in side.keys().copied().map(i64::from) {
            match runs.last_mut() {
                Some((_, length)) if index == end => *length += 1,
                _ => runs.push((index - end, 1)),
            }
            end = index + 1;
        }
        for (offset, length) in runs {
            let mut span = Vec::new();
            number(&mut span, 1, zigzag(offset));
            number(&mut span, 2, length);
            bytes(&mut out, spans, &span);
        }
        let (mut packed, mut before) = (Vec::new(), 0);
        for count in side.values().map(|count| *count as i64) {
            if is_float {
                packed.extend_from_slice(&(count as f64 / 4.0).to_le_bytes());
            } else {
                varint(&mut packed, zigzag(count - before));
            }
            before = count;
        }
        if !side.is_empty() {
            bytes(&mut out, if is_float { counts } else { deltas }, &packed);
        }
    }
    number(&mut out, 15, time_ms as u64);
    bytes(series, 4, &out);
}

/// A write request of these series.
pub fn write_request(all: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::new();
    all.iter().for_each(|series| bytes(&mut out, 1, series));
    out
}

/// A read request for the series of that name (a regular expression), which would have chunks.
pub fn read_request(name: &str, from_ms: i64, to_ms: i64) -> Vec<u8> {
    let (mut matcher, mut query, mut out) = (Vec::new(), Vec::new(), Vec::new());
    number(&mut matcher, 1, 2);
    bytes(&mut matcher, 2, b"__name__");
    bytes(&mut matcher, 3, name.as_bytes());
    number(&mut query, 1, from_ms as u64);
    number(&mut query, 2, to_ms as u64);
    bytes(&mut query, 3, &matcher);
    bytes(&mut out, 1, &query);
    bytes(&mut out, 2, &[1]);
    out
}

/// Posts `message` as one snappy block; status and body of the answer.
pub fn post(url: &str, message: &[u8]) -> (u16, Vec<u8>) {
    let packed = snap::raw::Encoder::new().compress_vec(message).unwrap();
    let config = ureq::Agent::config_builder().http_status_as_error(false).proxy(None).build();
    let request = ureq::Agent::from(config).post(url).content_type("application/x-protobuf");
    let mut answer = request.header("content-encoding", "snappy").send(&packed[..]).unwrap();
    (answer.status().as_u16(), answer.body_mut().read_to_vec().unwrap())
}

/// A frame's length and checksum are what its bytes say; the frames.
pub fn frames(mut body: &[u8]) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    while !body.is_empty() {
        let (mut length, mut shift) = (0_usize, 0);
        while let Some((byte, rest)) = body.split_first() {
            body = rest;
            length |= usize::from(byte & 0x7f) << shift;
            shift += 7;
            if *byte < 0x80 {
                break;
            }
        }
        let (checksum, rest) = body.split_at(4);
        let (message, rest) = rest.split_at(length);
        assert_eq!(checksum, crc32c::crc32c(message).to_be_bytes());
        out.push(message.to_vec());
        body = rest;
    }
    out
}
