//! Replays of a journal that a real store wrote.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use ogive_hist::Histogram;
use ogive_journal::RealDisk;
use ogive_model::{Batch, Kind, Sample, SeriesDef, SeriesId, SeriesMeta, SourceId, Temporality, Value, WallNs};
use ogive_store::{Options, Store};
use ogive_stream::cells::{Closed, Content, FloatCell, Item, ItemValue, Shard, Wait};

use super::*;

const TIME_NS: i64 = 1_700_000_000_000_000_000;

fn def(at: u32, kind: Kind, temporality: Temporality) -> SeriesDef {
    let meta = SeriesMeta { kind, temporality, unit: String::new(), width_ms: 1_000 };
    SeriesDef::new([("__name__", "m".to_owned()), ("at", at.to_string())], meta).unwrap()
}

struct Wall(AtomicI64);

impl Wall {
    fn hour() -> Arc<Self> {
        Arc::new(Self(AtomicI64::new(TIME_NS + 3_600_000_000_000)))
    }
}

impl ogive_store::Clock for Wall {
    fn now(&self) -> ogive_model::MonoNs {
        ogive_model::MonoNs(ogive_probe::Clock::global().now())
    }

    fn wall(&self) -> WallNs {
        WallNs(self.0.load(Ordering::Relaxed))
    }
}

/// A store with twenty batches of eleven samples in its journal: ten floats, named by identity from the second batch
/// on, and a histogram now and then; dropped without a flush. Gives what a live view sees as each batch is
/// acknowledged.
fn record(directory: &Path) -> Vec<Vec<Item>> {
    record_as(directory, Options::default(), |_, _| None)
}

/// As [`record`]; `arrival` gives when a batch by its number and time comes.
fn record_as(directory: &Path, options: Options, arrival: impl Fn(u64, i64) -> Option<i64>) -> Vec<Vec<Item>> {
    let (mut live, wall) = (Vec::new(), Wall::hour());
    let store = Store::open(Arc::new(RealDisk), directory, options, wall.clone()).unwrap();
    for sequence in 1..=20_u64 {
        let time_ns = TIME_NS + sequence as i64 * 300_000_000;
        arrival(sequence, time_ns).into_iter().for_each(|at| wall.0.store(at, Ordering::Relaxed));
        let floats: Vec<SeriesDef> = (0..10).map(|at| def(at, Kind::Float, Temporality::Gauge)).collect();
        let sample = |series: u32, value| Ok(Sample { series, time_ns, start_ns: None, value });
        let mut samples: Vec<_> = (0..10).map(|at| sample(at, Value::Float(f64::from(at) + sequence as f64))).collect();
        let mut batch = Batch { source: SourceId(7), sequence, ..Batch::default() };
        if sequence == 1 {
            batch.series = floats.into_iter().map(Ok).collect();
        } else {
            batch.known = floats.iter().map(|def| def.id(&batch.tenant)).collect();
        }
        if sequence % 5 == 1 {
            let mut histogram = Histogram::log_linear();
            histogram.record_n(0.25, sequence);
            // Declared before the known ones, so those move on by one.
            batch.series.push(Ok(def(99, Kind::Histogram, Temporality::Delta)));
            let at = batch.series.len() as u32 - 1;
            if sequence > 1 {
                samples.iter_mut().flatten().for_each(|sample: &mut Sample| sample.series += 1);
            }
            samples.push(sample(at, Value::Histogram(Box::new(histogram))));
        }
        batch.samples = samples;
        live.push(seen(&batch));
        let (sender, verdict) = std::sync::mpsc::channel();
        store.submit(batch, Box::new(move |outcome| sender.send(outcome).unwrap())).unwrap();
        assert!(verdict.recv().unwrap().unwrap().rejected.is_empty());
    }
    live
}

/// The samples of a batch as items.
fn seen(batch: &Batch) -> Vec<Item> {
    let declared = batch.series.iter().map(|def| def.as_ref().unwrap().id(&batch.tenant));
    let ids: Vec<SeriesId> = declared.chain(batch.known.iter().copied()).collect();
    let item = |sample: &Sample| {
        let what = match &sample.value {
            Value::Float(value) => ItemValue::Number(*value),
            Value::Histogram(part) => ItemValue::Part(part.clone()),
            other => panic!("{other:?}"),
        };
        Item { series: ids[sample.series as usize], time_ns: sample.time_ns, what }
    };
    batch.samples.iter().flatten().map(item).collect()
}

