//! Any text as a template, expanded without a store: it ends, and within its limits.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ogive_detect::rules::template::{NoQueries, OUTPUT_BYTES_MAX, Site, Template, Value};
use ogive_model::WallMs;

fuzz_target!(|text: &str| {
    let Ok(template) = Template::parse("fuzz", text, &["$value"]) else { return };
    let site = Site { time: WallMs(0), external_url: "", queries: &NoQueries };
    if let Ok(out) = template.expand(&Value::Float(1.5), &[Value::Float(1.5)], &site) {
        assert!(out.len() <= OUTPUT_BYTES_MAX);
    }
});
