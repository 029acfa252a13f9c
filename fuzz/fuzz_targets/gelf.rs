//! Any datagrams and any stream of GELF: each message becomes a sample or a fault, and what waits is bounded.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ogive_model::MonoNs;
use ogive_protocol::Gather;
use ogive_protocol::gelf::chunks::Assembly;
use ogive_protocol::gelf::stream::Framing;
use ogive_protocol::gelf::{MESSAGE_BYTES_MAX, feed};
use ogive_protocol::inflate::inflate;
use ogive_protocol::syslog::framing::FramedMessage;

fuzz_target!(|input: &[u8]| {
    let mut gather = Gather::default();
    let mut message = |bytes: &[u8]| {
        let before = gather.len();
        let taken = feed(bytes, 1_700_000_000_500_000_000, &mut gather).is_ok();
        assert_eq!(gather.len(), before + usize::from(taken));
    };
    // Datagrams end where a message of a stream would.
    let mut assembly = Assembly::default();
    for datagram in input.split(|byte| *byte == 0xff) {
        let whole = assembly.add(datagram, MonoNs(0)).ok().flatten();
        if let Ok(bytes) = inflate(whole.as_deref().unwrap_or(datagram), MESSAGE_BYTES_MAX) {
            assert!(bytes.len() <= MESSAGE_BYTES_MAX);
            message(&bytes);
        }
    }
    let mut framing = Framing::default();
    for piece in input.chunks(7) {
        framing.add(piece, |found| {
            if let FramedMessage::Message(bytes) = found {
                message(bytes);
            }
        });
        assert!(framing.held() <= MESSAGE_BYTES_MAX);
    }
    let _ = gather.take(Default::default(), 0, &Default::default()).encode();
});
