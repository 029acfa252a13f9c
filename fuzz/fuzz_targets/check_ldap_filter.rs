//! Any text as a filter of a search of LDAP.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ogive_checks::fuzz::ldap_filter(bytes));
