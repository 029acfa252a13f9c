//! Any text as a query of lines, and any as a line: what parses prints to something that finds the same, and a line that matches has the
//! words that the query asks for.
#![no_main]

use std::collections::BTreeSet;

use libfuzzer_sys::fuzz_target;
use ogive_model::Labels;
use ogive_model::words::each_word;
use ogive_search::{Line, Query};

fuzz_target!(|text: &str| {
    let (query, line) = text.split_once('\u{1}').unwrap_or((text, text));
    let Ok(query) = Query::parse(query) else { return };
    let labels = Labels::new([("job", "api")]).expect("labels");
    let line_of = Line::new(&labels, line);
    let printed = query.to_string();
    // Escapes may make the printed text longer than a query may be.
    if let Ok(again) = Query::parse(&printed) {
        assert_eq!(again.to_string(), printed);
        assert_eq!(again.matches(&line_of), query.matches(&line_of));
    }
    if query.matches(&line_of) {
        let mut words = BTreeSet::new();
        each_word(line, |word| words.extend([word.to_owned()]));
        assert!(query.words().may_match(&|word| words.contains(word)));
    }
});
