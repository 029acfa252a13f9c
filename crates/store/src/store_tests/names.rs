//! What the journal's records say of series and numbers, and what damage to them costs.

use super::*;
use crate::record::{RecordEncoder, RecordHead};

/// Submits sixty texts, and behind each a float: the first of them declares its series, the others name it.
fn submit_texts_and_floats(disk: &SimulatedDisk, mut text: impl FnMut() -> String) {
    let store = open_with(disk, Options { head_bytes_max: 1 << 40, segment_bytes: 4 << 20, ..options() }).unwrap();
    let known = vec![gauge("g").id(&Tenant::default())];
    for n in 0..60 {
        let series = vec![def("t", Kind::Text, Temporality::Gauge)];
        let sample = at(0, WALL_NS + n as i64, Value::Text(text()));
        assert_eq!(submit(&store, batch(2 * n, series, vec![sample])), accepted(1));
        let float = one(2 * n + 1, "g", n as f64);
        let float = if n == 0 { float } else { Batch { series: Vec::new(), known: known.clone(), ..float } };
        assert_eq!(submit(&store, float), accepted(1));
    }
}

/// A start that writes a block in the middle of a part of the journal, and others after it: the records behind that
/// block use numbers that only those before it bind.
#[test]
fn numbers_outlive_a_start_that_relieved_the_head() {
    let disk = SimulatedDisk::new(1);
    let mut random = fastrand::Rng::with_seed(1);
    submit_texts_and_floats(&disk, || random_text(&mut random));
    let small = || Options { head_bytes_max: 32 << 20, segment_bytes: 4 << 20, ..options() };
    let expected: Vec<f64> = (0..60).map(f64::from).collect();
    for start in 0..3 {
        let store = open_with(&disk, small()).unwrap();
        let status = store.status();
        assert!(start > 0 || status.flushes >= 2, "{status:?}");
        assert_eq!(status.recovered.findings, Vec::<String>::new(), "start {start}");
        assert_eq!(read(&store, "g").unwrap().floats.values, expected, "start {start}");
    }
    let store = open_with(&disk, small()).unwrap();
    store.flush().unwrap();
    assert_eq!(submit(&store, one(130, "h", 1.0)), accepted(1));
    assert!(disk.list(Path::new("data/journal")).unwrap().len() <= 2, "a flush takes them all");
    assert_eq!(read(&store, "g").unwrap().floats.values, expected);
}

/// The same when the records behind the block are of a process that found the series defined, in what an earlier one
/// wrote, and when no block is recent enough to say what they are.
#[test]
fn definitions_outlive_a_start_that_relieved_the_head() {
    let disk = SimulatedDisk::new(1);
    let large = || Options { head_bytes_max: 1 << 40, segment_bytes: 4 << 20, ..options() };
    let long_ago = WALL_NS - 30 * 86_400 * SECOND;
    let mut random = fastrand::Rng::with_seed(1);
    let mut text = |n: u64| {
        let text = Value::Text(random_text(&mut random));
        let series = vec![def("t", Kind::Text, Temporality::Gauge)];
        batch(100 + n, series, vec![at(0, WALL_NS + n as i64, text)])
    };
    let store = open_with(&disk, large()).unwrap();
    (0..2).for_each(|n| assert_eq!(submit(&store, by_identity(n, &["g"], long_ago)), accepted(1)));
    (0..20).for_each(|n| assert_eq!(submit(&store, text(n)), accepted(1)));
    drop(store);
    let store = open_with(&disk, large()).unwrap();
    for n in 2..12 {
        assert_eq!(submit(&store, by_identity(n, &["g"], long_ago)), accepted(1));
        (0..4).for_each(|more| assert_eq!(submit(&store, text(4 * n + 12 + more)), accepted(1)));
    }
    drop(store);
    let expected: Vec<f64> = (0..12).map(f64::from).collect();
    for start in 0..3 {
        let store = open_with(&disk, Options { head_bytes_max: 32 << 20, ..large() }).unwrap();
        let status = store.status();
        assert!(start > 0 || status.flushes >= 2, "{status:?}");
        assert_eq!(status.recovered.findings, Vec::<String>::new(), "start {start}");
        assert_eq!(read(&store, "g").unwrap().floats.values, expected, "start {start}");
    }
}

