//! Any journal in the export format: each entry becomes a sample or a fault, what is kept is bounded, and the pieces in which it arrives
//! change nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ogive_protocol::Gather;
use ogive_protocol::journald::{ENTRY_BYTES_MAX, Entries, Entry};
use ogive_protocol::lines::Fault;

fn read(input: &[u8], size: usize) -> Vec<Result<Entry, Fault>> {
    let (mut entries, mut out) = (Entries::default(), Vec::new());
    for mut piece in input.chunks(size) {
        while let Some(entry) = entries.next(&mut piece) {
            out.push(entry);
        }
        assert!(piece.is_empty());
        assert!(entries.held() <= 2 * ENTRY_BYTES_MAX);
    }
    out
}

fuzz_target!(|input: &[u8]| {
    let whole = read(input, input.len().max(1));
    assert_eq!(read(input, 7), whole);
    for entry in whole.into_iter().flatten() {
        let mut gather = Gather::default();
        let _ = entry.identity();
        assert_eq!(gather.len(), usize::from(entry.feed(&mut gather).is_ok()));
        let _ = gather.take(Default::default(), 0, &Default::default()).encode();
    }
});
