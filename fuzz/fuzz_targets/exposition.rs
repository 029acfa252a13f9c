//! Any bytes in each form of exposition: reading them neither panics nor yields a series whose labels cannot be read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ogive_protocol::exposition::{Format, decode};

fuzz_target!(|bytes: &[u8]| {
    let text = [false, true].map(|is_whole| Format::Text { is_whole });
    let open = [1, 2].map(|version| Format::OpenMetrics { version });
    for format in text.into_iter().chain(open).chain([Format::Protobuf]) {
        if let Ok(read) = decode(format, bytes) {
            read.points.iter().for_each(|point| drop(point.series.labels()));
        }
    }
});
