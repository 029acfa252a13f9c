//! Any bytes as a scrape configuration and a list of targets.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ogive_scrape::fuzz::config(bytes));
