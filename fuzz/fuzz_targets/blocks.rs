//! Any bytes as the files of a block of Prometheus, each of them in turn: no panic, and what is wrong is said.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| ogive_interchange::fuzz::block(bytes));
