//! Any bytes as a record of a store's journal: it is refused, or stands for a frame that can be read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ogive_model::{Batch, wire};
use ogive_store::record::RecordReader;

fn read(bytes: &[u8]) {
    let mut reader = RecordReader::new();
    // Twice: what the first one binds, the second one finds.
    for _ in 0..2 {
        let Ok(frame) = reader.frame(bytes) else { return };
        if bytes.starts_with(b"OGVR") {
            let batch = Batch::decode(&frame).expect("it was encoded here");
            assert!(batch.samples.len() <= bytes.len(), "a sample has a byte at least");
        } else {
            let _ = wire::decode_definitions(&frame);
        }
    }
    let _ = reader.take_lost();
}

fuzz_target!(|bytes: &[u8]| {
    read(bytes);
    read(&[b"OGVR\x01", bytes].concat());
});
