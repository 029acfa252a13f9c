//! Any bytes as the small files of a store's directory: the label of a mirror, what a snapshot says of itself, a rollback that was
//! begun. Each is good or an error, and nothing else of the store is touched.
#![no_main]

use std::path::Path;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use ogive_journal::{Disk, Member, MirrorDisk, MirrorOptions, SimulatedDisk};
use ogive_store::snapshot;

fuzz_target!(|bytes: &[u8]| {
    let disk = SimulatedDisk::new(1);
    let root = Path::new("/s");
    disk.put(&root.join("MIRROR"), bytes.to_vec());
    disk.put(&root.join("kept"), b"kept".to_vec());
    let mut drawn = 0;
    let random = Box::new(move || {
        drawn += 1;
        drawn
    });
    let options = MirrorOptions { degraded: true, random, tell: Arc::new(|_| {}) };
    let _ = MirrorDisk::open(vec![Member { root: root.into(), disk: Arc::new(disk.clone()) }], options);
    disk.put(&snapshot::path_of(root, "x").join("SNAPSHOT"), bytes.to_vec());
    let _ = snapshot::list(&disk, root);
    disk.put(&root.join("ROLLBACK"), bytes.to_vec());
    let _ = snapshot::create_stopped(&disk, root, "y", ogive_model::WallMs(1));
    assert_eq!(disk.read(&root.join("kept")).expect("it is there"), b"kept");
});
