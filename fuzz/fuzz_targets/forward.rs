//! Any bytes as what a forward reads: its tables, its state, and the answer of an OTLP receiver.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ogive::forward_input(bytes));
