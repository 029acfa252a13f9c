//! What does a checked read of IRONdb's FlatBuffers of both generations cost beside the same records as compact JSON
//! read by serde_json into typed structs with borrowed strings? 10,000 numbers, and 1,000 histograms of 40 bins.
//!
//! All variants in turn, in one process, CPU time of the thread; every field is touched. `cargo bench -p ogive-irondb
//! --bench decode`.

use std::hint::black_box;

use ogive_irondb::flat::{Malformed, Node, Writer};
use ogive_irondb::metric_list;
use ogive_irondb::record::{CheckId, Datum, Tags};
use serde::{Deserialize, Serialize};

const NUMBERS: usize = 10_000;
const HISTOGRAMS: usize = 1_000;
const BINS: usize = 40;
const ROUNDS: usize = 21;
const TIME_MS: u64 = 1_700_000_000_000;
const CHECK: &str = "8b9d2b4e-0c5a-4f0e-8f0d-5a2f6f0c1d2e";

/// A record as JSON: the fields of one of generation 1.
#[derive(Serialize, Deserialize)]
struct Record<'a> {
    timestamp: u64,
    check_name: &'a str,
    check_uuid: &'a str,
    account_id: i32,
    name: &'a str,
    #[serde(borrow)]
    stream_tags: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    buckets: Option<Vec<(i8, i8, u64)>>,
}

/// Its name, the bytes that it reads, and reading them.
type Variant<'a> = (&'a str, usize, Box<dyn FnMut() -> f64 + 'a>);

fn main() {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    println!("{}", text.lines().find(|line| line.starts_with("model name")).unwrap_or("unknown CPU"));
    compare(&format!("{NUMBERS} numbers"), NUMBERS, false);
    compare(&format!("{HISTOGRAMS} histograms of {BINS} bins"), HISTOGRAMS, true);
}

fn tags(at: usize) -> [String; 3] {
    [format!("host:web{:03}", at % 400), "dc:eu-west-1".into(), format!("route:/v1/items/{}", at % 40)]
}

fn bins(at: usize) -> Vec<(i8, i8, u64)> {
    (0..BINS).map(|bin| ((10 + 2 * bin as i8 % 90), -3, (at + bin * 37) as u64 % 400 + 1)).collect()
}

fn json(count: usize, has_bins: bool) -> Vec<u8> {
    let all: Vec<(String, [String; 3])> =
        (0..count).map(|at| (format!("http_requests_{}", at % 97), tags(at))).collect();
    let record = |(at, (name, tags)): (usize, &'_ (String, [String; 3]))| {
        let record = Record {
            timestamp: TIME_MS + at as u64,
            check_name: "api",
            check_uuid: CHECK,
            account_id: 1,
            name,
            stream_tags: tags.iter().map(String::as_str).collect(),
            value: (!has_bins).then_some(at as f64 * 1.37),
            buckets: has_bins.then(|| bins(at)),
        };
        serde_json::to_string(&record).expect("records are JSON")
    };
    let records: Vec<String> = all.iter().enumerate().map(record).collect();
    format!("[{}]", records.join(",")).into_bytes()
}

fn value(at: usize, has_bins: bool, is_first: bool) -> (Node, Node) {
    if !has_bins {
        return (Node::u8(5), Node::Table(vec![Node::f64(at as f64 * 1.37)]));
    }
    let buckets = if is_first {
        let one = |(val, exp, count): (i8, i8, u64)| {
            Node::Table(vec![Node::u8(val as u8), Node::u8(exp as u8), Node::u64(count)])
        };
        Node::List(bins(at).into_iter().map(one).collect())
    } else {
        let one = |(val, exp, count): (i8, i8, u64)| {
            let mut bytes = count.to_le_bytes().to_vec();
            bytes.extend([val as u8, exp as u8, 0, 0, 0, 0, 0, 0]);
            bytes
        };
        Node::Flat(bins(at).into_iter().flat_map(one).collect(), 8, BINS)
    };
    (Node::u8(7), Node::Table(vec![buckets]))
}

