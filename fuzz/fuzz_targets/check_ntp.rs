//! Any bytes as an answer of a time server.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ogive_checks::fuzz::ntp(bytes));
