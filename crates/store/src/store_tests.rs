//! The store's contract, one guarantee at a time, on a simulated disk. Its crashes are in `crash_tests`.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use ogive_hist::{Histogram, Scheme};
use ogive_journal::{Disk, Faults, SimulatedDisk};
use ogive_model::sequence::Sequences;
use ogive_model::{
    Batch, HistogramValue, Kind, Labels, MatchOp, Matcher, Ns, Opening, Reason, Sample, Select, Selection, SeriesData,
    SeriesDef, SeriesMeta, SourceId, Stamps, Step, Temporality, Tenant, TimeRange, Value, Verdict, WallNs,
};

use crate::ingest::{TIME_AHEAD_MAX, TIME_NS_MIN};
use crate::testing::select_both_ways;
use crate::{Error, ManualClock, Observer, Options, Refusal, Store};

mod names;

const WALL_NS: i64 = 1_700_000_000_000_000_000;
const SECOND: i64 = 1_000_000_000;

fn options() -> Options {
    Options { group_interval: Duration::ZERO, flush_interval: Duration::from_secs(3600), ..Options::default() }
}

fn open_with(disk: &SimulatedDisk, options: Options) -> Result<Store, Error> {
    Store::open(Arc::new(disk.clone()), Path::new("data"), options, Arc::new(ManualClock::new(WallNs(WALL_NS))))
}

fn open(disk: &SimulatedDisk) -> Store {
    open_with(disk, options()).unwrap()
}

fn def(name: &str, kind: Kind, temporality: Temporality) -> SeriesDef {
    let labels = Labels::new([("__name__", name)]).unwrap();
    SeriesDef { labels, meta: SeriesMeta { kind, temporality, unit: String::new(), width_ms: 0 } }
}

fn gauge(name: &str) -> SeriesDef {
    def(name, Kind::Float, Temporality::Gauge)
}

fn at(series: u32, time_ns: i64, value: Value) -> Sample {
    Sample { series, time_ns, start_ns: None, value }
}

fn batch(sequence: u64, series: Vec<SeriesDef>, samples: Vec<Sample>) -> Batch {
    let (series, samples) = (series.into_iter().map(Ok).collect(), samples.into_iter().map(Ok).collect());
    Batch { source: SourceId(1), sequence, series, samples, ..Batch::default() }
}

/// A batch of one gauge sample.
fn one(sequence: u64, name: &str, value: f64) -> Batch {
    batch(sequence, vec![gauge(name)], vec![at(0, WALL_NS + sequence as i64 * SECOND, Value::Float(value))])
}

fn begin(store: &Store, batch: Batch) -> Result<Receiver<Result<Verdict, Refusal>>, Refusal> {
    let (reply, answer) = mpsc::channel();
    store.submit(batch, Box::new(move |result| reply.send(result).unwrap_or(())))?;
    Ok(answer)
}

fn submit(store: &Store, batch: Batch) -> Result<Verdict, Refusal> {
    begin(store, batch)?.recv_timeout(Duration::from_secs(120)).expect("a reply comes")
}

fn accepted(count: u64) -> Result<Verdict, Refusal> {
    Ok(Verdict { accepted: count, ..Verdict::default() })
}

fn all() -> Selection {
    Selection::new(Vec::new(), TimeRange::ALL)
}

fn by_name(name: &str) -> Vec<Matcher> {
    vec![Matcher::new("__name__", MatchOp::Equal, name).unwrap()]
}

fn read(store: &Store, name: &str) -> Option<SeriesData> {
    let mut found = select_both_ways(store, &Selection { matchers: by_name(name), ..all() }).series;
    assert!(found.len() <= 1, "one series is called {name}");
    found.pop()
}

fn cell(value: f64, scheme: Scheme) -> Value {
    let mut histogram = Histogram::<u64>::new(scheme);
    histogram.record(value);
    Value::Histogram(Box::new(histogram))
}

/// A histogram of which every rule is kept but that counts add up.
fn miscounted() -> Value {
    let mut histogram = Histogram::<u64>::log_linear();
    histogram.record(0.5);
    histogram.count = 7;
    Value::Histogram(Box::new(histogram))
}

