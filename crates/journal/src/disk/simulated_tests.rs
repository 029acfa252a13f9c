//! The guarantees of the simulated disk, on which every crash test relies.

use std::path::Path;

use super::{Disk, Faults, SimulatedDisk};
use crate::Error;

fn disk(seed: u64) -> SimulatedDisk {
    let disk = SimulatedDisk::new(seed);
    disk.create_dir_all(Path::new("d")).unwrap();
    disk
}

#[test]
fn names_are_durable_after_their_directory_is_synced() {
    let (mut kept, mut lost) = (0, 0);
    for seed in 0..200 {
        let disk = disk(seed);
        disk.create(Path::new("d/synced")).unwrap();
        disk.sync_dir(Path::new("d")).unwrap();
        disk.create(Path::new("d/unsynced")).unwrap();
        disk.cut_power();
        disk.restart();
        assert!(disk.open(Path::new("d/synced")).is_ok(), "seed {seed}");
        match disk.open(Path::new("d/unsynced")) {
            Ok(_) => kept += 1,
            Err(_) => lost += 1,
        }
    }
    assert!(kept > 20 && lost > 20, "{kept} {lost}");
}

#[test]
fn a_rename_happens_whole_or_not_at_all() {
    let (mut old, mut new) = (0, 0);
    for seed in 0..200 {
        let disk = disk(seed);
        disk.replace(Path::new("d/M"), b"old").unwrap();
        disk.cut_power_after(1 + seed % 6);
        let replaced = disk.replace(Path::new("d/M"), b"new");
        disk.cut_power();
        disk.restart();
        match disk.read(Path::new("d/M")).unwrap().as_slice() {
            b"old" if replaced.is_err() => old += 1,
            b"new" => new += 1,
            other => panic!("seed {seed}: {other:?} after {replaced:?}"),
        }
    }
    assert!(old > 20 && new > 20, "{old} {new}");
}

#[test]
fn power_cut_in_the_middle_of_an_operation_ends_the_process() {
    let disk = disk(1);
    let mut file = disk.create(Path::new("d/f")).unwrap();
    disk.cut_power_after(2);
    file.write_all(b"a").unwrap();
    assert!(file.write_all(b"b").is_err());
    assert!(file.sync().is_err() && disk.read(Path::new("d/f")).is_err() && !disk.is_powered());
    disk.restart();
    assert!(file.length().is_err(), "the old process has ended");
}

#[test]
fn capacity_gives_short_writes_and_then_full() {
    let disk = disk(1);
    disk.set_capacity(Some(10));
    let mut file = disk.create(Path::new("d/f")).unwrap();
    assert_eq!(file.write(&[1; 8]).unwrap(), 8);
    assert_eq!(file.write(&[2; 8]).unwrap(), 2);
    assert!(matches!(file.write(&[3; 8]), Err(Error::Full { offset: 10, .. })));
    assert_eq!(disk.free_bytes(Path::new("d")).unwrap(), 0);
    disk.set_capacity(Some(11));
    assert_eq!(file.write(&[4; 8]).unwrap(), 1);
}

#[test]
fn a_second_lock_is_refused_until_the_first_holder_ends() {
    let disk = disk(1);
    let first = disk.lock(Path::new("d")).unwrap();
    assert!(matches!(disk.lock(Path::new("d")), Err(Error::Locked { .. })));
    disk.kill_process();
    let second = disk.lock(Path::new("d")).unwrap();
    drop(first);
    assert!(matches!(disk.lock(Path::new("d")), Err(Error::Locked { .. })), "the dead process's lock frees nothing");
    drop(second);
    assert!(disk.lock(Path::new("d")).is_ok());
}

#[test]
fn each_fault_happens_about_as_often_as_set() {
    let disk = disk(7);
    disk.set_faults(Faults {
        write_error: 100,
        short_write: 300,
        sync_error: 100,
        name_error: 100,
        truncate_error: 100,
    });
    let mut file = loop {
        if let Ok(file) = disk.create(Path::new("d/f")) {
            break file;
        }
    };
    let (mut short, mut errors, mut syncs, mut names, mut cuts) = (0, 0, 0, 0, 0);
    for _ in 0..1000 {
        match file.write(&[0; 100]) {
            Ok(100) => {}
            Ok(_) => short += 1,
            Err(_) => errors += 1,
        }
        syncs += u32::from(file.sync().is_err());
        names += u32::from(disk.sync_dir(Path::new("d")).is_err());
        cuts += u32::from(file.truncate(0).is_err());
    }
    for count in [short / 3, errors, syncs, names, cuts] {
        assert!((50..200).contains(&count), "{short} {errors} {syncs} {names} {cuts}");
    }
}

#[test]
fn one_seed_gives_one_outcome() {
    let run = |seed| {
        let disk = disk(seed);
        disk.set_faults(Faults { short_write: 500, sync_error: 200, ..Faults::default() });
        let mut file = disk.create(Path::new("d/f")).unwrap();
        disk.sync_dir(Path::new("d")).unwrap();
        for at in 0..50u8 {
            let _ = (file.write(&[at; 300]), at % 7 == 0 && file.sync().is_ok());
        }
        disk.cut_power();
        disk.restart();
        disk.read(Path::new("d/f")).unwrap()
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4));
}
