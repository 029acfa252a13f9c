//! The journal compared with a `Vec` of records: truncated anywhere, any bit flipped, the power cut at every operation.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;

use crate::{Disk, Error, Faults, Journal, Options, Position, RECORD_BYTES_MAX, Replay, SimulatedDisk};

const DIRECTORY: &str = "data/journal";

fn open_with(disk: &SimulatedDisk, options: Options) -> Result<(Journal, crate::Recovery), Error> {
    Journal::open(Arc::new(disk.clone()), Path::new(DIRECTORY), options)
}

fn open(disk: &SimulatedDisk) -> Journal {
    open_with(disk, Options::default()).unwrap().0
}

fn small() -> Options {
    Options { segment_bytes: 300, ..Options::default() }
}

fn segments(disk: &SimulatedDisk) -> Vec<PathBuf> {
    disk.list(Path::new(DIRECTORY)).unwrap()
}

fn replay_from(journal: &Journal, from: u64) -> (Vec<(u64, Vec<u8>)>, Replay) {
    let mut records = Vec::new();
    let replay = journal
        .replay::<Error>(Position(from), |position, bytes| {
            records.push((position.0, bytes.to_vec()));
            Ok(())
        })
        .unwrap();
    assert_eq!(replay.records, records.len() as u64);
    (records, replay)
}

/// Record `n` of a model: its bytes say which it is, and are of any length.
fn record(n: u64) -> Vec<u8> {
    let mut bytes = format!("record {n} ").into_bytes();
    bytes.extend((0..n * 7 % 61).map(|at| at as u8));
    bytes
}

/// Records `range` as replay gives them.
fn records(range: std::ops::Range<u64>) -> Vec<(u64, Vec<u8>)> {
    range.map(|n| (n, record(n))).collect()
}

fn filled(disk: &SimulatedDisk, count: u64, options: Options) -> Journal {
    let mut journal = open_with(disk, options).unwrap().0;
    for n in 0..count {
        assert_eq!(journal.append(&record(n)).unwrap(), Position(n));
    }
    assert_eq!(journal.sync().unwrap(), Position(count));
    journal
}

/// Life 73 of the store, once in some thousand runs under load: a process was killed after a record was on one disk of
/// two; the next start read it there, that disk failed while the new segment was made, and the segment began without
/// the record but counted it. The next record left a gap that scrubs and later starts reported as loss. Now the end is
/// read again from the disks that are left.
#[test]
fn a_record_that_only_a_failing_disk_has_is_not_counted() {
    use crate::{Member, MirrorDisk, MirrorOptions, Until, scrub_journal};
    for failing in [0, 1] {
        let disks = [SimulatedDisk::new(1), SimulatedDisk::new(2)];
        let mirror = |seed: u64| {
            let member = |at: usize| Member { root: format!("/{at}").into(), disk: Arc::new(disks[at].clone()) };
            let mut random = fastrand::Rng::with_seed(seed);
            let options =
                MirrorOptions { degraded: false, random: Box::new(move || random.u64(..)), tell: Arc::new(|_| {}) };
            MirrorDisk::open(vec![member(0), member(1)], options).unwrap().0
        };
        let directory = Path::new("/0/journal");
        let first = mirror(1);
        let (mut journal, _) = Journal::open(Arc::new(first.clone()), directory, Options::default()).unwrap();
        journal.append(b"durable").unwrap();
        journal.sync().unwrap();
        let path = first.list(directory).unwrap().remove(0);
        let length = first.length(&path).unwrap();
        journal.append(b"on one disk").unwrap();
        drop((journal, first));
        let other = Path::new(["/1/journal", "/0/journal"][failing]).join(path.file_name().unwrap());
        disks[1 - failing].open(&other).unwrap().truncate(length).unwrap();
        disks[failing].set_faults(Faults { write_error: 1000, ..Faults::default() });
        let mirror = mirror(2);
        let (mut journal, recovery) = Journal::open(Arc::new(mirror.clone()), directory, Options::default()).unwrap();
        // The second disk's record was copied to the first when it was read; the first one's is gone with it.
        let all: [&[u8]; 2] = [b"durable", b"on one disk"];
        let kept = &all[..=failing];
        let next = Position(kept.len() as u64);
        assert_eq!((recovery.next, journal.next(), journal.durable()), (next, next, next), "{failing}");
        assert_eq!(journal.append(b"next").unwrap(), next);
        journal.sync().unwrap();
        let (records, replay) = replay_from(&journal, 0);
        let bytes: Vec<&[u8]> = records.iter().map(|(_, bytes)| &bytes[..]).collect();
        assert_eq!((bytes, replay.corruption_count), ([kept, &[b"next"]].concat(), 0));
        let findings = scrub_journal(&mirror, directory, Until::Durable(next.0 + 1), &mut |_| Ok(())).unwrap();
        assert!(findings.is_empty(), "{findings:?}");
    }
}

#[test]
fn records_come_back_across_segments_and_reopening() {
    let disk = SimulatedDisk::new(1);
    drop(filled(&disk, 50, small()));
    assert!(segments(&disk).len() > 5);
    let (mut journal, recovery) = open_with(&disk, small()).unwrap();
    assert_eq!((recovery.next, recovery.torn), (Position(50), None));
    assert_eq!(journal.append(&record(50)).unwrap(), Position(50));
    for from in [0, 1, 17, 49, 50, 51] {
        let (found, replay) = replay_from(&journal, from);
        assert_eq!(found, records(from..51));
        assert_eq!(replay.corruption_count, 0);
    }
}

