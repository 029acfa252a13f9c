//! NATS: requests and replies over inboxes, pings, and the acknowledgements of verbose connections.
//!
//! A publication that names a reply subject is a request; the first message to that subject answers it, be it a
//! service's reply, an acknowledgement of JetStream, or the server's `503` when nobody listens. For the service the
//! server asks: a message with a reply subject is answered by the publication to it. Other publications have no answer
//! by design, unless the connection is verbose.

use std::collections::VecDeque;

use super::line::{decimal, line_len, trim_end};
use crate::decoder::{Context, Decoder, Detection, Pairing, Protocol, Side, Step};
use crate::exchange::{Class, Exchange, Exchanges, Key, Reason, Unanswered};
use crate::operation::template;
use crate::span::Mark;

pub(super) const PROTOCOL: Protocol = Protocol { name: "nats", ports: &[4222], detect, new: || Box::<Nats>::default() };

/// The longest payload believed: the server's limit is 1 MiB, and 64 MiB at most.
const PAYLOAD_MAX: u64 = 64 << 20;

/// Acknowledgements that a verbose connection may owe.
const OWED_MAX: usize = 16_384;

/// Bytes of a message's headers that are looked at for its status.
const STATUS_LINE: usize = 16;

/// The kind of an exchange, in the highest bits of its id.
const PING: u64 = 1 << 60;
const SERVER_PING: u64 = 2 << 60;
const REQUEST: u64 = 3 << 60;
const SERVED: u64 = 4 << 60;
const COMMAND: u64 = 5 << 60;
const NUMBER: u64 = (1 << 60) - 1;

/// What ends with the bytes that are skipped.
#[derive(Debug, Clone, Copy)]
struct Passing {
    mark: Mark,
    /// The exchange that this message requests, and whether it waits for a response.
    asks: Option<(u64, bool)>,
    /// The exchange that it answers.
    answers: Option<u64>,
}

#[derive(Debug, Default)]
struct Nats {
    passing: [Option<Passing>; 2],
    is_verbose: bool,
    /// Commands that the server owes a `+OK`: their exchanges, where they have one.
    owed: VecDeque<Option<u64>>,
    /// Pings and commands so far.
    count: u64,
    /// Data of the client was missed: the next ping may get the response to an earlier one.
    skip_ping: bool,
}

impl Decoder for Nats {
    fn pairing(&self) -> Pairing {
        Pairing::Id
    }

    fn step(&mut self, side: Side, view: &[u8], cx: &mut Context<'_>) -> Step {
        if let Some(passing) = self.passing[side.index()].take() {
            finish(passing, cx);
            return Step::Take(0);
        }
        if view.is_empty() {
            return Step::Need(1);
        }
        // A client that starts TLS after the server's INFO.
        if side == Side::Client && view[0] == 0x16 {
            return Step::Opaque;
        }
        let Some(length) = line_len(view) else { return Step::Need(view.len() + 1) };
        let line = trim_end(&view[..length]);
        let passing = Passing { mark: cx.mark(), asks: None, answers: None };
        let done = match side {
            Side::Client => self.command(line, passing, cx.exchanges),
            Side::Server => self.message(line, &view[length..], passing, cx.exchanges),
        };
        match done {
            Some(Message { needs: Some(bytes), .. }) => Step::Need(length + bytes),
            Some(Message { passing, payload, .. }) => {
                self.passing[side.index()] = Some(passing);
                Step::Skip(length as u64 + payload)
            }
            None => Step::Lost,
        }
    }

    fn closed(&mut self, side: Side, _clean: bool, cx: &mut Context<'_>) {
        if let (Side::Client, Some(Passing { mark, asks: Some((id, _)), .. })) = (side, self.passing[0].take()) {
            let span = cx.since(mark);
            if let Some(exchange) = cx.exchanges.find_mut(id) {
                exchange.request = span;
            }
        }
    }

    fn lost(&mut self, side: Side, exchanges: &mut Exchanges) {
        self.passing[side.index()] = None;
        self.owed.clear();
        self.skip_ping |= side == Side::Client;
        // Exchanges that this side requested and did not finish, and those that it may have answered.
        let is_doubtful = |exchange: &&mut Exchange| {
            exchange.by_server != (side == Side::Server) || !exchange.request_done || exchange.note == VERBOSE
        };
        let doubtful: Vec<Key> = exchanges.iter_mut().filter(is_doubtful).map(|exchange| exchange.key).collect();
        for key in doubtful {
            if let Key::Id(id) = key {
                exchanges.discard(id, Reason::Gap);
            }
        }
    }

    fn begins(&self, side: Side, bytes: &[u8]) -> bool {
        is_message(side, bytes)
    }
}

/// The note of an exchange that a `+OK` answers.
const VERBOSE: u64 = 1;

/// A line and what follows it.
struct Message {
    passing: Passing,
    payload: u64,
    /// This much of the payload is needed first.
    needs: Option<usize>,
}

impl Message {
    fn new(passing: Passing) -> Self {
        Self { passing, payload: 0, needs: None }
    }
}