#[test]
fn each_sample_has_its_own_verdict_and_neighbours_are_taken() {
    let store = open(&SimulatedDisk::new(1));
    let hist = def("h", Kind::Histogram, Temporality::Delta);
    submit(&store, batch(0, vec![gauge("known")], vec![at(0, WALL_NS, Value::Float(1.0))])).unwrap();
    let custom = |bound| Scheme::custom(vec![bound]).unwrap();
    let mut mixed = batch(
        1,
        vec![gauge("good"), gauge("t"), def("known", Kind::Float, Temporality::Delta), hist, gauge("bad_labels")],
        vec![
            at(0, WALL_NS, Value::Float(1.0)),
            at(1, TIME_NS_MIN - 1, Value::Float(1.0)),
            at(1, WALL_NS + TIME_AHEAD_MAX.0 + 1, Value::Float(1.0)),
            at(2, WALL_NS, Value::Float(1.0)),
            at(1, WALL_NS, Value::Text("a text".into())),
            at(3, WALL_NS, miscounted()),
            at(3, WALL_NS, cell(0.5, custom(1.0))),
            at(3, WALL_NS, cell(0.5, custom(2.0))),
            at(9, WALL_NS, Value::Float(1.0)),
            at(4, WALL_NS, Value::Float(1.0)),
            at(0, WALL_NS + SECOND, Value::Float(2.0)),
        ],
    );
    mixed.series[4] = Err(ogive_model::Error::NoMetricName);
    mixed.samples.push(Err(Reason::TextTooLarge));
    let verdict = submit(&store, mixed.clone()).unwrap();
    let rejected = vec![
        (1, Reason::TimeTooOld),
        (2, Reason::TimeTooNew),
        (3, Reason::KindConflict),
        (4, Reason::KindConflict),
        (5, Reason::HistogramInvalid),
        (7, Reason::SchemeConflict),
        (8, Reason::SeriesUnknown),
        (9, Reason::LabelsInvalid),
        (11, Reason::TextTooLarge),
    ];
    assert_eq!(verdict, Verdict { accepted: 3, rejected, ..Verdict::default() });
    assert_eq!(read(&store, "good").unwrap().floats.values, [1.0, 2.0]);
    assert_eq!(read(&store, "h").unwrap().histograms.values.len(), 1);
    // A series that only rejected samples spoke of is not there.
    assert!(read(&store, "t").is_none());
    assert_eq!(store.status().series, 3);
    assert_eq!(submit(&store, mixed).unwrap(), Verdict { duplicate: 12, ..Verdict::default() });
    let status = store.status();
    let of = |reason| status.rejected.iter().find(|count| count.0 == reason).unwrap().1;
    assert_eq!((status.accepted, status.duplicate, of(Reason::KindConflict)), (4, 12, 2));
}

#[test]
fn the_time_bounds_are_inside() {
    let store = open(&SimulatedDisk::new(1));
    let times = [TIME_NS_MIN, WALL_NS + TIME_AHEAD_MAX.0];
    let samples = times.map(|time| at(0, time, Value::Float(1.0))).to_vec();
    assert_eq!(submit(&store, batch(0, vec![gauge("g")], samples)), accepted(2));
}

#[test]
fn a_batch_of_rejected_samples_alone_is_remembered_and_registers_nothing() {
    let disk = SimulatedDisk::new(1);
    let store = open(&disk);
    let bad = batch(0, vec![gauge("g")], vec![at(0, -1, Value::Float(1.0))]);
    assert_eq!(submit(&store, bad.clone()).unwrap().rejected, [(0, Reason::TimeTooOld)]);
    assert_eq!(submit(&store, batch(1, vec![], vec![])), accepted(0));
    assert_eq!(store.status().series, 0);
    disk.cut_power();
    drop(store);
    disk.restart();
    let store = open(&disk);
    assert_eq!(submit(&store, bad).unwrap().duplicate, 1);
    assert_eq!(submit(&store, one(2, "g", 1.0)), accepted(1));
    assert_eq!(store.status().series, 1);
}

#[test]
fn series_are_taken_up_to_the_limit() {
    let disk = SimulatedDisk::new(1);
    let limited = || Options { series_max: 2, ..options() };
    let store = open_with(&disk, limited()).unwrap();
    for (n, name) in ["a", "b", "a"].into_iter().enumerate() {
        assert_eq!(submit(&store, one(n as u64, name, 1.0)), accepted(1));
    }
    let folded = Verdict { accepted: 1, folded: 1, ..Verdict::default() };
    assert_eq!(submit(&store, one(3, "c", 1.0)), Ok(folded));
    assert_eq!((read(&store, "c"), read(&store, "ogive_overflow").unwrap().floats.values), (None, vec![1.0]));
    drop(store);
    // What was accepted under a higher limit stays.
    let store = open_with(&disk, Options { series_max: 1, ..options() }).unwrap();
    assert_eq!((store.status().series, read(&store, "b").is_some()), (3, true));
    assert_eq!(store.status().recovered.findings, [""; 0]);
}