fn list(count: usize, has_bins: bool, is_first: bool) -> Vec<u8> {
    let metric = |at: usize| {
        let (kind, value) = value(at, has_bins, is_first);
        let name = Node::text(format!("http_requests_{}", at % 97));
        let tags = Node::List(tags(at).map(Node::text).into());
        let value = if is_first {
            Node::Table(vec![name, Node::None, kind, value, Node::None, tags])
        } else {
            Node::Table(vec![name, tags, Node::List(vec![Node::Table(vec![Node::None, kind, value])])])
        };
        let uuid = if is_first { Node::text(CHECK) } else { Node::Flat((0..16).collect(), 1, 16) };
        Node::Table(vec![Node::u64(TIME_MS + at as u64), Node::text("api"), uuid, Node::u32(1), value])
    };
    let identifier = if is_first { *b"CIML" } else { *b"CMLS" };
    Writer::finish(&Node::Table(vec![Node::List((0..count).map(metric).collect())]), Some(identifier))
}

fn of_json(json: &[u8]) -> f64 {
    let records: Vec<Record<'_>> = serde_json::from_slice(json).expect("just written");
    let mut sum = 0.0;
    for record in &records {
        sum += record.timestamp as f64 + f64::from(record.account_id) + record.value.unwrap_or(0.0);
        let texts = record.name.len() + record.check_name.len() + record.check_uuid.len();
        sum += (texts + record.stream_tags.iter().map(|tag| tag.len()).sum::<usize>()) as f64;
        for (val, exp, count) in record.buckets.iter().flatten() {
            sum += f64::from(*val) + f64::from(*exp) + *count as f64;
        }
    }
    sum
}

fn of_list(body: &[u8]) -> f64 {
    let mut sum = 0.0;
    metric_list::read::<Malformed>(body, &mut |record| {
        sum += record.time_ms as f64 + record.account as f64 + record.name.len() as f64;
        sum += match record.check {
            CheckId::Text(text) => text.len() as f64,
            CheckId::Bytes(bytes) => f64::from(bytes[15]),
        };
        if let Tags::Vector(tags) = &record.tags {
            for tag in tags.texts() {
                sum += tag?.len() as f64;
            }
        }
        match &record.value {
            Datum::Number(number) => sum += number,
            Datum::Bins(bins, _) => {
                bins.each(|bin, count| sum += f64::from(bin.val) + f64::from(bin.exp) + count as f64)?;
            }
            _ => unreachable!("no others were written"),
        }
        Ok(())
    })
    .expect("just written");
    sum
}

/// CPU time of this thread, ns.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux with schedstat");
    text.split(' ').next().and_then(|ns| ns.parse().ok()).expect("the first number is the time on CPU")
}

fn compare(what: &str, count: usize, has_bins: bool) {
    let (json, first, second) = (json(count, has_bins), list(count, has_bins, true), list(count, has_bins, false));
    let mut variants: Vec<Variant<'_>> = vec![
        ("serde_json, typed", json.len(), Box::new(|| of_json(&json))),
        ("generation 1 (CIML)", first.len(), Box::new(|| of_list(&first))),
        ("generation 2 (CMLS)", second.len(), Box::new(|| of_list(&second))),
    ];
    let mut ns = vec![Vec::new(); variants.len()];
    for _ in 0..ROUNDS {
        for (variant, ns) in variants.iter_mut().zip(&mut ns) {
            // The kernel's account comes in steps of some milliseconds.
            let from = cpu_ns();
            (0..8).for_each(|_| _ = black_box(variant.2()));
            ns.push((cpu_ns() - from) as f64 / 8.0);
        }
    }
    println!("{what}: us a body (p10 to p90); ratio of serde_json's median; bytes, share of JSON's");
    let quantile = |ns: &[f64], q: f64| {
        let mut sorted = ns.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted[((sorted.len() - 1) as f64 * q).round() as usize] / 1_000.0
    };
    let json = quantile(&ns[0], 0.5);
    for ((name, bytes, _), ns) in variants.iter().zip(&ns) {
        let (low, middle, high) = (quantile(ns, 0.1), quantile(ns, 0.5), quantile(ns, 0.9));
        let share = *bytes as f64 / variants[0].1 as f64;
        println!("  {name:<22} {middle:>9.1} ({low:.1} to {high:.1}) {:>7.2}x {bytes:>9} {share:.2}", json / middle);
    }
}
