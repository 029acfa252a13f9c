//! Any bytes as the file of a broker.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = ogive::broker_file(text);
    }
});
