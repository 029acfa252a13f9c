//! Any text as a file of unit tests of rules.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ogive_detect::rules::unit::TestFile;

fuzz_target!(|text: &str| {
    let _ = TestFile::parse(text);
});
