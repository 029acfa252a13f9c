//! Any bytes as datagrams of an SNMP agent.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ogive_checks::fuzz::snmp(bytes));
