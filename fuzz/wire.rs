//! A conversation made of fuzzed bytes, for a decoder of the wire observer: `tests/mutations.rs` of `ogive-wire` uses it too.

use ogive_wire::{Connection, End, Exchange, Reason, Side, Sink, Unanswered, protocol};

/// Counts what becomes of exchanges.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    pub(crate) answered: u64,
    pub(crate) unanswered: u64,
    pub(crate) discarded: u64,
}

impl Sink for Counted {
    fn answered(&mut self, exchange: &Exchange) {
        assert!(exchange.request.is_timed() && exchange.response.is_timed(), "{exchange:?}");
        assert!(exchange.request.bytes > 0 && exchange.response.bytes > 0, "{exchange:?}");
        self.answered += 1;
    }

    fn unanswered(&mut self, _: &Exchange, _: Unanswered) {
        self.unanswered += 1;
    }

    fn discarded(&mut self, _: &Exchange, _: Reason) {
        self.discarded += 1;
    }
}

/// Plays `script` to the decoder of `name`, and returns what came of it.
///
/// The first byte says whether the connection is seen from its middle. Then each step is a byte, whose lowest bit is the side and whose next
/// ones say what happens: a close, a hole, a frame cut short, or bytes of the script; and a byte for how many.
///
/// # Panics
/// When the decoder does, or when what it opened does not add up.
pub(crate) fn play(name: &str, script: &[u8]) -> Counted {
    let protocol = protocol::by_name(name).expect("a protocol of the table");
    let (first, mut rest) = script.split_first().unwrap_or((&0, &[]));
    let mut connection = if first & 1 == 0 {
        Connection::new(protocol.name, (protocol.new)())
    } else {
        Connection::from_middle(protocol.name, (protocol.new)())
    };
    let mut counted = Counted::default();
    let mut now = 0;
    while let [step, length, tail @ ..] = rest {
        let side = if step & 1 == 0 { Side::Client } else { Side::Server };
        now += 1;
        rest = tail;
        match step >> 1 & 0x1f {
            0 => connection.fin(side, &mut counted),
            1 => connection.hole(side, u64::from(*length) + 1, &mut counted),
            2 => connection.cut(side, u64::from(*length) * 7 + 1, now, &mut counted),
            _ => {
                let count = (usize::from(*length) + 1).min(tail.len());
                let (bytes, next) = tail.split_at(count);
                let acked = if step & 0x80 == 0 { Some(connection.received(side.other())) } else { None };
                let _ = (protocol.detect)(side, if bytes.is_empty() { b"x" } else { bytes });
                connection.data(side, bytes, now, acked, &mut counted);
                rest = next;
            }
        }
    }
    connection.finish(if first & 2 == 0 { End::Closed } else { End::Reset }, &mut counted);
    let reported = counted.answered + counted.unanswered + counted.discarded;
    assert_eq!(connection.requests(), reported + connection.open() as u64, "what was opened is reported once");
    counted
}
