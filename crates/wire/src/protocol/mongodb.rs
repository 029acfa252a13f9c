//! MongoDB: commands by OP_MSG, the greeting by OP_QUERY of older drivers, and OP_COMPRESSED, whose content is not
//! read.
//!
//! An answer names the request it is to. Requests that say that more comes (unacknowledged writes) have no answer by
//! design; further answers of an exhausted cursor or of a streamed `hello` name the answer before, and belong to none.

mod document;

use self::document::Document;
use super::framed::{Framed, Frames, Head, Stop, le32};
use crate::decoder::{Context, Detection, Pairing, Protocol, Side};
use crate::exchange::{Class, Exchanges, Key, Reason, Unanswered};
use crate::span::Span;

pub(super) const PROTOCOL: Protocol = Protocol {
    name: "mongodb",
    ports: &[27_017, 27_018, 27_019],
    detect,
    new: || Box::new(Framed::new(MongoDb::default())),
};

/// Bytes of a message's header.
const HEADER: usize = 16;

/// Bytes of a message that are looked at: a command and its collection, or an error's code.
const INSPECT: usize = HEADER + 1_024;

/// The longest message: the server's own limit.
const LENGTH_MAX: u32 = 48_000_000;

const OP_REPLY: u32 = 1;
const OP_QUERY: u32 = 2_004;
const OP_COMPRESSED: u32 = 2_012;
const OP_MSG: u32 = 2_013;

/// Flag of OP_MSG: the sender does not expect a response.
const MORE_TO_COME: u32 = 2;

#[derive(Debug, Default)]
struct MongoDb {
    /// The message that is passing, by side: the request's id, and whether it expects a response.
    passing: [Option<(u32, bool)>; 2],
}

impl Frames for MongoDb {
    const PAIRING: Pairing = Pairing::Id;

    fn head(&mut self, side: Side, view: &[u8]) -> Head {
        match Header::parse(view) {
            None => Head::Need(HEADER),
            Some(header) if !header.is_plausible(side) => Head::Lost,
            Some(header) => Head::Frame { length: header.length.into(), inspect: INSPECT },
        }
    }

    fn begin(&mut self, side: Side, bytes: &[u8], _length: u64, cx: &mut Context<'_>) -> Result<(), Stop> {
        let header = Header::parse(bytes).ok_or(Stop::Lost)?;
        let flags = if header.code == OP_MSG { le32(bytes, HEADER).unwrap_or(0) } else { 0 };
        if side == Side::Server {
            self.passing[1] = Some((header.answers, true));
            let Some(exchange) = cx.exchanges.find_mut(header.answers.into()) else { return Ok(()) };
            let status = document(&header, bytes).map_or(document::Status::Ok, |document| document.status());
            (exchange.status, exchange.class) = match status {
                document::Status::Ok => ("ok".to_owned(), Class::Ok),
                document::Status::WriteErrors => ("write_errors".to_owned(), Class::ClientError),
                document::Status::Error(code) => (code.to_string(), class_of(code)),
            };
            return Ok(());
        }
        let first = cx.mark().at;
        let exchange = cx.exchanges.open(Key::Id(header.id.into()));
        let command = document(&header, bytes).and_then(|document| document.command());
        let (name, collection) = command.unwrap_or((if header.code == OP_COMPRESSED { "compressed" } else { "?" }, ""));
        exchange.op.push_str(name);
        exchange.detail.push_str(collection);
        exchange.request.first = first;
        self.passing[0] = Some((header.id, flags & MORE_TO_COME == 0));
        Ok(())
    }

    fn end(&mut self, side: Side, span: Span, cx: &mut Context<'_>) -> Result<(), Stop> {
        let Some((id, is_answered)) = self.passing[side.index()].take() else { return Ok(()) };
        let Some(exchange) = cx.exchanges.find_mut(id.into()) else { return Ok(()) };
        if side == Side::Client {
            (exchange.request, exchange.request_done) = (span, true);
            if !is_answered {
                cx.exchanges.unanswered(id.into(), Unanswered::ByDesign);
            }
            return Ok(());
        }
        if !exchange.request_done {
            return Err(Stop::Lost);
        }
        (exchange.response, exchange.response_done) = (span, true);
        cx.exchanges.settle();
        Ok(())
    }