/// The bytes that `docs/formats/journal.md` shows, kept in `vectors/` for every reader of the format.
#[test]
fn the_example_of_the_format_page_is_what_is_written_and_read() {
    let name = Path::new(DIRECTORY).join("0000000000000007.journal");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/journal/0000000000000007.journal");
    let example = std::fs::read(&path).unwrap();
    let disk = SimulatedDisk::new(1);
    disk.put(&Path::new(DIRECTORY).join("0000000000000006.journal"), Vec::new());
    let options = Options { mark: 0x1d2c_3b4a, first: Position(41), ..Options::default() };
    let (mut journal, _) = open_with(&disk, options.clone()).unwrap();
    journal.append(b"ogive").unwrap();
    journal.sync().unwrap();
    journal.append(b"journals").unwrap();
    journal.sync().unwrap();
    assert_eq!(disk.read(&name).unwrap(), example, "written");
    let disk = SimulatedDisk::new(1);
    disk.put(&name, example);
    let (journal, _) = open_with(&disk, options).unwrap();
    assert_eq!(replay_from(&journal, 0).0, [(41, b"ogive".to_vec()), (42, b"journals".to_vec())], "read");
}

#[test]
fn segments_before_a_position_go_and_no_record_behind_it() {
    let disk = SimulatedDisk::new(1);
    let mut journal = filled(&disk, 50, small());
    let before = (segments(&disk).len(), journal.bytes());
    journal.truncate_before(Position(30)).unwrap();
    assert!(segments(&disk).len() < before.0 && journal.bytes() < before.1);
    assert_eq!(replay_from(&journal, 30).0, records(30..50));
    journal.truncate_before(Position(50)).unwrap();
    assert_eq!(segments(&disk).len(), 1);
    assert_eq!(open_with(&disk, small()).unwrap().1.next, Position(50));
}

#[test]
fn positions_never_fall_below_the_first() {
    let disk = SimulatedDisk::new(1);
    drop(filled(&disk, 3, small()));
    let first = Options { first: Position(10), ..small() };
    let (mut journal, _) = open_with(&disk, first.clone()).unwrap();
    assert_eq!(journal.append(&record(10)).unwrap(), Position(10));
    journal.sync().unwrap();
    let (journal, _) = open_with(&disk, first).unwrap();
    let (found, replay) = replay_from(&journal, 10);
    assert_eq!((found, replay.corruption_count), (records(10..11), 0));
}

#[test]
fn record_limit_holds_at_its_value_and_one_above() {
    let disk = SimulatedDisk::new(1);
    let mut journal = open(&disk);
    let large = vec![7; RECORD_BYTES_MAX + 1];
    let refused = journal.append(&large);
    assert!(matches!(refused, Err(Error::RecordTooLarge { limit: RECORD_BYTES_MAX, .. })));
    journal.append(&large[1..]).unwrap();
    journal.append(b"").unwrap();
    journal.sync().unwrap();
    let (found, _) = replay_from(&open(&disk), 0);
    assert_eq!(found.iter().map(|(_, bytes)| bytes.len()).collect::<Vec<_>>(), [RECORD_BYTES_MAX, 0]);
}

#[test]
fn a_file_cut_at_any_byte_gives_the_whole_records_before_the_cut() {
    let disk = SimulatedDisk::new(1);
    let mut ends = Vec::new();
    let mut journal = open(&disk);
    for n in 0..6 {
        journal.append(&record(n)).unwrap();
        ends.push(journal.bytes() as usize);
    }
    journal.sync().unwrap();
    let path = segments(&disk).remove(0);
    let whole = disk.read(&path).unwrap();
    for cut in 0..=whole.len() {
        let disk = SimulatedDisk::new(1);
        disk.put(&path, whole[..cut].to_vec());
        let kept = ends.iter().filter(|end| **end <= cut).count() as u64;
        let (mut journal, recovery) = open_with(&disk, Options::default()).unwrap();
        assert_eq!(recovery.next, Position(kept), "cut at {cut}");
        let is_torn = cut != 64 && !ends.contains(&cut);
        assert_eq!(recovery.torn.is_some(), is_torn, "cut at {cut}");
        journal.append(&record(kept)).unwrap();
        journal.sync().unwrap();
        let (found, replay) = replay_from(&open(&disk), 0);
        assert_eq!((found, replay.corruption_count), (records(0..kept + 1), 0), "cut at {cut}");
    }
}

#[test]
fn any_flipped_bit_costs_at_most_its_record_and_is_reported() {
    flip_every_bit(false);
    flip_every_bit(true);
}

