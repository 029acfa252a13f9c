//! Any bytes as a DNS answer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ogive_checks::fuzz::dns(bytes));
