//! Any stream of the Forward protocol: each entry becomes a sample or a fault, what is kept is bounded, and the pieces in which
//! a stream arrives change nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ogive_protocol::Gather;
use ogive_protocol::fluent::entry::feed;
use ogive_protocol::fluent::error::MessageError;
use ogive_protocol::fluent::handshake::Ping;
use ogive_protocol::fluent::message::{MESSAGE_BYTES_MAX, Message, Messages};

/// How many entries a stream in such pieces has, or why it makes no sense.
fn read(input: &[u8], size: usize, gather: &mut Gather) -> Result<usize, MessageError> {
    let (mut messages, mut count) = (Messages::default(), 0);
    for mut piece in input.chunks(size) {
        while let Some(bytes) = messages.next(&mut piece)? {
            let _ = Ping::read(bytes);
            let Some(message) = Message::read(bytes)? else { continue };
            let mut entries = message.entries();
            while let Some(entry) = entries.next_entry()? {
                count += 1;
                let before = gather.len();
                let taken = feed(message.tag(), entry, 1_700_000_000_500_000_000, gather).is_ok();
                assert_eq!(gather.len(), before + usize::from(taken));
            }
        }
        assert!(piece.is_empty());
        assert!(messages.held() <= MESSAGE_BYTES_MAX + size);
    }
    Ok(count)
}

fuzz_target!(|input: &[u8]| {
    let mut gather = Gather::default();
    let (small, whole) = (read(input, 7, &mut gather), read(input, input.len().max(1), &mut Gather::default()));
    assert_eq!(small, whole);
    // What the listener takes at once has some megabytes.
    if gather.len() < 5_000 {
        let _ = gather.take(Default::default(), 0, &Default::default()).encode();
    }
});
