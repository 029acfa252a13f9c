//! Any text as the configuration of a group of brokers.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = ogive::group_file(text);
    }
});
