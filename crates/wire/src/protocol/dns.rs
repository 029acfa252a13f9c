//! DNS (RFC 1035): over TCP two bytes of length before each message, over UDP see `udp.rs`. Answers come by id, in any
//! order.

use super::line::push_text;
use crate::decoder::{Context, Decoder, Detection, Pairing, Protocol, Side, Step};
use crate::exchange::{Class, Exchange, Exchanges, Key, Reason};
use crate::span::{Mark, Span};

/// The row of the table, for DNS over TCP.
pub(super) const PROTOCOL: Protocol = Protocol { name: "dns", ports: &[53], detect, new: || Box::<Dns>::default() };

/// A name as text: 255 bytes, up to four characters each when escaped.
const MAX_NAME: usize = 255;

/// How much of a message over TCP must be seen to include the question; the rest is skipped.
const SEEN: usize = 12 + MAX_NAME + 4;

const REFUSED: u8 = 5;
const NAME_ERROR: u8 = 3;

/// The part of a message that is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message<'a> {
    pub(crate) id: u16,
    pub(crate) is_response: bool,
    code: u8,
    /// The first question as on the wire: name, type and class.
    pub(crate) question: &'a [u8],
}

impl<'a> Message<'a> {
    /// Parses the header and the first question. `None` when this is not a DNS message: a query must consist of nothing
    /// but its sections.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let message = Self::parse_start(bytes)?;
        (message.is_response || message.walk_query(bytes).is_some()).then_some(message)
    }

    /// Parses a message of which only the start is available.
    fn parse_start(bytes: &'a [u8]) -> Option<Self> {
        let header = bytes.get(..12)?;
        let count = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let opcode = (header[2] >> 3) & 15;
        let (questions, answers) = (count(4), count(6));
        let is_response = header[2] & 0x80 != 0;
        if questions != 1 || opcode > 5 || (!is_response && answers > 0 && opcode == 0) || header[3] & 0x40 != 0 {
            return None;
        }
        let end = name_end(bytes, 12)? + 4;
        let question = bytes.get(12..end)?;
        let id = u16::from_be_bytes([header[0], header[1]]);
        Some(Self { id, is_response, code: header[3] & 15, question })
    }

    /// Walks the additional sections of a query to the end of the datagram.
    fn walk_query(&self, bytes: &[u8]) -> Option<()> {
        let count = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let records = u32::from(count(6)) + u32::from(count(8)) + u32::from(count(10));
        let mut at = 12 + self.question.len();
        for _ in 0..records {
            at = name_end(bytes, at)?;
            let length = bytes.get(at + 8..at + 10)?;
            at += 10 + usize::from(u16::from_be_bytes([length[0], length[1]]));
        }
        (at == bytes.len()).then_some(())
    }

    /// `A www.example.org`.
    fn push_op(&self, op: &mut String) {
        let name = &self.question[..self.question.len() - 4];
        let kind = &self.question[self.question.len() - 4..];
        push_type(op, u16::from_be_bytes([kind[0], kind[1]]));
        op.push(' ');
        let mut rest = name;
        let mut is_root = true;
        while let Some((length, following)) = rest.split_first()
            && *length > 0
        {
            if !is_root {
                op.push('.');
            }
            is_root = false;
            let (label, following) = following.split_at(usize::from(*length).min(following.len()));
            push_text(op, label, MAX_NAME);
            rest = following;
        }
        if is_root {
            op.push('.');
        }
    }
}

/// Where a name ends; a pointer ends it.
fn name_end(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    loop {
        let length = usize::from(*bytes.get(at)?);
        match length {
            0 => return Some(at + 1),
            1..=63 => at += 1 + length,
            192.. => return (bytes.len() > at + 1).then_some(at + 2),
            _ => return None,
        }
        if at - start > MAX_NAME {
            return None;
        }
    }
}

