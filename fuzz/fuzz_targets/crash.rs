//! Any bytes as the messages of a role to its writer of crash reports.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ogive_crash::fuzz::messages(bytes));
