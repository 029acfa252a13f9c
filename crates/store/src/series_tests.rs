//! Series named by their identity, and series beyond a limit.

use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use ogive_hist::{Histogram, Scheme};
use ogive_journal::{Disk, Faults, SimulatedDisk};
use ogive_model::{
    Batch, HistogramValue, Kind, Labels, MatchOp, Matcher, Memory, MemoryScope, Ns, Opening, Reason, Sample, Select,
    SelectError, Selection, SeriesData, SeriesDef, SeriesId, SeriesMeta, SourceId, Temporality, Tenant, TimeRange,
    Value, Verdict, WallNs,
};

use crate::{ManualClock, Options, Refusal, Store, TenantLimits};

const WALL_NS: i64 = 1_700_000_000_000_000_000;
const SECOND: i64 = 1_000_000_000;

fn options() -> Options {
    Options { group_interval: Duration::ZERO, flush_interval: Duration::from_secs(3600), ..Options::default() }
}

fn open_with(disk: &SimulatedDisk, options: Options) -> Store {
    Store::open(Arc::new(disk.clone()), Path::new("data"), options, Arc::new(ManualClock::new(WallNs(WALL_NS))))
        .unwrap()
}

fn def(pairs: &[(&str, &str)], kind: Kind, temporality: Temporality) -> SeriesDef {
    let labels = Labels::new(pairs.iter().copied()).unwrap();
    SeriesDef { labels, meta: SeriesMeta { kind, temporality, unit: String::new(), width_ms: 0 } }
}

fn gauge(name: &str) -> SeriesDef {
    def(&[("__name__", name)], Kind::Float, Temporality::Gauge)
}

fn id(name: &str) -> SeriesId {
    gauge(name).id(&Tenant::default())
}

fn submit(store: &Store, batch: Batch) -> Result<Verdict, Refusal> {
    let (reply, answer) = mpsc::channel();
    store.submit(batch, Box::new(move |result| reply.send(result).unwrap_or(())))?;
    answer.recv_timeout(Duration::from_secs(120)).expect("a reply comes")
}

fn accepted(count: u64) -> Result<Verdict, Refusal> {
    Ok(Verdict { accepted: count, ..Verdict::default() })
}

/// A sample of each series, first the declared ones, `sequence` seconds after the beginning.
fn batch(sequence: u64, series: &[SeriesDef], known: &[SeriesId], value: f64) -> Batch {
    let time_ns = WALL_NS + sequence as i64 * SECOND;
    let samples = (0..(series.len() + known.len()) as u32)
        .map(|series| Ok(Sample { series, time_ns, start_ns: None, value: Value::Float(value + f64::from(series)) }));
    let (series, known) = (series.iter().cloned().map(Ok).collect(), known.to_vec());
    Batch { source: SourceId(1), sequence, series, known, samples: samples.collect(), ..Batch::default() }
}

fn all(store: &Store) -> Vec<SeriesData> {
    let range = TimeRange::ALL;
    let selection = Selection::new(Vec::new(), range);
    store.select(&selection).unwrap()
}

fn values(store: &Store, name: &str) -> Vec<f64> {
    let found = all(store).into_iter().find(|data| data.labels.metric_name() == name);
    found.map(|data| data.floats.values).unwrap_or_default()
}

#[test]
fn a_known_series_needs_no_labels_and_an_unknown_one_refuses_the_batch_whole() {
    let disk = SimulatedDisk::new(1);
    let store = open_with(&disk, options());
    let named = batch(1, &[], &[id("a"), id("b")], 1.0);
    assert_eq!(submit(&store, named.clone()), Err(Refusal::UnknownSeries(vec![0, 1])));
    assert_eq!(submit(&store, batch(1, &[gauge("a")], &[id("b")], 1.0)), Err(Refusal::UnknownSeries(vec![0])));
    assert_eq!((store.status().series, store.status().unknown_series), (0, 2), "nothing of them counts");
    // Under the same number, with their labels: once.
    assert_eq!(submit(&store, batch(1, &[gauge("a"), gauge("b")], &[], 1.0)), accepted(2));
    assert_eq!(submit(&store, named).unwrap().duplicate, 2);
    assert_eq!(submit(&store, batch(2, &[gauge("c")], &[id("b"), id("a")], 10.0)), accepted(3));
    assert_eq!((values(&store, "a"), values(&store, "b")), (vec![1.0, 12.0], vec![2.0, 11.0]));
    // The rules of the series' kind hold without its labels too.
    let mut wrong = batch(3, &[], &[id("a"), id("a")], 1.0);
    wrong.samples[0] = Ok(Sample { series: 0, time_ns: WALL_NS, start_ns: None, value: Value::Text("no".into()) });
    assert_eq!(submit(&store, wrong).unwrap().rejected, [(0, Reason::KindConflict)]);
    // Another tenant's series is not known, whoever guesses its identity.
    let other = Batch { tenant: Tenant::new("other").unwrap(), ..batch(4, &[], &[id("a")], 1.0) };
    assert_eq!(submit(&store, other), Err(Refusal::UnknownSeries(vec![0])));
}