fn flip_every_bit(proven: bool) {
    let disk = SimulatedDisk::new(1);
    let mut ends = vec![0, 64];
    let mut journal = open(&disk);
    for n in 0..6 {
        journal.append(&record(n)).unwrap();
        ends.push(journal.bytes() as usize);
        if proven {
            journal.sync().unwrap();
        }
    }
    journal.sync().unwrap();
    let path = segments(&disk).remove(0);
    let whole = disk.read(&path).unwrap();
    for bit in 0..whole.len() * 8 {
        let disk = SimulatedDisk::new(1);
        disk.put(&path, whole.clone());
        disk.flip_bit(&path, bit);
        let part = ends.iter().rposition(|end| *end <= bit / 8).unwrap();
        let (journal, recovery) = open_with(&disk, Options::default()).unwrap();
        let (found, replay) = replay_from(&journal, 0);
        match part.checked_sub(1) {
            None => {
                assert_eq!(found, records(0..6), "bit {bit}: the header holds no record");
                assert_eq!(recovery.corruptions.len(), 1, "bit {bit}");
            }
            Some(5) => {
                assert_eq!(found, records(0..5), "bit {bit}: the last record");
                assert_eq!(recovery.torn, Some((path.clone(), ends[6] as u64, (ends[7] - ends[6]) as u64)));
            }
            Some(hit) => {
                let mut kept = records(0..6);
                kept.remove(hit);
                assert_eq!(found, kept, "bit {bit}");
                let [found] = &recovery.corruptions[..] else { panic!("bit {bit}: {recovery:?}") };
                assert_eq!((found.offset, found.end), (ends[part] as u64, ends[part + 1] as u64));
                let [again] = &replay.corruptions[..] else { panic!("bit {bit}: {replay:?}") };
                assert_eq!((found.lost, again.lost), ((hit as u64, hit as u64 + 1), found.lost));
                assert_eq!((found.proven, again.proven), (proven, proven), "bit {bit}");
            }
        }
    }
}

#[test]
fn loss_is_proven_only_if_a_later_record_knew_of_the_fsync() {
    for synced_between in [false, true] {
        let disk = SimulatedDisk::new(1);
        let mut journal = open(&disk);
        journal.append(&record(0)).unwrap();
        if synced_between {
            journal.sync().unwrap();
        }
        journal.append(&record(1)).unwrap();
        journal.sync().unwrap();
        disk.flip_bit(&segments(&disk)[0], (64 + 40) * 8);
        let (found, replay) = replay_from(&open(&disk), 0);
        assert_eq!(found, records(1..2));
        assert_eq!(replay.corruptions[0].proven, synced_between);
        // What is written later does not change the verdict.
        let mut journal = open(&disk);
        journal.append(&record(2)).unwrap();
        journal.sync().unwrap();
        assert_eq!(replay_from(&open(&disk), 0).1.corruptions[0].proven, synced_between);
    }
}

/// Life 73 of the store, once in some five hundred runs: two records waited for one fsync, a power cut took the first
/// of them from both disks and left the second. The next start reported the hole and copied the second record to its
/// own segment, where every later scrub met a gap between good bytes and reported it as new damage. Now a frame stands
/// there for the record that was lost.
#[test]
fn a_hole_that_a_start_reported_is_no_damage_for_scrubs() {
    use crate::{Until, scrub_journal};
    let disk = SimulatedDisk::new(1);
    let mut journal = open(&disk);
    journal.append(&record(0)).unwrap();
    journal.sync().unwrap();
    for n in 1..5 {
        journal.append(&record(n)).unwrap();
    }
    journal.sync().unwrap();
    drop(journal);
    let path = segments(&disk).remove(0);
    let mut bytes = disk.read(&path).unwrap();
    let frame = crate::format::frame_bytes(record(1).len());
    let from = 64 + crate::format::frame_bytes(record(0).len());
    bytes[from..from + frame].fill(0);
    disk.put(&path, bytes);
    for again in 0..3 {
        let (mut journal, recovery) = open_with(&disk, Options::default()).unwrap();
        assert_eq!(recovery.next, Position(5 + again), "{again}");
        let (found, replay) = replay_from(&journal, 0);
        let kept: Vec<_> = records(0..5 + again).into_iter().filter(|(n, _)| *n != 1).collect();
        assert_eq!(found, kept, "{again}");
        let lost: Vec<_> = replay.corruptions.iter().map(|bad| (bad.lost, bad.proven)).collect();
        assert_eq!((lost, replay.corruption_count), (vec![((1, 2), false)], 1), "each start says so: {again}");
        journal.append(&record(5 + again)).unwrap();
        journal.sync().unwrap();
        let findings = scrub_journal(&disk, Path::new(DIRECTORY), Until::Durable(6 + again), &mut |_| Ok(())).unwrap();
        assert!(findings.is_empty(), "{again}: {findings:?}");
    }
}

#[test]
fn a_payload_that_looks_like_a_record_is_none() {
    let disk = SimulatedDisk::new(1);
    // An attacker who knows everything but the mark sends a whole frame as payload.
    let mut forged = Vec::new();
    crate::format::RecordHeader::frame(1, 0, 0x1234_5678, b"forged", &mut forged);
    let mut journal = open(&disk);
    for payload in [b"first".as_slice(), &forged, b"last"] {
        journal.append(payload).unwrap();
    }
    journal.sync().unwrap();
    // A bit of the second record's length: reading has to find its way from inside it.
    disk.flip_bit(&segments(&disk)[0], (64 + 40 + 4) * 8);
    let found = replay_from(&open(&disk), 0).0;
    assert_eq!(found, [(0, b"first".to_vec()), (2, b"last".to_vec())]);
}

