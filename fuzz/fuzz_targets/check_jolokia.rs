//! Any bytes as answers of Jolokia.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ogive_checks::fuzz::jolokia(bytes));
