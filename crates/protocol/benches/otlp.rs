//! How many points of OTLP does a CPU take in a second, from protobuf to a batch, and what does it save that the series
//! were written before? Each kind of points twice, with its series new and known, the rounds interleaved, on one
//! thread: `cargo bench -p ogive-protocol --bench otlp`.

#[path = "../tests/wire/mod.rs"]
mod wire;

use std::hint::black_box;
use std::time::Instant;

use ogive_model::{SourceId, Tenant};
use ogive_protocol::otlp::{self, Context, DecodedRequest, Options};
use ogive_protocol::remote_write::KnownSeries;
use wire::{field, fixed, number};

/// Points of a request, each of a series of its own: what an SDK with a thousand attribute sets exports.
const POINTS: usize = 1_000;
/// Requests of a round.
const REQUESTS: usize = 5;
const ROUNDS: usize = 60;
const TIME_NS: u64 = 1_700_000_000_000_000_000;

/// A request and what reads it.
struct Work {
    name: &'static str,
    body: Vec<u8>,
    read: fn(&[u8], &Context<'_>) -> Result<DecodedRequest, ogive_protocol::Error>,
}

fn main() {
    let works = works();
    let (tenant, options) = (Tenant::default(), Options::default());
    let known = KnownSeries::default();
    let of = |known| Context {
        tenant: &tenant,
        source: SourceId(1),
        sequence: 1,
        options: &options,
        known,
        now_ns: TIME_NS as i64,
    };
    for work in &works {
        let read = (work.read)(&work.body, &of(Some(&known))).expect("the request is good");
        assert_eq!(read.batch.samples.iter().flatten().count(), POINTS, "{}", work.name);
        known.remember(&read.declared);
        let again = (work.read)(&work.body, &of(Some(&known))).expect("the request is good");
        assert!(again.batch.series.is_empty(), "{}: its series are known now", work.name);
    }
    let mut seconds = vec![[Vec::new(), Vec::new()]; works.len()];
    for _ in 0..ROUNDS {
        for (work, seconds) in works.iter().zip(&mut seconds) {
            for (context, seconds) in [of(None), of(Some(&known))].iter().zip(seconds) {
                let from = Instant::now();
                for _ in 0..REQUESTS {
                    black_box((work.read)(black_box(&work.body), context).expect("the request is good"));
                }
                seconds.push(from.elapsed().as_secs_f64());
            }
        }
    }
    println!(
        "{POINTS} points of as many series in a request, one thread; million points a second: median (p10 to p90 of {ROUNDS} rounds)"
    );
    for (work, kinds) in works.iter().zip(seconds) {
        for (kind, mut seconds) in ["new series", "known series"].into_iter().zip(kinds) {
            seconds.sort_by(f64::total_cmp);
            let at = |of: usize| seconds[of * (ROUNDS - 1) / 100];
            let rate = |of: usize| (POINTS * REQUESTS) as f64 / at(of) / 1e6;
            let megabytes = (work.body.len() * REQUESTS) as f64 / at(50) / 1e6;
            println!(
                "{:32} {kind:13} {:6.2} ({:.2} to {:.2}), {megabytes:6.0} MB/s",
                work.name,
                rate(50),
                rate(90),
                rate(10)
            );
        }
    }
}

fn attribute(name: &str, value: &str) -> Vec<u8> {
    [field(1, name), field(2, field(1, value))].concat()
}

/// Three attributes, the last of which identifies the series.
fn attributes(number: u8, at: usize) -> Vec<u8> {
    let all =
        [attribute("http.method", "GET"), attribute("http.status", "200"), attribute("http.route", &format!("/{at}"))];
    all.iter().flat_map(|one| field(number, one)).collect()
}

fn times() -> Vec<u8> {
    [fixed(2, (TIME_NS - 10_000_000_000).to_le_bytes()), fixed(3, TIME_NS.to_le_bytes())].concat()
}

/// One metric of which every point is made by `point`; `shape` is its field in `Metric`, 2 is delta.
fn metrics(shape: u8, has_temporality: bool, point: impl Fn(usize) -> Vec<u8>) -> Vec<u8> {
    let points: Vec<u8> = (0..POINTS).flat_map(|at| field(1, point(at))).collect();
    let temporality = if has_temporality { number(2, 1) } else { Vec::new() };
    let metric =
        [field(1, "http.server.duration"), field(3, "s"), field(shape, [points, temporality].concat())].concat();
    let resource = field(1, field(1, attribute("service.name", "cart")));
    field(1, [resource, field(2, field(2, metric))].concat())
}

fn packed_fixed(count: usize, of: impl Fn(usize) -> u64) -> Vec<u8> {
    (0..count).flat_map(|at| of(at).to_le_bytes()).collect()
}

fn works() -> Vec<Work> {
    let gauge = |at: usize| [attributes(7, at), times(), fixed(4, (at as f64 + 0.5).to_le_bytes())].concat();
    let explicit = |at: usize| {
        let bounds: Vec<u8> = (0..15).flat_map(|bound| (0.005 * f64::from(1 << bound)).to_le_bytes()).collect();
        let counts = field(6, packed_fixed(16, |bin| bin as u64));
        [
            attributes(9, at),
            times(),
            fixed(4, 120_u64.to_le_bytes()),
            fixed(5, 12.5_f64.to_le_bytes()),
            counts,
            field(7, bounds),
        ]
        .concat()
    };
    let exponential = |at: usize| {
        let counts: Vec<u8> = (0..160).flat_map(|bin| wire::varint(bin % 7)).collect();
        let sum: u64 = (0..160).map(|bin| bin % 7).sum();
        let bins = [number(1, 40), field(2, counts)].concat();
        [
            attributes(1, at),
            times(),
            fixed(4, sum.to_le_bytes()),
            fixed(5, 12.5_f64.to_le_bytes()),
            number(6, 8),
            field(8, bins),
        ]
        .concat()
    };
    let record = |at: usize| {
        let body = field(5, field(1, format!("request {at} took longer than its budget")));
        [fixed(1, TIME_NS.to_le_bytes()), number(2, 13), body, attributes(6, at)].concat()
    };
    let records: Vec<u8> = (0..POINTS).flat_map(|at| field(2, record(at))).collect();
    let logs = field(1, [field(1, field(1, attribute("service.name", "cart"))), field(2, records)].concat());
    let of = |name, body| Work { name, body, read: otlp::read_metrics };
    vec![
        of("gauges, 3 attributes", metrics(5, false, gauge)),
        of("delta sums, 3 attributes", metrics(7, true, gauge)),
        of("histograms of 15 bounds", metrics(9, true, explicit)),
        of("exponential, 160 bins", metrics(10, true, exponential)),
        Work { name: "log records, 3 attributes", body: logs, read: otlp::read_logs },
    ]
}
