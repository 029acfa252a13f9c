//! Any bytes as the output of `varnishstat -j`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ogive_checks::fuzz::varnish(bytes));
