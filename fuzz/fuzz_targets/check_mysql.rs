//! Any bytes as a greeting, a login and a result of MySQL.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ogive_checks::fuzz::mysql(bytes));
