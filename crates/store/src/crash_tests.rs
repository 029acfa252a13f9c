//! Seeded lives of a store: batches, flushes, faults, power cuts, kills. Whatever happens, each acknowledged
//! batch is there exactly once and whole, and nothing else is.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use ogive_hist::Histogram;
use ogive_journal::{Faults, SimulatedDisk};
use ogive_model::{
    Batch, HistogramValue, Kind, Labels, Reason, Sample, Select, Selection, SeriesData, SeriesDef, SeriesMeta,
    SourceId, Temporality, TimeRange, Value, Verdict,
};

use crate::{ManualClock, Options, Refusal, Store};

const WALL_NS: i64 = 1_700_000_000_000_000_000;
const SECOND: i64 = 1_000_000_000;

/// SplitMix64, so that a life follows from its seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

fn def(name: &str, label: String, kind: Kind, temporality: Temporality) -> SeriesDef {
    let labels = Labels::new([("__name__", name.to_owned()), ("l", label)]).unwrap();
    SeriesDef { labels, meta: SeriesMeta { kind, temporality, unit: "s".into(), width_ms: 1000 } }
}

fn sample(series: u32, second: u64, value: Value) -> Sample {
    Sample { series, time_ns: WALL_NS + second as i64 * SECOND, value }
}

/// The accepted series and samples of batch `n`: a model computes the store's answer from these.
fn contents(n: u64) -> Vec<(SeriesDef, Sample)> {
    let mut histogram = Histogram::<u64>::log_linear();
    histogram.record_n(0.5 + (n % 7) as f64, n % 3 + 1);
    let late = if n.is_multiple_of(4) { n / 2 } else { n };
    let mut all = vec![
        (def("mark", String::new(), Kind::Float, Temporality::Delta), sample(0, n, Value::Float(1.0))),
        (def("cell", String::new(), Kind::Float, Temporality::Delta), sample(1, n / 5, Value::Float((n % 9) as f64))),
        (
            def("histogram", String::new(), Kind::Histogram, Temporality::Delta),
            sample(2, late / 5, Value::Histogram(Box::new(histogram))),
        ),
        (def("log", String::new(), Kind::Text, Temporality::Gauge), sample(3, n, Value::Text(format!("batch {n}")))),
        // Out of order, and no two at one time: which came last depends on what was sent again.
        (
            def("gauge", (n / 4 % 3).to_string(), Kind::Float, Temporality::Gauge),
            sample(4, n ^ 3, Value::Float(n as f64)),
        ),
    ];
    if n % 6 == 1 {
        all.push((def("rare", n.to_string(), Kind::Float, Temporality::Cumulative), sample(5, n, Value::Float(0.1))));
    }
    all
}

fn batch(n: u64) -> Batch {
    let (mut series, mut samples) = (Vec::new(), Vec::new());
    for (def, sample) in contents(n) {
        series.push(Ok(def));
        samples.push(Ok(sample));
    }
    if n % 5 == 2 {
        series.push(Ok(def("refused", n.to_string(), Kind::Float, Temporality::Gauge)));
        samples.push(Ok(sample(series.len() as u32 - 1, 1_000_000_000, Value::Float(1.0))));
        samples.insert(0, Err(Reason::HistogramInvalid));
    }
    Batch { source: SourceId(u128::from(n % 2)), sequence: n / 2, series, samples, ..Batch::default() }
}

/// The same batch with its series named by their identities.
fn by_identity(mut batch: Batch) -> Batch {
    let series = std::mem::take(&mut batch.series);
    batch.known = series.into_iter().map(|def| def.unwrap().id(&batch.tenant)).collect();
    batch
}

