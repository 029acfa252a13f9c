//! The methods of AMQP 0.9.1: their names, which of them ask, and what is read of their arguments.

use crate::protocol::framed::{be16, be32};

/// A method: its class and number in one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Method(pub(super) u32);

const fn id(class: u32, method: u32) -> Method {
    Method(class << 16 | method)
}

pub(super) const START: Method = id(10, 10);
pub(super) const START_OK: Method = id(10, 11);
pub(super) const CONNECTION_CLOSE: Method = id(10, 50);
pub(super) const CHANNEL_OPEN: Method = id(20, 10);
pub(super) const CHANNEL_CLOSE: Method = id(20, 40);
pub(super) const CHANNEL_CLOSE_OK: Method = id(20, 41);
pub(super) const CONSUME: Method = id(60, 20);
pub(super) const CONSUME_OK: Method = id(60, 21);
pub(super) const PUBLISH: Method = id(60, 40);
pub(super) const RETURN: Method = id(60, 50);
pub(super) const DELIVER: Method = id(60, 60);
pub(super) const GET: Method = id(60, 70);
pub(super) const GET_OK: Method = id(60, 71);
pub(super) const GET_EMPTY: Method = id(60, 72);
pub(super) const ACK: Method = id(60, 80);
pub(super) const REJECT: Method = id(60, 90);
pub(super) const NACK: Method = id(60, 120);
pub(super) const CONFIRM: Method = id(85, 10);

/// A method that is answered by another.
struct Question {
    asks: Method,
    name: &'static str,
    answer: Method,
    /// Where the no-wait bit is: fixed bytes, then short strings, then the bit in the byte after them.
    no_wait: Option<(usize, usize, u8)>,
    /// Which of the short strings names the object of the method.
    about: Option<usize>,
}

const fn question(asks: Method, name: &'static str, answer: Method) -> Question {
    Question { asks, name, answer, no_wait: None, about: None }
}

const fn with(question: Question, no_wait: (usize, usize, u8), about: usize) -> Question {
    Question { no_wait: Some(no_wait), about: Some(about), ..question }
}

/// All such methods, except for the messages themselves. `connection.tune` is not included: its answer begins nothing
/// and ends nothing.
const QUESTIONS: [Question; 22] = [
    question(START, "connection.start", START_OK),
    question(id(10, 40), "connection.open", id(10, 41)),
    question(CONNECTION_CLOSE, "connection.close", id(10, 51)),
    question(id(10, 70), "connection.update-secret", id(10, 71)),
    question(CHANNEL_OPEN, "channel.open", id(20, 11)),
    question(id(20, 20), "channel.flow", id(20, 21)),
    question(CHANNEL_CLOSE, "channel.close", CHANNEL_CLOSE_OK),
    with(question(id(40, 10), "exchange.declare", id(40, 11)), (2, 2, 4), 0),
    with(question(id(40, 20), "exchange.delete", id(40, 21)), (2, 1, 1), 0),
    with(question(id(40, 30), "exchange.bind", id(40, 31)), (2, 3, 0), 0),
    with(question(id(40, 40), "exchange.unbind", id(40, 51)), (2, 3, 0), 0),
    with(question(id(50, 10), "queue.declare", id(50, 11)), (2, 1, 4), 0),
    with(question(id(50, 20), "queue.bind", id(50, 21)), (2, 3, 0), 0),
    with(question(id(50, 30), "queue.purge", id(50, 31)), (2, 1, 0), 0),
    with(question(id(50, 40), "queue.delete", id(50, 41)), (2, 1, 2), 0),
    question(id(50, 50), "queue.unbind", id(50, 51)),
    question(id(60, 10), "basic.qos", id(60, 11)),
    with(question(CONSUME, "basic.consume", CONSUME_OK), (2, 2, 3), 0),
    Question { no_wait: Some((0, 1, 0)), ..question(id(60, 30), "basic.cancel", id(60, 31)) },
    Question { about: Some(0), ..question(GET, "basic.get", GET_OK) },
    question(id(60, 110), "basic.recover", id(60, 111)),
    Question { no_wait: Some((0, 0, 0)), ..question(CONFIRM, "confirm.select", id(85, 11)) },
];

/// Methods of transactions, whose answers have the next number, as all others do.
const TRANSACTIONS: [(u32, &str); 3] = [(10, "tx.select"), (20, "tx.commit"), (30, "tx.rollback")];

/// A method frame's payload.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call<'a> {
    pub(super) method: Method,
    arguments: &'a [u8],
}

impl<'a> Call<'a> {
    /// Reads the payload of a method frame, which may be cut.
    pub(super) fn parse(payload: &'a [u8]) -> Option<Self> {
        Some(Self { method: Method(be32(payload, 0)?), arguments: &payload[4..] })
    }

