//! Any bytes as an answer to a ping.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ogive_checks::fuzz::icmp(bytes));
