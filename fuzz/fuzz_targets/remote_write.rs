//! Any body: unpacking and reading it ends without a panic, and takes no more memory than the body may.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ogive_model::{SourceId, Tenant};
use ogive_protocol::remote_write::{ItemReader, v1, v2};
use ogive_protocol::snappy;

fn read(message: &[u8]) {
    let tenant = Tenant::default();
    let _ = v1::read(message, &tenant, SourceId(1), 1, None, |_| {});
    let _ = ItemReader::new(&tenant).read(message, &mut Vec::new());
    let _ = v2::read(message, &tenant, SourceId(1), 1, None, |_| {});
}

fuzz_target!(|body: &[u8]| {
    read(body);
    if let Ok(message) = snappy::unpack(body, 1 << 20) {
        read(&message);
    }
});
