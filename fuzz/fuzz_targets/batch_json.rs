//! Any bytes as a batch in JSON: what is read can be written, or is too large.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(decoded) = ogive_protocol::batch_json::decode(bytes) {
        let _ = decoded.batch.encode();
    }
});
