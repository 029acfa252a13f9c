//! Any bytes as the USDT notes of a program, of both machines: places are found or there is a reason.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ogive_kernel::ask::{Machine, Usdt};

fuzz_target!(|bytes: &[u8]| {
    for machine in [Machine::X86, Machine::Arm] {
        match Usdt::from_notes(bytes, "app", "begins", machine, 0x2100, Some) {
            Ok(usdt) => {
                assert!(!usdt.sites.is_empty());
                assert!(usdt.sites.iter().all(|site| site.layout < usdt.layouts.len()));
            }
            Err(reason) => assert!(!reason.is_empty()),
        }
    }
});
