//! Any bytes as a DNS server's answer to a lookup of targets.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ogive_scrape::fuzz::dns(bytes));
