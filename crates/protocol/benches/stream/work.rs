//! What the groups have in common: series, bodies, CPU time and figures.

use std::fmt::Write as _;

use ogive_model::{Kind, Labels, SeriesId, Tenant};
use ogive_protocol::remote_write::ItemReader;
use ogive_stream::cells::{Item, ItemValue};

pub(crate) const SECOND: i64 = 1_000_000_000;
/// Some second of 2023.
pub(crate) const TIME: i64 = 1_700_000_000 * SECOND;
/// Series of a request: what Prometheus sends.
pub(crate) const BODY_SERIES: usize = 2_000;

fn number_of(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

pub(crate) fn series_count() -> usize {
    number_of("OGIVE_BENCH_SERIES", 1_000_000)
}

pub(crate) fn rounds() -> usize {
    number_of("OGIVE_BENCH_ROUNDS", 5)
}

pub(crate) fn machine() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .map(|rest| rest.trim_start_matches([' ', '\t', ':']));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{} x {cores}", model.unwrap_or("unknown CPU"))
}

/// CPU time of this thread.
pub(crate) struct Cpu(u64);

impl Cpu {
    fn read() -> u64 {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux with schedstat");
        text.split(' ').next().and_then(|ns| ns.parse().ok()).expect("the first number is the time on CPU")
    }

    pub(crate) fn now() -> Self {
        Self(Self::read())
    }

    pub(crate) fn elapsed(&self) -> f64 {
        (Self::read() - self.0) as f64 / 1e9
    }
}

/// Seconds of operations, of a seed.
pub(crate) struct Random(pub fastrand::Rng);

impl Random {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0.u64(..end)
    }

    /// Seconds of an operation: a millisecond, some tenths more or less, and now and then ten times that.
    pub(crate) fn latency(&mut self) -> f64 {
        let sum: u64 = (0..4).map(|_| self.below(1_000)).sum();
        let tail = if self.below(20) == 0 { 10.0 } else { 1.0 };
        (sum as f64 + 100.0) * 1e-6 * tail
    }
}

/// Numbers of all series, in an order of its own for each seed.
pub(crate) fn shuffled(seed: u64) -> Vec<u32> {
    let mut order: Vec<u32> = (0..series_count() as u32).collect();
    fastrand::Rng::with_seed(seed).shuffle(&mut order);
    order
}

/// The labels of a series: what a Kubernetes site's have.
fn labels(of: u32) -> [(&'static str, String); 9] {
    [
        ("__name__", format!("http_server_requests_{}_total", of % 97)),
        ("cluster", "eu-west-1a".into()),
        ("container", "app".into()),
        ("instance", format!("10.{}.{}.{}:9090", of >> 16 & 255, of >> 8 & 255, of & 255)),
        ("job", "kubernetes-pods".into()),
        ("method", ["GET", "POST", "PUT"][of as usize % 3].into()),
        ("namespace", format!("team-{}", of % 40)),
        ("pod", format!("app-{of:08x}-7d9f")),
        ("status", ["200", "404", "500"][of as usize / 3 % 3].into()),
    ]
}

pub(crate) fn identities() -> Vec<SeriesId> {
    let of = |number| {
        SeriesId::from_labels(&Tenant::default(), Kind::Float, &Labels::new(labels(number)).expect("good labels"))
    };
    (0..series_count() as u32).map(of).collect()
}

fn varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn field(out: &mut Vec<u8>, number: u8, bytes: &[u8]) {
    out.push(number << 3 | 2);
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// A remote write request of these series, compressed as it is sent.
pub(crate) fn body(series: &[u32], time_ns: i64) -> Vec<u8> {
    let (mut out, mut one, mut part) = (Vec::new(), Vec::new(), Vec::new());
    for of in series {
        one.clear();
        for (name, value) in labels(*of) {
            part.clear();
            field(&mut part, 1, name.as_bytes());
            field(&mut part, 2, value.as_bytes());
            field(&mut one, 1, &part);
        }
        part.clear();
        part.push(1 << 3 | 1);
        part.extend_from_slice(&f64::from(*of).to_le_bytes());
        part.push(2 << 3);
        varint(&mut part, (time_ns / 1_000_000) as u64);
        field(&mut one, 2, &part);
        field(&mut out, 1, &one);
    }
    ogive_protocol::snappy::pack(&out).expect("far below 4 GiB")
}

pub(crate) fn read_body(reader: &mut ItemReader, body: &[u8], items: &mut Vec<Item>) {
    let message = ogive_protocol::snappy::unpack(body, 64 << 20).expect("what was compressed");
    let passed = reader.read(&message, items).expect("what was written");
    assert_eq!(passed, ogive_protocol::remote_write::SkippedItems::default());
}

pub(crate) fn items(ids: &[SeriesId], order: &[u32], time_ns: i64) -> Vec<Item> {
    let item = |of: &u32| Item { series: ids[*of as usize], time_ns, what: ItemValue::Number(f64::from(*of)) };
    order.iter().map(item).collect()
}

/// What the data structure alone costs: each item finds its line of memory and leaves a mark there.
pub(crate) struct Bare {
    lines: Vec<[u64; 8]>,
    shift: u32,
}

impl Bare {
    pub(crate) fn new(series: usize) -> Self {
        let places = (series * 4 / 3).next_power_of_two();
        Self { lines: vec![[0; 8]; places], shift: 64 - places.trailing_zeros() }
    }

    pub(crate) fn touch(&mut self, items: &[Item]) {
        for item in items {
            let low = item.series.0 as u64;
            let line = &mut self.lines[(low >> self.shift) as usize];
            line[0] = low;
            line[7] = item.time_ns as u64;
        }
        std::hint::black_box(&self.lines);
    }
}

/// Seconds of rounds.
#[derive(Clone, Default)]
pub(crate) struct Numbers(Vec<f64>);

impl Numbers {
    pub(crate) fn add(&mut self, seconds: f64, counts: bool) {
        if counts {
            self.0.push(seconds);
        }
    }

    fn quantile(&self, q: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted[((sorted.len() - 1) as f64 * q).round() as usize]
    }
}

/// A line: the median rate and its spread, and the ratio of each round to that round of `beside`.
pub(crate) fn print(name: &str, unit: &str, numbers: &Numbers, million: f64, beside: Option<&Numbers>) {
    let rate = |q: f64| million / numbers.quantile(q);
    let mut line = format!("{name:44} {:7.2} {unit} ({:.2} to {:.2})", rate(0.5), rate(1.0), rate(0.0));
    if let Some(beside) = beside {
        let ratios = Numbers(beside.0.iter().zip(&numbers.0).map(|(beside, own)| beside / own).collect());
        write!(line, "; x {:.2} ({:.2} to {:.2})", ratios.quantile(0.5), ratios.quantile(0.0), ratios.quantile(1.0))
            .expect("a string takes everything");
    }
    println!("{line}");
}
