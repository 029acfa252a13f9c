//! Any bytes as what a Nagios plugin prints.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ogive_checks::fuzz::perfdata(bytes));
