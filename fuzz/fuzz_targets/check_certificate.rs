//! Any bytes as a server's certificate.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ogive_checks::fuzz::certificate(bytes));