#[test]
fn a_temporality_binds_after_flush_and_restart() {
    let disk = SimulatedDisk::new(1);
    let store = open(&disk);
    submit(&store, one(0, "g", 1.0)).unwrap();
    assert_eq!(store.flush().unwrap().len(), 1);
    drop(store);
    let store = open(&disk);
    let other = batch(1, vec![def("g", Kind::Float, Temporality::Delta)], vec![at(0, WALL_NS, Value::Float(1.0))]);
    assert_eq!(submit(&store, other).unwrap().rejected, [(0, Reason::KindConflict)]);
    assert_eq!(submit(&store, one(2, "g", 1.0)), accepted(1));
}

#[test]
fn values_at_one_time_meet_as_their_temporality_has_it() {
    let disk = SimulatedDisk::new(1);
    let store = open(&disk);
    let float = |value| Value::Float(value);
    let mut integer = Histogram::<u64>::log_linear();
    integer.record_n(0.5, 2);
    let series = vec![
        gauge("gauge"),
        def("delta", Kind::Float, Temporality::Delta),
        def("text", Kind::Text, Temporality::Gauge),
        def("cell", Kind::Histogram, Temporality::Delta),
        def("cumulative", Kind::Histogram, Temporality::Cumulative),
    ];
    let histogram = || Value::Histogram(Box::new(integer.clone()));
    for (sequence, value) in [(0, 1.5), (1, 2.5)] {
        let values = [
            float(value),
            float(value),
            Value::Text(format!("{value}")),
            // One with float counts makes the cell one of float counts, whichever comes first.
            if sequence == 0 { Value::FloatHistogram(Box::new(integer.to_float())) } else { histogram() },
            histogram(),
        ];
        let samples = values.into_iter().enumerate().map(|(n, value)| at(n as u32, WALL_NS, value)).collect();
        assert_eq!(submit(&store, batch(sequence, series.clone(), samples)), accepted(5));
    }
    let check = |store: &Store| {
        assert_eq!(read(store, "gauge").unwrap().floats.values, [2.5]);
        assert_eq!(read(store, "delta").unwrap().floats.values, [4.0]);
        assert_eq!(read(store, "text").unwrap().texts.values, ["1.5", "2.5"]);
        let mut twice = integer.clone();
        twice.merge(&integer).unwrap();
        assert_eq!(read(store, "cell").unwrap().histograms.values, [HistogramValue::Float(twice.to_float())]);
        assert_eq!(read(store, "cumulative").unwrap().histograms.values, [HistogramValue::Integer(integer.clone())]);
    };
    check(&store);
    drop(store);
    let store = open(&disk);
    check(&store);
    assert_eq!(store.flush().unwrap().len(), 1);
    check(&store);
}

#[test]
fn a_batch_that_is_sent_twice_at_once_counts_once() {
    let store = open_with(&SimulatedDisk::new(1), Options { group_interval: Duration::from_millis(10), ..options() });
    let store = store.unwrap();
    let answers: Vec<_> = (0..10).map(|_| begin(&store, one(0, "g", 1.0)).unwrap()).collect();
    let verdicts: Vec<Verdict> = answers.into_iter().map(|answer| answer.recv().unwrap().unwrap()).collect();
    assert_eq!(verdicts[0].accepted, 1);
    assert!(verdicts[1..].iter().all(|verdict| verdict.duplicate == 1));
    assert_eq!(store.status().head_samples, 1);
}

/// Whoever knew the source of another tenant's sender could use its numbers first: what the sender brought then was
/// answered as a duplicate and never stored. Each tenant has numbers of its own now: in one group, later, after a crash
/// and after a clean end.
#[test]
fn numbers_of_one_tenant_suppress_nothing_of_another() {
    let disk = SimulatedDisk::new(1);
    let slow = || Options { group_interval: Duration::from_millis(10), ..options() };
    let of = |tenant: &str, sequence: u64| Batch { tenant: Tenant::new(tenant).unwrap(), ..one(sequence, "g", 1.0) };
    let store = open_with(&disk, slow()).unwrap();
    let answers: Vec<_> =
        ["team-a", "team-b", "default"].map(|tenant| begin(&store, of(tenant, 0)).unwrap()).into_iter().collect();
    assert!(answers.iter().all(|answer| answer.recv().unwrap() == accepted(1)), "in one group");
    assert_eq!(submit(&store, of("team-a", 1)), accepted(1));
    assert_eq!(submit(&store, of("team-b", 1)), accepted(1));
    let is_duplicate = |store: &Store, batch| submit(store, batch).unwrap().duplicate == 1;
    // A crash: what is known comes from the journal.
    disk.cut_power();
    drop(store);
    disk.restart();
    let store = open_with(&disk, slow()).unwrap();
    assert!(is_duplicate(&store, of("team-a", 1)) && is_duplicate(&store, of("team-b", 1)));
    assert_eq!(submit(&store, of("default", 1)), accepted(1));
    // A clean end: it comes from the manifest.
    store.flush_whole().unwrap();
    drop(store);
    let store = open_with(&disk, slow()).unwrap();
    for tenant in ["team-a", "team-b", "default"] {
        assert!(is_duplicate(&store, of(tenant, 0)) && is_duplicate(&store, of(tenant, 1)), "{tenant}");
        assert_eq!(submit(&store, of(tenant, 2)), accepted(1));
    }
}

