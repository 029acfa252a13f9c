//! Any message: each line is taken or counted, and nothing panics.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ogive_protocol::lines::{Names, lines};
use ogive_protocol::statsd::{Options, Tally, feed};
use ogive_stream::Quantizer;

fuzz_target!(|message: &[u8]| {
    let options =
        Options { comma_lists: message.len().is_multiple_of(2), signed_gauges: false, names: Names::Underscore };
    let (mut quantizer, mut tally) = (Quantizer::default(), Tally::default());
    feed(message, 1_700_000_000_500_000_000, &options, &mut quantizer, &mut tally);
    assert!(tally.measurements + tally.faults.total() >= lines(message).count() as u64);
    assert!(quantizer.finish().iter().all(|cell| !cell.series.labels.metric_name().is_empty()));
});