/// Cells by series and end, fragments merged.
#[derive(Debug, Default, PartialEq)]
struct NoticeLog {
    numbers: BTreeMap<(SeriesId, WallNs), FloatCell>,
    values: BTreeMap<(SeriesId, WallNs), Histogram>,
}

impl NoticeLog {
    fn take(&mut self, closed: &Closed<'_>) {
        let key = (closed.series, closed.end);
        match closed.content {
            Content::Numbers(cell) => self.numbers.entry(key).or_default().merge(cell),
            Content::Values(cell) => {
                let held = self.values.entry(key).or_insert_with(Histogram::log_linear);
                held.merge(&cell.histogram()).unwrap();
            }
        }
    }
}

/// A server is killed in the middle: what its live cells held is in the journal, because a batch is durable before
/// anybody sees it. Replaying the journal, in one go and with nothing closed meanwhile, gives the same cells as were
/// emitted live.
#[test]
fn live_cells_after_a_restart_are_those_before_it() {
    let directory = tempfile::tempdir().unwrap();
    let (mut shard, mut before) = (Shard::new(Default::default()), NoticeLog::default());
    for mut items in record(directory.path()) {
        let newest = WallNs(items[0].time_ns);
        shard.put(&mut items);
        shard.advance(newest, &mut |closed: &Closed<'_>| before.take(closed));
    }
    shard.advance(WallNs::MAX, &mut |closed: &Closed<'_>| before.take(closed));
    let recorded = Recorded::read(directory.path()).unwrap();
    let (mut shard, mut after, mut items) = (Shard::new(Default::default()), NoticeLog::default(), Vec::new());
    for frame in recorded.frames.iter().rev() {
        recorded.items(frame, 0, &mut items).unwrap();
    }
    shard.put(&mut items);
    shard.advance(WallNs::MAX, &mut |closed: &Closed<'_>| after.take(closed));
    assert_eq!((before.numbers.len(), before.values.len()), (60, 4));
    assert_eq!(after, before);
}

fn how() -> ReplayOptions {
    ReplayOptions {
        feeders: 1,
        shards: 1,
        passes: 1,
        shuffle: None,
        speed: None,
        is_bare: false,
        by_arrival: false,
        wait: Wait::Yield,
    }
}

#[test]
fn a_recorded_journal_is_replayed_whole_in_any_way() {
    let directory = tempfile::tempdir().unwrap();
    record(directory.path());
    let before: BTreeMap<_, _> = files(directory.path());
    let recorded = Recorded::read(directory.path()).unwrap();
    assert_eq!((recorded.samples, recorded.frames.len(), &recorded.findings), (204, 20, &Vec::new()));
    let (_, items) = run::decode_only(&recorded).unwrap();
    assert_eq!(items, 204);
    for (feeders, shards, shuffle, is_bare) in
        [(1, 1, None, false), (2, 3, None, false), (2, 2, Some(5), false), (1, 2, None, true)]
    {
        let cost =
            quantize(&recorded, ReplayOptions { feeders, shards, shuffle, is_bare, passes: 2, ..how() }).unwrap();
        // Two passes count, after one that makes the tables.
        assert_eq!((cost.items, cost.passed, cost.series), (408, 0, 11), "{feeders} {shards} {shuffle:?}");
        assert_eq!((cost.counts.taken, cost.counts.refused_total()), (612, 0));
        assert_eq!(cost.cells > 0, !is_bare);
    }
    let head = run::head(&recorded).unwrap();
    assert_eq!((head.samples, head.accepted), (204, 204));
    assert_eq!(files(directory.path()), before, "the journal is only read");
}

fn files(directory: &Path) -> BTreeMap<std::path::PathBuf, u64> {
    let mut out = BTreeMap::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        if entry.path().is_dir() {
            out.extend(files(&entry.path()));
        } else {
            out.insert(entry.path(), entry.metadata().unwrap().len());
        }
    }
    out
}

/// Items of a frame that names its series are those of the same batch with its labels.
#[test]
fn a_frame_by_identity_and_one_with_labels_are_the_same_items() {
    let directory = tempfile::tempdir().unwrap();
    record(directory.path());
    let recorded = Recorded::read(directory.path()).unwrap();
    let mut by_time: BTreeMap<i64, Vec<SeriesId>> = BTreeMap::new();
    for frame in &recorded.frames {
        let mut items = Vec::new();
        let (source, decoded) = recorded.items(frame, 5, &mut items).unwrap();
        assert_eq!((source, decoded.items), (SourceId(7), items.len() as u64));
        for item in items.iter().filter(|item| matches!(item.what, ogive_stream::cells::ItemValue::Number(_))) {
            by_time.entry(item.time_ns).or_default().push(item.series);
        }
        let declared = recorded.declared(Batch::decode(frame).unwrap());
        assert!(declared.known.is_empty() && declared.series.iter().all(Result::is_ok));
    }
    assert_eq!(*by_time.first_key_value().unwrap().0, TIME_NS + 300_000_005);
    let first = by_time.first_key_value().unwrap().1.clone();
    assert!(first.len() == 10 && by_time.values().all(|series| *series == first));
}

#[test]
fn the_recorded_timing_is_kept_at_a_multiple_of_its_speed() {
    let directory = tempfile::tempdir().unwrap();
    record(directory.path());
    let recorded = Recorded::read(directory.path()).unwrap();
    // 5.7 s of samples in some 6 ms; what a timed pass feeds counts without one before it.
    let cost = quantize(&recorded, ReplayOptions { speed: Some(1_000.0), ..how() }).unwrap();
    assert_eq!((cost.items, cost.counts.taken), (204, 204));
    assert!(cost.wall_ns >= 5_700_000, "no faster than asked for: {} ns", cost.wall_ns);
}

/// Each pass is later than the one before by the stretch that was recorded. A sample of three years ago beside one of
/// today, as the README makes them, and from the 27th pass on all were beyond the last cell, refused, and counted as
/// work.
#[test]
fn passes_end_before_time_does() {
    let recorded = |first_ns: i64, samples: u64| Recorded {
        arrivals: Vec::new(),
        frames: Vec::new(),
        bytes: 0,
        known: Default::default(),
        samples,
        first_ns,
        last_ns: TIME_NS,
        findings: Vec::new(),
    };
    assert_eq!(passes(&recorded(TIME_NS - 1_000_000_000, 7), 700), 100);
    for first_ns in [0, i64::MIN, TIME_NS - 94_608_000_000_000_000] {
        let recorded = recorded(first_ns, 1);
        let last = i128::from(passes(&recorded, u64::MAX));
        let span_ns = i128::from(TIME_NS) - i128::from(first_ns) + 1_000_000_000;
        assert!(last >= 1 && (last == 1 || last * span_ns + i128::from(TIME_NS) <= i128::from(CELLS_END_NS)), "{last}");
    }
}

#[test]
fn an_empty_directory_is_told_in_words() {
    let directory = tempfile::tempdir().unwrap();
    let Err(error) = Recorded::read(directory.path()) else { panic!("there is nothing to replay") };
    assert!(error.to_string().contains("holds no samples"), "{error:#}");
    assert_eq!(speed("max"), Ok(Speed(None)));
    assert_eq!(speed("60"), Ok(Speed(Some(60.0))));
    for bad in ["0", "-1", "fast", "inf", "NaN"] {
        assert!(speed(bad).is_err(), "{bad}");
    }
}

/// A sender falls two seconds behind: the journal says when its batches came, and a replay takes each of them whatever
/// its pace. How many are late depends on the pace: what a thread takes in one turn is merged before anything closes.
#[test]
fn arrivals_are_recorded_and_a_replay_goes_by_them() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options { journal_arrivals: true, ..Options::default() };
    let arrival = |sequence, time_ns| time_ns + if sequence < 10 { 100_000_000 } else { 2_100_000_000 };
    record_as(directory.path(), options, |sequence, time_ns| Some(arrival(sequence, time_ns)));
    let recorded = Recorded::read(directory.path()).unwrap();
    let expected: Vec<i64> = (1..=20).map(|at| arrival(at, TIME_NS + at as i64 * 300_000_000)).collect();
    assert_eq!((&recorded.arrivals, &recorded.findings), (&expected, &Vec::new()));
    for wait in [Wait::Yield, Wait::Hybrid(Default::default())] {
        let by_arrival =
            quantize(&recorded, ReplayOptions { speed: Some(1_000.0), by_arrival: true, wait, ..how() }).unwrap();
        assert_eq!((by_arrival.items, by_arrival.counts.refused_total()), (204, 0));
    }
    assert_eq!(quantize(&recorded, ReplayOptions { speed: Some(1_000.0), ..how() }).unwrap().counts.late, 0);
    // What is recorded so is read by a start, too.
    let store = Store::open(Arc::new(RealDisk), directory.path(), Options::default(), Wall::hour()).unwrap();
    assert_eq!((store.status().recovered.samples, store.status().recovered.findings.len()), (204, 0));
    let other = tempfile::tempdir().unwrap();
    record(other.path());
    assert!(Recorded::read(other.path()).unwrap().arrivals.is_empty(), "nobody asked for them");
}