#[test]
fn an_unreadable_or_missing_segment_is_reported_and_the_others_are_read() {
    let scratch = SimulatedDisk::new(1);
    drop(filled(&scratch, 30, small()));
    let paths = segments(&scratch);
    let files: Vec<Vec<u8>> = paths.iter().map(|path| scratch.read(path).unwrap()).collect();
    for hit in 0..paths.len() {
        for missing in [false, true] {
            let disk = SimulatedDisk::new(1);
            for (at, (path, bytes)) in paths.iter().zip(&files).enumerate() {
                if at != hit {
                    disk.put(path, bytes.clone());
                } else if !missing {
                    disk.put(path, vec![0xaa; bytes.len()]);
                }
            }
            let (mut journal, recovery) = open_with(&disk, small()).unwrap();
            let (found, replay) = replay_from(&journal, 0);
            let is_last = hit + 1 == paths.len();
            assert!(found.len() >= 20 && found.iter().all(|(n, bytes)| *bytes == record(*n)), "{hit} {missing}");
            assert_eq!(replay.corruption_count, u64::from(!(is_last && missing)), "{hit} {missing}");
            if !missing {
                assert_eq!(replay.corruptions[0].path, paths[hit]);
            }
            if !is_last {
                assert_eq!(recovery.next, Position(30));
            }
            let next = journal.append(b"goes on").unwrap();
            assert_eq!(next, recovery.next);
            assert!(replay_from(&journal, 0).0.iter().any(|(n, _)| *n == next.0));
        }
    }
}

/// Appends, syncs and truncates until the disk fails; returns (appended, synced, truncated before).
fn run_until_failure(disk: &SimulatedDisk, random: &mut fastrand::Rng) -> (u64, u64, u64) {
    let (mut appended, mut synced, mut truncated) = (0, 0, 0);
    let Ok((mut journal, _)) = open_with(disk, small()) else { return (0, 0, 0) };
    for _ in 0..60 {
        let done = match random.u64(..8) {
            0..5 => journal.append(&record(appended)).map(|_| appended += 1),
            5 | 6 => journal.sync().map(|position| synced = position.0),
            _ => {
                truncated = random.u64(..synced + 1).max(truncated);
                journal.truncate_before(Position(truncated))
            }
        };
        if done.is_err() {
            break;
        }
    }
    (appended, synced, truncated)
}

/// At every operation of many runs: what was synced is there, what is there was appended, and it goes on.
#[test]
fn a_power_cut_at_any_operation_keeps_what_was_synced_and_invents_nothing() {
    for seed in 0..12 {
        for at in 1.. {
            let disk = SimulatedDisk::new(seed * 1000 + at);
            disk.cut_power_after(at);
            let (appended, synced, truncated) = run_until_failure(&disk, &mut fastrand::Rng::with_seed(seed));
            if disk.is_powered() {
                assert!(at > 50, "the run has operations");
                break;
            }
            disk.restart();
            let story = format!("seed {seed} cut at {at}: appended {appended}, synced {synced}");
            let (mut journal, recovery) = open_with(&disk, small()).expect(&story);
            // The append that the power cut interrupted may be whole.
            assert!((synced..=appended + 1).contains(&recovery.next.0), "{story}, next {:?}", recovery.next);
            let (found, replay) = replay_from(&journal, truncated);
            assert!(found.iter().all(|(n, bytes)| *n <= appended && *bytes == record(*n)), "{story}");
            let safe: Vec<_> = found.into_iter().filter(|(n, _)| *n < synced).collect();
            assert_eq!(safe, records(truncated..synced), "{story}");
            assert!(replay.corruptions.iter().all(|bad| !bad.proven && bad.lost.0 >= synced), "{story}: {replay:?}");
            let next = recovery.next.0;
            assert_eq!(journal.append(&record(next)).unwrap(), Position(next));
            journal.sync().unwrap();
            disk.cut_power();
            disk.restart();
            let (found, _) = replay_from(&open_with(&disk, small()).unwrap().0, next);
            assert_eq!(found, records(next..next + 1), "{story}");
        }
    }
}

#[test]
fn a_full_disk_refuses_whole_records_and_takes_them_when_space_is_back() {
    for capacity in 300..700 {
        let disk = SimulatedDisk::new(capacity);
        disk.set_capacity(Some(capacity));
        let mut journal = open_with(&disk, small()).unwrap().0;
        let mut kept = 0;
        let error = loop {
            match journal.append(&record(kept)) {
                Ok(_) => kept += 1,
                Err(error) => break error,
            }
        };
        assert!(error.is_full(), "{error}");
        assert!(journal.append(&record(kept)).is_err_and(|error| error.is_full()));
        journal.sync().unwrap();
        assert_eq!(replay_from(&journal, 0).0, records(0..kept), "reads go on");
        disk.set_capacity(None);
        assert_eq!(journal.append(&record(kept)).unwrap(), Position(kept));
        journal.sync().unwrap();
        disk.cut_power();
        disk.restart();
        let (found, replay) = replay_from(&open_with(&disk, small()).unwrap().0, 0);
        assert_eq!((found, replay.corruption_count), (records(0..kept + 1), 0));
    }
}

