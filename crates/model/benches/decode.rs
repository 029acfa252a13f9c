//! What does reading a native batch cost beside the same records as compact JSON read by serde_json into typed structs
//! with borrowed strings; and how many bytes do both take? 10,000 numbers, and 1,000 histograms of 40 bins, each of a
//! series of its own with nine labels.
//!
//! All variants in turn, in one process, CPU time of the thread; every field is touched.
//! `cargo bench -p ogive-model --bench decode`.

use std::hint::black_box;

use ogive_hist::Histogram;
use ogive_model::wire::View;
use ogive_model::{Batch, Kind, Labels, METRIC_NAME, Sample, SeriesDef, SeriesMeta, Temporality, Tenant, Value};
use serde::{Deserialize, Serialize};

const NUMBERS: usize = 10_000;
const HISTOGRAMS: usize = 1_000;
const BINS: usize = 40;
const ROUNDS: usize = 21;
const TIME_NS: i64 = 1_700_000_000_000_000_000;

/// A record as JSON: one for each sample, with everything that it needs.
#[derive(Serialize, Deserialize)]
struct Record<'a> {
    name: &'a str,
    #[serde(borrow)]
    tags: Vec<&'a str>,
    time_ns: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    histogram: Option<Distribution>,
}

#[derive(Serialize, Deserialize)]
struct Distribution {
    sum: f64,
    min: f64,
    max: f64,
    bins: Vec<(i32, u64)>,
}

/// Its name, the bytes that it reads, and reading them.
type Variant<'a> = (&'a str, usize, Box<dyn FnMut() -> f64 + 'a>);

fn main() {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    println!("{}", text.lines().find(|line| line.starts_with("model name")).unwrap_or("unknown CPU"));
    numbers();
    histograms();
}

fn labels(at: usize) -> Labels {
    let pairs = [
        (METRIC_NAME, format!("http_server_requests_{}_total", at % 97)),
        ("cluster", "eu-west-1a".into()),
        ("container", "app".into()),
        ("instance", format!("10.0.{}.{}:9090", at >> 8 & 255, at & 255)),
        ("job", "kubernetes-pods".into()),
        ("method", ["GET", "POST", "PUT"][at % 3].into()),
        ("namespace", format!("team-{}", at % 40)),
        ("pod", format!("app-{at:08x}-7d9f")),
        ("status", ["200", "404", "500"][at / 3 % 3].into()),
    ];
    Labels::new(pairs).expect("good labels")
}

/// The same samples three ways: as JSON, as a batch that declares its series, and as one that names them by identity.
fn three_ways(kind: Kind, values: Vec<Value>) -> (Vec<u8>, Vec<u8>, Vec<u8>) {
    let temporality = if kind == Kind::Float { Temporality::Gauge } else { Temporality::Delta };
    let meta = SeriesMeta { kind, temporality, unit: String::new(), width_ms: 0 };
    let series: Vec<SeriesDef> =
        (0..values.len()).map(|at| SeriesDef { labels: labels(at), meta: meta.clone() }).collect();
    let tags: Vec<Vec<String>> = series
        .iter()
        .map(|def| def.labels.iter().skip(1).map(|(name, value)| format!("{name}:{value}")).collect())
        .collect();
    let record = |((def, tags), value): ((&SeriesDef, &Vec<String>), &Value)| {
        let record = Record {
            name: def.labels.metric_name(),
            tags: tags.iter().map(String::as_str).collect(),
            time_ns: TIME_NS,
            value: if let Value::Float(value) = value { Some(*value) } else { None },
            histogram: if let Value::Histogram(histogram) = value {
                let known = |value: Option<f64>| value.expect("not empty");
                let (sum, min, max) = (known(histogram.sum), known(histogram.min), known(histogram.max));
                Some(Distribution { sum, min, max, bins: histogram.positive.iter().collect() })
            } else {
                None
            },
        };
        serde_json::to_string(&record).expect("plain data")
    };
    let records: Vec<String> = series.iter().zip(&tags).zip(&values).map(record).collect();
    let json = format!("[{}]", records.join(",")).into_bytes();
    let samples: Vec<_> = (0_u32..)
        .zip(values)
        .map(|(series, value)| Ok(Sample { series, time_ns: TIME_NS, start_ns: None, value }))
        .collect();
    let known = series.iter().map(|def| def.id(&Tenant::default())).collect();
    let named = Batch { known, samples: samples.clone(), sequence: 1, ..Batch::default() };
    let declared = Batch { series: series.into_iter().map(Ok).collect(), samples, sequence: 1, ..Batch::default() };
    (json, declared.encode().expect("within limits"), named.encode().expect("within limits"))
}

