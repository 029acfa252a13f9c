//! Any bytes as what a mail or SSH server says first.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ogive_checks::fuzz::greeting(bytes));
