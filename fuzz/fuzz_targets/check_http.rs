//! Any bytes as what an HTTP server says.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ogive_checks::fuzz::http(bytes));
