//! Any bytes as what a PostgreSQL server says.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ogive::fuzz::check_postgres(bytes));