#[test]
fn a_journal_opens_on_a_full_disk_and_goes_on_when_there_is_space() {
    for by_append in [false, true] {
        let disk = SimulatedDisk::new(1);
        drop(filled(&disk, 5, Options::default()));
        disk.kill_process();
        disk.set_capacity(Some(disk.used_bytes() + 80));
        let mut journal = open(&disk);
        assert_eq!(replay_from(&journal, 0).0, records(0..5));
        assert_eq!((journal.next(), journal.durable()), (Position(5), Position(0)), "no record is proven");
        assert!(journal.append(&record(5)).is_err_and(|error| error.is_full()));
        assert!(journal.sync().is_err_and(|error| error.is_full()));
        disk.set_capacity(None);
        if by_append {
            assert_eq!(journal.append(&record(5)).unwrap(), Position(5));
        }
        let end = journal.sync().unwrap().0;
        assert_eq!(end, 5 + u64::from(by_append));
        disk.cut_power();
        disk.restart();
        assert_eq!(replay_from(&open(&disk), 0).0, records(0..end));
    }
}

#[test]
fn after_a_failed_fsync_nothing_is_taken_until_reopened_and_doubtful_records_are_void() {
    for seed in 0..300 {
        let disk = SimulatedDisk::new(seed);
        let mut journal = filled(&disk, 3, Options::default());
        journal.append(b"in doubt").unwrap();
        disk.set_faults(Faults { sync_error: 1000, ..Faults::default() });
        assert!(matches!(journal.sync(), Err(Error::Io { operation: "fsync", .. })));
        assert!(matches!(journal.append(b"x"), Err(Error::Poisoned { .. })));
        assert!(journal.reopen().is_err() && journal.is_poisoned());
        disk.set_faults(Faults::default());
        assert!(matches!(journal.sync(), Err(Error::Poisoned { .. })), "no later fsync proves anything");
        journal.reopen().unwrap();
        assert_eq!(journal.append(&record(3)).unwrap(), Position(3));
        journal.sync().unwrap();
        assert_eq!(replay_from(&journal, 0).0, records(0..4));
        disk.cut_power();
        disk.restart();
        let (found, replay) = replay_from(&open(&disk), 0);
        assert_eq!((found, replay.corruption_count), (records(0..4), 0), "seed {seed}");
    }
}

/// A fsync failed, the process was killed before it could begin a new segment, and the next one read the records
/// from the page cache. An fsync of that file succeeded, since the kernel had marked its pages clean, and the
/// records were taken for durable; a power cut then lost them. What is not proven durable is now copied first.
#[test]
fn records_that_outlived_a_failed_fsync_in_memory_alone_are_saved_before_they_are_relied_on() {
    for seed in 0..300 {
        let disk = SimulatedDisk::new(seed);
        let mut journal = filled(&disk, 3, Options::default());
        for n in 3..6 {
            journal.append(&record(n)).unwrap();
        }
        disk.set_faults(Faults { sync_error: 1000, ..Faults::default() });
        assert!(journal.sync().is_err());
        disk.kill_process();
        let (journal, recovery) = open_with(&disk, Options::default()).unwrap();
        let found = replay_from(&journal, 0).0;
        assert_eq!((found, recovery.next), (records(0..6), Position(6)), "seed {seed}: a reader sees the page cache");
        disk.cut_power();
        disk.restart();
        let (found, replay) = replay_from(&open(&disk), 0);
        assert_eq!((found, replay.corruption_count), (records(0..6), 0), "seed {seed}");
    }
}

/// A fsync failed and its records were refused; the segment after them, whose header voids them, was not yet written to
/// when a snapshot was made, so the snapshot went without it and held what nobody had been promised. It gets the header
/// now.
#[test]
fn a_cut_does_not_hold_what_a_failed_fsync_left() {
    let disk = SimulatedDisk::new(1);
    let mut journal = filled(&disk, 3, Options::default());
    journal.append(&record(3)).unwrap();
    disk.set_faults(Faults { sync_error: 1000, ..Faults::default() });
    assert!(journal.sync().is_err());
    disk.set_faults(Faults::default());
    let target = Path::new("snapshot/journal");
    disk.create_dir_all(target).unwrap();
    journal.cut(target).unwrap();
    // What comes after the cut is not in it either.
    assert_eq!(journal.append(&record(4)).unwrap(), Position(3));
    journal.sync().unwrap();
    let (cut, recovery) = Journal::open(Arc::new(disk), target, Options::default()).unwrap();
    assert_eq!((replay_from(&cut, 0).0, recovery.next), (records(0..3), Position(3)));
    assert_eq!(replay_from(&journal, 0).0.last(), Some(&(3, record(4))));
}

/// A segment whose creation failed half-way may come back after a power cut with a header that voids what
/// the segment before it takes later; so that one takes nothing later.
#[test]
fn a_failed_change_of_segment_loses_nothing_at_a_power_cut() {
    for seed in 0..500 {
        let disk = SimulatedDisk::new(seed);
        let mut journal = open_with(&disk, small()).unwrap().0;
        disk.set_faults(Faults {
            name_error: 300,
            write_error: 100,
            truncate_error: 300,
            sync_error: 50,
            short_write: 300,
        });
        let (mut kept, mut unsynced) = (Vec::new(), Vec::new());
        for n in 0..60u64 {
            match journal.append(&record(n % 7)) {
                Ok(position) => unsynced.push((position.0, record(n % 7))),
                Err(_) if journal.is_poisoned() => unsynced.clear(),
                Err(_) => {}
            }
            match journal.sync() {
                Ok(_) => kept.append(&mut unsynced),
                Err(_) => unsynced.clear(),
            }
            let _ = journal.reopen();
        }
        disk.cut_power();
        disk.restart();
        let (journal, _) = open_with(&disk, small()).unwrap();
        let (mut found, replay) = replay_from(&journal, 0);
        found.truncate(kept.len());
        assert_eq!(found, kept, "seed {seed}: {replay:?}");
    }
}

