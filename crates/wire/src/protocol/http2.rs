//! HTTP/2, and gRPC on it.
//!
//! An exchange is a stream: its HEADERS, CONTINUATION, DATA and RST_STREAM frames with their headers of nine bytes.
//! SETTINGS, PING and WINDOW_UPDATE belong to none, nor does an interim response. A stream that is reset before its
//! response has ended is unanswered.
//!
//! After a hole the streams that were open on that side are given up, since a frame of any may be missing; a response
//! is believed again when its first frame is seen to carry a status. Header tables are followed on: what leans on an
//! entry from before the hole is unknown, and a path that is unknown is `?`, never another one.
//!
//! Limits: a header block of more than [`BLOCK_MAX`] bytes, in one frame or in a flood of CONTINUATION, is passed over
//! like a hole in the table.

mod frame;

use std::collections::VecDeque;

use self::frame::{ACK_LESS, Frame, Kind};
use super::framed::{Framed, Frames, Head, Stop};
use crate::decoder::{Context, Detection, Pairing, Protocol, Side};
use crate::exchange::{Class, Exchange, Exchanges, Key, Reason, Unanswered};
use crate::hpack::{Decoder as Hpack, Field};
use crate::span::Span;

pub(super) const PROTOCOL: Protocol =
    Protocol { name: "http2", ports: &[50_051], detect, new: || Box::new(Framed::new(Http2::default())) };

/// The start of a client's data (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Maximum bytes of a decoded header block: servers allow 8 to 32 KiB.
const BLOCK_MAX: usize = 32 << 10;

/// Bytes before a message of gRPC: whether it is compressed, and its length.
const GRPC_PREFIX: usize = 5;

/// In an exchange's note, above gRPC's status: its request begins like a gRPC message. This decides where the content
/// type is only in an entry from before a gap.
const LOOKS_GRPC: u64 = 1 << 32;

/// Bytes kept of a path.
const PATH_MAX: usize = 512;

/// Streams that the client reset and whose response may still be in flight: one more settles the oldest as unanswered.
const RESET_MAX: usize = 64;

/// A header block that is being assembled.
#[derive(Debug, Default)]
struct Block {
    bytes: Vec<u8>,
    /// It is too long, and passed over.
    is_over: bool,
    stream: u32,
    ends_stream: bool,
    /// Promised by the server: only its table counts.
    is_promise: bool,
}

/// One direction.
#[derive(Debug)]
struct Direction {
    hpack: Hpack,
    block: Option<Block>,
    /// The frame that passes.
    frame: Option<Frame>,
}

impl Default for Direction {
    fn default() -> Self {
        Self { hpack: Hpack::new(), block: None, frame: None }
    }
}

#[derive(Debug, Default)]
struct Http2 {
    /// The client's preface has passed.
    begun: bool,
    ways: [Direction; 2],
    /// The highest stream that the client opened.
    newest: u32,
    /// Streams that the client reset, oldest first: the server may have responded before it knew.
    reset: VecDeque<u32>,
    /// One of them that is answered, except for a reset by the server that may follow.
    late: Option<u32>,
}

impl Frames for Http2 {
    const PAIRING: Pairing = Pairing::Id;

    fn head(&mut self, side: Side, view: &[u8]) -> Head {
        if side == Side::Client && !self.begun {
            return match view.len() < PREFACE.len() {
                true if PREFACE.starts_with(view) => Head::Need(PREFACE.len()),
                false if view.starts_with(PREFACE) => Head::Frame { length: PREFACE.len() as u64, inspect: 0 },
                _ => Head::Lost,
            };
        }
        if view.len() < frame::HEADER {
            return Head::Need(frame::HEADER);
        }
        let Some(frame) = Frame::parse(view) else { return Head::Lost };
        let inspect = match frame.kind {
            Kind::Data => frame.length.min(GRPC_PREFIX),
            kind if kind.has_block() && frame.length <= BLOCK_MAX => frame.length,
            _ => 0,
        };
        Head::Frame { length: (frame::HEADER + frame.length) as u64, inspect: frame::HEADER + inspect }
    }