impl Nats {
    fn command(&mut self, line: &[u8], mut passing: Passing, exchanges: &mut Exchanges) -> Option<Message> {
        let (name, arguments) = words(line);
        let mut payload = 0;
        match name.as_slice() {
            b"CONNECT" => {
                self.is_verbose = contains(line, b"\"verbose\":true") || contains(line, b"\"verbose\": true");
                passing.asks = self.verbose("CONNECT", exchanges);
            }
            b"PING" => passing.asks = self.ping(PING, exchanges),
            b"PONG" => passing.answers = oldest(SERVER_PING, "PONG", exchanges),
            b"PUB" | b"HPUB" => {
                let is_header = name.len() == 4;
                payload = decimal(arguments.last()?).filter(|payload| *payload <= PAYLOAD_MAX)? + 2;
                let subjects = arguments.len().checked_sub(1 + usize::from(is_header))?;
                let reply = if subjects == 2 { Some(arguments[1]) } else { None };
                passing.answers = answered(SERVED, arguments.first()?, "ok", exchanges);
                passing.asks = self.publish(arguments[0], reply, passing, exchanges);
            }
            b"SUB" | b"UNSUB" => passing.asks = self.verbose(if name.len() == 3 { "SUB" } else { "UNSUB" }, exchanges),
            _ => return None,
        }
        Some(Message { payload, ..Message::new(passing) })
    }

    fn publish(
        &mut self,
        subject: &[u8],
        reply: Option<&[u8]>,
        passing: Passing,
        exchanges: &mut Exchanges,
    ) -> Option<(u64, bool)> {
        let Some(reply) = reply else {
            if passing.answers.is_some() {
                self.owe(None);
                return None;
            }
            let asks = self.verbose("publish", exchanges);
            let asks = asks.or_else(|| Some((self.open(COMMAND, "publish", exchanges), false)));
            if let Some(exchange) = asks.and_then(|(id, _)| exchanges.find_mut(id)) {
                exchange.detail = fold(subject);
            }
            return asks;
        };
        self.owe(None);
        let id = REQUEST | hash(reply);
        let exchange = exchanges.open(Key::Id(id));
        exchange.op.push_str("request");
        exchange.detail = fold(subject);
        Some((id, true))
    }

    /// The acknowledgement that a verbose connection owes for a command.
    fn owe(&mut self, id: Option<u64>) {
        if self.is_verbose {
            self.owed.push_back(id);
            if self.owed.len() > OWED_MAX {
                self.owed.pop_front();
            }
        }
    }

    fn verbose(&mut self, op: &str, exchanges: &mut Exchanges) -> Option<(u64, bool)> {
        if !self.is_verbose {
            return None;
        }
        let id = self.open(COMMAND, op, exchanges);
        if let Some(exchange) = exchanges.find_mut(id) {
            exchange.note = VERBOSE;
        }
        self.owe(Some(id));
        Some((id, true))
    }

    fn open(&mut self, kind: u64, op: &str, exchanges: &mut Exchanges) -> u64 {
        self.count += 1;
        let id = kind | self.count & NUMBER;
        exchanges.open(Key::Id(id)).op.push_str(op);
        id
    }

    fn ping(&mut self, kind: u64, exchanges: &mut Exchanges) -> Option<(u64, bool)> {
        if kind == PING && std::mem::take(&mut self.skip_ping) {
            return None;
        }
        let id = self.open(kind, "PING", exchanges);
        if let Some(exchange) = exchanges.find_mut(id) {
            exchange.by_server = kind == SERVER_PING;
        }
        Some((id, true))
    }

    fn message(&mut self, line: &[u8], rest: &[u8], passing: Passing, exchanges: &mut Exchanges) -> Option<Message> {
        let mut out = Message::new(passing);
        let (name, arguments) = words(line);
        match name.as_slice() {
            b"INFO" => {}
            b"PING" => out.passing.asks = self.ping(SERVER_PING, exchanges),
            b"PONG" => out.passing.answers = oldest(PING, "PONG", exchanges),
            b"+OK" => out.passing.answers = self.acknowledged("+OK", exchanges),
            b"-ERR" => out.passing.answers = self.acknowledged("-ERR", exchanges),
            b"MSG" | b"HMSG" => {
                let is_header = name.len() == 4;
                let size = decimal(arguments.last()?).filter(|size| *size <= PAYLOAD_MAX)?;
                let (subject, words) = (*arguments.first()?, arguments.len().checked_sub(usize::from(is_header))?);
                let wanted = usize::try_from(size).map_or(STATUS_LINE, |size| size.min(STATUS_LINE));
                if is_header && rest.len() < wanted {
                    return Some(Message { needs: Some(wanted), ..out });
                }
                out.payload = size + 2;
                let status = if is_header { header_status(rest) } else { None };
                out.passing.answers = answered(REQUEST, subject, status.as_deref().unwrap_or("ok"), exchanges);
                if words == 4 {
                    let id = SERVED | hash(arguments[2]);
                    let exchange = exchanges.open(Key::Id(id));
                    exchange.op.push_str("serve");
                    exchange.detail = fold(subject);
                    exchange.by_server = true;
                    out.passing.asks = Some((id, true));
                }
            }
            _ => return None,
        }
        Some(out)
    }