#[test]
fn a_number_in_a_gap_that_was_given_up_is_rejected() {
    let store = open(&SimulatedDisk::new(1));
    for gap in 0..=Sequences::RUNS_MAX as u64 {
        begin(&store, one(2 + gap * 2, "g", 1.0)).unwrap();
    }
    assert_eq!(submit(&store, one(3, "g", 1.0)).unwrap().rejected, [(0, Reason::SequenceTooOld)]);
}

struct Fsyncs(AtomicU64);

impl Observer for Fsyncs {
    fn fsync(&self, _: Ns) {
        // ORDERING: Relaxed; a count that is read after the replies.
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn batches_that_come_together_share_an_fsync() {
    let fsyncs = Arc::new(Fsyncs(AtomicU64::new(0)));
    let observer: Arc<dyn Observer> = fsyncs.clone();
    let grouped = Options { group_interval: Duration::from_millis(500), observer: Some(observer), ..options() };
    let store = open_with(&SimulatedDisk::new(1), grouped).unwrap();
    let answers: Vec<_> = (0..200).map(|n| begin(&store, one(n, "g", 1.0)).unwrap()).collect();
    for answer in answers {
        assert_eq!(answer.recv().unwrap(), accepted(1));
    }
    // ORDERING: Relaxed, as above.
    let fsyncs = fsyncs.0.load(Ordering::Relaxed);
    assert!((1..=20).contains(&fsyncs), "{fsyncs} fsyncs for 200 batches");
}

#[test]
fn a_failed_fsync_is_reported_and_the_batch_sent_again_counts_once() {
    let disk = SimulatedDisk::new(1);
    let store = open(&disk);
    submit(&store, one(0, "old", 1.0)).unwrap();
    disk.set_faults(Faults { sync_error: 1000, ..Faults::default() });
    assert!(matches!(submit(&store, one(1, "new", 1.0)), Err(Refusal::Failed(_))));
    assert!(matches!(submit(&store, one(1, "new", 1.0)), Err(Refusal::Failed(_))), "the journal cannot be reopened");
    assert!(read(&store, "new").is_none() && read(&store, "old").is_some(), "reads go on");
    disk.set_faults(Faults::default());
    assert_eq!(submit(&store, one(2, "old", 1.0)), accepted(1));
    assert_eq!(store.status().series, 1, "a series of a lost batch alone is not there");
    assert_eq!(submit(&store, one(1, "new", 1.0)), accepted(1));
    assert_eq!(submit(&store, one(1, "new", 1.0)).unwrap().duplicate, 1);
    disk.cut_power();
    drop(store);
    disk.restart();
    assert_eq!(read(&open(&disk), "new").unwrap().floats.values, [1.0]);
}

#[test]
fn a_full_disk_refuses_reads_go_on_and_space_is_enough_to_recover() {
    let disk = SimulatedDisk::new(1);
    let store = open(&disk);
    disk.set_capacity(Some(20_000));
    let mut taken = 0;
    let refusal = loop {
        match submit(&store, one(taken, "g", taken as f64)) {
            Ok(_) => taken += 1,
            Err(refusal) => break refusal,
        }
    };
    assert_eq!(refusal, Refusal::DiskFull);
    assert_eq!(submit(&store, one(taken, "other", 0.0)), Err(Refusal::DiskFull));
    assert!(store.flush().is_err_and(|error| error.is_full()));
    assert_eq!(read(&store, "g").unwrap().floats.values.len() as u64, taken);
    assert_eq!(store.status().series, 1, "a refused batch registers nothing");
    disk.set_capacity(None);
    assert_eq!(submit(&store, one(taken, "g", 0.0)), accepted(1));
    assert_eq!(store.flush().unwrap().len(), 1);
    assert_eq!(read(&store, "g").unwrap().floats.values.len() as u64, taken + 1);
    drop(store);
    assert_eq!(read(&open(&disk), "g").unwrap().floats.values.len() as u64, taken + 1);
}

#[test]
fn a_store_starts_on_a_full_disk_and_recovers_without_a_restart() {
    let disk = SimulatedDisk::new(1);
    let store = open(&disk);
    submit(&store, one(0, "g", 1.0)).unwrap();
    disk.kill_process();
    drop(store);
    disk.set_capacity(Some(disk.used_bytes() + 10));
    let store = open(&disk);
    assert_eq!(read(&store, "g").unwrap().floats.values, [1.0]);
    assert_eq!(submit(&store, one(1, "g", 2.0)), Err(Refusal::DiskFull));
    assert_eq!(submit(&store, one(0, "g", 1.0)), Err(Refusal::DiskFull), "it is not known to be durable");
    assert!(store.flush().is_err_and(|error| error.is_full()));
    disk.set_capacity(None);
    assert_eq!(submit(&store, one(0, "g", 1.0)).unwrap().duplicate, 1);
    assert_eq!(submit(&store, one(1, "g", 2.0)), accepted(1));
    assert_eq!(store.flush().unwrap().len(), 1);
    disk.cut_power();
    drop(store);
    disk.restart();
    assert_eq!(read(&open(&disk), "g").unwrap().floats.values, [1.0, 2.0]);
}

#[test]
fn a_full_head_is_busy_until_it_can_be_flushed() {
    let disk = SimulatedDisk::new(1);
    let small = Options { head_bytes_max: 20_000, ..options() };
    let store = open_with(&disk, small).unwrap();
    // No block can be made: the journal's segment is open already and needs no new name.
    disk.set_faults(Faults { name_error: 1000, ..Faults::default() });
    let text = |n| {
        batch(n, vec![def("t", Kind::Text, Temporality::Gauge)], vec![at(0, WALL_NS, Value::Text("x".repeat(1000)))])
    };
    let mut taken = 0;
    while taken < 100 && submit(&store, text(taken)) != Err(Refusal::Busy) {
        taken += 1;
    }
    assert!((15..=25).contains(&taken), "{taken} texts of 1,000 bytes");
    // Asked for, since the flush that began by itself may not have come so far yet.
    assert!(store.flush().is_err());
    let status = store.status();
    assert!(status.head_bytes <= 22_000 && status.flush_failures > 0, "{status:?}");
    assert_eq!(read(&store, "t").unwrap().texts.values.len() as u64, taken);
    disk.set_faults(Faults::default());
    store.flush().unwrap();
    assert_eq!(submit(&store, text(taken)), accepted(1));
    assert_eq!(read(&store, "t").unwrap().texts.values.len() as u64, taken + 1);
}

/// The writer waits behind each fsync while somebody holds it.
#[derive(Default)]
struct Gate(Mutex<()>);

impl Observer for Gate {
    fn fsync(&self, _: Ns) {
        drop(self.0.lock().unwrap());
    }
}

#[test]
fn a_queue_at_its_bound_is_busy_and_nothing_of_the_batch_counts() {
    let (disk, gate) = (SimulatedDisk::new(1), Arc::<Gate>::default());
    let narrow = Options { queue_batches_max: 2, observer: Some(gate.clone()), ..options() };
    let store = open_with(&disk, narrow).unwrap();
    let (mut answers, mut busy) = (Vec::new(), 0);
    let mut held = Some(gate.0.lock().unwrap());
    for n in 0..2000 {
        if n == 1000 {
            held.take();
        }
        match begin(&store, one(n, "g", 1.0)) {
            Ok(answer) => answers.push(answer),
            Err(refusal) => {
                assert_eq!(refusal, Refusal::Busy);
                busy += 1;
            }
        }
    }
    let accepted = answers.iter().filter(|answer| answer.recv().unwrap().is_ok()).count();
    assert_eq!((accepted, accepted + busy), (answers.len(), 2000));
    assert!(busy > 0, "a queue of two is filled by two thousand");
    assert_eq!(read(&store, "g").unwrap().floats.values.len(), accepted);
    assert_eq!(store.status().refused, busy as u64);
}

/// 1 MiB of letters and digits: what compresses well would not fill the head.
fn random_text(random: &mut fastrand::Rng) -> String {
    const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut bytes = vec![0; 1 << 20];
    // All at once: a call for each letter takes seconds of a debug build.
    random.fill(&mut bytes);
    bytes.iter_mut().for_each(|byte| *byte = LETTERS[usize::from(*byte) % LETTERS.len()]);
    String::from_utf8(bytes).expect("letters and digits")
}

#[test]
fn replay_keeps_the_head_within_its_bound() {
    let disk = SimulatedDisk::new(1);
    let store = open_with(&disk, Options { head_bytes_max: 1 << 40, ..options() }).unwrap();
    let mut random = fastrand::Rng::with_seed(1);
    for n in 0..60 {
        let text = Value::Text(random_text(&mut random));
        let series = vec![def("t", Kind::Text, Temporality::Gauge)];
        assert_eq!(submit(&store, batch(n, series, vec![at(0, WALL_NS + n as i64, text)])), accepted(1));
    }
    drop(store);
    let store = open_with(&disk, Options { head_bytes_max: 32 << 20, ..options() }).unwrap();
    let status = store.status();
    assert!(status.flushes >= 2 && status.head_bytes <= 32 << 20, "{status:?}");
    assert_eq!(status.recovered.batches, 60);
    assert_eq!(read(&store, "t").unwrap().texts.values.len(), 60);
    assert_eq!(submit(&store, one(59, "g", 1.0)).unwrap().duplicate, 1, "windows are restored");
}

#[test]
fn a_directory_has_one_store() {
    let disk = SimulatedDisk::new(1);
    let store = open(&disk);
    assert!(matches!(open_with(&disk, options()), Err(Error::Disk(ogive_journal::Error::Locked { .. }))));
    drop(store);
    open(&disk);
}

#[test]
fn the_journal_goes_when_its_samples_are_in_blocks() {
    let disk = SimulatedDisk::new(1);
    let store = open_with(&disk, Options { segment_bytes: 1000, ..options() }).unwrap();
    for n in 0..250 {
        submit(&store, one(n, "g", 1.0)).unwrap();
    }
    let before = store.status().journal_bytes;
    assert_eq!(store.flush().unwrap().len(), 1);
    assert_eq!(store.flush().unwrap(), [], "nothing is left");
    submit(&store, one(250, "g", 1.0)).unwrap();
    assert!(store.status().journal_bytes < before / 5);
    assert!(disk.list(Path::new("data/journal")).unwrap().len() <= 2);
    drop(store);
    let store = open(&disk);
    assert_eq!(store.status().recovered.batches, 1);
    assert_eq!(read(&store, "g").unwrap().floats.values.len(), 251);
}

#[test]
fn corruption_of_the_journal_is_reported_and_costs_one_batch() {
    let disk = SimulatedDisk::new(1);
    let store = open(&disk);
    for n in 0..3 {
        submit(&store, one(n, "g", n as f64)).unwrap();
    }
    drop(store);
    let segment = disk.list(Path::new("data/journal")).unwrap().remove(0);
    disk.flip_bit(&segment, (64 + 40) * 8);
    let store = open(&disk);
    assert_eq!(read(&store, "g").unwrap().floats.values, [1.0, 2.0]);
    let findings = store.status().recovered.findings;
    assert_eq!(findings.len(), 1, "what opening and replay both met is reported once: {findings:?}");
    assert!(findings[0].contains("journal") && findings[0].contains("bytes 64.."), "{findings:?}");
}

/// Series that come and go: each lives for a while, and the store would be full of them for ever.
#[test]
fn series_that_ended_make_room_for_others() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::new(ManualClock::new(WallNs(WALL_NS))));
    let few = Options { series_max: 3, ..options() };
    let time: Arc<dyn crate::Clock> = clock.clone();
    let store = Store::open(Arc::new(disk.clone()), Path::new("data"), few, time).unwrap();
    for round in 0..6_u64 {
        let names = ["always".to_owned(), format!("round_{round}"), format!("round_{round}_too")];
        for (n, name) in names.iter().enumerate() {
            assert_eq!(submit(&store, one(round * 3 + n as u64, name, 1.0)), accepted(1), "{name}");
        }
        assert_eq!(store.status().series, 3);
        assert_eq!(store.flush().unwrap().len(), 1);
        clock.advance(crate::ingest::recall::IDLE);
        submit(&store, one(1000 + round, "always", 1.0)).unwrap();
        assert_eq!(store.flush().unwrap().len(), 1);
        assert_eq!(store.status().series, 1, "round {round}");
    }
    assert_eq!(read(&store, "round_0").unwrap().floats.values, [1.0]);
    assert_eq!(read(&store, "always").unwrap().floats.values.len(), 12);
    assert_eq!(
        store
            .tenant(&Tenant::default())
            .label_values("__name__", &[], TimeRange::ALL, usize::MAX, &Opening::UNBOUNDED)
            .unwrap()
            .len(),
        13
    );
}