fn numbers() {
    let values = (0..NUMBERS).map(|at| Value::Float(at as f64 * 1.37 + 0.1)).collect();
    let (json, declared, named) = three_ways(Kind::Float, values);
    let mut variants: Vec<Variant<'_>> = vec![
        ("serde_json, typed", json.len(), Box::new(|| of_json(&json))),
        ("Batch, series declared", declared.len(), Box::new(|| of_batch(&declared))),
        ("Batch, series by identity", named.len(), Box::new(|| of_batch(&named))),
        ("View, series declared", declared.len(), Box::new(|| of_view(&View::read(&declared).unwrap()))),
        ("View, series by identity", named.len(), Box::new(|| of_view(&View::read(&named).unwrap()))),
        ("View, by identity, trusted", named.len(), Box::new(|| of_view(&View::read_trusted(&named).unwrap()))),
    ];
    compare(&format!("{NUMBERS} numbers"), &mut variants);
}

fn histograms() {
    let one = |at: usize| {
        let mut histogram = Histogram::log_linear();
        for bin in 0..BINS {
            let value = (at % 10 + 10 + 2 * bin) as f64 * 1e-4;
            histogram.record_n(value, (bin * 37 % 400 + 1) as u64);
        }
        Value::Histogram(Box::new(histogram))
    };
    let (json, declared, named) = three_ways(Kind::Histogram, (0..HISTOGRAMS).map(one).collect());
    let mut variants: Vec<Variant<'_>> = vec![
        ("serde_json, typed", json.len(), Box::new(|| of_json(&json))),
        ("Batch, series declared", declared.len(), Box::new(|| of_batch(&declared))),
        ("Batch, series by identity", named.len(), Box::new(|| of_batch(&named))),
        ("View, series declared", declared.len(), Box::new(|| of_view(&View::read(&declared).unwrap()))),
        ("View, series by identity", named.len(), Box::new(|| of_view(&View::read(&named).unwrap()))),
    ];
    compare(&format!("{HISTOGRAMS} histograms of {BINS} bins"), &mut variants);
}

fn of_json(json: &[u8]) -> f64 {
    let records: Vec<Record<'_>> = serde_json::from_slice(json).expect("just written");
    let mut sum = 0.0;
    for record in &records {
        sum += record.name.len() as f64 + record.time_ns as f64 + record.value.unwrap_or(0.0);
        sum += record.tags.iter().map(|tag| tag.len()).sum::<usize>() as f64;
        if let Some(histogram) = &record.histogram {
            sum += histogram.sum + histogram.min + histogram.max;
            sum += of_bins(histogram.bins.iter().copied());
        }
    }
    sum
}

fn of_bins(bins: impl Iterator<Item = (i32, u64)>) -> f64 {
    bins.fold(0, |sum: u64, (index, count)| sum.wrapping_add(index as u64).wrapping_add(count)) as f64
}