#[test]
fn identities_outlive_a_restart_with_the_journal_alone_and_with_blocks_alone() {
    let disk = SimulatedDisk::new(1);
    let store = open_with(&disk, options());
    submit(&store, batch(1, &[gauge("a"), gauge("b")], &[], 1.0)).unwrap();
    drop(store);
    let store = open_with(&disk, options());
    assert_eq!(submit(&store, batch(2, &[], &[id("a"), id("b")], 1.0)), accepted(2), "from the journal");
    store.flush().unwrap();
    drop(store);
    let store = open_with(&disk, options());
    assert_eq!(store.status().recovered.batches, 0);
    assert_eq!(submit(&store, batch(3, &[], &[id("b"), id("a")], 1.0)), accepted(2), "from the block");
    assert_eq!(submit(&store, batch(4, &[], &[id("a")], 7.0)), accepted(1));
    drop(store);
    // The part of the journal behind the flush defines them again: one record of definitions, two batches.
    let store = open_with(&disk, options());
    assert_eq!(store.status().recovered.batches, 3);
    assert_eq!((values(&store, "a"), values(&store, "b")), (vec![1.0, 1.0, 2.0, 7.0], vec![2.0, 2.0, 1.0]));
    assert_eq!(store.status().recovered.findings, [""; 0]);
}

/// The fsync of the group that held the definitions failed, so they are void with it; the next batch that names the
/// series must bring them to the journal again, or a restart could not read it.
/// Recalled series that got no samples stood in the way of the next flush, which panicked.
#[test]
fn a_start_reads_no_series_and_what_a_batch_names_is_recalled_or_leaves_nothing() {
    let disk = SimulatedDisk::new(1);
    let store = open_with(&disk, options());
    let names: Vec<String> = (0..150).map(|n| format!("m{n:03}")).collect();
    let defs: Vec<SeriesDef> = names.iter().map(|name| gauge(name)).collect();
    submit(&store, batch(1, &defs, &[], 1.0)).unwrap();
    store.flush_whole().unwrap();
    drop(store);
    let store = open_with(&disk, options());
    assert_eq!(store.status().series, 0);
    let strange = [id("m007"), id("strange"), id("m141")];
    assert_eq!(submit(&store, batch(2, &[], &strange, 1.0)), Err(Refusal::UnknownSeries(vec![1])));
    assert_eq!((store.status().series, store.flush().unwrap().len()), (0, 0));
    assert_eq!(submit(&store, batch(2, &[], &[id("m141"), id("m007"), id("m063")], 5.0)), accepted(3));
    assert_eq!(store.status().series, 3);
    assert_eq!((values(&store, "m141"), values(&store, "m063")), (vec![142.0, 5.0], vec![64.0, 7.0]));
    let delta = def(&[("__name__", "m008")], Kind::Float, Temporality::Delta);
    assert_eq!(submit(&store, batch(3, &[delta], &[], 1.0)).unwrap().rejected, [(0, Reason::KindConflict)]);
    store.flush_whole().unwrap();
    drop(store);
    let store = open_with(&disk, options());
    assert_eq!(values(&store, "m007"), vec![8.0, 6.0], "the journal had its definition, the block has it now");
    assert_eq!(store.status().recall_failures, 0);
}