    fn begin(&mut self, side: Side, bytes: &[u8], _length: u64, cx: &mut Context<'_>) -> Result<(), Stop> {
        if side == Side::Client && !std::mem::replace(&mut self.begun, true) {
            return Ok(());
        }
        let frame = Frame::parse(bytes).ok_or(Stop::Lost)?;
        let way = &mut self.ways[side.index()];
        let is_next =
            way.block.as_ref().is_none_or(|block| frame.kind == Kind::Continuation && block.stream == frame.stream);
        if !is_next || (frame.kind == Kind::Continuation && way.block.is_none()) {
            return Err(Stop::Lost);
        }
        if frame.kind.has_block() {
            way.add(&frame, &bytes[frame::HEADER..]);
        }
        way.frame = Some(frame);
        if side == Side::Client
            && is_grpc_message(&frame, &bytes[frame::HEADER..])
            && let Some(exchange) = cx.exchanges.find_mut(frame.stream.into())
        {
            exchange.note |= LOOKS_GRPC;
        }
        if side == Side::Server && !(frame.kind == Kind::Reset && self.late == Some(frame.stream)) {
            self.settle_late(cx.exchanges);
        }
        let is_new = frame.stream > self.newest && frame.stream % 2 == 1;
        if side == Side::Client && frame.kind == Kind::Headers && is_new {
            self.newest = frame.stream;
            let first = cx.mark().at;
            cx.exchanges.open(Key::Id(frame.stream.into())).request.first = first;
        }
        Ok(())
    }

    fn end(&mut self, side: Side, span: Span, cx: &mut Context<'_>) -> Result<(), Stop> {
        let way = &mut self.ways[side.index()];
        let Some(frame) = way.frame.take() else { return Ok(()) };
        if frame.kind == Kind::Other {
            return Ok(());
        }
        if frame.kind != Kind::Promise
            && let Some(exchange) = cx.exchanges.find_mut(frame.stream.into())
        {
            let part = part(exchange, side);
            let last = part.last;
            part.add(span);
            // A reset is no part of the message, yet its bytes were spent on it.
            if frame.kind == Kind::Reset && last.is_some() {
                part.last = last;
            }
        }
        match frame.kind {
            Kind::Headers | Kind::Continuation | Kind::Promise if frame.ends_headers() => self.block(side, cx),
            Kind::Data => self.data(side, &frame, cx),
            Kind::Reset => self.reset(side, frame.stream, cx),
            _ => {}
        }
        Ok(())
    }

    fn closed(&mut self, side: Side, cut: Option<Span>, cx: &mut Context<'_>) {
        let frame = self.ways[side.index()].frame.take();
        if let (Side::Client, Some(span), Some(frame)) = (side, cut, frame)
            && let Some(exchange) = cx.exchanges.find_mut(frame.stream.into())
        {
            exchange.request.add(span);
        }
        if side == Side::Server {
            self.settle_late(cx.exchanges);
            self.settle_resets(self.reset.len(), cx.exchanges);
        }
    }

    fn lost(&mut self, side: Side, exchanges: &mut Exchanges) {
        self.begun = true;
        let way = &mut self.ways[side.index()];
        way.hpack.forget();
        (way.block, way.frame) = (None, None);
        if side == Side::Server {
            // Its response was complete; only the reset that may follow is missing.
            self.settle_late(exchanges);
        }
        let is_open = |exchange: &&mut Exchange| match side {
            Side::Client => !exchange.request_done,
            Side::Server => !exchange.response_done,
        };
        let open: Vec<Key> = exchanges.iter_mut().filter(is_open).map(|exchange| exchange.key).collect();
        for key in open {
            if let Key::Id(id) = key {
                exchanges.discard(id, Reason::Gap);
            }
        }
    }

    fn begins(&self, side: Side, bytes: &[u8]) -> bool {
        frame::is_chain(side, bytes)
    }
}

