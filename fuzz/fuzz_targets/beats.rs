//! Any stream of lumberjack frames: each event becomes a sample or a fault, what is kept is bounded, and
//! the pieces in which a good stream arrives change nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ogive_protocol::Gather;
use ogive_protocol::beats::frames::Frames;
use ogive_protocol::beats::{EVENT_BYTES_MAX, feed};

/// How many events a stream in such pieces has; none when it makes no sense.
fn read(input: &[u8], size: usize, gather: &mut Gather) -> Option<usize> {
    let (mut frames, mut count) = (Frames::default(), 0);
    for mut piece in input.chunks(size) {
        loop {
            match frames.next(&mut piece) {
                Ok(Some(found)) => {
                    count += 1;
                    let before = gather.len();
                    let taken = feed(found.content, 1_700_000_000_500_000_000, gather).is_ok();
                    assert_eq!(gather.len(), before + usize::from(taken));
                }
                Ok(None) => break,
                Err(_) => return None,
            }
        }
        assert!(piece.is_empty());
        assert!(frames.held() <= EVENT_BYTES_MAX + (64 << 10));
    }
    Some(count)
}

fuzz_target!(|input: &[u8]| {
    let mut gather = Gather::default();
    let (small, whole) = (read(input, 7, &mut gather), read(input, input.len().max(1), &mut Gather::default()));
    // Damage to compressed bytes is noticed sooner when more of them are there.
    assert!(small.is_none() || whole.is_none() || small == whole);
    let _ = gather.take(Default::default(), 0, &Default::default()).encode();
});
