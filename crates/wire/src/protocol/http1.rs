//! HTTP/1.0 and HTTP/1.1.
//!
//! Responses come in the order of the requests. Interim ones (1xx) are passed over, except 101, which ends the reading.
//! HEAD, 204 and 304 have no body whatever their headers say (RFC 9112, 6.3); a body of unknown length lasts until the
//! server closes.

use super::line::{decimal, hexadecimal, line_len, push_text, trim_end};
use crate::decoder::{Context, Decoder, Detection, Protocol, Side, Step};
use crate::exchange::{Class, Exchanges, Key};
use crate::mask;
use crate::span::{Mark, Span};

/// The row of the table.
pub(super) const PROTOCOL: Protocol = Protocol {
    name: "http1",
    ports: &[80, 8000, 8008, 8080, 8081, 8888, 9090, 3000, 5000],
    detect,
    new: || Box::<Http1>::default(),
};

/// A request's path is kept up to this length: longer ones fold to the same operation anyway.
const MAX_TARGET: usize = 1_024;

/// A chunk's size line with its extensions: servers allow less.
const MAX_CHUNK_LINE: usize = 4_096;

const METHODS: [&[u8]; 16] = [
    b"GET",
    b"POST",
    b"HEAD",
    b"PUT",
    b"DELETE",
    b"OPTIONS",
    b"PATCH",
    b"CONNECT",
    b"TRACE",
    b"PROPFIND",
    b"MKCOL",
    b"COPY",
    b"MOVE",
    b"LOCK",
    b"PURGE",
    b"REPORT",
];

/// Flags in [`crate::Exchange::note`] for a request.
const NOTE_HEAD: u64 = 1;
const NOTE_CONNECT: u64 = 2;

#[derive(Debug, Clone, Copy, Default)]
enum State {
    /// Between messages.
    #[default]
    Idle,
    /// The message ends where the skip ends.
    Ending(Mark),
    /// At a chunk's size line.
    Chunk(Mark),
    /// In the lines after the last chunk.
    Trailer(Mark),
    /// The body lasts until the side closes.
    UntilClose(Mark),
}

#[derive(Debug, Default)]
struct Http1 {
    sides: [State; 2],
    /// Bytes of the unread head that do not contain its end.
    scanned: [u32; 2],
}

impl Decoder for Http1 {
    fn step(&mut self, side: Side, view: &[u8], cx: &mut Context<'_>) -> Step {
        match self.sides[side.index()] {
            State::Idle => self.head(side, view, cx),
            State::Ending(mark) => {
                self.end(side, cx.since(mark), cx.exchanges);
                Step::Take(0)
            }
            State::Chunk(mark) => self.chunk(side, mark, view),
            State::Trailer(mark) => self.trailer(side, mark, view, cx),
            State::UntilClose(_) => Step::UntilClose,
        }
    }

    fn closed(&mut self, side: Side, _clean: bool, cx: &mut Context<'_>) {
        if let State::UntilClose(mark) = self.sides[side.index()] {
            self.end(side, cx.since(mark), cx.exchanges);
        }
    }

    fn lost(&mut self, side: Side, _exchanges: &mut Exchanges) {
        self.sides[side.index()] = State::Idle;
        self.scanned[side.index()] = 0;
    }

    fn begins(&self, side: Side, bytes: &[u8]) -> bool {
        detect(side, bytes) == Detection::Sure
    }
}

impl Http1 {
    fn head(&mut self, side: Side, view: &[u8], cx: &mut Context<'_>) -> Step {
        if view.is_empty() {
            return Step::Need(1);
        }
        if side == Side::Client && view.starts_with(b"\r\n") && self.scanned[0] == 0 {
            // Empty lines before a request line are ignored (RFC 9112, 2.2).
            return Step::Take(2);
        }
        let scanned = &mut self.scanned[side.index()];
        // A head that arrived in pieces is parsed from its beginning once its end is there.
        if *scanned > 0 && head_len(view, *scanned as usize).is_none() {
            *scanned = u32::try_from(view.len()).expect("a frame is a mebibyte at most");
            return Step::Need(view.len() + 1);
        }
        match Head::read(view) {
            Some(head) => {
                *scanned = 0;
                match side {
                    Side::Client => self.request(&head, &view[..head.length], cx),
                    Side::Server => self.response(&head, cx),
                }
            }
            None if *scanned == 0 && detect(side, view) == Detection::No => Step::Lost,
            None => {
                *scanned = u32::try_from(view.len()).expect("a frame is a mebibyte at most");
                Step::Need(view.len() + 1)
            }
        }
    }

