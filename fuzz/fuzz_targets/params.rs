//! Any bytes as the parameters of a query.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ogive_http::fuzz::params(bytes));