/// A process may be killed between making a segment and making its name durable; the next one relies on it.
#[test]
fn a_segment_whose_name_was_not_synced_is_safe_once_opened() {
    for seed in 0..100 {
        let disk = SimulatedDisk::new(seed);
        disk.create_dir_all(Path::new(DIRECTORY)).unwrap();
        let header = crate::format::SegmentHeader { mark: 1, number: 0, first: 0 };
        let mut file = disk.create(&Path::new(DIRECTORY).join("0000000000000000.journal")).unwrap();
        file.write_all(&header.encode()).unwrap();
        disk.kill_process();
        let mut journal = open(&disk);
        journal.append(&record(0)).unwrap();
        journal.sync().unwrap();
        disk.cut_power();
        disk.restart();
        assert_eq!(replay_from(&open(&disk), 0).0, records(0..1), "seed {seed}");
    }
}

/// Whole frames with numbers at their limits: 2^62 is the last sequence that is one.
#[test]
fn sequences_near_the_end_of_numbers_do_not_overflow() {
    for (sequence, good) in [(1_u64 << 62, true), ((1 << 62) + 1, false), (u64::MAX, false)] {
        let header = crate::format::SegmentHeader { mark: 9, number: 0, first: 1 << 62 };
        let mut bytes = header.encode().to_vec();
        crate::format::RecordHeader::frame(sequence, 0, 9, b"edge", &mut bytes);
        let disk = SimulatedDisk::new(1);
        disk.put(&Path::new(DIRECTORY).join("0000000000000000.journal"), bytes);
        let mut journal = open(&disk);
        assert_eq!(replay_from(&journal, 0).0.len(), usize::from(good), "{sequence}");
        match journal.append(b"next") {
            Ok(next) => assert!(!good && next == Position(1 << 62), "{next:?}"),
            Err(error) => assert!(good && matches!(error, Error::SequenceTooLarge { .. }), "{error}"),
        }
    }
}

#[test]
fn random_bytes_open_without_harm() {
    let mut random = fastrand::Rng::with_seed(42);
    let scratch = SimulatedDisk::new(1);
    drop(filled(&scratch, 20, Options::default()));
    let path = segments(&scratch).remove(0);
    let good = scratch.read(&path).unwrap();
    for round in 0..2000 {
        let mut bytes = match round % 3 {
            0 => (0..random.u64(..300)).map(|_| random.u8(..)).collect(),
            _ => good.clone(),
        };
        for _ in 0..random.u64(..10) {
            let (at, with) = (random.usize(..=bytes.len()), random.u8(..));
            match random.u64(..4) {
                0 => bytes.truncate(at),
                1 => bytes.insert(at, with),
                2 => bytes.extend_from_within(..at),
                _ => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= with),
            }
        }
        let disk = SimulatedDisk::new(1);
        disk.put(&path, bytes);
        let (mut journal, recovery) = open_with(&disk, Options::default()).unwrap();
        let (found, _) = replay_from(&journal, 0);
        assert!(found.iter().all(|(n, bytes)| *bytes == record(*n)), "round {round}");
        assert_eq!(journal.append(b"next").unwrap(), recovery.next);
        journal.sync().unwrap();
        let (again, _) = replay_from(&open(&disk), 0);
        assert_eq!(again.len(), found.len() + 1, "round {round}");
    }
}