fn push_type(op: &mut String, kind: u16) {
    let name = match kind {
        1 => "A",
        2 => "NS",
        5 => "CNAME",
        6 => "SOA",
        12 => "PTR",
        15 => "MX",
        16 => "TXT",
        28 => "AAAA",
        33 => "SRV",
        35 => "NAPTR",
        43 => "DS",
        46 => "RRSIG",
        48 => "DNSKEY",
        64 => "SVCB",
        65 => "HTTPS",
        252 => "AXFR",
        255 => "ANY",
        257 => "CAA",
        other => {
            op.push_str("TYPE");
            op.push_str(&other.to_string());
            return;
        }
    };
    op.push_str(name);
}

/// The exchange that a query opens.
pub(crate) fn exchange(message: &Message<'_>, span: Span) -> Exchange {
    let mut exchange = Exchange::bare("dns");
    message.push_op(&mut exchange.op);
    exchange.request = span;
    exchange.request_done = true;
    exchange
}

/// Adds the information of its response.
pub(crate) fn answer(exchange: &mut Exchange, message: &Message<'_>, span: Span) {
    exchange.status = message.code.to_string();
    exchange.class = match message.code {
        0 => Class::Ok,
        NAME_ERROR | REFUSED | 1 => Class::ClientError,
        _ => Class::Error,
    };
    exchange.response = span;
    exchange.response_done = true;
}

/// DNS over TCP.
#[derive(Debug, Default)]
struct Dns {
    /// The message whose end is skipped to, and its id.
    skipping: [Option<(Mark, u64)>; 2],
}

impl Decoder for Dns {
    fn pairing(&self) -> Pairing {
        Pairing::Id
    }

    fn step(&mut self, side: Side, view: &[u8], cx: &mut Context<'_>) -> Step {
        if let Some((mark, id)) = self.skipping[side.index()].take() {
            let span = cx.since(mark);
            if let Some(exchange) = cx.exchanges.find_mut(id) {
                match side {
                    Side::Client => (exchange.request, exchange.request_done) = (span, true),
                    Side::Server => (exchange.response, exchange.response_done) = (span, true),
                }
            }
            cx.exchanges.settle();
        }
        let [high, low, message @ ..] = view else { return Step::Need(2) };
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        if length < 12 {
            return Step::Lost;
        }
        let seen = length.min(SEEN);
        if message.len() < seen {
            return Step::Need(2 + seen);
        }
        let Some(parsed) = Message::parse_start(&message[..seen]) else { return Step::Lost };
        if parsed.is_response != (side == Side::Server) {
            return Step::Lost;
        }
        let (id, mark) = (u64::from(parsed.id), cx.mark());
        if side == Side::Client {
            let exchange = cx.exchanges.open(Key::Id(id));
            parsed.push_op(&mut exchange.op);
        } else if let Some(exchange) = cx.exchanges.find_mut(id) {
            answer(exchange, &parsed, Span::default());
            exchange.response_done = false;
        }
        self.skipping[side.index()] = Some((mark, id));
        Step::Skip(2 + length as u64)
    }

    fn lost(&mut self, side: Side, exchanges: &mut Exchanges) {
        if let Some((_, id)) = self.skipping[side.index()].take() {
            exchanges.discard(id, Reason::Gap);
        }
    }

    fn begins(&self, side: Side, bytes: &[u8]) -> bool {
        detect(side, bytes) >= Detection::Likely
    }
}

fn detect(side: Side, bytes: &[u8]) -> Detection {
    let [high, low, message @ ..] = bytes else { return Detection::More };
    let length = usize::from(u16::from_be_bytes([*high, *low]));
    if !(17..=16_384).contains(&length) || message.is_empty() {
        return if length >= 17 && message.is_empty() { Detection::More } else { Detection::No };
    }
    let seen = &message[..message.len().min(length)];
    let Some(parsed) = Message::parse_start(seen) else {
        return if seen.len() < length.min(SEEN) && seen.len() < 12 { Detection::More } else { Detection::No };
    };
    let is_query_whole = message.len() >= length && Message::parse(&message[..length]).is_some();
    match (side, parsed.is_response) {
        (Side::Client, false) if is_query_whole => Detection::Sure,
        (Side::Server, true) => Detection::Likely,
        _ => Detection::No,
    }
}
