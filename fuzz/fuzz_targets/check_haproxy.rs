//! Any bytes as statistics of HAProxy.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ogive_checks::fuzz::haproxy(bytes));
