//! Any message behind a right frame: decoding neither panics nor yields what encoding cannot write.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ogive_model::Batch;

fuzz_target!(|payload: &[u8]| {
    if let Ok(frames) = ogive_model::wire::frames(payload) {
        assert_eq!(frames.concat(), payload, "the frames are the body");
    }
    let _ = ogive_model::wire::decode_definitions(payload);
    let Ok(frame) = ogive_model::wire::frame(&Default::default(), payload) else { return };
    if let Ok(view) = ogive_model::wire::View::read(&frame) {
        let _ = view.each_label(|_, _| {});
        let _ = view.known().map(Iterator::count);
        let _ = view.floats().map(|floats| floats.map(|floats| floats.each(|_, _, _| {})));
        let _ = view.histograms().map(|rows| rows.map(|rows| rows.each(|row| _ = row.each_bin(|_, _, _| {}))));
    }
    if let Ok(batch) = Batch::decode(&frame) {
        let again = batch.encode().expect("what fitted a frame fits one again");
        Batch::decode(&again).expect("what was written is readable");
    }
});