    /// The name of a method that expects an answer.
    pub(super) fn question(&self) -> Option<&'static str> {
        let known = QUESTIONS.iter().find(|question| question.asks == self.method).map(|question| question.name);
        known.or_else(|| TRANSACTIONS.iter().find(|(number, _)| id(90, *number) == self.method).map(|(_, name)| *name))
    }

    /// The name of the method that this one answers.
    pub(super) fn answers(&self) -> Option<&'static str> {
        if self.method == GET_EMPTY {
            return Some("basic.get");
        }
        let known = QUESTIONS.iter().find(|question| question.answer == self.method).map(|question| question.name);
        known.or_else(|| {
            TRANSACTIONS.iter().find(|(number, _)| id(90, *number + 1) == self.method).map(|(_, name)| *name)
        })
    }

    /// Whether no answer is expected.
    pub(super) fn is_no_wait(&self) -> bool {
        let question = QUESTIONS.iter().find(|question| question.asks == self.method);
        question
            .and_then(|question| question.no_wait)
            .is_some_and(|(fixed, strings, bit)| self.bits(fixed, strings).is_some_and(|bits| bits >> bit & 1 == 1))
    }

    /// The object of the method: an exchange, a queue or a message's destination; empty when it has no name.
    pub(super) fn about(&self) -> &'a [u8] {
        if self.method == PUBLISH {
            let exchange = self.string(2, 0).unwrap_or_default();
            return if exchange.is_empty() { self.string(2, 1).unwrap_or_default() } else { exchange };
        }
        let question = QUESTIONS.iter().find(|question| question.asks == self.method);
        question.and_then(|question| question.about).and_then(|which| self.string(2, which)).unwrap_or_default()
    }

    /// Whether a consumer or a get requests messages that need no acknowledgement.
    pub(super) fn is_no_ack(&self) -> bool {
        match self.method {
            CONSUME => self.bits(2, 2).is_some_and(|bits| bits >> 1 & 1 == 1),
            GET => self.bits(2, 1).is_some_and(|bits| bits & 1 == 1),
            _ => false,
        }
    }

    /// The consumer's tag in a consume, its answer or a delivery.
    pub(super) fn consumer(&self) -> &'a [u8] {
        match self.method {
            CONSUME => self.string(2, 1),
            _ => self.string(0, 0),
        }
        .unwrap_or_default()
    }

    /// The delivery tag of a delivery, a get's message or an acknowledgement.
    pub(super) fn tag(&self) -> Option<u64> {
        let at = if self.method == DELIVER { 1 + self.string(0, 0)?.len() } else { 0 };
        Some(u64::from(be32(self.arguments, at)?) << 32 | u64::from(be32(self.arguments, at + 4)?))
    }

    /// Whether an acknowledgement covers all tags up to its own.
    pub(super) fn is_multiple(&self) -> bool {
        self.method != REJECT && self.arguments.get(8).is_some_and(|bits| bits & 1 == 1)
    }

    /// The code of a close.
    pub(super) fn code(&self) -> Option<u16> {
        be16(self.arguments, 0)
    }

    fn string(&self, fixed: usize, which: usize) -> Option<&'a [u8]> {
        let mut at = fixed;
        for _ in 0..which {
            at += 1 + usize::from(*self.arguments.get(at)?);
        }
        let length = usize::from(*self.arguments.get(at)?);
        self.arguments.get(at + 1..at + 1 + length)
    }

    fn bits(&self, fixed: usize, strings: usize) -> Option<u8> {
        let mut at = fixed;
        for _ in 0..strings {
            at += 1 + usize::from(*self.arguments.get(at)?);
        }
        self.arguments.get(at).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_cut_anywhere_are_read_without_a_panic() {
        let arguments = b"\0\0\x03abc\x02de\x01f\xff\0\0\0\0\0\0\0\x09\x01";
        for class in [10, 20, 40, 50, 60, 85, 90] {
            for number in 0..125 {
                for cut in 0..=arguments.len() {
                    let payload = [&id(class, number).0.to_be_bytes()[..], &arguments[..cut]].concat();
                    let call = Call::parse(&payload).unwrap();
                    let _ = (call.is_no_wait(), call.about(), call.is_no_ack(), call.consumer(), call.tag());
                    let _ = (call.is_multiple(), call.code(), call.question(), call.answers());
                }
            }
        }
    }

    #[test]
    fn the_bit_for_no_answer_is_found_behind_the_names() {
        let call = |payload: &'static [u8]| Call::parse(payload).unwrap();
        assert!(call(b"\0\x32\0\x0a\0\0\x01q\x10\0\0\0\0").is_no_wait());
        assert!(!call(b"\0\x32\0\x0a\0\0\x01q\x0f\0\0\0\0").is_no_wait());
        assert!(call(b"\0\x32\0\x14\0\0\x01q\x01e\x01k\x01").is_no_wait());
        assert_eq!(call(b"\0\x3c\0\x28\0\0\0\x03key\0").about(), b"key");
        assert_eq!(call(b"\0\x3c\0\x28\0\0\x02ex\x03key\0").about(), b"ex");
    }
}
