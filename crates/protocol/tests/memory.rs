//! What a body unfolds to is bounded by its bytes: small messages that stand for much are refused before they are held.

mod wire;

use ogive_model::{Batch, Reason, Sample, SourceId, Tenant};
use ogive_protocol::otlp::{self, Context, Options};
use ogive_protocol::remote_write::{DecodedRequest, v1, v2};
use ogive_protocol::{Error, READ_BYTES_MAX, exposition, influx};
use wire::{field, fixed, varint};

fn label(name: &str, value: &str) -> Vec<u8> {
    field(1, [field(1, name), field(2, value)].concat())
}

/// What the lists of `batch` have room for.
fn held(batch: &Batch) -> usize {
    batch.samples.capacity() * size_of::<Result<Sample, Reason>>()
}

fn is_too_large<T: std::fmt::Debug>(what: &str, read: Result<T, Error>) {
    match read {
        Err(Error::TooLarge { found, .. }) => assert!(found < 2 * READ_BYTES_MAX as u64, "{what}: {found}"),
        Err(other) => panic!("{what}: {other}"),
        Ok(_) => panic!("{what} was taken"),
    }
}

fn write_1(body: &[u8]) -> Result<DecodedRequest, Error> {
    v1::read(body, &Tenant::default(), SourceId(1), 1, None, |_| {})
}

fn write_2(body: &[u8]) -> Result<DecodedRequest, Error> {
    v2::read(body, &Tenant::default(), SourceId(1), 1, None, |_| {})
}

#[test]
fn empty_messages_of_remote_write() {
    let of = |number: u8, count: usize| {
        let parts = [number << 3 | 2, 0].repeat(count);
        field(1, [label("__name__", "x"), parts].concat())
    };
    for (what, number) in [("histograms", 4), ("exemplars", 3)] {
        let few = write_1(&of(number, 10_000)).unwrap();
        assert_eq!(few.batch.samples.len(), 10_000, "{what}");
        assert!(held(&few.batch) <= 2 * few.memory_bytes, "{what}: {} of {}", held(&few.batch), few.memory_bytes);
        is_too_large(what, write_1(&of(number, 200_000)));
    }
    // Numbers unfold to less than the limit.
    let samples = write_1(&of(2, 200_000)).unwrap();
    assert!(samples.memory_bytes <= READ_BYTES_MAX && held(&samples.batch) <= 2 * READ_BYTES_MAX);
    let one = field(1, [label("__name__", "x"), field(2, [])].concat());
    is_too_large("series", write_1(&one.repeat(600_000)));
}

/// A long text that each of many series names by its place.
#[test]
fn symbols_that_are_named_again_and_again() {
    let long = "v".repeat(16_000);
    let symbols: Vec<u8> = ["", "__name__", "x", "l", &long].iter().flat_map(|text| field(4, text)).collect();
    let series = |count: usize| field(5, [field(1, [1, 2, 3, 4]), field(2, [])].concat()).repeat(count);
    let few = write_2(&[&symbols[..], &series(200)].concat()).unwrap();
    assert!(few.memory_bytes > 200 * 16_000, "{}", few.memory_bytes);
    is_too_large("long symbols", write_2(&[&symbols[..], &series(20_000)].concat()));
}

fn metrics(body: &[u8]) -> Result<otlp::DecodedRequest, Error> {
    let (tenant, options) = (Tenant::default(), Options::default());
    let (source, sequence) = (SourceId(1), 1);
    let context = Context { tenant: &tenant, source, sequence, options: &options, known: None, now_ns: 0 };
    otlp::read_metrics(body, &context)
}

/// Points of one metric, each a series of its own, below a resource whose name is long.
#[test]
fn a_long_resource_above_many_points() {
    let attribute = |name: &str, value: &str| [field(1, name), field(2, field(1, value))].concat();
    let resource = |length: usize| field(1, field(1, attribute("service.name", &"n".repeat(length))));
    let point = |at: usize| {
        let time = fixed(3, 1_700_000_000_000_000_000_u64.to_le_bytes());
        let value = fixed(4, 1_f64.to_le_bytes());
        field(1, [time, value, field(7, attribute("p", &at.to_string()))].concat())
    };
    let request = |length: usize, count: usize| {
        let points: Vec<u8> = (0..count).flat_map(point).collect();
        let metric = field(2, [field(1, "m"), field(5, points)].concat());
        field(1, [resource(length), field(2, metric)].concat())
    };
    let honest = metrics(&request(30, 20_000)).unwrap();
    assert_eq!((honest.points, honest.batch.series.len()), (20_000, 20_000));
    assert!(held(&honest.batch) <= 2 * honest.memory_bytes);
    is_too_large("a long resource", metrics(&request(16_000, 20_000)));
    // Refused as points, which have a limit of their own.
    let points = field(9, [0x0a, 0x00].repeat(600_000));
    let metric = field(2, field(2, [field(1, "m"), points].concat()));
    is_too_large("many empty points", metrics(&field(1, [resource(30), metric].concat())));
}

#[test]
fn long_tags_before_many_fields() {
    let tags: String = (0..100).map(|at| format!(",tag{at}={}", "v".repeat(1_000))).collect();
    let line = |fields: usize| {
        let fields: Vec<String> = (0..fields).map(|at| format!("f{at}=1")).collect();
        format!("m{tags} {}\n", fields.join(","))
    };
    let options = influx::Options::default();
    let read = |text: &str| influx::read(text.as_bytes(), &Tenant::default(), SourceId(1), 1, &options);
    assert_eq!(read(&line(20)).unwrap().batch.samples.len(), 20);
    is_too_large("long tags", read(&line(10_000)));
    let lines: String = (0..600_000).map(|at| format!("{at} f=1\n")).collect();
    is_too_large("short lines of many series", read(&lines));
}

#[test]
fn expositions() {
    use exposition::{Format, decode};
    let family = |metric: Vec<u8>, kind: u8| {
        let message = [field(1, "f"), vec![3 << 3, kind], field(4, metric)].concat();
        [varint(message.len() as u64), message].concat()
    };
    let (histogram, summary) = (4, 2);
    is_too_large("buckets", decode(Format::Protobuf, &family(field(7, [0x1a, 0x00].repeat(200_000)), histogram)));
    is_too_large("quantiles", decode(Format::Protobuf, &family(field(4, [0x1a, 0x00].repeat(200_000)), summary)));
    let counters = field(4, field(3, [])).repeat(200_000);
    let message = [field(1, "f"), counters].concat();
    is_too_large("metrics", decode(Format::Protobuf, &[varint(message.len() as u64), message].concat()));
    let format = Format::Text { is_whole: true };
    is_too_large("lines of four bytes", decode(format, "a 1\n".repeat(200_000).as_bytes()));
    let honest = "http_requests_total{method=\"post\",code=\"200\"} 1027\n".repeat(100_000);
    assert_eq!(decode(format, honest.as_bytes()).unwrap().points.len(), 100_000);
}
