//! The binary protocol of memcached.

use super::super::framed::{Frames, Head, Stop, be16, be32};
use crate::decoder::{Context, Pairing, Side};
use crate::exchange::{Class, Exchanges, Key, Unanswered};
use crate::span::Span;

/// Bytes of a message's header.
pub(super) const HEADER: usize = 24;

/// Bytes of a header and the longest key: these are inspected.
const INSPECT: usize = HEADER + 32 + 250;

/// The longest body: the server's own limit is 1 GiB.
const BODY_MAX: u32 = 1 << 30;

const STAT: u8 = 0x10;
const QUIT_QUIET: u8 = 0x17;

/// The operations, by code, and whether each is quiet.
const OPERATIONS: [(&str, bool); 0x25] = [
    ("get", false),
    ("set", false),
    ("add", false),
    ("replace", false),
    ("delete", false),
    ("incr", false),
    ("decr", false),
    ("quit", false),
    ("flush_all", false),
    ("getq", true),
    ("noop", false),
    ("version", false),
    ("getk", false),
    ("getkq", true),
    ("append", false),
    ("prepend", false),
    ("stat", false),
    ("setq", true),
    ("addq", true),
    ("replaceq", true),
    ("deleteq", true),
    ("incrq", true),
    ("decrq", true),
    ("quitq", true),
    ("flush_allq", true),
    ("appendq", true),
    ("prependq", true),
    ("verbosity", false),
    ("touch", false),
    ("gat", false),
    ("gatq", true),
    ("", false),
    ("sasl_list_mechs", false),
    ("sasl_auth", false),
    ("sasl_step", false),
    ("gatk", false),
    ("gatkq", true),
];

/// The contents of a message's header; `key` is a hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Header {
    code: u8,
    status: u16,
    key_length: u16,
    key: u64,
    opaque: u32,
}

impl Header {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let key_length = be16(bytes, 2)?;
        let start = HEADER + usize::from(*bytes.get(4)?);
        let key = bytes.get(start..start + usize::from(key_length)).map_or(0, twox_hash::XxHash3_64::oneshot);
        Some(Self { code: bytes[1], status: be16(bytes, 6)?, key_length, key, opaque: be32(bytes, 12)? })
    }

    /// What is remembered of a request: its code, its opaque, and 24 bits of its key's hash.
    fn note(&self) -> u64 {
        u64::from(self.code) | u64::from(self.opaque) << 8 | self.key << 40
    }

    /// Whether a response may belong to the request with this note. Responses with a key are matched by it.
    fn answers(&self, note: u64) -> bool {
        let has_key = matches!(self.code, 0x0c | 0x0d | 0x23 | 0x24) && self.key_length > 0;
        note & 0xff_ffff_ffff == self.note() & 0xff_ffff_ffff && (!has_key || note >> 40 == self.key & 0xff_ffff)
    }
}

fn is_quiet(note: u64) -> bool {
    OPERATIONS[(note & 0xff) as usize].1
}

#[derive(Debug, Default)]
pub(super) struct Binary {
    request: Option<u8>,
    /// Of the server: whether the response ends its exchange.
    response: Option<bool>,
}

impl Frames for Binary {
    const PAIRING: Pairing = Pairing::Order;

    fn head(&mut self, side: Side, view: &[u8]) -> Head {
        if view.len() < HEADER {
            return Head::Need(HEADER);
        }
        if !is_message(side, view) {
            return Head::Lost;
        }
        Head::Frame { length: HEADER as u64 + u64::from(be32(view, 8).unwrap_or(0)), inspect: INSPECT }
    }

    fn begin(&mut self, side: Side, bytes: &[u8], _length: u64, cx: &mut Context<'_>) -> Result<(), Stop> {
        let header = Header::parse(bytes).ok_or(Stop::Lost)?;
        if side == Side::Server {
            return self.respond(&header, cx);
        }
        let first = cx.mark().at;
        let exchange = cx.exchanges.open(Key::Order);
        exchange.op.push_str(OPERATIONS[usize::from(header.code)].0);
        exchange.note = header.note();
        exchange.request.first = first;
        self.request = Some(header.code);
        Ok(())
    }

