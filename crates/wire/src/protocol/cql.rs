//! CQL, the protocol of Cassandra and ScyllaDB: versions 3, 4 and 5.
//!
//! Requests and responses share a stream id; events from the server belong to no exchange. In version 5 everything
//! after the answer to STARTUP travels in segments with checksums, which may hold several messages or a part of one: an
//! exchange's bytes are then its messages', without the segments around them. Segments compressed by LZ4 are not read:
//! a connection that agrees on them is opaque from there.

mod message;

use std::collections::HashMap;

use self::message::{EVENT, Header, STARTUP};
use super::framed::{Framed, Frames, Head, Stop};
use crate::decoder::{Context, Detection, Pairing, Protocol, Side};
use crate::exchange::{Exchanges, Key, Reason};
use crate::operation::statement;
use crate::span::Span;

pub(super) const PROTOCOL: Protocol =
    Protocol { name: "cql", ports: &[9042, 9142], detect, new: || Box::new(Framed::new(Cql::default())) };

/// Bytes of a request that are looked at: its statement's head.
const REQUEST: usize = message::HEADER + 1_024;

/// Bytes of a response that are looked at: an error's code, or a prepared statement's id.
const RESPONSE: usize = message::HEADER + 40;

/// The same behind a tracing id, warnings (Cassandra's own are below 500 bytes) or a payload.
const RESPONSE_BEHIND: usize = message::HEADER + 2_048;

/// Prepared statements whose fingerprint is remembered on a connection.
const PREPARED: usize = 512;

/// The framing state of a side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SideState {
    /// Messages follow each other.
    Plain,
    /// At the header of a segment.
    Segment,
    /// In a segment's payload, with this much left.
    Payload(u64),
    /// At the checksum behind it.
    Checksum,
}

/// The message that is passing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Passing {
    /// A segment's header with this payload, or its checksum.
    #[default]
    Frame,
    /// A piece of a message with these bytes.
    Piece(u64),
}

#[derive(Debug)]
struct Direction {
    place: SideState,
    passing: Passing,
    /// The stream of the message that is passing.
    stream: Option<u16>,
    left: u64,
    span: Span,
}

impl Direction {
    fn new() -> Self {
        Self { place: SideState::Plain, passing: Passing::Frame, stream: None, left: 0, span: Span::default() }
    }
}

#[derive(Debug)]
struct Cql {
    ways: [Direction; 2],
    /// The position was lost: segments may follow.
    unsure: bool,
    prepared: HashMap<u64, Box<str>>,
}

impl Default for Cql {
    fn default() -> Self {
        Self { ways: [Direction::new(), Direction::new()], unsure: false, prepared: HashMap::new() }
    }
}

impl Frames for Cql {
    const PAIRING: Pairing = Pairing::Id;

    fn head(&mut self, side: Side, view: &[u8]) -> Head {
        let way = &mut self.ways[side.index()];
        if self.unsure && way.place == SideState::Plain && !message::is_version(side, view[0]) {
            way.place = SideState::Segment;
        }
        match way.place {
            SideState::Segment if view.len() < message::SEGMENT => Head::Need(message::SEGMENT),
            SideState::Segment if message::segment(view).is_none() => Head::Lost,
            SideState::Segment => Head::Frame { length: message::SEGMENT as u64, inspect: message::SEGMENT },
            SideState::Checksum => Head::Frame { length: 4, inspect: 0 },
            SideState::Payload(rest) if way.left > 0 => Head::Frame { length: way.left.min(rest), inspect: 0 },
            SideState::Payload(rest) => message(side, view, rest),
            SideState::Plain => message(side, view, u64::MAX),
        }
    }

    fn begin(&mut self, side: Side, bytes: &[u8], length: u64, cx: &mut Context<'_>) -> Result<(), Stop> {
        let place = self.ways[side.index()].place;
        match place {
            SideState::Segment => {
                let payload = message::segment(bytes).ok_or(Stop::Lost)?;
                let way = &mut self.ways[side.index()];
                (way.passing, way.place) = (Passing::Frame, SideState::Payload(payload));
            }
            SideState::Checksum => {
                let way = &mut self.ways[side.index()];
                (way.passing, way.place) = (Passing::Frame, SideState::Segment);
            }
            SideState::Plain | SideState::Payload(_) => {
                if self.ways[side.index()].left == 0 {
                    self.open(side, bytes, cx)?;
                }
                let way = &mut self.ways[side.index()];
                way.passing = Passing::Piece(length);
            }
        }
        Ok(())
    }

    fn end(&mut self, side: Side, span: Span, cx: &mut Context<'_>) -> Result<(), Stop> {
        let way = &mut self.ways[side.index()];
        if let Passing::Piece(length) = way.passing {
            way.span.add(span);
            way.left = way.left.checked_sub(length).ok_or(Stop::Lost)?;
            if let SideState::Payload(rest) = &mut way.place {
                *rest = rest.checked_sub(length).ok_or(Stop::Lost)?;
            }
            if way.left == 0 {
                self.finish(side, cx)?;
            }
        }
        let way = &mut self.ways[side.index()];
        if way.place == SideState::Payload(0) {
            way.place = SideState::Checksum;
        }
        Ok(())
    }

