//! Any body: unpacking and reading it ends without a panic, and takes no more memory than the body may.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ogive_protocol::{remote_write, snappy};

fn read(message: &[u8]) {
    for part in remote_write::parts(message) {
        if let Ok(remote_write::Part::Series(series)) = part {
            series.labels().for_each(drop);
            series.samples().for_each(drop);
            series.histograms().for_each(drop);
            let _ = (series.exemplars(), series.label_bytes());
        }
    }
}

fuzz_target!(|body: &[u8]| {
    read(body);
    if let Ok(message) = snappy::unpack(body, 1 << 20) {
        read(&message);
    }
});
