//! Any message behind a right frame: decoding neither panics nor yields what encoding cannot write.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ogive_model::Batch;

/// Pieces of the payload, each in a frame, one behind the other: each is found, also when the body is cut.
fn several(payload: &[u8]) {
    let count = payload.first().map_or(1, |byte| usize::from(byte % 4) + 1);
    let pieces = payload.chunks(payload.len().div_ceil(count).max(1));
    let Ok(all) =
        pieces.map(|piece| ogive_model::wire::frame(&Default::default(), piece)).collect::<Result<Vec<_>, _>>()
    else {
        return;
    };
    let body = all.concat();
    match ogive_model::wire::frames(&body) {
        Ok(found) => assert_eq!(found, all),
        Err(_) => assert!(all.is_empty()),
    }
    if let Some(cut) = body.len().checked_sub(1) {
        assert!(ogive_model::wire::frames(&body[..cut]).is_err(), "a body that is cut is refused whole");
    }
}

/// Any bytes as the declared series of an empty batch, and as such with any message behind.
fn declared(payload: &[u8]) {
    let empty = Batch::default().encode().expect("an empty batch fits");
    let message = &empty[ogive_model::wire::HEADER_BYTES..];
    let middle = payload.len() / 2;
    for (declared, message) in [(payload, message), (&payload[..middle], &payload[middle..])] {
        let Ok(frame) = ogive_model::wire::frame_declaring(&Default::default(), declared, message) else { return };
        let view = ogive_model::wire::View::read(&frame).and_then(|view| view.each_label(|_, _| {}));
        if let Ok(batch) = Batch::decode(&frame) {
            view.expect("a view shows what the batch holds");
            let again = Batch::decode(&batch.encode().expect("what fitted a frame fits one again"));
            let again = again.expect("what was written is readable");
            assert!(again.series.iter().flatten().eq(batch.series.iter().flatten()));
        }
    }
}

fuzz_target!(|payload: &[u8]| {
    if let Ok(frames) = ogive_model::wire::frames(payload) {
        assert_eq!(frames.concat(), payload, "the frames are the body");
    }
    several(payload);
    declared(payload);
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