    fn closed(&mut self, side: Side, cut: Option<Span>, cx: &mut Context<'_>) {
        let way = &mut self.ways[side.index()];
        if let (Side::Client, Some(span), Some(stream), Passing::Piece(_)) = (side, cut, way.stream, way.passing)
            && let Some(exchange) = cx.exchanges.find_mut(stream.into())
        {
            way.span.add(span);
            exchange.request = way.span;
        }
    }

    fn lost(&mut self, side: Side, exchanges: &mut Exchanges) {
        let way = std::mem::replace(&mut self.ways[side.index()], Direction::new());
        if let Some(stream) = way.stream {
            exchanges.discard(stream.into(), Reason::Gap);
        }
        self.unsure = true;
    }

    fn begins(&self, side: Side, bytes: &[u8]) -> bool {
        message::is_chain(side, bytes) || message::segment(bytes).is_some()
    }
}

impl Cql {
    /// A message begins with `bytes`.
    fn open(&mut self, side: Side, bytes: &[u8], cx: &mut Context<'_>) -> Result<(), Stop> {
        let header = Header::parse(bytes).ok_or(Stop::Lost)?;
        let way = &mut self.ways[side.index()];
        (way.left, way.span) = (header.length + message::HEADER as u64, Span::default());
        let is_event = side == Side::Server && header.opcode == EVENT;
        way.stream = if is_event { None } else { Some(header.stream) };
        if is_event {
            return Ok(());
        }
        let body = &bytes[message::HEADER..];
        if side == Side::Server {
            self.respond(&header, body, cx);
            return Ok(());
        }
        let first = cx.mark().at;
        let detail = self.detail(&header, body);
        let exchange = cx.exchanges.open(Key::Id(header.stream.into()));
        exchange.op.push_str(message::name(header.opcode).ok_or(Stop::Lost)?);
        exchange.detail = detail;
        exchange.request.first = first;
        exchange.note = u64::from(header.opcode) | u64::from(header.version) << 8;
        if header.opcode == STARTUP && message::wants_compression(body) {
            exchange.note |= 1 << 16;
        }
        Ok(())
    }

    fn detail(&self, header: &Header, body: &[u8]) -> String {
        match message::statement(header, body) {
            Some(message::Statement::Text(text)) => statement::fingerprint(text),
            Some(message::Statement::Prepared(id)) => {
                self.prepared.get(&hash(id)).map(ToString::to_string).unwrap_or_default()
            }
            None => String::new(),
        }
    }

    /// The head of a response.
    fn respond(&mut self, header: &Header, body: &[u8], cx: &mut Context<'_>) {
        let Some(exchange) = cx.exchanges.find_mut(header.stream.into()) else { return };
        exchange.status.clear();
        match message::error(header, body) {
            Some(code) => {
                exchange.status.push_str(&format!("{code:#06x}"));
                exchange.class = message::class_of(code);
            }
            None if header.opcode == 0 => {
                exchange.status.push_str("error");
                exchange.class = crate::Class::Error;
            }
            None => exchange.status.push_str("ok"),
        }
        if let Some(id) = message::prepared(header, body)
            && self.prepared.len() < PREPARED
        {
            self.prepared.insert(hash(id), exchange.detail.clone().into_boxed_str());
        }
    }

    /// A message has passed.
    fn finish(&mut self, side: Side, cx: &mut Context<'_>) -> Result<(), Stop> {
        let way = &mut self.ways[side.index()];
        let span = std::mem::take(&mut way.span);
        let Some(exchange) = way.stream.take().and_then(|stream| cx.exchanges.find_mut(stream.into())) else {
            return Ok(());
        };
        if side == Side::Client {
            (exchange.request, exchange.request_done) = (span, true);
            return Ok(());
        }
        if !exchange.request_done {
            return Err(Stop::Lost);
        }
        (exchange.response, exchange.response_done) = (span, true);
        let (note, is_ok) = (exchange.note, exchange.status == "ok");
        cx.exchanges.settle();
        // Version 5 changes its framing once STARTUP is answered.
        if is_ok && note & 0xff == u64::from(STARTUP) && note >> 8 & 0xff >= 5 {
            if note >> 16 & 1 == 1 {
                return Err(Stop::Opaque);
            }
            for way in &mut self.ways {
                way.place = SideState::Segment;
            }
        }
        Ok(())
    }
}

/// The head of a message with `rest` bytes of its segment left.
fn message(side: Side, view: &[u8], rest: u64) -> Head {
    if view.len() < message::HEADER {
        return Head::Need(message::HEADER);
    }
    let Some(header) = Header::parse(view).filter(|header| header.is_plausible(side)) else { return Head::Lost };
    let inspect = match side {
        Side::Client => REQUEST,
        Side::Server if header.flags > 1 => RESPONSE_BEHIND,
        Side::Server => RESPONSE,
    };
    // A header is never split over segments.
    if rest < message::HEADER as u64 {
        return Head::Lost;
    }
    Head::Frame { length: (header.length + message::HEADER as u64).min(rest), inspect }
}

fn hash(id: &[u8]) -> u64 {
    twox_hash::XxHash3_64::oneshot(id)
}

fn detect(side: Side, bytes: &[u8]) -> Detection {
    if !message::is_version(side, bytes[0]) {
        return Detection::No;
    }
    match Header::parse(bytes) {
        None => Detection::More,
        Some(header) if !header.is_plausible(side) => Detection::No,
        Some(header) if header.is_opening(side) => Detection::Sure,
        Some(_) if message::is_chain(side, bytes) => Detection::Likely,
        Some(_) => Detection::No,
    }
}
