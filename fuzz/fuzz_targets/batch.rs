//! Any message behind a right frame: decoding neither panics nor yields what encoding cannot write.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ogive_model::Batch;

fuzz_target!(|payload: &[u8]| {
    let _ = ogive_model::wire::decode_definitions(payload);
    if let Ok(batch) = ogive_model::wire::frame(&Default::default(), payload).and_then(|frame| Batch::decode(&frame)) {
        let again = batch.encode().expect("what fitted a frame fits one again");
        Batch::decode(&again).expect("what was written is readable");
    }
});
