//! Any bytes as the bodies between a broker and its server, a signed package, a ticket and a file of the fleet.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ogive_fleet::read_any(bytes));
