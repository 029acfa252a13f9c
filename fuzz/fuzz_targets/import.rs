//! Any bytes as a file of each format that is imported: no panic, and batches within their limits.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| ogive_interchange::fuzz::file(bytes));
