//! Any text: reading an exemplar neither panics nor takes one that does not come back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ogive_model::Exemplar;

fuzz_target!(|text: &str| {
    // What is written may be a little longer than what was read, and then too long.
    if let Ok(written) = Exemplar::from_text(text).and_then(|exemplar| exemplar.to_text()) {
        assert_eq!(Exemplar::from_text(&written).expect("it was written here").to_text(), Ok(written.clone()));
    }
});
