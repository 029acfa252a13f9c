//! Transfers between simulated disks: complete, partial, interrupted anywhere, damaged.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use ogive_journal::{Disk, Member, SimulatedDisk};
use ogive_model::WallMs;
use proptest::prelude::*;

use super::*;
use crate::upkeep_tests::{held, open, send};
use crate::{Error, snapshot};

const FROM: &str = "/from";
const TO: &str = "/to";

fn quiet(_: u64) -> Result<(), ogive_journal::Error> {
    Ok(())
}

/// A store with two snapshots: `one` of 40 batches, `two` of 60, which shares what was in blocks.
fn sender() -> SimulatedDisk {
    let disk = SimulatedDisk::new(11);
    let store = open(Arc::new(disk.clone()), FROM);
    (0..30).for_each(|n| assert!(send(&store, n)));
    store.flush().unwrap();
    (30..40).for_each(|n| assert!(send(&store, n)));
    store.snapshot("one", WallMs(1)).unwrap();
    (40..60).for_each(|n| assert!(send(&store, n)));
    store.snapshot("two", WallMs(2)).unwrap();
    drop(store);
    disk
}

fn inventory(disk: &SimulatedDisk, name: &str) -> Inventory {
    Inventory::from_snapshot(disk, Path::new(FROM), name, &mut quiet).unwrap()
}

fn bytes_of(disk: &SimulatedDisk, inventory: &Inventory, file: &FileEntry) -> Vec<u8> {
    disk.read(&inventory.path_in(Path::new(FROM), file)).unwrap()
}

/// Sends what is missing until all is there; gives the bytes that were sent.
fn transfer(from: &SimulatedDisk, to: &SimulatedDisk, name: &str, piece_bytes: usize) -> Result<u64, Error> {
    let (inventory, target) = (inventory(from, name), Path::new(TO));
    let (mut sent, mut progress) = (0, begin(to, target, &inventory)?);
    loop {
        let Progress::Missing(missing) = progress else { return Ok(sent) };
        for Missing { index, offset } in missing {
            let file = &inventory.files[index];
            let bytes = bytes_of(from, &inventory, file);
            let mut at = offset as usize;
            while at < bytes.len() {
                let end = (at + piece_bytes).min(bytes.len());
                put(to, target, &begun(to, target, name)?, file, at as u64, &bytes[at..end])?;
                sent += (end - at) as u64;
                at = end;
            }
        }
        progress = finish(to, target, &inventory)?;
    }
}

/// What a clone of the received snapshot holds.
fn received(disk: &SimulatedDisk, name: &str, clone: &str) -> BTreeSet<u64> {
    let target = Member { root: clone.into(), disk: Arc::new(disk.clone()) };
    snapshot::clone_to(disk, Path::new(TO), name, &[TO.into()], &target, 5).unwrap();
    held(&open(Arc::new(disk.clone()), clone))
}

#[test]
fn a_snapshot_arrives_whole_and_the_next_costs_what_changed() {
    let (from, to) = (sender(), SimulatedDisk::new(12));
    let [one, two] = ["one", "two"].map(|name| inventory(&from, name));
    assert_eq!(transfer(&from, &to, "one", 700).unwrap(), one.bytes());
    assert_eq!(received(&to, "one", "/c1"), (0..40).collect());
    let sent = transfer(&from, &to, "two", PIECE_BYTES_MAX).unwrap();
    let shared: u64 = two.files.iter().filter(|file| one.files.contains(file)).map(|file| file.bytes).sum();
    assert!(shared > 0 && sent == two.bytes() - shared, "{sent} of {} with {shared} shared", two.bytes());
    assert_eq!(received(&to, "two", "/c2"), (0..60).collect());
    let block = two.files.iter().find(|file| file.path.ends_with(".block")).unwrap();
    let same = to.same_file(&one.path_in(Path::new(TO), block), &two.path_in(Path::new(TO), block));
    assert!(same.unwrap(), "a second name, not a copy");
    // Again: nothing is sent, and what is there stays.
    assert_eq!(transfer(&from, &to, "two", 100).unwrap(), 0);
    snapshot::delete(&to, Path::new(TO), "one").unwrap();
    assert_eq!(received(&to, "two", "/c3"), (0..60).collect());
    // A received one is sent on as any other.
    assert_eq!(Inventory::from_snapshot(&to, Path::new(TO), "two", &mut quiet).unwrap(), two);
}