/// What a store that took the batches `applied`, in this order, must answer.
fn model(applied: &BTreeSet<u64>) -> Vec<SeriesData> {
    let mut all: BTreeMap<(Labels, Kind), SeriesData> = BTreeMap::new();
    for (def, sample) in applied.iter().flat_map(|n| contents(*n)) {
        let mut data = crate::testing::empty(def.labels.clone(), def.meta.kind, def.meta.temporality);
        data.meta = def.meta.clone();
        let time = sample.time_ms();
        match sample.value {
            Value::Float(value) => {
                data.floats.times.push(time);
                data.floats.values.push(value);
            }
            Value::Histogram(value) => {
                data.histograms.times.push(time);
                data.histograms.values.push(HistogramValue::Integer(*value));
            }
            Value::Text(value) => {
                data.texts.times.push(time);
                data.texts.values.push(value);
            }
            Value::FloatHistogram(_) => unreachable!("no batch holds one"),
        }
        match all.get_mut(&(def.labels.clone(), def.meta.kind)) {
            Some(there) => crate::merge::add(there, data),
            None => {
                all.insert((def.labels, def.meta.kind), data);
            }
        }
    }
    all.into_values().collect()
}

struct Life {
    story: String,
    disk: SimulatedDisk,
    random: Random,
    store: Option<Store>,
    clock: Arc<ManualClock>,
    next: u64,
    acknowledged: BTreeSet<u64>,
    doubtful: BTreeSet<u64>,
    waiting: Vec<(u64, Receiver<Result<Verdict, Refusal>>)>,
    cuts: u64,
    /// What each snapshot must hold, and what it may.
    snapshots: Vec<(String, BTreeSet<u64>, BTreeSet<u64>)>,
}

fn options() -> Options {
    Options {
        segment_bytes: 4096,
        head_bytes_max: 64 << 10,
        group_interval: Duration::ZERO,
        flush_interval: Duration::from_secs(3600),
        journal_mark: Some(7),
        // The fewest, so that many lives see blocks become one.
        compact_blocks: 2,
        // A few batches each, which close when an hour is gone.
        window_ms: 40_000,
        rollups: vec![10_000],
        ..Options::default()
    }
}

impl Life {
    fn new(seed: u64) -> Self {
        let mut life = Self {
            story: format!("seed {seed}"),
            disk: SimulatedDisk::new(seed),
            random: Random(seed),
            store: None,
            clock: Arc::new(ManualClock::new(WALL_NS)),
            next: 0,
            acknowledged: BTreeSet::new(),
            doubtful: BTreeSet::new(),
            waiting: Vec::new(),
            cuts: 0,
            snapshots: Vec::new(),
        };
        life.reopen();
        life
    }

    fn reopen(&mut self) {
        let disk = Arc::new(self.disk.clone());
        let opened = Store::open(disk, Path::new("data"), options(), Arc::clone(&self.clock) as _);
        let store = opened.unwrap_or_else(|error| panic!("{}: {error}", self.story));
        assert!(store.status().head_bytes <= 64 << 10, "{}: {:?}", self.story, store.status());
        self.store = Some(store);
    }

    fn submit(&mut self, n: u64) {
        let (reply, answer) = std::sync::mpsc::channel();
        let store = self.store.as_ref().expect("the store is open");
        // A batch that names what the store does not know is refused and stays in doubt, to be sent again with labels.
        let batch = if self.random.below(2) == 0 { batch(n) } else { by_identity(batch(n)) };
        let taken = store.submit(batch, Box::new(move |result| reply.send(result).unwrap_or(())));
        if taken.is_ok() {
            self.waiting.push((n, answer));
        }
        self.doubtful.insert(n);
    }

    /// Hears the replies to all that was submitted; one that never comes leaves its batch in doubt.
    fn hear(&mut self) {
        for (n, answer) in self.waiting.drain(..) {
            let Ok(answer) = answer.recv_timeout(Duration::from_secs(20)) else { continue };
            let Ok(verdict) = answer else { continue };
            let samples = batch(n).samples.len() as u64;
            assert_eq!(verdict.accepted + verdict.duplicate + verdict.rejected.len() as u64, samples);
            if self.acknowledged.contains(&n) {
                assert_eq!(verdict.duplicate, samples, "{}: batch {n} again", self.story);
            } else if verdict.duplicate == 0 {
                assert_eq!(verdict.accepted, contents(n).len() as u64, "{}: batch {n}", self.story);
            }
            self.doubtful.remove(&n);
            self.acknowledged.insert(n);
        }
    }

