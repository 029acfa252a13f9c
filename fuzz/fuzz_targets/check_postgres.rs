//! Any bytes as what a PostgreSQL server says.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ogive_checks::fuzz::postgres(bytes));
