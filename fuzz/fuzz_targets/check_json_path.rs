//! Any bytes as a path into JSON, a line and the JSON.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ogive_checks::fuzz::json_path(bytes));
