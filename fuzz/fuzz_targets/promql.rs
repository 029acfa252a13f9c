//! Any text as PromQL: what parses prints to something that parses to the same text.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(expression) = ogive_query::parse(text) {
        let printed = expression.to_string();
        let again = ogive_query::parse(&printed).expect("a printed expression parses");
        assert_eq!(again.to_string(), printed);
    }
});