/// Records that a start reads for names alone have their samples in blocks: one that is damaged there is reported, and
/// no answer lacks anything for it.
#[test]
fn damage_to_what_is_read_for_names_costs_no_samples() {
    let disk = SimulatedDisk::new(1);
    let mut random = fastrand::Rng::with_seed(1);
    submit_texts_and_floats(&disk, || random_text(&mut random));
    let small = || Options { head_bytes_max: 32 << 20, segment_bytes: 4 << 20, ..options() };
    drop(open_with(&disk, small()).unwrap());
    // A text, the float that declares its series, and the second text.
    let (segment, records) = records_of(&disk);
    assert!(records[2].len() > 1 << 20, "{records:?}");
    disk.flip_bit(&segment, (records[2].start + 50) * 8);
    let store = open_with(&disk, small()).unwrap();
    let reported = store.status().recovered.findings;
    assert!(reported.len() == 1 && reported[0].contains("journal"), "{reported:?}");
    let kept = store.findings();
    assert!(kept.len() == 1 && !kept[0].silent, "{kept:?}");
    assert_eq!(read(&store, "g").unwrap().floats.values, (0..60).map(f64::from).collect::<Vec<_>>());
    assert_eq!(read(&store, "t").unwrap().texts.values.len(), 60);
}

/// Where the records of the journal's one segment are.
fn records_of(disk: &SimulatedDisk) -> (std::path::PathBuf, Vec<std::ops::Range<usize>>) {
    let segment = disk.list(Path::new("data/journal")).unwrap().remove(0);
    let bytes = disk.read(&segment).unwrap();
    let (mut records, mut at) = (Vec::new(), 64);
    while at < bytes.len() {
        let length = u32::from_le_bytes(bytes[at + 4..at + 8].try_into().unwrap()) as usize;
        let end = at + 32 + length.next_multiple_of(8);
        records.push(at..end);
        at = end;
    }
    (segment, records)
}

/// A sample of each of `names` a second; the first batch declares them, the others name them by their identity.
fn by_identity(n: u64, names: &[&str], wall_ns: i64) -> Batch {
    let time_ns = wall_ns + n as i64 * SECOND;
    let samples = (0..).zip(names).map(|(series, _)| Ok(at(series, time_ns, Value::Float(n as f64)))).collect();
    let all = names.iter().map(|name| gauge(name));
    let (series, known) = match n {
        0 => (all.map(Ok).collect(), Vec::new()),
        _ => (Vec::new(), all.map(|def| def.id(&Tenant::default())).collect()),
    };
    Batch { source: SourceId(1), sequence: n, series, known, samples, ..Batch::default() }
}