#[test]
fn labels_come_from_heads_and_blocks() {
    let store = open(&SimulatedDisk::new(1));
    submit(&store, one(0, "in_block", 1.0)).unwrap();
    assert_eq!(store.flush().unwrap().len(), 1);
    submit(&store, one(1, "in_head", 1.0)).unwrap();
    assert_eq!(
        store
            .tenant(&Tenant::default())
            .label_values("__name__", &[], TimeRange::ALL, usize::MAX, &Opening::UNBOUNDED)
            .unwrap(),
        ["in_block", "in_head"]
    );
    assert_eq!(
        store.tenant(&Tenant::default()).label_names(&[], TimeRange::ALL, &Opening::UNBOUNDED).unwrap(),
        ["__name__"]
    );
    let found = store.select(&Selection { labels_only: true, ..all() }).unwrap();
    assert!(found.len() == 2 && found.iter().all(|data| data.floats.times.is_empty()));
    let limited = store.select(&Selection { samples_max: 1, ..all() });
    assert!(matches!(limited, Err(ogive_model::SelectError::TooManySamples { limit: 1 })));
}

/// Ends the loops of all threads with the first that ends or breaks.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        // ORDERING: Relaxed; guards nothing.
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Readers ask all the time while batches come and flushes move them: what was acknowledged before a question
/// is in its answer once, and nothing is there twice.
#[test]
fn readers_see_every_acknowledged_sample_once_while_flushes_go_on() {
    let store = open(&SimulatedDisk::new(1));
    let (acknowledged, questions) = (AtomicU64::new(0), AtomicU64::new(0));
    /// So many batches at least, and more until enough questions and flushes have met them.
    const BATCHES_MIN: u64 = 1500;
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // ORDERING: Relaxed; a count that guards nothing.
            let enough = || questions.load(Ordering::Relaxed) > 20 && store.status().flushes > 5;
            let _end = End(&ended);
            for n in (0..).take_while(|n| !ended.load(Ordering::Relaxed) && (*n < BATCHES_MIN || !enough())) {
                let sum = def("sum", Kind::Float, Temporality::Delta);
                let one = batch(n, vec![sum], vec![at(0, WALL_NS + (n as i64 % 3) * SECOND, Value::Float(1.0))]);
                assert_eq!(submit(&store, one), accepted(1));
                // ORDERING: Release; pairs with the Acquire of the reader, which must then see the batch.
                acknowledged.store(n + 1, Ordering::Release);
            }
        });
        scope.spawn(|| {
            let _end = End(&ended);
            // ORDERING: Relaxed; as all of this flag, it ends loops some time later.
            while !ended.load(Ordering::Relaxed) {
                store.flush().unwrap();
            }
        });
        let _end = End(&ended);
        let selection = Selection { matchers: by_name("sum"), ..all() };
        // ORDERING: Relaxed, as above.
        while !ended.load(Ordering::Relaxed) {
            // ORDERING: Acquire; pairs with the Release above.
            let before = acknowledged.load(Ordering::Acquire);
            // ORDERING: Relaxed; only this thread writes it.
            let found = if questions.fetch_add(1, Ordering::Relaxed) % 2 == 0 {
                store.select(&selection).unwrap()
            } else {
                let set = store.open(&selection, &Opening::UNBOUNDED).unwrap();
                (0..set.count()).flat_map(|number| set.take(number).unwrap()).collect()
            };
            let sum: f64 = found.iter().flat_map(|data| &data.floats.values).sum();
            // ORDERING: Acquire, as above. One more may be durable and applied, and its reply on the way.
            let after = acknowledged.load(Ordering::Acquire) + 1;
            assert!(before as f64 <= sum && sum <= after as f64, "{before} <= {sum} <= {after}");
        }
    });
    let sum: f64 = read(&store, "sum").map_or(0.0, |data| data.floats.values.iter().sum());
    // ORDERING: Relaxed; the threads have ended.
    assert_eq!(sum, acknowledged.load(Ordering::Relaxed) as f64);
}

