//! What the SDKs have to read of HdrHistogram: `vectors/hdrhistogram/read.json`, held to this crate's own reader.
//!
//! `OGIVE_WRITE_VECTORS=1` writes the file anew: from the logs beside it, and from histograms made here.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ogive_hist::hdr::{decode, encode, encode_compressed};
use ogive_hist::{Histogram, Scheme, openhistogram};
use serde_json::{Value, json};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/hdrhistogram/read.json");

fn beside(name: &str) -> String {
    std::fs::read_to_string(format!("{}/../../vectors/hdrhistogram/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// The OpenHistogram form of an HDR form.
fn converted(bytes: &[u8], unit: f64) -> Vec<u8> {
    let histogram = decode(bytes, unit).unwrap_or_else(|error| panic!("{error}"));
    openhistogram::encode(&histogram.convert(&Scheme::LogLinear10).0).unwrap()
}

fn record(name: &str, bytes: &[u8], unit: f64) -> Value {
    let expected = STANDARD.encode(converted(bytes, unit));
    json!({"name": name, "unit": unit, "hdr": STANDARD.encode(bytes), "openhistogram": expected})
}

/// A histogram of every kind of count and bin that the parameters allow.
fn made(digits: usize, shift: u8) -> Histogram {
    let grouping = [0, 4, 7, 10, 14, 17][digits];
    let mut histogram = Histogram::new(Scheme::log_linear2(grouping, shift, 1.0).unwrap());
    let counts = [1, 127, 128, (1 << 32) + 1, (1 << 53) + 1, 1 << 62];
    for (at, count) in counts.into_iter().enumerate() {
        histogram.record_n(0.0, (at % 2) as u64);
        histogram.record_n((at * at * 37) as f64, count);
        histogram.record_n(10_f64.powi(3 * at as i32) * 1.2345, 1);
    }
    histogram.record_n((1_u64 << 62) as f64, 3);
    histogram
}

fn records() -> Vec<Value> {
    let mut out = Vec::new();
    for file in ["jhiccup.hlog", "tagged.hlog"] {
        for (at, line) in beside(file).lines().enumerate() {
            let Some((_, text)) = line.rsplit_once(',').filter(|_| line.contains(",HIST")) else { continue };
            out.push(record(&format!("{file}, line {}", at + 1), &STANDARD.decode(text.trim()).unwrap(), 1e-9));
        }
    }
    for line in beside("libraries.tsv").lines() {
        let (library, text) = line.split_once('\t').expect("a library and what it wrote");
        out.push(record(library, &STANDARD.decode(text).unwrap(), 1e-9));
    }
    for unit in [1e-9, 1e-6, 1e-3, 1.0, 0.3, 5.12e-7, 1e100, 1e-100] {
        out.push(record(&format!("three digits, unit {unit:e}"), &encode(&made(3, 0)).unwrap(), unit));
    }
    for digits in 0..=5 {
        for shift in [0, 10, 40] {
            let name = format!("{digits} digits, shift {shift}");
            out.push(record(&name, &encode_compressed(&made(digits, shift)).unwrap(), 1e-9));
        }
    }
    let empty = Histogram::new(Scheme::log_linear2(10, 0, 1.0).unwrap());
    out.push(record("empty, plain", &encode(&empty).unwrap(), 1.0));
    out.push(record("empty, compressed", &encode_compressed(&empty).unwrap(), 1.0));
    let mut trailing = encode(&made(2, 0)).unwrap();
    trailing.extend_from_slice(b"what follows is somebody else's");
    out.push(record("bytes behind the counts", &trailing, 1e-9));
    let mut ratio = encode(&made(2, 0)).unwrap();
    ratio[32..40].copy_from_slice(&0.5_f64.to_be_bytes());
    out.push(record("a ratio, which integers do not have", &ratio, 1e-9));
    out
}

/// The compressed form of anything.
fn compressed(plain: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(plain).unwrap();
    let deflated = encoder.finish().unwrap();
    [&0x1c84_9314_u32.to_be_bytes()[..], &(deflated.len() as u32).to_be_bytes(), &deflated].concat()
}

fn refused() -> Vec<Value> {
    let plain = encode(&made(3, 0)).unwrap();
    let whole = encode_compressed(&made(3, 0)).unwrap();
    let changed = |at: usize, to: &[u8]| {
        let mut bytes = plain.clone();
        bytes[at..at + to.len()].copy_from_slice(to);
        bytes
    };
    let counts = |counts: &[u8]| {
        let mut bytes = changed(4, &(counts.len() as u32).to_be_bytes());
        bytes.truncate(40);
        bytes.extend_from_slice(counts);
        bytes
    };
    // -2^62 as a zig-zag number of nine bytes, and a count of 1 behind it.
    let far = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 2];
    let cases = [
        ("nothing", Vec::new(), 1.0),
        ("three bytes", plain[..3].to_vec(), 1.0),
        ("cut in the header", plain[..39].to_vec(), 1.0),
        ("cut in the counts", plain[..plain.len() - 1].to_vec(), 1.0),
        ("cut in the compressed form", whole[..whole.len() - 1].to_vec(), 1.0),
        ("cut before the compressed form", whole[..8].to_vec(), 1.0),
        ("a count cut by the payload's end", counts(&[0x80]), 1.0),
        ("another cookie", changed(0, b"HIST"), 1.0),
        ("a payload of 2^31 bytes", changed(4, &[0x80, 0, 0, 0]), 1.0),
        ("a payload of 2^31-1 bytes", changed(4, &[0x7f, 0xff, 0xff, 0xff]), 1.0),
        ("six digits", changed(12, &[0, 0, 0, 6]), 1.0),
        ("digits below zero", changed(12, &[0xff; 4]), 1.0),
        ("a least value of 0", changed(16, &[0; 8]), 1.0),
        ("a least value of 2^41", changed(16, &[0, 0, 2, 0, 0, 0, 0, 0]), 1.0),
        ("a least value below zero", changed(16, &[0xff; 8]), 1.0),
        ("a count behind the last bin", counts(&far), 1.0),
        ("a unit of 0", plain.clone(), 0.0),
        ("a unit below zero", plain.clone(), -1.0),
        ("a unit of 1e101", plain.clone(), 1e101),
        ("not zlib", [&whole[..8], &[0; 20][..]].concat(), 1.0),
        ("compressed twice", compressed(&whole), 1.0),
        ("17 MiB in few bytes", compressed(&[&plain[..40], &vec![0; 17 << 20][..]].concat()), 1.0),
    ];
    let value = |(name, bytes, unit): (&str, Vec<u8>, f64)| {
        assert!(decode(&bytes, unit).is_err(), "{name}");
        json!({"name": name, "unit": unit, "hdr": STANDARD.encode(bytes)})
    };
    let mut out: Vec<_> = cases.into_iter().map(value).collect();
    out.last_mut().expect("the bomb is the last one")["says"] = "16 MiB".into();
    out.extend(unread());
    out
}

/// Forms that this crate reads and the SDKs refuse, with what their error has to name.
fn unread() -> Vec<Value> {
    let counts = [1_u64, 2, 3].map(u64::to_be_bytes).concat();
    let of_integers = encode(&made(3, 0)).unwrap();
    let (digits, range) = (&of_integers[12..16], &of_integers[16..32]);
    let length = (counts.len() as u32).to_be_bytes();
    let version_1 = [&0x1c84_9381_u32.to_be_bytes()[..], &length, &[0; 4], &of_integers[12..40], &counts].concat();
    let version_0 = [&0x1c84_9388_u32.to_be_bytes()[..], digits, range, &6_u64.to_be_bytes(), &counts].concat();
    let again = |cookie: u32, plain: &[u8]| {
        let mut bytes = compressed(plain);
        bytes[..4].copy_from_slice(&cookie.to_be_bytes());
        bytes
    };
    let doubles = |cookie: u32, form: &[u8]| [&cookie.to_be_bytes()[..], digits, &2_u64.to_be_bytes(), form].concat();
    let cases = [
        ("version 1", version_1.clone(), "version 0 or 1"),
        ("version 1, compressed", again(0x1c84_9382, &version_1), "version 0 or 1"),
        ("version 1 in the compressed form of version 2", compressed(&version_1), "version 0 or 1"),
        ("version 0", version_0.clone(), "version 0 or 1"),
        ("version 0, compressed", again(0x1c84_9389, &version_0), "version 0 or 1"),
        ("doubles", doubles(0x0c72_124e, &of_integers), "doubles"),
        ("doubles, compressed", doubles(0x0c72_124f, &compressed(&of_integers)), "doubles"),
    ];
    let value = |(name, bytes, says): (&str, Vec<u8>, &str)| {
        assert!(decode(&bytes, 1.0).is_ok(), "{name}");
        json!({"name": name, "unit": 1.0, "hdr": STANDARD.encode(bytes), "says": says})
    };
    cases.into_iter().map(value).collect()
}

#[test]
fn the_vectors_of_the_sdks_are_what_this_crate_reads() {
    if std::env::var_os("OGIVE_WRITE_VECTORS").is_some() {
        let lines = |all: Vec<Value>| all.iter().map(|one| format!("  {one}")).collect::<Vec<_>>().join(",\n");
        let text = format!("{{\"records\": [\n{}\n], \"refused\": [\n{}\n]}}\n", lines(records()), lines(refused()));
        std::fs::write(FILE, text).unwrap();
    }
    let held: Value = serde_json::from_str(&std::fs::read_to_string(FILE).unwrap()).unwrap();
    let bytes = |one: &Value, name: &str| STANDARD.decode(one[name].as_str().unwrap()).unwrap();
    for one in held["records"].as_array().unwrap() {
        let unit = one["unit"].as_f64().unwrap();
        assert_eq!(converted(&bytes(one, "hdr"), unit), bytes(one, "openhistogram"), "{}", one["name"]);
    }
    for one in held["refused"].as_array().unwrap() {
        let is_read = decode(&bytes(one, "hdr"), one["unit"].as_f64().unwrap()).is_ok();
        assert_eq!(is_read, unread().contains(one), "{}", one["name"]);
    }
    let names = |all: &Value| all.as_array().unwrap().iter().map(|one| one["name"].clone()).collect::<Vec<_>>();
    assert_eq!(names(&held["records"]), names(&Value::Array(records())), "the file is that of this test");
    assert_eq!(names(&held["refused"]), names(&Value::Array(refused())), "the file is that of this test");
}