#[test]
fn a_block_whose_series_cannot_be_read_hides_them_and_is_counted() {
    let disk = SimulatedDisk::new(1);
    let store = open_with(&disk, options());
    submit(&store, batch(1, &[gauge("a")], &[], 1.0)).unwrap();
    let written = store.flush_whole().unwrap();
    drop(store);
    let path = crate::Manifest::block_path(Path::new("data"), written[0].id);
    // The series pages stand behind the one chunk, and its first byte is their first chunk's place.
    let bytes = disk.read(&path).unwrap();
    let footer = bytes.len() - 168;
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    let (pages, end) = (number(footer + 28), number(footer + 124) + number(footer + 132));
    // Its twin too: see docs/formats/block.md.
    let distance = bytes.len() - 4_448 - end;
    [pages, pages + distance].into_iter().for_each(|at| disk.flip_bit(&path, at * 8));
    let store = open_with(&disk, options());
    assert_eq!(submit(&store, batch(2, &[], &[id("a")], 1.0)), Err(Refusal::UnknownSeries(vec![0])));
    assert_eq!(store.status().recall_failures, 1);
    assert_eq!(submit(&store, batch(2, &[gauge("a")], &[], 1.0)), accepted(1));
}

/// A start reads the series of the last hour alone. One that was silent for longer may come back as something else:
/// then nothing of either is lost, an answer that holds both says so until compaction has made one block of them, and
/// that is counted. Of another kind it is another series in any case.
#[test]
fn a_series_that_was_silent_for_an_hour_may_come_back_as_something_else_and_answers_say_so() {
    let disk = SimulatedDisk::new(1);
    let store = open_with(&disk, options());
    submit(&store, batch(1, &[gauge("silent")], &[], 7.0)).unwrap();
    store.flush().unwrap();
    submit(&store, batch(4000, &[gauge("recent")], &[], 8.0)).unwrap();
    store.flush_whole().unwrap();
    drop(store);
    let clock = Arc::new(ManualClock::new(WallNs(WALL_NS)));
    let open = || Store::open(Arc::new(disk.clone()), Path::new("data"), options(), Arc::clone(&clock) as _).unwrap();
    let store = open();
    assert_eq!(submit(&store, batch(4001, &[], &[id("silent")], 1.0)), Err(Refusal::UnknownSeries(vec![0])));
    let delta = |name: &str| def(&[("__name__", name)], Kind::Float, Temporality::Delta);
    let verdict = submit(&store, batch(4001, &[delta("silent"), delta("recent")], &[], 1.0)).unwrap();
    assert_eq!((verdict.accepted, verdict.rejected), (1, vec![(1, Reason::KindConflict)]));
    assert_eq!(
        submit(&store, batch(4002, &[gauge("silent")], &[], 1.0)).unwrap().rejected,
        [(0, Reason::KindConflict)]
    );
    let text = def(&[("__name__", "silent")], Kind::Text, Temporality::Gauge);
    let of_text = Batch {
        samples: vec![Ok(Sample { series: 0, time_ns: WALL_NS, start_ns: None, value: Value::Text("t".into()) })],
        ..batch(4003, &[text], &[], 0.0)
    };
    assert_eq!(submit(&store, of_text), accepted(1));
    let range = TimeRange::ALL;
    let selection = Selection {
        samples_max: 9,
        ..Selection::new(vec![Matcher::new("__name__", MatchOp::Equal, "silent").unwrap()], range)
    };
    let check = |store: &Store, reported: usize| {
        let partial = store.select_partial(&selection).unwrap();
        let kinds: Vec<_> = partial.series.iter().map(|data| (data.meta.kind, data.meta.temporality)).collect();
        assert_eq!(kinds, [(Kind::Float, Temporality::Delta), (Kind::Text, Temporality::Gauge)]);
        assert_eq!((&partial.series[0].floats.values[..], partial.warnings.len()), (&[7.0, 1.0][..], reported));
    };
    check(&store, 1);
    store.flush_whole().unwrap();
    drop(store);
    let store = open();
    check(&store, 1);
    // A day later the windows are over, and both are in one block.
    clock.advance(Ns(86_400 * SECOND));
    store.settle();
    assert!(store.status().written_clashes > 0);
    check(&store, 0);
}

