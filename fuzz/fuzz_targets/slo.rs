//! Any text as a file of objectives: what is taken makes rules that can be read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ogive_detect::rules::{RuleFile, slo};

fuzz_target!(|text: &str| {
    if let Ok(rules) = slo::rules(text) {
        assert!(RuleFile::parse(&rules).is_ok());
    }
});
