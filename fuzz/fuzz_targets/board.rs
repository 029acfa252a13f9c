//! Any bytes as a board of the page.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ogive_http::fuzz::board(bytes));