#[test]
fn definitions_that_were_never_durable_are_written_again() {
    let disk = SimulatedDisk::new(1);
    let store = open_with(&disk, options());
    submit(&store, batch(1, &[gauge("a")], &[], 1.0)).unwrap();
    store.flush().unwrap();
    disk.set_faults(Faults { sync_error: 1000, ..Faults::default() });
    assert!(matches!(submit(&store, batch(2, &[], &[id("a")], 2.0)), Err(Refusal::Failed(_))));
    disk.set_faults(Faults::default());
    assert_eq!(submit(&store, batch(2, &[], &[id("a")], 2.0)), accepted(1));
    disk.cut_power();
    drop(store);
    disk.restart();
    let store = open_with(&disk, options());
    assert_eq!(values(&store, "a"), [1.0, 2.0]);
    assert_eq!(store.status().recovered.findings, [""; 0]);
    // The block would know the series too; the journal must not need it.
    assert_eq!(store.status().recovered.batches, 2, "a record of definitions and the batch");
}

#[test]
fn what_is_beyond_a_tenants_limits_folds_and_totals_stay_complete() {
    let limits = TenantLimits { series: 2, labels: 3, label_bytes: 100 };
    let disk = SimulatedDisk::new(1);
    let limited = || Options { tenant_limits: limits, ..options() };
    let store = open_with(&disk, limited());
    let series: Vec<SeriesDef> = ["a", "b", "c", "d"].iter().map(|name| gauge(name)).collect();
    let first = submit(&store, batch(1, &series, &[], 1.0)).unwrap();
    assert_eq!(first, Verdict { accepted: 4, folded: 2, ..Verdict::default() });
    assert_eq!(values(&store, "ogive_overflow"), [7.0], "3 and 4, at one instant");
    assert_eq!(store.status().folded, 2);
    // Another tenant has its own limits.
    let other = Batch { tenant: Tenant::new("other").unwrap(), ..batch(2, &series[..2], &[], 1.0) };
    assert_eq!(submit(&store, other), accepted(2));
    // Too many labels and too long ones, at the limit and one above.
    let pairs = [("__name__", "m"), ("x", "1"), ("y", "2"), ("z", "3")];
    let wide = |count: usize| def(&pairs[..count], Kind::Text, Temporality::Gauge);
    let long = |bytes: usize| def(&[("__name__", &"n".repeat(bytes - 8))], Kind::Float, Temporality::Delta);
    let limits_of = |def: &SeriesDef| crate::ingest::beyond(def, &limits);
    assert_eq!((limits_of(&wide(3)), limits_of(&wide(4))), (None, Some("labels_limit")));
    assert_eq!((limits_of(&long(100)), limits_of(&long(101))), (None, Some("label_bytes_limit")));
    // Cells of one scheme merge; another scheme has a series of its own.
    let mut cells = batch(3, &[], &[], 0.0);
    for (n, scheme) in [Scheme::LogLinear10, Scheme::LogLinear10, Scheme::Exp2 { scale: 3 }].into_iter().enumerate() {
        cells.series.push(Ok(def(&[("__name__", &format!("h{n}"))], Kind::Histogram, Temporality::Delta)));
        let mut histogram = Histogram::<u64>::new(scheme);
        histogram.record(0.5);
        let value = Value::Histogram(Box::new(histogram));
        cells.samples.push(Ok(Sample { series: n as u32, time_ns: WALL_NS, start_ns: None, value }));
    }
    assert_eq!(submit(&store, cells.clone()).unwrap().folded, 3);
    assert_eq!(submit(&store, cells).unwrap().duplicate, 3);
    let check = |store: &Store| {
        let found = all(store);
        let names: Vec<String> = found.iter().map(|data| data.labels.to_string()).collect();
        assert_eq!(names[..2], ["a", "b"]);
        assert!(names[2..].iter().all(|name| name.starts_with("ogive_overflow{")), "{names:?}");
        let matcher = Matcher::new("scheme", MatchOp::Equal, "log_linear_10").unwrap();
        let cell = found.iter().find(|data| matcher.matches(data.labels.get("scheme"))).unwrap();
        let HistogramValue::Integer(cell) = &cell.histograms.values[0] else { panic!("whole counts") };
        assert_eq!((cell.count, names.len()), (2, 5));
        assert_eq!(values(store, "ogive_overflow"), [7.0]);
    };
    check(&store);
    drop(store);
    // The journal has them as they were taken, also for a store with other limits.
    let store = open_with(&disk, options());
    check(&store);
    store.flush().unwrap();
    check(&store);
}