/// Whatever change of the receiver's disk is the last before its power goes: the next start goes on, and all arrives.
#[test]
fn a_transfer_that_is_cut_anywhere_goes_on() {
    let from = sender();
    let files = inventory(&from, "two");
    let (mut cuts, mut again) = (0, 0);
    for change in 0_u64.. {
        let to = SimulatedDisk::new(100 + change);
        to.create_dir_all(Path::new(TO)).unwrap();
        to.cut_power_after(change + 1);
        let done = transfer(&from, &to, "two", 900);
        if to.is_powered() {
            done.unwrap();
            break;
        }
        assert!(done.is_err());
        to.restart();
        assert!(snapshot::list(&to, Path::new(TO)).unwrap().len() <= 1);
        again += u64::from(transfer(&from, &to, "two", 900).unwrap() < files.bytes());
        assert_eq!(received(&to, "two", "/c"), (0..60).collect(), "cut at change {change}");
        cuts += 1;
    }
    assert!(cuts > 20 && again > 5, "{cuts} cuts, {again} went on with something");
}

/// As kill -9: what was written is there, and the next process goes on with it.
#[test]
fn a_killed_receiver_keeps_what_it_has() {
    let (from, to) = (sender(), SimulatedDisk::new(13));
    let files = inventory(&from, "two");
    let first = files.files.iter().find(|file| file.bytes > 500).unwrap();
    let process = to.process();
    begin(&process, Path::new(TO), &files).unwrap();
    let bytes = bytes_of(&from, &files, first);
    put(&process, Path::new(TO), &files, first, 0, &bytes[..300]).unwrap();
    to.kill_process();
    let sent = transfer(&from, &to, "two", 256).unwrap();
    assert_eq!(sent, files.bytes() - 300);
    assert_eq!(received(&to, "two", "/c"), (0..60).collect());
}

