//! Any bytes as the health and the statistics of an Elasticsearch cluster.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ogive_checks::fuzz::elasticsearch(bytes));
