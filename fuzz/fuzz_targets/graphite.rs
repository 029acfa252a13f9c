//! Any message: each line becomes a sample or a fault.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ogive_protocol::lines::{Faults, Names, lines};
use ogive_protocol::{Gather, graphite};

fuzz_target!(|message: &[u8]| {
    let (mut gather, mut faults) = (Gather::default(), Faults::default());
    graphite::feed(message, 1_700_000_000_500_000_000, Names::Underscore, &mut gather, &mut faults);
    assert_eq!(gather.len() as u64 + faults.total(), lines(message).count() as u64);
});