#[test]
fn a_flipped_bit_on_the_way_is_found_and_sent_again() {
    let (from, to) = (sender(), SimulatedDisk::new(14));
    let files = inventory(&from, "one");
    let target = Path::new(TO);
    begin(&to, target, &files).unwrap();
    for file in &files.files {
        let bytes = bytes_of(&from, &files, file);
        put(&to, target, &files, file, 0, &bytes).unwrap();
    }
    let bad = files.files.iter().position(|file| file.bytes > 0).unwrap();
    to.flip_bit(&files.path_in(target, &files.files[bad]), 13);
    assert_eq!(finish(&to, target, &files).unwrap(), Progress::Missing(vec![Missing { index: bad, offset: 0 }]));
    assert!(snapshot::list(&to, target).unwrap().is_empty(), "what is not whole is not there");
    assert_eq!(transfer(&from, &to, "one", 999).unwrap(), files.files[bad].bytes);
    assert_eq!(received(&to, "one", "/c"), (0..40).collect());
    // A bad byte at the sender: a page that is there twice is healed first; what cannot be is not sent.
    let block = files.files.iter().find(|file| file.path.ends_with(".block")).unwrap();
    let mut refused = 0;
    for at in (0..block.bytes as usize).step_by(97) {
        let path = files.path_in(Path::new(FROM), block);
        from.flip_bit(&path, 8 * at);
        match Inventory::from_snapshot(&from, Path::new(FROM), "one", &mut quiet) {
            Ok(healed) if healed == files => {}
            // A byte between two sections, which holds nothing.
            Ok(_) => from.flip_bit(&path, 8 * at),
            Err(Error::Corrupt { .. }) => {
                refused += 1;
                from.flip_bit(&path, 8 * at);
            }
            Err(error) => panic!("byte {at}: {error}"),
        }
    }
    assert!(refused > 0, "{refused}");
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let (from, to, target) = (sender(), SimulatedDisk::new(15), Path::new(TO));
    let files = inventory(&from, "one");
    let refused = |result: Result<(), Error>, what: &str| match result {
        Err(Error::Refused { problem }) => assert!(problem.contains(what), "{problem} does not say {what}"),
        other => panic!("{what}: {other:?}"),
    };
    refused(begun(&to, target, "one").map(|_| ()), "no transfer");
    refused(begun(&to, target, "../one").map(|_| ()), "names no snapshot");
    for path in
        ["../x", "/x", "journal/../x", "a/b", "journal/", "journal", "", ".x", "SNAPSHOT", "RECEIVING", "ROLLBACK", "ä"]
    {
        let mut wrong = files.clone();
        wrong.files = vec![FileEntry { path: path.into(), ..files.files[0].clone() }];
        refused(wrong.checked().map(|_| ()), "is no path");
    }
    let mut twice = files.clone();
    twice.files.insert(0, files.files[0].clone());
    refused(twice.checked().map(|_| ()), "there twice");
    let mut many = files.clone();
    many.files = (0..=FILES_MAX).map(|n| FileEntry { path: format!("{n:08}"), ..files.files[0].clone() }).collect();
    refused(many.clone().checked().map(|_| ()), "at most 50000");
    many.files.pop();
    many.files.iter_mut().for_each(|file| file.bytes = u64::MAX / 2);
    refused(many.checked().map(|_| ()), "longer than a disk");
    begin(&to, target, &files).unwrap();
    let file = files.files.iter().find(|file| file.bytes > 100).unwrap();
    let bytes = bytes_of(&from, &files, file);
    refused(put(&to, target, &files, file, 10, &bytes[10..20]).map(|_| ()), "here up to byte 0");
    refused(put(&to, target, &files, file, file.bytes, b"x").map(|_| ()), "and no more");
    refused(put(&to, target, &files, file, u64::MAX, b"x").map(|_| ()), "and no more");
    refused(put(&to, target, &files, file, 0, &vec![0; PIECE_BYTES_MAX + 1]).map(|_| ()), "the most is");
    assert_eq!(put(&to, target, &files, file, 0, &bytes[..50]).unwrap(), 50);
    assert_eq!(put(&to, target, &files, file, 20, &bytes[20..60]).unwrap(), 60, "what is there is not written again");
    assert_eq!(put(&to, target, &files, file, 0, &bytes[..60]).unwrap(), 60);
    transfer(&from, &to, "one", 1_000).unwrap();
    let mut other = inventory(&from, "two");
    other.info.name = "one".into();
    refused(begin(&to, target, &other).map(|_| ()), "another snapshot");
    assert_eq!(received(&to, "one", "/c"), (0..40).collect());
}

fn stream(from: &SimulatedDisk, name: &str) -> Vec<u8> {
    let (files, mut out) = (inventory(from, name), Vec::new());
    let mut writer = StreamWriter::begin(&mut out, &files).unwrap();
    for (index, file) in files.files.iter().enumerate() {
        let bytes = bytes_of(from, &files, file);
        for (at, piece) in bytes.chunks(1_000).enumerate() {
            writer.piece(index, at as u64 * 1_000, piece).unwrap();
        }
    }
    writer.end().unwrap();
    out
}

fn read_whole(bytes: &[u8]) -> std::io::Result<(Inventory, u64)> {
    let mut reader = StreamReader::begin(bytes)?;
    let mut total = 0;
    while let Some(Piece { bytes: piece, .. }) = reader.piece()? {
        total += piece.len() as u64;
    }
    Ok((reader.inventory().clone(), total))
}

#[test]
fn a_stream_reads_back_and_no_damage_goes_by() {
    let from = sender();
    let (files, bytes) = (inventory(&from, "one"), stream(&from, "one"));
    assert_eq!(read_whole(&bytes).unwrap(), (files.clone(), files.bytes()));
    for length in 0..bytes.len() {
        assert!(read_whole(&bytes[..length]).is_err(), "cut at {length}");
    }
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1 << (at % 8);
        assert!(read_whole(&changed).is_err(), "a bit of byte {at}");
    }
}