    /// Everything that is acknowledged is there once, what is in doubt at most once, and each batch is whole.
    fn verify(&self) {
        self.verify_store(self.store.as_ref().unwrap(), &self.acknowledged, &self.doubtful);
    }

    /// Whether `store` holds all of `must`, whole and once, and beside that only some of `may`.
    fn verify_store(&self, store: &Store, must: &BTreeSet<u64>, may: &BTreeSet<u64>) {
        let selection = Selection {
            matchers: Vec::new(),
            range: TimeRange::ALL,
            samples_max: usize::MAX,
            labels_only: false,
            resolution: Default::default(),
        };
        let found = match store.select(&selection) {
            Ok(found) => found,
            // A power cut that was waiting came in the middle.
            Err(_) if !self.disk.is_powered() => return,
            Err(error) => panic!("{}: {error}", self.story),
        };
        let marks = found.iter().find(|data| data.labels.metric_name() == "mark");
        let mut applied = BTreeSet::new();
        for (time, count) in marks.iter().flat_map(|data| data.floats.times.iter().zip(&data.floats.values)) {
            let n = ((time * 1_000_000 - WALL_NS) / SECOND) as u64;
            assert_eq!(*count, 1.0, "{}: batch {n} is there {count} times", self.story);
            applied.insert(n);
        }
        let lost: Vec<_> = must.difference(&applied).collect();
        assert!(lost.is_empty(), "{}: lost {lost:?}", self.story);
        let invented: Vec<_> = applied.iter().filter(|n| !must.contains(n) && !may.contains(n)).collect();
        assert!(invented.is_empty(), "{}: invented {invented:?}", self.story);
        let (found, expected) = (crate::testing::bits(&found), crate::testing::bits(&model(&applied)));
        for (found, expected) in found.iter().zip(&expected) {
            assert!(found == expected, "{}: found {found}\nexpected {expected}", self.story);
        }
        assert_eq!(found.len(), expected.len(), "{}", self.story);
    }

    /// Keeps this moment. One that fails is tried again by nobody: its half is left for the next of its name.
    fn snapshot(&mut self) {
        self.hear();
        let name = format!("s{}", self.snapshots.len());
        let must = self.acknowledged.clone();
        if self.store.as_ref().unwrap().snapshot(&name, 1).is_ok() {
            self.snapshots.push((name, must, self.doubtful.clone()));
        }
    }

    /// Whatever happened since, each snapshot is what was acknowledged when it was made, also as a store of its own.
    fn verify_snapshots(&self) {
        let directory = Path::new("data");
        let listed = crate::snapshot::list(&self.disk, directory).unwrap();
        for (at, (name, must, may)) in self.snapshots.iter().enumerate() {
            assert!(listed.iter().any(|one| one.name == *name), "{}: snapshot {name} is gone", self.story);
            let root = std::path::PathBuf::from(format!("clone{at}"));
            let target = ogive_journal::Member { root: root.clone(), disk: Arc::new(self.disk.clone()) };
            crate::snapshot::clone_to(&self.disk, directory, name, &[directory.to_owned()], &target, 1).unwrap();
            let store = Store::open(target.disk, &root, options(), Arc::clone(&self.clock) as _).unwrap();
            self.verify_store(&store, must, may);
        }
    }

    /// Ends the process in one of the ways that processes end, and begins the next.
    fn crash(&mut self, kill: bool) {
        self.cuts += 1;
        if kill {
            self.disk.kill_process()
        } else {
            self.disk.cut_power()
        }
        self.store = None;
        self.hear();
        self.disk.restart();
        self.reopen();
        self.verify();
    }

