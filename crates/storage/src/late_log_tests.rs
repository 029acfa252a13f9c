//! Late samples through kills: what a forward finds in its log at its next start.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ogive_journal::{Disk, RealDisk};

use ogive_model::{
    Batch, BatchId, Kind, MatchOp, Matcher, Reason, Sample, SeriesDef, SeriesMeta, SourceId, Temporality, Tenant,
    Value, Verdict, WallMs,
};

use crate::late::{Watch, Watches};
use crate::late_log::{COMPACT_BYTES, LateLog, Place, Record, in_flight, path_of, put, read_any};
use crate::late_sample::Key;

const SOURCE: SourceId = SourceId(9);

/// A sample of a declared series and one of a known one at each time.
fn batch(sequence: u64, times: &[i64]) -> Batch {
    let meta = SeriesMeta { kind: Kind::Float, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };
    let series = vec![Ok(SeriesDef::new([("__name__", "a")], meta).unwrap())];
    let sample = |series: u32, time: &i64| {
        Ok(Sample { series, time_ns: time * 1_000_000, start_ns: None, value: Value::Float(*time as f64) })
    };
    // The known one first.
    let samples = times.iter().flat_map(|time| [sample(1, time), sample(0, time)]).collect();
    let known = vec![ogive_model::SeriesId(77)];
    Batch { source: SourceId(1), sequence, series, known, samples, ..Batch::default() }
}

fn accepted(count: u64) -> Verdict {
    Verdict { accepted: count, ..Verdict::default() }
}

/// A process: the forward's file has `sequence` and everything up to `until`.
struct Process {
    all: Arc<Watches>,
    watch: Watch,
}

impl Process {
    fn start(path: &Path, sequence: u64, until: i64, stored: &[u64]) -> Self {
        let stored = stored
            .iter()
            .map(|sequence| (Tenant::default(), BatchId { source: SourceId(1), sequence: *sequence }))
            .collect();
        let all = Arc::new(Watches::new(stored));
        let tenant = Tenant::default();
        let until = WallMs(until);
        let log = LateLog::open(path, Place { source: SOURCE, sequence, until }, all.stored(), &tenant).unwrap();
        let matchers = vec![vec![Matcher::new("__name__", MatchOp::Equal, "a").unwrap()]];
        let watch = all.watch(tenant, matchers, until, Some(log));
        Self { all, watch }
    }

    fn stored(&self, sequence: u64, times: &[i64]) {
        let arrival = self.all.arrival(&batch(sequence, times)).unwrap();
        arrival.acknowledged(&accepted(2 * times.len() as u64));
    }

    fn late(&self, sequence: u64) -> Vec<i64> {
        let (late, dropped) = self.watch.take(sequence);
        assert_eq!(dropped, 0);
        for late in &late {
            let is_known = late.key == Key::Known(ogive_model::SeriesId(77));
            assert!(is_known || matches!(&late.key, Key::Declared(def) if def.labels.get("__name__") == "a"));
        }
        late.iter().map(|late| late.sample.time_ms()).collect()
    }
}

fn file() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = path_of(directory.path(), "there");
    (directory, path)
}

/// Killed wherever: what is not in the forward's file is there at the next start, and what is, is not.
#[test]
fn what_was_acknowledged_is_there_after_a_kill_once() {
    let (directory, path) = file();
    let first = Process::start(&path, 1, 1_000, &[]);
    first.stored(1, &[100]);
    assert_eq!(first.late(1), [100, 100]);
    first.stored(2, &[200, 5_000]);
    // What was rejected, refused, or there before.
    let verdict = Verdict { accepted: 1, rejected: vec![(0, Reason::LabelsInvalid)], ..Verdict::default() };
    first.all.arrival(&batch(3, &[300])).unwrap().acknowledged(&verdict);
    drop(first.all.arrival(&batch(4, &[400])).unwrap());
    let known = Verdict { duplicate: 2, ..Verdict::default() };
    first.all.arrival(&batch(2, &[200])).unwrap().acknowledged(&known);
    // In flight: of a batch that is stored, of one that is not, and of one that was there before.
    let flights = [5, 6, 2].map(|sequence| first.all.arrival(&batch(sequence, &[sequence as i64])).unwrap());
    std::mem::forget(flights);
    let of = |all: Vec<(Tenant, BatchId)>| all.into_iter().map(|(_, id)| id.sequence).collect::<Vec<_>>();
    assert_eq!(of(in_flight(directory.path())), [5, 6, 2]);
    // The file was not written: what was taken comes again. Twice: this start is killed before it does anything.
    for _ in 0..2 {
        let next = Process::start(&path, 1, 1_000, &[5, 2]);
        let mut found = next.watch.take(1).0.iter().map(|late| late.sample.time_ms()).collect::<Vec<_>>();
        found.sort_unstable();
        assert_eq!(found, [5, 5, 100, 100, 200, 200, 300]);
    }
    // It was written: what was taken then does not.
    let next = Process::start(&path, 1, 1_000, &[]);
    next.late(1);
    next.stored(7, &[700]);
    let mut next = Process::start(&path, 2, 1_000, &[]);
    assert_eq!(next.late(2), [700, 700]);
    next.watch.settle_taken();
    // A batch that is known to have been forwarded and was in flight again.
    std::mem::forget(next.all.arrival(&batch(7, &[700])).unwrap());
    next = Process::start(&path, 3, 1_000, &[7]);
    assert_eq!(next.late(3), [0; 0]);
}