    /// The command that an acknowledgement of a verbose connection is for.
    fn acknowledged(&mut self, status: &str, exchanges: &mut Exchanges) -> Option<u64> {
        let id = self.owed.pop_front().flatten()?;
        let exchange = exchanges.find_mut(id)?;
        exchange.status = status.to_owned();
        exchange.class = if status == "-ERR" { Class::ClientError } else { Class::Ok };
        Some(id)
    }
}

/// A message has passed.
fn finish(passing: Passing, cx: &mut Context<'_>) {
    let span = cx.since(passing.mark);
    if let Some(exchange) = passing.answers.and_then(|id| cx.exchanges.find_mut(id)) {
        (exchange.response, exchange.response_done) = (span, true);
    }
    if let Some((id, waits)) = passing.asks {
        if let Some(exchange) = cx.exchanges.find_mut(id) {
            (exchange.request, exchange.request_done) = (span, true);
        }
        if !waits {
            cx.exchanges.unanswered(id, Unanswered::ByDesign);
        }
    }
    cx.exchanges.settle();
}

/// The oldest open exchange of a kind.
fn oldest(kind: u64, status: &str, exchanges: &mut Exchanges) -> Option<u64> {
    let ids = exchanges.iter_mut().filter_map(|exchange| match exchange.key {
        Key::Id(id) if id & !NUMBER == kind && exchange.status.is_empty() => Some((id, exchange)),
        _ => None,
    });
    let (id, exchange) = ids.into_iter().next()?;
    exchange.status.push_str(status);
    Some(id)
}

/// The exchange whose reply subject this is.
fn answered(kind: u64, subject: &[u8], status: &str, exchanges: &mut Exchanges) -> Option<u64> {
    let id = kind | hash(subject);
    let exchange = exchanges.find_mut(id).filter(|exchange| exchange.request_done)?;
    exchange.status = status.to_owned();
    exchange.class = match status {
        "ok" => Class::Ok,
        "503" => Class::Error,
        _ => Class::ClientError,
    };
    Some(id)
}

/// The status in a message's headers: `NATS/1.0 503`.
fn header_status(headers: &[u8]) -> Option<String> {
    let code = headers.strip_prefix(b"NATS/1.0 ")?.get(..3)?;
    decimal(code).map(|code| code.to_string())
}

/// The name of a line in capitals, and its arguments.
fn words(line: &[u8]) -> (Vec<u8>, Vec<&[u8]>) {
    let mut words = line.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty());
    let name = words.next().unwrap_or_default();
    (name[..name.len().min(8)].to_ascii_uppercase(), words.take(6).collect())
}

/// A subject whose random parts are folded.
fn fold(subject: &[u8]) -> String {
    let subject = String::from_utf8_lossy(&subject[..subject.len().min(template::LENGTH_MAX)]);
    subject.split('.').map(template::fold).collect::<Vec<_>>().join(".")
}

fn hash(subject: &[u8]) -> u64 {
    twox_hash::XxHash3_64::oneshot(subject) & NUMBER
}

fn contains(line: &[u8], part: &[u8]) -> bool {
    memchr::memmem::find(line, part).is_some()
}

/// Whether `bytes` begins with a complete line of a side.
fn is_message(side: Side, bytes: &[u8]) -> bool {
    let Some(length) = line_len(bytes) else { return false };
    let line = trim_end(&bytes[..length]);
    let (name, arguments) = words(line);
    let has_size = arguments.last().is_some_and(|size| decimal(size).is_some());
    line.len() + 2 == length
        && match (side, name.as_slice()) {
            (_, b"PING" | b"PONG") => arguments.is_empty(),
            (Side::Client, b"CONNECT") => arguments.first().is_some_and(|json| json.starts_with(b"{")),
            (Side::Client, b"PUB" | b"HPUB") => has_size && arguments.len() >= 2,
            (Side::Client, b"SUB") => (2..=3).contains(&arguments.len()),
            (Side::Server, b"INFO") => arguments.first().is_some_and(|json| json.starts_with(b"{")),
            (Side::Server, b"MSG" | b"HMSG") => has_size && arguments.len() >= 3,
            (Side::Server, b"+OK") => arguments.is_empty(),
            _ => false,
        }
}

fn detect(side: Side, bytes: &[u8]) -> Detection {
    let first: &[&[u8]] = match side {
        Side::Client => &[b"CONNECT {", b"PUB ", b"HPUB ", b"PING\r\n", b"SUB "],
        Side::Server => &[b"INFO {", b"MSG ", b"HMSG ", b"PONG\r\n", b"+OK\r\n"],
    };
    let is_start = |word: &&[u8]| bytes.starts_with(word) || word.starts_with(bytes);
    let Some(word) = first.iter().find(|word| is_start(word)) else { return Detection::No };
    match line_len(bytes) {
        None if bytes.len() < 4_096 => Detection::More,
        _ if is_message(side, bytes) && word.ends_with(b"{") => Detection::Sure,
        _ if is_message(side, bytes) => Detection::Likely,
        _ => Detection::No,
    }
}
