//! Any bytes as the file that says who may send notifications of SNMP.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ogive_snmp::fuzz::access(bytes));
