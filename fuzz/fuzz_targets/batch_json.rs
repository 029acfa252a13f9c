//! Any bytes as a batch in JSON.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ogive::fuzz::batch_json(bytes));
