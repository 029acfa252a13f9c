//! Any body: reading a remote read request neither panics nor passes its limits.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ogive_protocol::remote_read::{QUERIES_MAX, queries};

fuzz_target!(|body: &[u8]| {
    if let Ok(queries) = queries(body) {
        assert!(queries.len() <= QUERIES_MAX);
    }
});