#[derive(Clone, Debug)]
enum Operation {
    Append(Vec<u8>),
    Sync,
    Truncate(u64),
    Kill,
    PowerCut,
    FailedSync,
    Full(usize),
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        8 => prop::collection::vec(any::<u8>(), 0..200).prop_map(Operation::Append),
        4 => Just(Operation::Sync),
        1 => (0u64..40).prop_map(Operation::Truncate),
        1 => Just(Operation::Kill),
        1 => Just(Operation::PowerCut),
        1 => Just(Operation::FailedSync),
        1 => (0usize..200).prop_map(Operation::Full),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// The model: a list of records, of which the first `synced` are safe.
    #[test]
    fn the_journal_is_a_list(seed in any::<u64>(), operations in prop::collection::vec(operation(), 1..60)) {
        let disk = SimulatedDisk::new(seed);
        let mut journal = open_with(&disk, small()).unwrap().0;
        let (mut model, mut synced, mut truncated): (Vec<Vec<u8>>, usize, u64) = (Vec::new(), 0, 0);
        for operation in operations {
            match operation {
                Operation::Append(bytes) => {
                    prop_assert_eq!(journal.append(&bytes).unwrap(), Position(model.len() as u64));
                    model.push(bytes);
                }
                Operation::Sync => synced = journal.sync().unwrap().0 as usize,
                Operation::Truncate(before) => {
                    truncated = truncated.max(before.min(synced as u64));
                    journal.truncate_before(Position(truncated)).unwrap();
                }
                Operation::Kill | Operation::PowerCut => {
                    if matches!(operation, Operation::PowerCut) {
                        disk.cut_power();
                    }
                    disk.restart();
                    let (reopened, recovery) = open_with(&disk, small()).unwrap();
                    journal = reopened;
                    let next = recovery.next.0 as usize;
                    prop_assert!((synced..=model.len()).contains(&next));
                    if matches!(operation, Operation::Kill) {
                        prop_assert_eq!(next, model.len());
                    }
                    // A hole before a record that survived: its records are not given, and never were safe.
                    let (found, replay) = replay_from(&journal, truncated);
                    for bad in &replay.corruptions {
                        prop_assert!(bad.lost.0 as usize >= synced && !bad.proven);
                    }
                    for (n, bytes) in &found {
                        prop_assert_eq!(bytes, &model[*n as usize]);
                    }
                    if replay.corruption_count > 0 {
                        return Ok(());
                    }
                    model.truncate(next);
                    synced = next;
                }
                Operation::FailedSync => {
                    synced = journal.durable().0 as usize;
                    disk.set_faults(Faults { sync_error: 1000, ..Faults::default() });
                    let failed = journal.sync().is_err();
                    disk.set_faults(Faults::default());
                    prop_assert_eq!(failed, synced < model.len());
                    journal.reopen().unwrap();
                    model.truncate(synced);
                }
                Operation::Full(room) => {
                    disk.set_capacity(Some(disk.used_bytes() + room as u64));
                    let refused = journal.append(&[9; 200]);
                    prop_assert!(refused.is_err_and(|error| error.is_full()));
                    disk.set_capacity(None);
                    synced = journal.durable().0 as usize;
                }
            }
            synced = synced.max(journal.durable().0 as usize);
            let (found, replay) = replay_from(&journal, truncated);
            let expected: Vec<_> =
                model.iter().enumerate().skip(truncated as usize).map(|(n, bytes)| (n as u64, bytes.clone())).collect();
            prop_assert_eq!(found, expected);
            prop_assert_eq!(replay.corruption_count, 0);
        }
    }
}

#[test]
fn a_rotated_journal_lets_all_before_it_go_and_loses_nothing() {
    for power in [false, true] {
        let disk = SimulatedDisk::new(3);
        let mut journal = filled(&disk, 5, Options::default());
        journal.append(&record(5)).unwrap();
        journal.rotate().unwrap();
        assert_eq!((journal.durable(), segments(&disk).len()), (Position(6), 2), "what was not synced is");
        journal.rotate().unwrap();
        assert_eq!(segments(&disk).len(), 2, "a blank segment stays");
        assert_eq!(replay_from(&journal, 0).0, records(0..6));
        journal.truncate_before(Position(6)).unwrap();
        assert_eq!(segments(&disk).len(), 1);
        if power {
            disk.cut_power();
        }
        drop(journal);
        disk.restart();
        let mut journal = open(&disk);
        assert_eq!(journal.append(&record(6)).unwrap(), Position(6));
        journal.sync().unwrap();
        assert_eq!(replay_from(&journal, 6).0, records(6..7));
    }
}

#[test]
fn a_rotation_that_fails_is_made_up_for_by_the_next_record() {
    let disk = SimulatedDisk::new(3);
    let mut journal = filled(&disk, 3, Options::default());
    disk.set_faults(Faults { name_error: 1000, ..Faults::default() });
    assert!(journal.rotate().is_err());
    disk.set_faults(Faults::default());
    journal.append(&record(3)).unwrap();
    journal.sync().unwrap();
    assert_eq!(replay_from(&journal, 0).0, records(0..4));
    drop(journal);
    assert_eq!(replay_from(&open(&disk), 0).0, records(0..4));
}

/// A reader beside the writer sees what was durable when it asked, also while the writer goes on and when a segment is
/// bad.
#[test]
fn segments_are_read_beside_the_writer() {
    let disk = SimulatedDisk::new(7);
    let mut journal = filled(&disk, 40, small());
    let found = journal.segments();
    assert!(found.len() > 3 && found[0].first == Position(0));
    assert!(found.windows(2).all(|pair| pair[0].end == pair[1].first));
    assert_eq!(found.last().unwrap().end, Position(40));
    let read = |segment: &crate::SegmentRange, from: u64, limit: u64| {
        let mut out = Vec::new();
        let replay = segment
            .replay::<Error>(&disk, Position(from)..Position(limit), |position, bytes| {
                out.push((position.0, bytes.to_vec()));
                Ok(())
            })
            .unwrap();
        (out, replay.corruptions.iter().map(|bad| bad.lost).collect::<Vec<_>>())
    };
    journal.append(&record(40)).unwrap();
    let all: Vec<_> = found.iter().flat_map(|segment| read(segment, 0, 40).0).collect();
    assert_eq!(all, records(0..40));
    let second = &found[1];
    let (first, end) = (second.first.0, second.end.0);
    assert_eq!(read(second, first + 1, end - 1).0, records(first + 1..end - 1));
    assert_eq!(read(second, end, 40), (Vec::new(), Vec::new()));
    // The first record's payload, behind both headers.
    disk.flip_bit(&second.path, (64 + 32) * 8 + 3);
    assert_eq!(read(second, 0, 40), (records(first + 1..end), vec![(first, first + 1)]));
    journal.truncate_before(second.end).unwrap();
    assert_eq!(journal.segments()[0].first, second.end);
    let gone = second.replay::<Error>(&disk, second.first..second.end, |_, _| Ok(()));
    assert!(matches!(gone, Err(Error::NotFound { .. })));
}

