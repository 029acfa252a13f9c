//! Any bytes as a clock page: what is read converts any stamp without a panic, and the line never falls.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ogive_probe::ClockPage;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(page) = ClockPage::parse(bytes) {
        for ticks in [0, 1, 1 << 32, 1 << 63, u64::MAX] {
            let _ = (page.ns_at(ticks), page.wall_at(ticks), page.ns_between(ticks, !ticks));
        }
    }
});