#[test]
fn series_that_fill_the_memory_fold() {
    let store = open_with(&SimulatedDisk::new(1), Options { head_bytes_max: 12_000, ..options() });
    let mut folded = 0;
    for n in 0..60 {
        folded += submit(&store, batch(n, &[gauge(&format!("m{n}"))], &[], 1.0)).unwrap().folded;
    }
    let status = store.status();
    assert!((20..50).contains(&folded), "{folded}");
    assert!(status.series_bytes <= 8_000 && status.head_bytes_max == 12_000, "{status:?}");
    assert_eq!(submit(&store, batch(99, &[], &[id("m0")], 1.0)), accepted(1), "known ones go on");
}

/// Blocks were merged in the order of their making: one between two others cost a merge of every row. Now alike parts
/// that are apart in time are read one behind the other, and the answer is the same.
#[test]
fn blocks_in_another_order_than_that_of_time_give_one_series_in_order() {
    const HOUR: u64 = 3600;
    let disk = SimulatedDisk::new(1);
    let store = open_with(&disk, options());
    let delta = def(&[("__name__", "d")], Kind::Float, Temporality::Delta);
    for (number, hours) in [(1, 8), (2, 2), (3, 5)] {
        for second in 0..5 {
            let sequence = hours * HOUR + number * 10 + second;
            submit(&store, batch(sequence, &[gauge("a"), delta.clone()], &[], second as f64)).unwrap();
        }
        store.flush().unwrap();
    }
    submit(&store, batch(11 * HOUR, &[gauge("a"), delta], &[], 9.0)).unwrap();
    for (start_s, expected) in [(0, 16), (5 * HOUR as i64 + 32, 8)] {
        let range = TimeRange::from_ms((WALL_NS + start_s * SECOND) / 1_000_000, i64::MAX);
        let selection = Selection::new(Vec::new(), range);
        let found = crate::testing::select_both_ways(&store, &selection).series;
        assert_eq!(found.iter().map(|one| one.floats.times.len()).collect::<Vec<_>>(), [expected; 2]);
        assert!(found.iter().all(|one| one.floats.times.is_sorted()));
    }
}

/// What matches is counted as it is found, in blocks and heads together: too much is refused, and who no longer waits
/// is not served on.
#[test]
fn opening_a_selection_ends_at_its_limit_and_with_its_caller() {
    let store = open_with(&SimulatedDisk::new(1), options());
    let series = |from: usize| (from..from + 400).map(|number| gauge(&format!("s{number:03}"))).collect::<Vec<_>>();
    submit(&store, batch(1, &series(0), &[], 1.0)).unwrap();
    store.flush().unwrap();
    // 100 of the block's and 300 others.
    submit(&store, batch(2, &series(300), &[], 1.0)).unwrap();
    let selection = Selection::new(Vec::new(), TimeRange::ALL);
    let open = |series_max, gone: bool| {
        store
            .open(&selection, &Opening { series_max, cancelled: &|| gone, ..Opening::UNBOUNDED })
            .map(|set| (set.count(), set.samples_about()))
    };
    assert_eq!(open(700, false), Ok((700, 800)));
    for limit in [699, 400, 399, 1, 0] {
        let found = open(limit, false).unwrap_err();
        assert!(matches!(found, SelectError::TooManySeries { limit: reported, .. } if reported == limit), "{found:?}");
    }
    assert_eq!(open(700, true), Err(SelectError::Cancelled));
    assert_eq!(crate::testing::select_both_ways(&store, &selection).series.len(), 700);
}

