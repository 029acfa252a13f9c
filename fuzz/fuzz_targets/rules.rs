//! Any text as a file of rules.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ogive_detect::rules::RuleFile;

fuzz_target!(|text: &str| {
    if let Ok(file) = RuleFile::parse(text) {
        assert_eq!(file.rules_count(), file.groups.iter().map(|group| group.rules.len()).sum::<usize>());
    }
});
