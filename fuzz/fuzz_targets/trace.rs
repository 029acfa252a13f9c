//! Any text: reading a slow trace neither panics nor takes a line that would be written otherwise.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ogive_probe::SlowTrace;

fuzz_target!(|line: &str| {
    if let Ok(trace) = line.parse::<SlowTrace>() {
        assert_eq!(trace.to_string(), line);
        let _ = trace.waterfall();
    }
});