/// A batch of series that are named by their identity is in the journal as columns, in which a number that two records
/// bind stands for a series that two records define: whichever of all is damaged, the samples of the others stay.
#[test]
fn a_damaged_record_costs_its_own_samples() {
    let names: Vec<String> = (0..40).map(|number| format!("g{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    // What declares them, definitions once more, and columns.
    let lost_with = [Some(0), None, Some(1), Some(2), Some(3), Some(4), Some(5)];
    for (damaged, lost) in lost_with.into_iter().enumerate() {
        let disk = SimulatedDisk::new(1);
        let store = open(&disk);
        (0..6).for_each(|n| assert_eq!(submit(&store, by_identity(n, &names, WALL_NS)), accepted(40)));
        drop(store);
        let (segment, records) = records_of(&disk);
        let bytes: Vec<usize> = records.iter().map(ExactSizeIterator::len).collect();
        assert_eq!(bytes.len(), lost_with.len());
        assert!(bytes[2] < 40 * 20 + 100 && bytes[4] < 40 * 4 + 100, "{bytes:?}");
        disk.flip_bit(&segment, (records[damaged].start + 50) * 8);
        let store = open(&disk);
        let expected: Vec<f64> = (0..6).filter(|n| Some(*n) != lost).map(|n| n as f64).collect();
        for name in &names {
            assert_eq!(read(&store, name).unwrap().floats.values, expected, "{name} without record {damaged}");
        }
        // And so are those that come now, whatever their numbers are after the start.
        assert_eq!(submit(&store, by_identity(6, &names, WALL_NS)), accepted(40));
        drop(store);
        let again = read(&open(&disk), "g7").unwrap().floats.values;
        assert_eq!((again.last(), again.len()), (Some(&6.0), expected.len() + 1));
    }
}

/// One sender of one series: the first records are so small that those that say what they are of lie in one sector.
/// Were there no later ones, all that follows until the next flush would be lost with it.
#[test]
fn a_bad_sector_costs_little_more_than_its_records() {
    let disk = SimulatedDisk::new(1);
    let store = open(&disk);
    (0..300).for_each(|n| assert_eq!(submit(&store, by_identity(n, &["g"], WALL_NS)), accepted(1)));
    drop(store);
    let (segment, records) = records_of(&disk);
    let good = disk.read(&segment).unwrap();
    assert!(good.len() < 300 * 90, "{} bytes", good.len());
    for (sector, places) in [(512, 40), (4_096, 4)] {
        for begin in (0..places).map(|place| place * sector) {
            let bad = begin.max(64)..begin + sector;
            let mut bytes = good.clone();
            bytes[bad.clone()].fill(0xa5);
            let disk = SimulatedDisk::new(2);
            disk.put(&segment, bytes);
            let hit = records.iter().filter(|record| record.start < bad.end && bad.start < record.end).count();
            let kept = read(&open(&disk), "g").map_or(0, |series| series.floats.values.len());
            assert!(300 - kept <= 3 * hit + 8, "{} of 300 are lost with the {hit} at {bad:?}", 300 - kept);
        }
    }
}

/// Floats that cannot be applied because what defines their series cannot be read are taken when they come again.
#[test]
fn a_record_of_which_nothing_is_left_does_not_count_as_received() {
    let disk = SimulatedDisk::new(1);
    let options = ogive_journal::Options { mark: 7, ..Default::default() };
    let path = Path::new("data/journal");
    let (mut journal, _) = ogive_journal::Journal::open(Arc::new(disk.clone()), path, options).unwrap();
    let sent = by_identity(0, &["g"], WALL_NS);
    let mut encoder = RecordEncoder::default();
    encoder.bind(0, gauge("g").id(&sent.tenant));
    encoder.push(0, WALL_NS, 0.0);
    let head = RecordHead { tenant: &sent.tenant, source: sent.source, sequence: sent.sequence, part: 1 };
    journal.append(encoder.finish(&head)).unwrap();
    journal.sync().unwrap();
    drop(journal);
    let store = open(&disk);
    assert_eq!(store.status().recovered.findings.len(), 1);
    assert_eq!(submit(&store, sent), accepted(1));
    assert_eq!(read(&store, "g").unwrap().floats.values, [0.0]);
}

/// A frame that declares a series of which it has no accepted sample does not define it for a start, which registers a
/// series by its first sample: what named the series by its identity next was acknowledged, and a start lost it.
#[test]
fn a_series_whose_samples_are_rejected_is_defined_by_a_later_record() {
    let disk = SimulatedDisk::new(1);
    let store = open(&disk);
    // Its block is too old for a start to look for the series there.
    let long_ago = WALL_NS - 30 * 86_400 * SECOND;
    let hist = def("h", Kind::Histogram, Temporality::Delta);
    let of =
        |bound: f64, seconds: i64| at(0, long_ago + seconds * SECOND, cell(0.5, Scheme::custom(vec![bound]).unwrap()));
    assert_eq!(submit(&store, batch(0, vec![hist.clone()], vec![of(1.0, 0)])), accepted(1));
    assert_eq!(submit(&store, one(1, "new", 1.0)), accepted(1));
    assert_eq!(store.flush().unwrap().len(), 2);
    let mixed = batch(2, vec![hist.clone(), gauge("g")], vec![of(2.0, 0), at(1, WALL_NS, Value::Float(1.0))]);
    let rejected = Verdict { accepted: 1, rejected: vec![(0, Reason::SchemeConflict)], ..Verdict::default() };
    assert_eq!(submit(&store, mixed), Ok(rejected));
    let named = Batch { known: vec![hist.id(&Tenant::default())], ..batch(3, Vec::new(), vec![of(1.0, 1)]) };
    assert_eq!(submit(&store, named), accepted(1));
    drop(store);
    let recovered = open(&disk).status().recovered;
    assert_eq!((recovered.samples, recovered.findings), (2, Vec::new()));
}

/// The journal of a build that had no records in columns: frames and definitions.
#[test]
fn a_journal_of_frames_is_read_and_goes_on() {
    let (disk, names) = (SimulatedDisk::new(1), ["a", "b"]);
    let options = ogive_journal::Options { mark: 7, ..Default::default() };
    let path = Path::new("data/journal");
    let (mut journal, _) = ogive_journal::Journal::open(Arc::new(disk.clone()), path, options).unwrap();
    journal.append(&by_identity(0, &names[..1], WALL_NS).encode().unwrap()).unwrap();
    journal.append(&ogive_model::wire::encode_definitions(&Tenant::default(), [&gauge("b")]).unwrap()).unwrap();
    (1..4).for_each(|n| _ = journal.append(&by_identity(n, &names, WALL_NS).encode().unwrap()).unwrap());
    journal.sync().unwrap();
    drop(journal);
    for n in 4..8 {
        let store = open(&disk);
        assert_eq!(store.status().recovered.findings, [""; 0]);
        let expected: Vec<f64> = (0..n).map(|n| n as f64).collect();
        assert_eq!(read(&store, "a").unwrap().floats.values, expected);
        assert_eq!(read(&store, "b").unwrap().floats.values, expected[1..]);
        assert_eq!(submit(&store, by_identity(n - 1, &names, WALL_NS)).unwrap().duplicate, 2);
        assert_eq!(submit(&store, by_identity(n, &names, WALL_NS)), accepted(2));
    }
}

/// A batch that does not fit on the disk leaves its definitions in the journal. When the fsync at the next flush fails
/// they are void: batches that come then must not rely on them, or a restart could not read what was acknowledged.
#[test]
fn definitions_that_a_failed_flush_voids_are_written_again() {
    let disk = SimulatedDisk::new(1);
    let store = open(&disk);
    // Its block is too old for a start to look for the series there.
    let long_ago = WALL_NS - 30 * 86_400 * SECOND;
    assert_eq!(submit(&store, by_identity(0, &["g"], long_ago)), accepted(1));
    assert_eq!(submit(&store, one(1, "new", 1.0)), accepted(1));
    assert_eq!(store.flush().unwrap().len(), 2);
    let mut large = by_identity(2, &["g"], long_ago);
    large.samples = (0..4_000).map(|n| Ok(at(0, long_ago + n * SECOND, Value::Float(n as f64 / 7.0)))).collect();
    disk.set_capacity(Some(disk.used_bytes() + 4_000));
    assert_eq!(submit(&store, large), Err(Refusal::DiskFull));
    disk.set_faults(Faults { sync_error: 1000, ..Faults::default() });
    assert!(store.flush().is_err());
    disk.set_faults(Faults::default());
    disk.set_capacity(None);
    assert_eq!(submit(&store, by_identity(2, &["g"], long_ago)), accepted(1));
    disk.cut_power();
    drop(store);
    disk.restart();
    let store = open(&disk);
    assert_eq!(store.status().recovered.findings, [""; 0]);
    assert_eq!(read(&store, "g").unwrap().floats.values, [0.0, 2.0]);
}
