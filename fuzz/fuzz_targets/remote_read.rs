//! Any body: reading a remote read request neither panics nor passes its limits.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ogive_protocol::remote_read::{QUERIES_MAX, request};

fuzz_target!(|body: &[u8]| {
    if let Ok(request) = request(body) {
        assert!(request.queries.len() <= QUERIES_MAX);
    }
});