    fn request(&mut self, head: &Head<'_>, bytes: &[u8], cx: &mut Context<'_>) -> Step {
        let Some((method, target)) = request_line(head.line) else { return Step::Lost };
        let Some(body) = head.body else { return Step::Lost };
        let mark = cx.mark();
        let keeps_heads = cx.exchanges.keeps_heads();
        let exchange = cx.exchanges.open(Key::Order);
        if keeps_heads {
            exchange.head = Some(mask::http_head(method, target, bytes).into());
        }
        push_text(&mut exchange.op, method, MAX_TARGET);
        exchange.op.push(' ');
        // The query is not part of the operation, and may contain secrets.
        let path = target.split(|byte| matches!(byte, b'?' | b'#')).next().unwrap_or_default();
        push_text(&mut exchange.op, path, MAX_TARGET);
        exchange.note = match method {
            b"HEAD" => NOTE_HEAD,
            b"CONNECT" => NOTE_CONNECT,
            _ => 0,
        };
        exchange.request.first = mark.at;
        match body {
            Body::None | Body::Length(0) => {
                let span = cx.ahead(head.length);
                self.end(Side::Client, span, cx.exchanges);
                Step::Take(head.length)
            }
            Body::Length(bytes) => {
                self.sides[0] = State::Ending(mark);
                Step::Skip(head.length as u64 + bytes)
            }
            Body::Chunked => {
                self.sides[0] = State::Chunk(mark);
                Step::Take(head.length)
            }
        }
    }

    fn response(&mut self, head: &Head<'_>, cx: &mut Context<'_>) -> Step {
        let Some(code) = status_code(head.line) else { return Step::Lost };
        let Some(body) = head.body else { return Step::Lost };
        let mark = cx.mark();
        let span = cx.ahead(head.length);
        let Some(exchange) = cx.exchanges.unanswered_mut() else { return Step::Lost };
        if code / 100 == 1 && code != 101 {
            return Step::Take(head.length);
        }
        exchange.response.first = mark.at;
        push_text(&mut exchange.status, &head.line[9..12], 3);
        exchange.class = match code / 100 {
            4 => Class::ClientError,
            5 => Class::Error,
            _ => Class::Ok,
        };
        let is_tunnel = code == 101 || (exchange.note == NOTE_CONNECT && code / 100 == 2);
        let is_bare = is_tunnel || exchange.note == NOTE_HEAD || code == 204 || code == 304;
        if is_bare {
            self.end(Side::Server, span, cx.exchanges);
            return if is_tunnel { Step::Opaque } else { Step::Take(head.length) };
        }
        let length = head.length as u64;
        let (state, step) = match body {
            Body::Length(bytes) => (State::Ending(mark), Step::Skip(length + bytes)),
            Body::Chunked => (State::Chunk(mark), Step::Take(head.length)),
            Body::None => (State::UntilClose(mark), Step::Take(head.length)),
        };
        self.sides[1] = state;
        step
    }

    fn chunk(&mut self, side: Side, mark: Mark, view: &[u8]) -> Step {
        let Some(length) = line_len(view) else {
            return if view.len() > MAX_CHUNK_LINE { Step::Lost } else { Step::Need(view.len() + 1) };
        };
        let line = trim_end(&view[..length]);
        let digits = line.split(|byte| matches!(byte, b';' | b' ' | b'\t')).next().unwrap_or_default();
        match hexadecimal(digits) {
            None => Step::Lost,
            Some(0) => {
                self.sides[side.index()] = State::Trailer(mark);
                Step::Take(length)
            }
            Some(bytes) => Step::Skip(length as u64 + bytes + 2),
        }
    }

    fn trailer(&mut self, side: Side, mark: Mark, view: &[u8], cx: &mut Context<'_>) -> Step {
        let Some(length) = line_len(view) else { return Step::Need(view.len() + 1) };
        if trim_end(&view[..length]).is_empty() {
            self.end(side, cx.through(mark, length), cx.exchanges);
        }
        Step::Take(length)
    }