impl Direction {
    /// Adds a frame's part of a header block.
    fn add(&mut self, frame: &Frame, payload: &[u8]) {
        let block = self.block.get_or_insert_with(|| Block {
            stream: frame.stream,
            ends_stream: frame.ends_stream() && frame.kind == Kind::Headers,
            is_promise: frame.kind == Kind::Promise,
            ..Block::default()
        });
        let Some(fragment) = frame.fragment(payload).filter(|part| block.bytes.len() + part.len() <= BLOCK_MAX) else {
            (block.is_over, block.bytes) = (true, Vec::new());
            return;
        };
        if !block.is_over {
            block.bytes.extend_from_slice(fragment);
        }
    }
}

/// The wanted fields of a block.
#[derive(Debug, Default)]
struct Fields {
    method: String,
    path: String,
    status: String,
    grpc_status: Option<u64>,
    is_grpc: bool,
    /// One of them may be missing.
    is_partial: bool,
}

impl Fields {
    fn set(&mut self, field: Field, value: &[u8]) {
        let text = String::from_utf8_lossy(value);
        match field {
            Field::Method => self.method = text.chars().take(32).collect(),
            // The query is not part of the operation, and may contain secrets.
            Field::Path => {
                self.path = text.split(['?', '#']).next().unwrap_or_default().chars().take(PATH_MAX).collect();
            }
            Field::Status => self.status = text.chars().take(3).collect(),
            Field::ContentType => self.is_grpc = value.starts_with(b"application/grpc"),
            Field::GrpcStatus => self.grpc_status = text.parse().ok().filter(|code| *code < 1_000),
            Field::Other => {}
        }
    }
}

impl Http2 {
    /// A header block is complete.
    fn block(&mut self, side: Side, cx: &mut Context<'_>) {
        let way = &mut self.ways[side.index()];
        let Some(block) = way.block.take() else { return };
        let mut fields = Fields::default();
        let decoded = way.hpack.decode(&block.bytes, &mut |field, value| fields.set(field, value));
        match decoded {
            Ok(outcome) if !block.is_over => fields.is_partial = outcome.unresolved > 0,
            _ => {
                way.hpack.forget();
                fields = Fields { is_partial: true, ..Fields::default() };
            }
        }
        let Some(exchange) = cx.exchanges.find_mut(block.stream.into()).filter(|_| !block.is_promise) else { return };
        let is_read = match side {
            Side::Client => request(exchange, fields),
            Side::Server => response(exchange, fields),
        };
        if !is_read {
            cx.exchanges.discard(block.stream.into(), Reason::Gap);
        } else if block.ends_stream {
            self.finish(side, block.stream, cx.exchanges);
        }
    }

    fn data(&mut self, side: Side, frame: &Frame, cx: &mut Context<'_>) {
        let stream = frame.stream.into();
        let Some(exchange) = cx.exchanges.find_mut(stream) else { return };
        // The response's headers were missed.
        if side == Side::Server && exchange.status.is_empty() {
            cx.exchanges.discard(stream, Reason::Gap);
        } else if frame.ends_stream() {
            self.finish(side, frame.stream, cx.exchanges);
        }
    }

    /// A side's message of a stream has ended.
    fn finish(&mut self, side: Side, stream: u32, exchanges: &mut Exchanges) {
        let Some(exchange) = exchanges.find_mut(stream.into()) else { return };
        match side {
            Side::Client => exchange.request_done = true,
            // If a stream was open over a gap, a reset may have been missed: the server's own reset would indicate
            // that.
            Side::Server if exchange.doubtful || self.reset.contains(&stream) => {
                self.late = Some(stream);
                return;
            }
            Side::Server => exchange.response_done = true,
        }
        exchanges.settle();
    }

    fn settle_late(&mut self, exchanges: &mut Exchanges) {
        let Some(stream) = self.late.take() else { return };
        let was_reset = self.reset.contains(&stream);
        self.reset.retain(|reset| *reset != stream);
        if let Some(exchange) = exchanges.find_mut(stream.into()) {
            exchange.request_done |= was_reset;
            exchange.response_done = true;
            exchanges.settle();
        }
    }
}

