//! What does one record cost beside other libraries, on streams that are kind to none: log-normal, mixed, constant,
//! spread over all magnitudes, and one hundred recorders in turn? And a merge, four quantiles, and a thousand sparse
//! merges?
//!
//! The first of each table is Ogive's; a ratio above 1 is how many times its time another takes. `ROUNDS=n` for more
//! rounds.

#[path = "../../../crates/hist/benches/common/streams.rs"]
mod streams;
#[path = "../../../crates/hist/benches/common/timing.rs"]
mod timing;

use std::hint::black_box;

use ogive_hist::{FlatFloatRecorder, FlatRecorder, Histogram};
use opentelemetry::metrics::MeterProvider;
use opentelemetry_sdk::metrics::{Aggregation, ManualReader, SdkMeterProvider, Stream};
use prometheus_client::metrics::histogram::{Histogram as Prometheus, NativeHistogramConfig};
use sketches_ddsketch::{Config, DDSketch};
use streams::{Random, log_normal, mixed};
use timing::{contender, machine, time};

/// Values per round.
const VALUES: usize = 1 << 17;

fn main() {
    let rounds = std::env::var("ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(9);
    println!("{}", machine());
    let mixed = mixed(VALUES);
    let streams = [
        ("log-normal", log_normal(VALUES)),
        ("mixed", mixed.clone()),
        ("constant", vec![123_456; VALUES]),
        ("1 .. 1e18, uniform in its logarithm", log_uniform()),
    ];
    for (name, values) in &streams {
        record(name, values, rounds);
    }
    rotation(&mixed, rounds);
    merge(&mixed, rounds);
    sparse(rounds);
}

fn record(stream: &str, values: &[u64], rounds: usize) {
    let seconds: Vec<f64> = values.iter().map(|ns| *ns as f64 / 1e9).collect();
    let (mut flat, mut batch, mut float) = (FlatRecorder::new(), FlatRecorder::new(), FlatFloatRecorder::new());
    let (mut open, mut open_int) = (openhistogram::Histogram::new(), openhistogram::Histogram::new());
    let (mut hdr, mut h2, mut sketch) = (hdr(), h2(), DDSketch::new(Config::defaults()));
    let prometheus = Prometheus::new_native(NativeHistogramConfig::with_schema(5));
    let classic = Prometheus::new(prometheus_client::metrics::histogram::exponential_buckets(1e-6, 2.0, 24));
    let otel = otel();
    let n = values.len();
    let mut contenders = vec![
        contender("FlatRecorder::record", n, || values.iter().for_each(|ns| flat.record(*ns))),
        contender("FlatRecorder::record_batch", n, || batch.record_batch(values)),
        contender("FlatFloatRecorder::record", n, || seconds.iter().for_each(|s| float.record(*s))),
        contender("hdrhistogram, 3 digits", n, || values.iter().for_each(|ns| hdr.saturating_record(*ns))),
        contender("histogram (H2), grouping 6", n, || values.iter().for_each(|ns| h2.increment(*ns).expect("any u64"))),
        contender("sketches-ddsketch, 1 %", n, || seconds.iter().for_each(|s| sketch.add(*s))),
        contender("prometheus-client, native schema 5", n, || seconds.iter().for_each(|s| prometheus.observe(*s))),
        contender("prometheus-client, classic 24", n, || seconds.iter().for_each(|s| classic.observe(*s))),
        contender("opentelemetry_sdk, exponential 160", n, || seconds.iter().for_each(|s| otel.record(*s, &[]))),
        contender("openhistogram, f64", n, || seconds.iter().for_each(|s| open.insert((*s).into(), 1))),
        contender("openhistogram, integer", n, || {
            values.iter().for_each(|ns| open_int.insert(openhistogram::Bin::from_int_scale(i128::from(*ns), -9), 1));
        }),
    ];
    time(&format!("record, {stream}"), &mut contenders, rounds);
}

/// A hundred recorders touched in turn: their counts are in no near cache.
fn rotation(values: &[u64], rounds: usize) {
    const MANY: usize = 100;
    let mut flats = vec![FlatRecorder::new(); MANY];
    let mut hdrs: Vec<_> = (0..MANY).map(|_| hdr()).collect();
    let mut h2s: Vec<_> = (0..MANY).map(|_| h2()).collect();
    let mut contenders = vec![
        contender("FlatRecorder::record", values.len(), || {
            values.iter().enumerate().for_each(|(at, ns)| flats[at % MANY].record(*ns));
        }),
        contender("hdrhistogram, 3 digits", values.len(), || {
            values.iter().enumerate().for_each(|(at, ns)| hdrs[at % MANY].saturating_record(*ns));
        }),
        contender("histogram (H2), grouping 6", values.len(), || {
            values.iter().enumerate().for_each(|(at, ns)| h2s[at % MANY].increment(*ns).expect("any u64"));
        }),
    ];
    time("record, mixed, 100 recorders in turn", &mut contenders, rounds);
}

fn merge(values: &[u64], rounds: usize) {
    const TIMES: usize = 500;
    const Q: [f64; 4] = [0.5, 0.9, 0.99, 0.999];
    let (first, second) = values.split_at(values.len() / 2);
    let (left, right) = (histogram_of(first), histogram_of(second));
    println!("\n{} and {} bins", left.positive.len(), right.positive.len());
    let open = |values: &[u64]| {
        let mut open = openhistogram::Histogram::new();
        values.iter().for_each(|ns| open.insert(openhistogram::Bin::from_int_scale(i128::from(*ns), -9), 1));
        open
    };
    let sketch = |values: &[u64]| {
        let mut sketch = DDSketch::new(Config::defaults());
        values.iter().for_each(|ns| sketch.add(*ns as f64 / 1e9));
        sketch
    };
    let h2_of = |values: &[u64]| {
        let mut h2 = h2();
        values.iter().for_each(|ns| h2.increment(*ns).expect("any u64"));
        h2
    };
    let mut hdr_left = hdr();
    let mut hdr_right = hdr();
    first.iter().for_each(|ns| hdr_left.saturating_record(*ns));
    second.iter().for_each(|ns| hdr_right.saturating_record(*ns));
    let (mut open_left, open_right) = (open(first), open(second));
    let (mut sketch_left, sketch_right) = (sketch(first), sketch(second));
    let (h2_left, h2_right) = (h2_of(first), h2_of(second));
    let mut into = left.clone();
    let mut contenders = vec![
        contender("Histogram::merge", TIMES, || {
            (0..TIMES).for_each(|_| into.merge(black_box(&right)).expect("one scheme"))
        }),
        contender("openhistogram accumulate", TIMES, || {
            (0..TIMES).for_each(|_| open_left.accumulate(black_box(&open_right)))
        }),
        contender("hdrhistogram add", TIMES / 10, || {
            (0..TIMES / 10).for_each(|_| hdr_left.add(black_box(&hdr_right)).expect("alike"))
        }),
        contender("H2 checked_add", TIMES / 10, || {
            (0..TIMES / 10).for_each(|_| drop(black_box(h2_left.checked_add(black_box(&h2_right)).expect("alike"))));
        }),
        contender("sketches-ddsketch merge", TIMES, || {
            (0..TIMES).for_each(|_| sketch_left.merge(black_box(&sketch_right)).expect("alike"));
        }),
    ];
    time("merge", &mut contenders, rounds);
    drop(contenders);
    let mut contenders = vec![
        contender("Histogram::quantiles, four", TIMES, || (0..TIMES).for_each(|_| drop(black_box(left.quantiles(&Q))))),
        contender("openhistogram quantile1, four", TIMES / 10, || {
            (0..TIMES / 10).for_each(|_| drop(black_box(open_left.quantile1(&Q))));
        }),
        contender("hdrhistogram, four", TIMES / 10, || {
            (0..TIMES / 10).for_each(|_| Q.iter().for_each(|q| _ = black_box(hdr_left.value_at_quantile(*q))));
        }),
        contender("sketches-ddsketch, four", TIMES, || {
            (0..TIMES).for_each(|_| Q.iter().for_each(|q| drop(black_box(sketch_left.quantile(*q)))));
        }),
    ];
    time("four quantiles", &mut contenders, rounds);
}

/// A thousand histograms of 20 values each into one; a flat recorder's counts to compare with.
fn sparse(rounds: usize) {
    let mut random = Random(9);
    let parts: Vec<Histogram> = (0..1000)
        .map(|_| histogram_of(&(0..20).map(|_| (250_000.0 * random.normal().exp()) as u64).collect::<Vec<_>>()))
        .collect();
    let flats: Vec<Vec<u64>> = parts.iter().map(|_| vec![1; 1824]).collect();
    let mut sum = vec![0_u64; 1824];
    let mut contenders = vec![
        contender("Histogram::merge of 1,000 sparse", parts.len(), || {
            let mut into = Histogram::log_linear();
            parts.iter().for_each(|part| into.merge(part).expect("one scheme"));
            black_box(into);
        }),
        contender("adding 1,000 flat arrays of 1,824", parts.len(), || {
            for flat in &flats {
                sum.iter_mut().zip(flat).for_each(|(sum, count)| *sum = sum.saturating_add(*count));
            }
            black_box(&mut sum);
        }),
    ];
    time("merge of 1,000", &mut contenders, rounds);
    let bins: usize = parts.iter().map(|part| part.positive.len()).sum();
    let bytes: usize = parts.iter().map(|part| ogive_hist::openhistogram::encode(part).expect("fits").len()).sum();
    println!("serialised: {:.2} bytes a bin", bytes as f64 / bins as f64);
}

fn histogram_of(values: &[u64]) -> Histogram {
    let mut recorder = FlatRecorder::new();
    recorder.record_batch(values);
    recorder.take()
}

fn hdr() -> hdrhistogram::Histogram<u64> {
    hdrhistogram::Histogram::new_with_bounds(1, 3_600_000_000_000, 3).expect("the bounds are valid")
}

fn h2() -> histogram::Histogram {
    histogram::Histogram::new(6, 64).expect("the parameters are valid")
}

/// An exponential histogram without attributes. The provider must stay while it is used: it is kept for ever.
fn otel() -> opentelemetry::metrics::Histogram<f64> {
    let aggregation = Aggregation::Base2ExponentialHistogram { max_size: 160, max_scale: 20, record_min_max: true };
    let provider = SdkMeterProvider::builder()
        .with_reader(ManualReader::builder().build())
        .with_view(move |_: &opentelemetry_sdk::metrics::Instrument| {
            Stream::builder().with_aggregation(aggregation.clone()).build().ok()
        })
        .build();
    let histogram = provider.meter("bench").f64_histogram("bench").build();
    std::mem::forget(provider);
    histogram
}

fn log_uniform() -> Vec<u64> {
    let mut random = Random(3);
    (0..VALUES).map(|_| 10_f64.powf(18.0 * random.unit()) as u64).collect()
}
