//! Any bytes as an OpenHistogram: what is read is written back and read the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ogive_hist::openhistogram::{decode, encode};

fuzz_target!(|bytes: &[u8]| {
    if let Ok((histogram, _)) = decode(bytes) {
        histogram.check().expect("a decoded histogram keeps its rules");
        let (again, repairs) =
            decode(&encode(&histogram).expect("a decoded histogram can be written")).expect("readable");
        assert!(repairs.is_none(), "our own bytes needed repair");
        assert_eq!(again, histogram);
    }
});