    fn step(&mut self) {
        match self.random.below(40) {
            0 => self.crash(true),
            1 => self.crash(false),
            2 => {
                let after = 1 + self.random.below(30);
                self.disk.cut_power_after(after);
            }
            3 => {
                let _ = self.store.as_ref().unwrap().flush();
            }
            4 => self.disk.set_faults(Faults { sync_error: 300, ..Faults::default() }),
            5 => self.disk.set_faults(Faults {
                write_error: 100,
                short_write: 300,
                sync_error: 100,
                name_error: 100,
                truncate_error: 100,
            }),
            6 | 7 => self.disk.set_faults(Faults::default()),
            8 => {
                let room = self.random.below(3000);
                self.disk.set_capacity(Some(self.disk.used_bytes() + room));
            }
            9 | 10 => self.disk.set_capacity(None),
            11..16 => {
                let known: Vec<u64> = self.doubtful.iter().chain(&self.acknowledged).copied().collect();
                if !known.is_empty() {
                    let again = known[self.random.below(known.len() as u64) as usize];
                    self.hear();
                    self.submit(again);
                    self.hear();
                }
            }
            16 => self.clock.advance(crate::ingest::IDLE_NS),
            17 => self.snapshot(),
            18..20 => {
                self.hear();
                if self.disk.is_powered() {
                    self.verify();
                }
            }
            _ => {
                self.submit(self.next);
                self.next += 1;
                if self.random.below(3) == 0 {
                    self.hear();
                }
            }
        }
        if !self.disk.is_powered() {
            self.crash(false);
        }
    }

    /// Without faults, everything in doubt is sent until it is acknowledged; then all is there once.
    fn finish(&mut self) {
        self.disk.set_faults(Faults::default());
        self.disk.set_capacity(None);
        // A scheduled power cut may still come.
        for _ in 0..1000 {
            if !self.disk.is_powered() {
                self.crash(false);
            }
            let doubtful: Vec<u64> = self.doubtful.iter().copied().collect();
            doubtful.into_iter().for_each(|n| self.submit(n));
            self.hear();
            if self.doubtful.is_empty() && self.disk.is_powered() {
                break;
            }
        }
        assert_eq!(self.acknowledged, (0..self.next).collect(), "{}", self.story);
        self.verify();
        let _ = self.store.as_ref().unwrap().flush();
        if self.disk.is_powered() {
            self.verify();
            self.store = None;
            self.disk.restart();
            self.reopen();
        } else {
            self.crash(false);
        }
        self.verify();
        assert!(self.store.as_ref().unwrap().status().block_failures.is_empty());
        self.verify_snapshots();
    }
}

fn live(seed: u64, steps: usize) -> Life {
    let mut life = Life::new(seed);
    for _ in 0..steps {
        life.step();
    }
    life.finish();
    life
}

/// A fsync failed, the process was killed, and the next one took records that lived in the page cache alone for
/// durable; it called batch 25 a duplicate, and a power cut lost it. The journal now copies what is not proven.
#[test]
fn a_life_that_once_went_wrong() {
    live(1384, 120);
}

#[test]
fn every_acknowledged_batch_is_there_exactly_once() {
    let seeds = std::env::var("OGIVE_CRASH_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(100);
    let first = std::env::var("OGIVE_CRASH_FIRST").ok().and_then(|first| first.parse().ok()).unwrap_or(0);
    let (mut batches, mut cuts, mut snapshots) = (0, 0, 0);
    for seed in first..first + seeds {
        let life = live(seed, 120);
        batches += life.next;
        cuts += life.cuts;
        snapshots += life.snapshots.len() as u64;
    }
    println!("{seeds} lives, {batches} batches, {cuts} ends of a process, {snapshots} snapshots");
    assert!(cuts > seeds && batches > 20 * seeds && snapshots > seeds / 2, "{cuts}, {batches}, {snapshots}");
}
