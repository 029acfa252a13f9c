//! Any bytes as what a Redis server says.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ogive_checks::fuzz::redis(bytes));