/// `ogive replay` reads the journal of a running server: nothing is locked, made or removed, also where the end is
/// torn.
#[test]
fn a_journal_is_read_without_touching_it() {
    let disk = SimulatedDisk::new(11);
    let read = || {
        let mut out = Vec::new();
        let replay = crate::read_journal::<Error>(&disk, Path::new(DIRECTORY), |position, bytes| {
            out.push((position.0, bytes.to_vec()));
            Ok(())
        });
        (out, replay.unwrap().corruptions.iter().map(|bad| bad.lost).collect::<Vec<_>>())
    };
    let mut journal = filled(&disk, 40, small());
    let segments = journal.segments();
    assert_eq!(read(), (records(0..40), Vec::new()));
    journal.append(&record(40)).unwrap();
    let files = disk.list(Path::new(DIRECTORY)).unwrap();
    assert_eq!(read().0.len(), 41, "what is written and not yet durable may be there too");
    assert_eq!(disk.list(Path::new(DIRECTORY)).unwrap(), files);
    disk.flip_bit(&segments[1].path, (64 + 32) * 8 + 3);
    let first = segments[1].first.0;
    let (found, bad) = read();
    assert_eq!((found.len(), bad), (40, vec![(first, first + 1)]));
    journal.truncate_before(segments[2].first).unwrap();
    assert_eq!(read().0[0].0, segments[2].first.0);
}

/// A server removed a segment between two openings of it, and the whole reading failed with "not found". A segment that
/// was removed is left out, or read whole by who has it open already, whenever that happens.
#[test]
fn a_segment_that_is_removed_while_the_journal_is_read_ends_nothing() {
    for openings in 1..4 {
        let disk = SimulatedDisk::new(12);
        let segments = filled(&disk, 40, small()).segments();
        let second = &segments[1];
        disk.vanish_after(&second.path, openings);
        let mut out = Vec::new();
        let replay = crate::read_journal::<Error>(&disk, Path::new(DIRECTORY), |position, bytes| {
            out.push((position.0, bytes.to_vec()));
            Ok(())
        });
        assert_eq!(replay.unwrap().corruptions, Vec::new(), "after {openings}");
        let others = || [records(0..second.first.0), records(second.end.0..40)].concat();
        assert_eq!(out, if openings == 1 { others() } else { records(0..40) }, "after {openings}");
    }
}

/// Limits are kept by who writes: what the reader refuses is never in a file.
#[test]
fn the_last_sequence_is_written_and_read_and_the_next_is_refused() {
    let (disk, directory) = (Arc::new(SimulatedDisk::new(1)), Path::new("/last"));
    let options = |first| Options { first: Position(first), ..Options::default() };
    let last = crate::format::SEQUENCE_MAX;
    let (mut journal, _) = Journal::open(disk.clone(), directory, options(last)).unwrap();
    assert_eq!(journal.append(b"last").unwrap(), Position(last));
    journal.sync().unwrap();
    assert!(matches!(journal.append(b"beyond"), Err(Error::SequenceTooLarge { .. })));
    drop(journal);
    let above = Journal::open(disk.clone(), directory, options(last + 1)).map(drop);
    assert!(matches!(above, Err(Error::SequenceTooLarge { .. })));
    // What is opened again has a segment that nothing can be written to, and reads it again.
    for _ in 0..2 {
        let (mut journal, recovery) = Journal::open(disk.clone(), directory, options(0)).unwrap();
        assert_eq!(recovery.corruptions, Vec::new());
        assert!(matches!(journal.append(b"beyond"), Err(Error::SequenceTooLarge { .. })));
    }
    let mut read = Vec::new();
    crate::read_journal::<Error>(&*disk, directory, |position, record| {
        read.push((position.0, record.to_vec()));
        Ok(())
    })
    .unwrap();
    assert_eq!(read, [(last, b"last".to_vec())]);
}

/// A bad byte in the last record looked like a write that was torn, which nobody was answered for.
#[test]
fn a_bad_last_record_is_distinguished_from_a_torn_one() {
    let whole = |damage: &dyn Fn(&SimulatedDisk, &Path, usize)| {
        let disk = SimulatedDisk::new(1);
        let mut journal = open(&disk);
        for record in [&b"first"[..], &[7; 100]] {
            journal.append(record).unwrap();
            journal.sync().unwrap();
        }
        drop(journal);
        let path = disk.list(Path::new(DIRECTORY)).unwrap().pop().unwrap();
        let length = disk.length(&path).unwrap() as usize;
        damage(&disk, &path, length);
        let (_, recovery) = open_with(&disk, Options::default()).unwrap();
        assert!(recovery.torn.is_some());
        recovery.torn_is_whole
    };
    // The last record takes 32 + 104 bytes.
    assert!(whole(&|disk, path, length| disk.flip_bit(path, (length - 50) * 8)));
    assert!(whole(&|disk, path, length| disk.flip_bit(path, (length - 130) * 8)));
    for cut in [8, 50, 104, 120] {
        let torn = whole(&|disk, path, length| disk.put(path, disk.read(path).unwrap()[..length - cut].to_vec()));
        assert!(!torn, "cut by {cut}");
    }
    assert!(!whole(&|disk, path, length| {
        let mut bytes = disk.read(path).unwrap();
        bytes[length - 136..].fill(0);
        disk.put(path, bytes);
    }));
}
