//! Any bytes as answers of a MongoDB server to a login and to commands.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ogive_checks::fuzz::mongodb(bytes));