/// The bytes that docs/formats/snapshot-stream.md shows.
#[test]
fn the_example_of_the_format_page_is_what_is_written_and_read() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let info = crate::SnapshotInfo {
        name: "monday".into(),
        created: WallMs(1_700_000_000_000),
        blocks: 0,
        block_bytes: 0,
        journal_bytes: 5,
    };
    let sha256 = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824".parse().unwrap();
    let path = "journal/0000000000000000.journal".to_owned();
    let files = Inventory { info, files: vec![FileEntry { path, bytes: 5, sha256 }] };
    let mut bytes = Vec::new();
    let mut writer = StreamWriter::begin(&mut bytes, &files).unwrap();
    writer.piece(0, 0, b"hello").unwrap();
    writer.end().unwrap();
    let kept = std::fs::read(root.join("vectors/snapshot/stream")).unwrap();
    assert_eq!(bytes, kept, "the format changed: its version must rise");
    crate::testing::check_page(&std::fs::read_to_string(root.join("docs/formats/snapshot-stream.md")).unwrap(), &kept);
    assert_eq!(read_whole(&kept).unwrap(), (files, 5));
}

/// The receiver panicked at an empty piece for a file of which it had a part: it looked for bytes behind the piece's
/// end. Such a piece is here already and changes nothing.
#[test]
fn an_empty_piece_changes_nothing() {
    let (from, to, target) = (sender(), SimulatedDisk::new(19), Path::new(TO));
    let files = inventory(&from, "one");
    begin(&to, target, &files).unwrap();
    let file = files.files.iter().find(|file| file.bytes > 300).unwrap();
    let bytes = bytes_of(&from, &files, file);
    assert_eq!(put(&to, target, &files, file, 0, &[]).unwrap(), 0);
    assert_eq!(put(&to, target, &files, file, 0, &bytes[..300]).unwrap(), 300);
    for offset in [0, 1, 300] {
        assert_eq!(put(&to, target, &files, file, offset, &[]).unwrap(), 300, "at {offset}");
    }
    assert!(matches!(put(&to, target, &files, file, 301, &[]), Err(Error::Refused { .. })));
    transfer(&from, &to, "one", 1_000).unwrap();
    assert_eq!(received(&to, "one", "/c"), (0..40).collect());
}

/// A stream that ends anywhere is gone on with by the next, and one of what changed needs what it builds on.
#[test]
fn streams_are_received_in_parts() {
    let (from, to, target) = (sender(), SimulatedDisk::new(16), Path::new(TO));
    let bytes = stream(&from, "one");
    for length in [3, 200, bytes.len() / 3, bytes.len() / 2, bytes.len() - 1] {
        let cut = receive(&to, target, &bytes[..length]);
        assert!(matches!(&cut, Err(Error::Refused { problem }) if problem.contains("ends here")), "{cut:?}");
        assert!(snapshot::list(&to, target).unwrap().is_empty());
    }
    for _ in 0..2 {
        let (files, progress) = receive(&to, target, &bytes[..]).unwrap();
        assert_eq!(progress, Progress::Done(files.info));
    }
    assert_eq!(received(&to, "one", "/c"), (0..40).collect());
    // The list of the second without any piece: what is lacking is said, where the first is and where it is not.
    let two = inventory(&from, "two");
    let mut list = Vec::new();
    StreamWriter::begin(&mut list, &two).unwrap().end().unwrap();
    let lacking = |disk: &SimulatedDisk| match receive(disk, target, &list[..]).unwrap().1 {
        Progress::Missing(missing) => missing.len(),
        Progress::Done(_) => 0,
    };
    assert_eq!(lacking(&SimulatedDisk::new(17)), two.files.len());
    // It was begun where nothing was, and the one that it builds on came after that.
    let late = SimulatedDisk::new(18);
    assert_eq!(lacking(&late), two.files.len());
    transfer(&from, &late, "one", 1_000).unwrap();
    assert_eq!(lacking(&late), lacking(&to));
    assert_eq!(lacking(&to), two.files.iter().filter(|file| !inventory(&from, "one").files.contains(file)).count());
}

proptest! {
    /// Whatever the bytes: a stream or an error, and no memory beyond what its limits allow.
    #[test]
    fn any_bytes_are_a_stream_or_an_error(
        at: prop::sample::Index, value: u64, bytes in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let _ = read_whole(&bytes);
        let mut changed = [&b"OGIVESTR\x01\0\0\0"[..], &bytes].concat();
        let _ = read_whole(&changed);
        let at = at.index(changed.len());
        changed.splice(at..at, value.to_le_bytes());
        let _ = read_whole(&changed);
        let _ = read_whole(&[crate::frame::frame(*b"OGIVESTR", &bytes), changed].concat());
    }
}