    fn closed(&mut self, side: Side, cut: Option<Span>, cx: &mut Context<'_>) {
        if let (Side::Client, Some(span), Some((id, _))) = (side, cut, self.passing[0].take())
            && let Some(exchange) = cx.exchanges.find_mut(id.into())
        {
            exchange.request = span;
        }
    }

    fn lost(&mut self, side: Side, exchanges: &mut Exchanges) {
        if let Some((id, _)) = self.passing[side.index()].take() {
            exchanges.discard(id.into(), Reason::Gap);
        }
    }

    fn begins(&self, side: Side, bytes: &[u8]) -> bool {
        is_chain(side, bytes)
    }
}

/// The header of a message.
#[derive(Debug, Clone, Copy)]
struct Header {
    length: u32,
    id: u32,
    answers: u32,
    code: u32,
}

impl Header {
    fn parse(bytes: &[u8]) -> Option<Self> {
        Some(Self { length: le32(bytes, 0)?, id: le32(bytes, 4)?, answers: le32(bytes, 8)?, code: le32(bytes, 12)? })
    }

    fn is_plausible(&self, side: Side) -> bool {
        let is_code = match side {
            Side::Client => matches!(self.code, OP_MSG | OP_QUERY | OP_COMPRESSED) && self.answers == 0,
            Side::Server => matches!(self.code, OP_MSG | OP_REPLY | OP_COMPRESSED),
        };
        is_code && (HEADER as u32 + 5..=LENGTH_MAX).contains(&self.length)
    }
}

/// The body of a message, where it can be read.
fn document<'a>(header: &Header, bytes: &'a [u8]) -> Option<Document<'a>> {
    let at = match header.code {
        // Flags, and the kind of the first section: 0 for a body.
        OP_MSG if bytes.get(HEADER + 4) == Some(&0) => HEADER + 5,
        OP_QUERY => {
            let name = bytes.get(HEADER + 4..)?.iter().position(|byte| *byte == 0)?;
            HEADER + 4 + name + 1 + 8
        }
        OP_REPLY => HEADER + 20,
        _ => return None,
    };
    Document::parse(bytes.get(at..)?)
}

/// Errors of the client; everything else failed at the server.
fn class_of(code: i64) -> Class {
    match code {
        2
        | 4
        | 5
        | 9
        | 13
        | 14
        | 17
        | 18
        | 20
        | 22
        | 26
        | 27
        | 40
        | 43
        | 48
        | 51
        | 52
        | 59
        | 66
        | 67
        | 72
        | 73
        | 85
        | 86
        | 96
        | 115
        | 121
        | 11_000
        | 13_113
        | 40_000..=60_000 => Class::ClientError,
        _ => Class::Error,
    }
}

/// Whether `bytes` is a chain of messages of `side`, the last of which may be incomplete.
fn is_chain(side: Side, mut bytes: &[u8]) -> bool {
    let mut messages = 0;
    while let Some(header) = Header::parse(bytes) {
        if !header.is_plausible(side) || (side == Side::Server && header.answers == 0) {
            return false;
        }
        messages += 1;
        match bytes.get(header.length as usize..) {
            Some(rest) => bytes = rest,
            None => return true,
        }
    }
    messages > 0 && bytes.is_empty()
}

fn detect(side: Side, bytes: &[u8]) -> Detection {
    match Header::parse(bytes) {
        // The length is below 16 MiB at first, so that its last byte is 0.
        None if bytes.get(3).is_none_or(|byte| *byte == 0) && bytes.get(8..12).is_none_or(|zero| zero == [0; 4]) => {
            Detection::More
        }
        None => Detection::No,
        Some(_) if is_chain(side, bytes) => Detection::Sure,
        Some(_) => Detection::No,
    }
}