/// A text counts as one sample however long it is: a series of long ones was in memory before anybody had charged their
/// bytes. Now they are charged chunk by chunk while they are read, and given back to whoever takes them.
#[test]
fn long_texts_are_charged_while_they_are_read() {
    const LONG: usize = 100_000;
    let store = open_with(&SimulatedDisk::new(1), options());
    let log = def(&[("__name__", "log")], Kind::Text, Temporality::Gauge);
    for sequence in 1..=8 {
        let (time_ns, value) = (WALL_NS + sequence as i64 * SECOND, Value::Text("x".repeat(LONG)));
        let samples = vec![Ok(Sample { series: 0, time_ns, start_ns: None, value })];
        let series = vec![Ok(log.clone())];
        submit(&store, Batch { source: SourceId(1), sequence, series, samples, ..Batch::default() }).unwrap();
        if sequence == 4 {
            store.flush().unwrap();
        }
    }
    let selection = Selection { samples_max: 8, ..Selection::new(Vec::new(), TimeRange::ALL) };
    // Two of the head's are in its open part, of which there is a copy from the opening on. With it the block's; those
    // and a part of the head's; all but the last part; all.
    for (limit, fits) in [(5 * LONG, false), (7 * LONG, false), (9 * LONG, false), (11 * LONG, true)] {
        let memory = Memory::new(MemoryScope::Query, limit);
        let set = store.open(&selection, &Opening { memory: Some(&memory), ..Opening::UNBOUNDED }).unwrap();
        let before = memory.used();
        assert!(before > 2 * LONG && before < 3 * LONG, "{before} bytes are held by an opening");
        let taken = set.take(0).map(|found| found[0].texts.values.len());
        match fits {
            true => assert_eq!(taken, Ok(8)),
            false => assert!(matches!(taken, Err(SelectError::TooMuchMemory(_))), "{limit}: {taken:?}"),
        }
        assert_eq!(memory.used(), before, "{limit}");
    }
}

/// A counter in two blocks of several pages and in the head, its cells beside it.
#[test]
fn histograms_of_blocks_and_heads_are_columns_in_stretches() {
    let store = open_with(&SimulatedDisk::new(1), options());
    let defs = [Temporality::Cumulative, Temporality::Delta].map(|temporality| {
        def(&[("__name__", "h"), ("as", &format!("{temporality:?}"))], Kind::Histogram, temporality)
    });
    let mut total = Histogram::new(Scheme::Exp2 { scale: 3 });
    for step in 0..170_u64 {
        let mut cell = Histogram::new(Scheme::Exp2 { scale: 3 });
        (0..4).for_each(|value| cell.record((step * 37 % 11 + value) as f64 - 3.0));
        total.merge(&cell).unwrap();
        let samples = [(0, total.clone()), (1, cell)].map(|(series, value)| {
            let (time_ns, value) = (WALL_NS + step as i64 * SECOND, Value::Histogram(Box::new(value)));
            Ok(Sample { series, time_ns, start_ns: None, value })
        });
        let series = defs.iter().cloned().map(Ok).collect();
        let batch = Batch { source: SourceId(1), sequence: step, series, samples: samples.into(), ..Batch::default() };
        submit(&store, batch).unwrap();
        if step == 70 || step == 140 {
            store.flush().unwrap();
        }
    }
    let from = |second: i64| TimeRange::from_ms((WALL_NS + second * SECOND) / 1_000_000, i64::MAX);
    for (range, expected) in [(TimeRange::ALL, 3), (from(40), 3), (from(100), 2), (from(160), 1)] {
        let selection = Selection::new(Vec::new(), range);
        crate::testing::select_both_ways(&store, &selection);
        let set = store.open(&selection, &Opening::UNBOUNDED).unwrap();
        for number in 0..2 {
            let columns = set.take_columns(number).unwrap().expect("one layout");
            assert_eq!(columns.stretches.len(), expected);
        }
    }
    // What is too much is so as columns too.
    let selection = Selection { samples_max: 100, ..Selection::new(Vec::new(), TimeRange::ALL) };
    let set = store.open(&selection, &Opening::UNBOUNDED).unwrap();
    assert!(set.take_columns(0).unwrap().is_none());
    assert!(matches!(set.take(0), Err(SelectError::TooManySamples { limit: 100 })));
    // 13 columns of 72 counts in either block do not fit into 8 KiB; they are charged as they are read.
    let selection = Selection { samples_max: usize::MAX, ..selection };
    let memory = Memory::new(MemoryScope::Query, 1 << 30);
    let set = store.open(&selection, &Opening { memory: Some(&memory), ..Opening::UNBOUNDED }).unwrap();
    let rest = memory.charge((1 << 30) - memory.used() - (8 << 10)).unwrap();
    assert!(set.take_columns(0).unwrap().is_none());
    drop(rest);
    assert!(set.take_columns(0).unwrap().is_some());
}
