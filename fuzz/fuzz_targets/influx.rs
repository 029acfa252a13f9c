//! Any body: each line is taken whole or not at all.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ogive_model::{SourceId, Tenant};
use ogive_protocol::influx::{Options, numbered, read};

fuzz_target!(|body: &[u8]| {
    if let Ok(read) = read(body, &Tenant::default(), SourceId(1), 1, &Options::default()) {
        assert_eq!(read.good + read.faults.total(), numbered(body).count() as u64);
        assert_eq!(read.lines.len(), read.batch.samples.len());
    }
});
