//! Any bytes as a page of CloudWatch.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ogive_checks::fuzz::cloudwatch(bytes));