/// What a read has is not late, and what a read that was not saved had is read again.
#[test]
fn what_was_read_is_not_late_after_a_kill() {
    let (_directory, path) = file();
    let first = Process::start(&path, 1, 1_000, &[]);
    first.watch.begin(WallMs(1_000), WallMs(2_000));
    first.watch.settle();
    first.stored(1, &[900, 1_500]);
    assert!(!first.watch.commit(false));
    first.watch.settle();
    assert!(first.watch.commit(false));
    first.stored(2, &[1_600]);
    assert_eq!(Process::start(&path, 1, 2_000, &[]).late(1), [900, 900, 1_600, 1_600]);
    // The file says that nothing of it was read.
    assert_eq!(Process::start(&path, 1, 1_000, &[]).late(1), [900, 900]);
}

#[test]
fn a_log_is_cut_down_and_keeps_what_is_in_flight() {
    let (_directory, path) = file();
    let first = Process::start(&path, 1, 1_000_000, &[]);
    let times: Vec<i64> = (1..5_000).collect();
    let flight = first.all.arrival(&batch(1, &[400])).unwrap();
    let mut sequence = 2;
    while RealDisk.length(&path).unwrap() <= COMPACT_BYTES {
        first.stored(sequence, &times);
        sequence += 1;
    }
    first.watch.take(1);
    flight.acknowledged(&accepted(2));
    first.stored(sequence, &[500]);
    first.watch.settle_taken();
    assert!(RealDisk.length(&path).unwrap() < COMPACT_BYTES / 2);
    first.stored(sequence + 1, &[600]);
    assert_eq!(Process::start(&path, 2, 1_000_000, &[]).late(2), [400, 400, 500, 500, 600, 600]);
}

#[test]
fn the_documented_example_holds() {
    let mut out = Vec::new();
    put(&mut out, &Record::Read(WallMs(1_000), WallMs(2_000)));
    let hex: Vec<String> = out.iter().map(|byte| format!("{byte:02x}")).collect();
    let page = include_str!("../../../docs/formats/forward.md");
    assert!(page.contains(&hex.join(" ")), "{}", hex.join(" "));
}

/// Cut or flipped anywhere: no panic, and what stands in front of it is there.
#[test]
fn a_log_that_is_cut_or_damaged_ends_there() {
    let (_directory, path) = file();
    let first = Process::start(&path, 1, 1_000, &[]);
    first.stored(1, &[100]);
    let whole = RealDisk.length(&path).unwrap() as usize;
    first.stored(2, &[200]);
    let bytes = RealDisk.read(&path).unwrap();
    for at in 0..bytes.len() {
        RealDisk.replace(&path, &bytes[..at]).unwrap();
        let found = Process::start(&path, 1, 1_000, &[]).late(1);
        assert_eq!(found, if at < whole { vec![] } else { vec![100, 100] }, "cut at {at}");
        let mut flipped = bytes.clone();
        flipped[at] ^= 0x10;
        read_any(&flipped);
    }
    // Of another file of the forward: its batches have other numbers.
    RealDisk.replace(&path, &bytes).unwrap();
    let (tenant, none) = (Tenant::default(), HashSet::new());
    let place = Place { source: SourceId(8), sequence: 1, until: WallMs(1_000) };
    let (_, late) = LateLog::open(&path, place, &none, &tenant).unwrap();
    assert_eq!(late, []);
}
