//! Any bytes as a block: it is refused, or what is read of it is checked.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use ogive_journal::SimulatedDisk;
use ogive_model::{Selection, TimeRange};
use ogive_store::{Block, Budget};

fuzz_target!(|bytes: &[u8]| {
    let disk = SimulatedDisk::new(1);
    let path = Path::new("/0000000000000001.block");
    disk.put(path, bytes.to_vec());
    if let Ok(block) = Block::open(&disk, path) {
        let selection =
            Selection { matchers: Vec::new(), range: TimeRange::ALL, samples_max: 100_000, labels_only: false, resolution: Default::default() };
        let _ = block.verify();
        let _ = block.select(&selection, &mut Budget::new(selection.samples_max));
    }
});
