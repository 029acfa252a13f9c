//! The socket of the writer, for any bytes: what `fuzz/` runs with coverage, and `cargo test` with seeded changes to
//! good messages.
//!
//! Invariants: nothing is stored and nobody is notified, since no start is believed.

use ogive_probe::Clock;

use crate::report::Start;
use crate::writer::Writer;
use crate::{message, stack};

/// Packets, each behind its length in two bytes, as a role sends them whose memory is broken.
///
/// # Panics
/// When the writer holds more than its limits.
pub fn messages(bytes: &[u8]) {
    let (mut writer, clock, mut rest) = (Writer::new(0), Clock::global(), bytes);
    while let Some((length, behind)) = rest.split_first_chunk::<2>() {
        let length = usize::from(u16::from_le_bytes(*length)).min(behind.len());
        let (packet, next) = behind.split_at(length);
        rest = next;
        let Some((kind, thread, body)) = message::parse(packet) else { continue };
        match kind {
            message::START => drop(serde_json::from_slice::<Start>(body)),
            _ => {
                assert!(matches!(writer.take(kind, thread, body, &clock), None | Some(0)), "there is nowhere to store")
            }
        }
        if kind == message::MAPS {
            let _ = stack::modules(&String::from_utf8_lossy(body));
        }
    }
    assert!(writer.is_bounded(), "it holds more than its limits");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutations::smoke;

    fn packet(kind: u8, body: &[u8]) -> Vec<u8> {
        let packet = [&message::head(kind, 7)[..], body].concat();
        [&(packet.len() as u16).to_le_bytes()[..], &packet].concat()
    }

    #[test]
    fn messages_may_hold_anything() {
        let registers =
            message::Registers { signal: 11, code: 1, address: 8, instruction: 16, stack: 24, frame: 32, link: 0 };
        let start = br#"{"role":"server","version":"1","pid":1,"directory":"/nowhere","webhook":null,"configuration":[["a","b"]]}"#;
        let maps = b"00400000-0040b000 r-xp 00001000 08:01 42 /usr/bin/ogive\n7ffd0000-7ffe0000 rw-p 00000000 00:00 0 [stack]\n";
        let mut trace = message::Trace::new(true, 7, "OgiveIngest");
        trace.point(0, "received");
        trace.point(5, "read");
        let good = [
            packet(message::START, start),
            packet(message::LOG, b"one record"),
            packet(message::PANIC, br#"{"message":"m","location":"a.rs:1:2"}"#),
            packet(
                message::REGISTERS,
                &[&registers.to_bytes()[..], b"worker\0\0\0\0\0\0\0\0\0\0GET /metrics"].concat(),
            ),
            packet(message::TRACE, trace.bytes()),
            packet(message::MAPS, maps),
            packet(message::MEMORY, &[24_u64.to_le_bytes(), [1; 8]].concat()),
            packet(message::END, b""),
        ];
        smoke(messages, &good.concat(), 5_000, &[]);
    }
}