impl Http2 {
    fn reset(&mut self, side: Side, stream: u32, cx: &mut Context<'_>) {
        let Some(exchange) = cx.exchanges.find_mut(stream.into()) else { return };
        if side == Side::Client {
            self.reset.push_back(stream);
            if self.reset.len() > RESET_MAX {
                self.settle_resets(1, cx.exchanges);
            }
        } else if self.late == Some(stream) {
            if self.reset.contains(&stream) {
                self.settle_late(cx.exchanges);
            } else {
                self.late = None;
                cx.exchanges.discard(stream.into(), Reason::Gap);
            }
        } else if exchange.response_done {
            // A server that has responded may refuse the rest of the request.
            exchange.request_done = true;
            cx.exchanges.settle();
        } else {
            cx.exchanges.unanswered(stream.into(), Unanswered::Reset);
        }
    }

    /// Settles the oldest `count` streams that the client reset as unanswered.
    fn settle_resets(&mut self, count: usize, exchanges: &mut Exchanges) {
        for stream in self.reset.drain(..count) {
            exchanges.unanswered(stream.into(), Unanswered::Reset);
        }
    }
}

/// Reads a request's headers, or its trailers. Returns whether they may be the headers, when none came before.
fn request(exchange: &mut Exchange, fields: Fields) -> bool {
    if !exchange.op.is_empty() {
        return true;
    }
    if fields.method.is_empty() && !fields.is_partial {
        return false;
    }
    for part in [fields.method.as_str(), " ", fields.path.as_str()] {
        exchange.op.push_str(if part.is_empty() { "?" } else { part });
    }
    true
}

/// Reads a response's headers, or its trailers. Returns whether they may be the headers, when none came before.
fn response(exchange: &mut Exchange, fields: Fields) -> bool {
    if exchange.status.is_empty() {
        if fields.status.is_empty() {
            return false;
        }
        if fields.status.starts_with('1') {
            exchange.response = Span::default();
            return true;
        }
        exchange.class = match fields.status.as_bytes()[0] {
            b'4' => Class::ClientError,
            b'5' => Class::Error,
            _ => Class::Ok,
        };
        exchange.status = fields.status;
        if fields.is_grpc || (fields.is_partial && exchange.note & LOOKS_GRPC != 0) {
            exchange.protocol = "grpc";
        }
    }
    if let Some(code) = fields.grpc_status {
        exchange.note = exchange.note & LOOKS_GRPC | (code + 1);
        exchange.class = grpc_class(code);
    }
    true
}

/// Whether a DATA frame with `payload` contains exactly one gRPC message.
fn is_grpc_message(frame: &Frame, payload: &[u8]) -> bool {
    let length = super::framed::be32(payload, 1).map(|length| length as usize);
    frame.kind == Kind::Data
        && payload.first().is_some_and(|flag| *flag <= 1)
        && length.is_some_and(|n| n + GRPC_PREFIX == frame.length)
}

/// Classes of gRPC codes: errors of the caller, and failures.
fn grpc_class(code: u64) -> Class {
    match code {
        0 => Class::Ok,
        1 | 3 | 5 | 6 | 7 | 9 | 11 | 16 => Class::ClientError,
        _ => Class::Error,
    }
}

fn part(exchange: &mut Exchange, side: Side) -> &mut Span {
    match side {
        Side::Client => &mut exchange.request,
        Side::Server => &mut exchange.response,
    }
}

fn detect(side: Side, bytes: &[u8]) -> Detection {
    if side == Side::Client {
        if bytes.starts_with(PREFACE) {
            return Detection::Sure;
        }
        if PREFACE.starts_with(bytes) {
            return Detection::More;
        }
    }
    if bytes.len() < frame::HEADER {
        // The length of a first frame is below 16 KiB.
        return if bytes[0] == 0 && bytes.get(1).is_none_or(|byte| *byte <= 0x40) {
            Detection::More
        } else {
            Detection::No
        };
    }
    let is_settings = side == Side::Server && Frame::parse(bytes).is_some_and(|frame| frame.is_settings(ACK_LESS));
    if is_settings || frame::is_chain(side, bytes) { Detection::Likely } else { Detection::No }
}
