//! Any stream of syslog, in any pieces: each message becomes a sample or a fault, and what is kept is bounded.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ogive_protocol::Gather;
use ogive_protocol::syslog::framing::{FramedMessage, Framing};
use ogive_protocol::syslog::{MESSAGE_BYTES_MAX, feed};

fuzz_target!(|stream: &[u8]| {
    let (mut gather, mut framing) = (Gather::default(), Framing::default());
    for piece in stream.chunks(7) {
        let taken = framing.add(piece, |found| {
            if let FramedMessage::Message(message) = found {
                assert!(message.len() <= MESSAGE_BYTES_MAX);
                let before = gather.len();
                let taken = feed(message, 1_700_000_000_500_000_000, &mut gather).is_ok();
                assert_eq!(gather.len(), before + usize::from(taken));
            }
        });
        if taken.is_err() {
            break;
        }
    }
    let _ = gather.take(Default::default(), 0, &Default::default()).encode();
});