    fn end(&mut self, side: Side, span: Span, exchanges: &mut Exchanges) {
        self.sides[side.index()] = State::Idle;
        match side {
            Side::Client => {
                if let Some(exchange) = exchanges.newest_mut() {
                    exchange.request = span;
                    exchange.request_done = true;
                }
            }
            Side::Server => {
                if let Some(exchange) = exchanges.unanswered_mut() {
                    exchange.response = span;
                    exchange.response_done = true;
                }
            }
        }
        exchanges.settle();
    }
}

/// The length of the head with its empty line, if that is in view; the first `scanned` bytes are known not to contain
/// the end.
fn head_len(view: &[u8], scanned: usize) -> Option<usize> {
    let mut at = scanned.saturating_sub(3);
    loop {
        at += line_len(&view[at..])?;
        match &view[at..] {
            [b'\n', ..] => return Some(at + 1),
            [b'\r', b'\n', ..] => return Some(at + 2),
            _ => {}
        }
    }
}

/// Method and target.
fn request_line(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = memchr::memchr(b' ', line)?;
    let last = memchr::memrchr(b' ', line)?;
    let version = &line[last + 1..];
    if last <= space || !version.starts_with(b"HTTP/1.") || space > 32 {
        return None;
    }
    Some((&line[..space], &line[space + 1..last]))
}

fn status_code(line: &[u8]) -> Option<u16> {
    let code = line.strip_prefix(b"HTTP/1.")?.get(2..5)?;
    let code = decimal(code)?;
    (100..1000).contains(&code).then_some(u16::try_from(code).ok()?)
}

/// The length of the body, according to the headers alone.
#[derive(Debug, Clone, Copy)]
enum Body {
    None,
    Length(u64),
    Chunked,
}

/// A message's head that is completely in view.
#[derive(Debug)]
struct Head<'a> {
    /// The first line without its end.
    line: &'a [u8],
    /// Bytes up to the body, the empty line included.
    length: usize,
    /// `None` when the headers contradict each other or are not numbers.
    body: Option<Body>,
}

impl<'a> Head<'a> {
    /// Parses each line once; `None` when the empty line is not in view.
    fn read(view: &'a [u8]) -> Option<Self> {
        let mut ends = memchr::memchr_iter(b'\n', view);
        let first = ends.next()?;
        let (mut start, mut length, mut is_chunked, mut is_wrong) = (first + 1, None, false, false);
        loop {
            // The first byte of most lines shows that they are not relevant.
            match view.get(start)? {
                b'\n' => {
                    start += 1;
                    break;
                }
                b'\r' if *view.get(start + 1)? == b'\n' => {
                    start += 2;
                    break;
                }
                initial => {
                    let end = ends.next()?;
                    match initial {
                        b'c' | b'C' => {
                            if let Some(value) = header(trim_end(&view[start..=end]), b"content-length") {
                                length = decimal(value);
                                is_wrong |= !is_chunked && length.is_none();
                            }
                        }
                        b't' | b'T' => {
                            let value = header(trim_end(&view[start..=end]), b"transfer-encoding");
                            is_chunked |= value.is_some_and(|value| {
                                value.len() >= 7 && value[value.len() - 7..].eq_ignore_ascii_case(b"chunked")
                            });
                        }
                        _ => {}
                    }
                    start = end + 1;
                }
            }
        }
        let body = match (is_wrong, is_chunked, length) {
            (true, ..) => None,
            (_, true, _) => Some(Body::Chunked),
            (_, _, Some(length)) => Some(Body::Length(length)),
            _ => Some(Body::None),
        };
        Some(Self { line: trim_end(&view[..=first]), length: start, body })
    }
}

fn header<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    if line.len() <= name.len() || line[name.len()] != b':' || !line[..name.len()].eq_ignore_ascii_case(name) {
        return None;
    }
    Some(line[name.len() + 1..].trim_ascii())
}

fn detect(side: Side, bytes: &[u8]) -> Detection {
    match side {
        Side::Client => {
            let word = bytes.split(|byte| *byte == b' ').next().unwrap_or_default();
            if word.len() < bytes.len() {
                // PRI is HTTP/2's preface.
                return if METHODS.contains(&word) { Detection::Sure } else { Detection::No };
            }
            if METHODS.iter().any(|method| method.starts_with(bytes)) { Detection::More } else { Detection::No }
        }
        Side::Server => {
            const START: &[u8] = b"HTTP/1.";
            if bytes.starts_with(START) {
                Detection::Sure
            } else if START.starts_with(bytes) {
                Detection::More
            } else {
                Detection::No
            }
        }
    }
}
