//! Any bytes as statistics of memcached.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ogive_checks::fuzz::memcached(bytes));