fn of_batch(frame: &[u8]) -> f64 {
    let batch = Batch::decode(frame).expect("just written");
    let mut sum = 0.0;
    for def in batch.series.iter().flatten() {
        sum += def.labels.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>() as f64;
    }
    sum += batch.known.iter().fold(0, |all, id| all ^ id.0 as u64) as f64;
    for sample in batch.samples.iter().flatten() {
        sum += f64::from(sample.series) + sample.time_ns as f64;
        sum += match &sample.value {
            Value::Float(value) => *value,
            Value::Histogram(histogram) => {
                let known = |value: Option<f64>| value.unwrap_or(0.0);
                of_bins(histogram.positive.iter()) + known(histogram.sum) + known(histogram.min) + known(histogram.max)
            }
            _ => 0.0,
        };
    }
    sum
}

fn of_view(view: &View<'_>) -> f64 {
    let (mut bytes, mut sum) = (0, 0.0);
    view.each_label(|_, text| bytes += text.len()).expect("just written");
    let ids = view.known().expect("just written").fold(0, |all, id| all ^ id.0 as u64);
    // Three sums: one would make each row wait for the one before it.
    let (mut numbers, mut times) = (0_u64, 0_i64);
    if let Some(floats) = view.floats().expect("just written") {
        floats.each(|series, time, value| {
            numbers += u64::from(series);
            times = times.wrapping_add(time);
            sum += value;
        });
    }
    if let Some(histograms) = view.histograms().expect("just written") {
        let each = histograms.each(|row| {
            numbers += u64::from(row.series);
            times = times.wrapping_add(row.time_ns);
            sum += row.known.into_iter().flatten().sum::<f64>();
            let bins = row.each_bin(|_, index, count| numbers = numbers.wrapping_add(index as u64).wrapping_add(count));
            assert_eq!(bins, Some((0, 0)));
        });
        each.expect("just written");
    }
    sum + bytes as f64 + ids as f64 + numbers as f64 + times as f64
}

/// CPU time of this thread, ns.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux with schedstat");
    text.split(' ').next().and_then(|ns| ns.parse().ok()).expect("the first number is the time on CPU")
}

/// How often a variant runs in a round: the kernel's account comes in steps of some milliseconds.
fn repeats(variant: &mut dyn FnMut() -> f64) -> u32 {
    let least = |_| {
        let from = std::time::Instant::now();
        black_box(variant());
        from.elapsed().as_nanos().max(1_000) as u32
    };
    (20_000_000 / (0..8).map(least).min().expect("eight of them")).max(1)
}

fn compare(what: &str, variants: &mut [Variant<'_>]) {
    let repeats: Vec<u32> = variants.iter_mut().map(|variant| repeats(&mut variant.2)).collect();
    let mut ns = vec![Vec::new(); variants.len()];
    for _ in 0..ROUNDS {
        for ((variant, repeats), ns) in variants.iter_mut().zip(&repeats).zip(&mut ns) {
            let from = cpu_ns();
            (0..*repeats).for_each(|_| _ = black_box(variant.2()));
            ns.push((cpu_ns() - from) as f64 / f64::from(*repeats));
        }
    }
    println!("{what}: us a batch (p10 to p90); ratio of serde_json's median; bytes, share of JSON's");
    let quantile = |ns: &[f64], q: f64| {
        let mut sorted = ns.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted[((sorted.len() - 1) as f64 * q).round() as usize]
    };
    let ratios = |of: usize| ns[0].iter().zip(&ns[of]).map(|(json, own)| json / own).collect::<Vec<_>>();
    for (at, (name, bytes, _)) in variants.iter().enumerate() {
        let (ns, ratios, share) = (&ns[at], ratios(at), *bytes as f64 / variants[0].1 as f64);
        println!(
            "  {name:28} {:8.1} ({:.1} to {:.1}); x {:6.1} ({:.1} to {:.1}); {bytes:8}, {:.0} %",
            quantile(ns, 0.5) / 1e3,
            quantile(ns, 0.1) / 1e3,
            quantile(ns, 0.9) / 1e3,
            quantile(&ratios, 0.5),
            quantile(&ratios, 0.1),
            quantile(&ratios, 0.9),
            share * 100.0,
        );
    }
}
