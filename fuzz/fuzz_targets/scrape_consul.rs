//! Any bytes as an answer of Consul.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ogive_scrape::fuzz::consul(bytes));
