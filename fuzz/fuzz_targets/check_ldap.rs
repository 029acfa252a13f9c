//! Any bytes as answers to StartTLS, a bind and a search of LDAP.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ogive_checks::fuzz::ldap(bytes));