    fn end(&mut self, side: Side, span: Span, cx: &mut Context<'_>) -> Result<(), Stop> {
        if side == Side::Client {
            let exchange = cx.exchanges.newest_mut().ok_or(Stop::Lost)?;
            (exchange.request, exchange.request_done) = (span, true);
            if self.request.take() == Some(QUIT_QUIET) {
                cx.exchanges.newest_unanswered(Unanswered::ByDesign);
            }
            return Ok(());
        }
        let ends = self.response.take().ok_or(Stop::Lost)?;
        cx.exchanges.respond(span, ends).ok_or(Stop::Lost)
    }

    fn closed(&mut self, side: Side, cut: Option<Span>, cx: &mut Context<'_>) {
        if let (Side::Client, Some(span), Some(exchange)) = (side, cut, cx.exchanges.newest_mut()) {
            exchange.request.add(span);
        }
        while cx.exchanges.unanswered_mut().is_some_and(|exchange| is_quiet(exchange.note) && exchange.request_done) {
            cx.exchanges.oldest_unanswered(Unanswered::ByDesign);
        }
    }

    fn lost(&mut self, _side: Side, _exchanges: &mut Exchanges) {
        *self = Self::default();
    }

    fn begins(&self, side: Side, bytes: &[u8]) -> bool {
        is_message(side, bytes)
    }
}

impl Binary {
    fn respond(&mut self, header: &Header, cx: &mut Context<'_>) -> Result<(), Stop> {
        let could_be = cx.exchanges.iter_mut().filter(|exchange| header.answers(exchange.note)).count();
        if OPERATIONS[usize::from(header.code)].1 && could_be > 1 {
            return Err(Stop::Lost);
        }
        loop {
            let exchange = cx.exchanges.unanswered_mut().ok_or(Stop::Lost)?;
            if header.answers(exchange.note) {
                break;
            }
            if !is_quiet(exchange.note) || !exchange.request_done {
                return Err(Stop::Lost);
            }
            cx.exchanges.oldest_unanswered(Unanswered::ByDesign);
        }
        let exchange = cx.exchanges.unanswered_mut().filter(|exchange| exchange.request_done).ok_or(Stop::Lost)?;
        if exchange.status.is_empty() {
            exchange.status = status(header.status);
            exchange.class = class_of(header.status);
        }
        // Statistics arrive in any number of messages, followed by an empty one.
        self.response = Some(header.code != STAT || header.key_length == 0 || header.status != 0);
        Ok(())
    }
}

fn status(code: u16) -> String {
    let name = match code {
        0x00 => "ok",
        0x01 => "not_found",
        0x02 => "exists",
        0x03 => "too_large",
        0x04 => "invalid",
        0x05 => "not_stored",
        0x06 => "not_numeric",
        0x20 => "auth_error",
        0x21 => "auth_continue",
        0x81 => "unknown_command",
        0x82 => "out_of_memory",
        0x84 => "internal_error",
        0x85 => "busy",
        _ => return format!("{code:#06x}"),
    };
    name.to_owned()
}

fn class_of(code: u16) -> Class {
    match code {
        // A miss is a valid response.
        0x00..=0x02 | 0x05 | 0x21 => Class::Ok,
        0x03 | 0x04 | 0x06 | 0x20 | 0x81 => Class::ClientError,
        _ => Class::Error,
    }
}

/// Whether `bytes` begins with a message of `side`.
pub(super) fn is_message(side: Side, bytes: &[u8]) -> bool {
    let magic = if side == Side::Client { 0x80 } else { 0x81 };
    let (Some(key), Some(body), true) = (be16(bytes, 2), be32(bytes, 8), bytes.len() >= HEADER) else { return false };
    let fits = u32::from(key) + u32::from(bytes[4]) <= body && body <= BODY_MAX;
    let is_known = OPERATIONS.get(usize::from(bytes[1])).is_some_and(|(name, _)| !name.is_empty());
    bytes[0] == magic && is_known && bytes[5] == 0 && fits
}