#[test]
fn tenants_share_a_store_and_nothing_else() {
    let disk = SimulatedDisk::new(0);
    let names = ["default", "a", "b"].map(|name| Tenant::new(name).unwrap());
    let of =
        |tenant: &Tenant, sequence: u64, value: f64| Batch { tenant: tenant.clone(), ..one(sequence, "up", value) };
    let check = |store: &Store| {
        for (tenant, value) in names.iter().zip([1.0, 2.0, 3.0]) {
            let found = store.tenant(tenant).select(&all()).unwrap();
            assert_eq!(found.len(), 1, "{tenant}");
            assert_eq!(found[0].floats.values, [value, value + 10.0], "{tenant}");
            assert_eq!(
                store
                    .tenant(tenant)
                    .label_values("__name__", &[], TimeRange::ALL, usize::MAX, &Opening::UNBOUNDED)
                    .unwrap(),
                ["up"]
            );
        }
        assert_eq!(store.tenant(&Tenant::new("c").unwrap()).select(&all()).unwrap(), []);
    };
    let store = open(&disk);
    for (n, tenant) in names.iter().enumerate() {
        assert_eq!(submit(&store, of(tenant, n as u64, n as f64 + 1.0)), accepted(1));
    }
    let mut blocks: Vec<Tenant> = store.flush().unwrap().into_iter().map(|meta| meta.tenant).collect();
    blocks.sort();
    assert_eq!(blocks.iter().map(Tenant::as_str).collect::<Vec<_>>(), ["a", "b", "default"]);
    // Same source, same times, other sequences: the tenant alone keeps them apart.
    for (n, tenant) in names.iter().enumerate() {
        assert_eq!(submit(&store, of(tenant, 100 + n as u64, n as f64 + 11.0)), accepted(1));
    }
    check(&store);
    drop(store);
    let store = open(&disk);
    check(&store);
    store.flush().unwrap();
    check(&store);
}

