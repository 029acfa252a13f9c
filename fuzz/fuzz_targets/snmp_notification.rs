//! Any bytes as a datagram of SNMP: it becomes a notification or is refused, and what is answered is never answered again.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ogive_snmp::fuzz::datagram(bytes));
