//! Any bytes as a journal segment, as they are and behind checksums that fit: it opens, replays and takes a record that is then there.
#![no_main]

use std::path::Path;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use ogive_journal::{Disk, Error, Journal, Options, Position, SimulatedDisk};

fn open(segment: Vec<u8>) {
    let disk = Arc::new(SimulatedDisk::new(1));
    let directory = Path::new("/journal");
    disk.create_dir_all(directory).expect("an empty disk takes a directory");
    disk.put(&directory.join("0000000000000000.journal"), segment);
    let Ok((mut journal, _)) = Journal::open(disk, directory, Options::default()) else { return };
    let position = journal.append(b"after").expect("a journal takes a record after any damage");
    journal.sync().expect("the disk is sound");
    let mut last = Vec::new();
    journal
        .replay::<Error>(Position(0), |_, record| {
            last = record.to_vec();
            Ok(())
        })
        .expect("replay steps over damage");
    assert_eq!(last, b"after", "{position:?}");
}

fuzz_target!(|bytes: &[u8]| {
    open(bytes.to_vec());
    open(ogive_journal::sealed(bytes, 0));
});