#[derive(Default)]
struct Steps(std::sync::Mutex<Vec<Step>>);

impl Stamps for Steps {
    fn stamp(&self, step: Step) {
        self.0.lock().unwrap().push(step);
    }
}

#[test]
fn a_batch_is_stamped_on_its_way_in_order_and_before_its_reply() {
    let store = open(&SimulatedDisk::new(1));
    let all = [Step::Taken, Step::Journaled, Step::Durable];
    // The second is a duplicate, which waits for its fsync as well; the third has nothing that is accepted.
    for batch in
        [one(1, "a", 1.0), one(1, "a", 1.0), batch(2, vec![gauge("a")], vec![at(7, WALL_NS, Value::Float(1.0))])]
    {
        let steps = Arc::<Steps>::default();
        let (reply, answer) = mpsc::channel();
        let (frame, heard) = (batch.encode().unwrap(), steps.clone());
        let reply = Box::new(move |_| reply.send(heard.0.lock().unwrap().clone()).unwrap());
        store.submit_stamped(batch, frame, reply, Some(steps)).unwrap();
        assert_eq!(answer.recv().unwrap(), all);
    }
}

#[test]
fn lists_of_everything_are_those_of_the_series() {
    let store = open(&SimulatedDisk::new(21));
    let other = Tenant::new("other").unwrap();
    let check = |what: &str| {
        for (tenant, start_s) in [(Tenant::default(), -10), (Tenant::default(), 2), (other.clone(), -10)] {
            let start_ms = WALL_NS / 1_000_000 + start_s * 1000;
            let range = TimeRange::from_ms(start_ms, i64::MAX);
            let view = store.tenant(&tenant);
            let found = view.select(&Selection { range, labels_only: true, ..all() }).unwrap();
            let of = |wanted: &dyn Fn(&SeriesData) -> Vec<String>| -> Vec<String> {
                let all: std::collections::BTreeSet<String> = found.iter().flat_map(wanted).collect();
                all.into_iter().collect()
            };
            let names = of(&|one| one.labels.iter().map(|(name, _)| name.to_owned()).collect());
            assert_eq!(view.label_names(&[], range, &Opening::UNBOUNDED).unwrap(), names, "{what} {tenant}");
            for label in ["__name__", "site", "nothing"] {
                let one = |one: &SeriesData| one.labels.get(label).to_owned();
                let values = of(&|data| Some(one(data)).filter(|value| !value.is_empty()).into_iter().collect());
                assert_eq!(
                    view.label_values(label, &[], range, usize::MAX, &Opening::UNBOUNDED).unwrap(),
                    values,
                    "{what} {tenant} {label}"
                );
            }
            let histograms = found.iter().filter(|one| one.meta.kind == Kind::Histogram);
            let histograms = histograms.map(|one| one.labels.metric_name().to_owned()).collect();
            assert_eq!(view.histogram_names(range).unwrap(), histograms, "{what} {tenant}");
        }
    };
    let mut site = gauge("b");
    site.labels = site.labels.with("site", "x");
    let series = vec![gauge("a"), site, def("h", Kind::Histogram, Temporality::Delta), gauge("h")];
    let samples = |second: i64| {
        let time = WALL_NS + second * SECOND;
        let histogram = at(2, time, cell(0.5, Scheme::LogLinear10));
        vec![at(0, time, Value::Float(1.0)), at(1, time, Value::Float(1.0)), histogram, at(3, time, Value::Float(1.0))]
    };
    submit(&store, batch(0, series.clone(), samples(0))).unwrap();
    let theirs = Batch { tenant: other.clone(), source: SourceId(2), ..one(0, "theirs", 1.0) };
    submit(&store, theirs).unwrap();
    check("in memory");
    store.flush().unwrap();
    check("in blocks");
    submit(
        &store,
        batch(
            1,
            vec![def("late", Kind::Histogram, Temporality::Delta)],
            vec![at(0, WALL_NS + 5 * SECOND, cell(0.5, Scheme::LogLinear10))],
        ),
    )
    .unwrap();
    check("in both");
}
