//! Any bytes as a web configuration.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ogive_http::fuzz::config_web(bytes));
