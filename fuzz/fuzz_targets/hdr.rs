//! Any bytes as an HdrHistogram: what is read and can be written is read the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ogive_hist::Scheme;
use ogive_hist::hdr::{Log, decode, encode};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(histogram) = decode(bytes, 1e-9) {
        histogram.check().expect("a decoded histogram keeps its rules");
        let Scheme::LogLinear2 { unit, .. } = histogram.scheme else { panic!("another scheme") };
        if let Ok(written) = encode(&histogram) {
            assert_eq!(decode(&written, unit).expect("readable"), histogram);
        }
    }
    let mut log = Log::new(1e-9);
    for line in String::from_utf8_lossy(bytes).lines() {
        let _ = log.line(line);
    }
});
