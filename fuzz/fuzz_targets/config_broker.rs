//! Any bytes as the file of a broker.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ogive::fuzz::config_broker(bytes));
