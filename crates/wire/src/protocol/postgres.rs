//! PostgreSQL, protocol 3: simple and extended queries, pipelines, COPY, start-up.
//!
//! One exchange for a Query, a function call, or a batch that Sync ends (`EXT`), answered by ReadyForQuery; SSLRequest
//! and GSSENCRequest are answered by one byte; `STARTUP` ends at the first ReadyForQuery. CopyData, CopyDone and
//! passwords belong to the request. What the server sends while no request is open (notices, notifications, changed
//! parameters) belongs to none.

use std::collections::HashMap;

use super::framed::{Framed, Frames, Head, Stop, be32};
use crate::decoder::{Context, Detection, Pairing, Protocol, Side};
use crate::exchange::{Class, Exchange, Exchanges, Unanswered};
use crate::operation::statement;
use crate::span::Span;

pub(super) const PROTOCOL: Protocol =
    Protocol { name: "pgsql", ports: &[5432, 6432], detect, new: || Box::new(Framed::new(Postgres::default())) };

/// Bytes of a statement from which its fingerprint is made.
const STATEMENT: usize = 1_024;

/// Bytes of an error that are searched for its code: severity and code come first.
const ERROR: usize = 128;

/// Prepared statements whose fingerprint is remembered on a connection.
const PREPARED: usize = 256;

/// Longest message: PostgreSQL itself refuses more than 1 GiB.
const LENGTH_MAX: u32 = 1 << 30;

const SSL_REQUEST: u32 = 80_877_103;
const GSS_REQUEST: u32 = 80_877_104;
const CANCEL: u32 = 80_877_102;

/// The kind of an exchange, in its note.
const SINGLE: u64 = 1;
const STARTUP: u64 = 2;
const QUERY: u64 = 3;
const BATCH: u64 = 4;
const KIND: u64 = 7;
/// COPY data followed the request.
const COPY: u64 = 8;

/// The meaning of a frame that is passing, once it has passed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Passing {
    /// Part of no exchange.
    #[default]
    Nothing,
    /// Of the client: part of the newest exchange, which it ends or not.
    Request { ends: bool },
    /// Of the client: a request without a response.
    OneWay,
    /// Of the server: part of the oldest open exchange.
    Response { ends: bool, is_fatal: bool },
    /// Of the server: the byte that answers an SSLRequest.
    Byte { encrypted: bool },
    /// Of the server: replication begins, and does not end.
    Stream,
}

#[derive(Debug, Default)]
struct Postgres {
    /// Messages have types: the start-up packet has passed.
    started: bool,
    /// Bytes the server owes for SSLRequest and GSSENCRequest.
    single: u32,
    /// An extended batch is open.
    batch: bool,
    /// The client sent Terminate, which the server reads when it has answered everything before it, and no error came
    /// after.
    terminated: bool,
    passing: [Passing; 2],
    /// Fingerprints by the hash of the statement's name.
    prepared: HashMap<u64, Box<str>>,
}

impl Frames for Postgres {
    const PAIRING: Pairing = Pairing::Order;

    fn head(&mut self, side: Side, view: &[u8]) -> Head {
        match side {
            Side::Client if !self.started => untyped(view),
            Side::Server if self.single > 0 && view[0] != b'E' => Head::Frame { length: 1, inspect: 1 },
            _ => typed(view, side),
        }
    }

    fn begin(&mut self, side: Side, bytes: &[u8], _length: u64, cx: &mut Context<'_>) -> Result<(), Stop> {
        let passing = match side {
            Side::Client if !self.started => self.start(bytes, cx)?,
            Side::Client => self.request(bytes, cx)?,
            Side::Server => self.response(bytes, cx)?,
        };
        self.passing[side.index()] = passing;
        Ok(())
    }

    fn end(&mut self, side: Side, span: Span, cx: &mut Context<'_>) -> Result<(), Stop> {
        match std::mem::take(&mut self.passing[side.index()]) {
            Passing::Nothing => Ok(()),
            Passing::Request { ends } => {
                let exchange = cx.exchanges.newest_mut().ok_or(Stop::Lost)?;
                exchange.request.add(span);
                exchange.request_done |= ends;
                Ok(())
            }
            Passing::OneWay => {
                cx.exchanges.newest_mut().ok_or(Stop::Lost)?.request = span;
                cx.exchanges.newest_unanswered(Unanswered::ByDesign);
                Ok(())
            }
            Passing::Byte { encrypted } => {
                cx.exchanges.respond(span, true).ok_or(Stop::Lost)?;
                if encrypted { Err(Stop::Opaque) } else { Ok(()) }
            }
            Passing::Response { is_fatal: true, .. } => {
                cx.exchanges.respond(span, false).ok_or(Stop::Lost)?;
                cx.exchanges.oldest_unanswered(Unanswered::NoReadyForQuery);
                Ok(())
            }
            Passing::Response { ends, .. } => cx.exchanges.respond(span, ends).ok_or(Stop::Lost),
            Passing::Stream => Err(Stop::Opaque),
        }
    }

    fn closed(&mut self, side: Side, cut: Option<Span>, cx: &mut Context<'_>) {
        if let (Side::Client, Some(span), Some(exchange)) = (side, cut, cx.exchanges.newest_mut()) {
            exchange.request.add(span);
        }
        let failed = |exchange: &mut Exchange| !exchange.status.is_empty() && exchange.note & KIND != SINGLE;
        if side == Side::Server && cx.exchanges.unanswered_mut().is_some_and(failed) {
            cx.exchanges.oldest_unanswered(Unanswered::NoReadyForQuery);
        }
    }

    fn lost(&mut self, _side: Side, _exchanges: &mut Exchanges) {
        self.passing = [Passing::Nothing; 2];
        self.batch = false;
        self.terminated = false;
        self.single = 0;
        self.started = true;
    }

    fn begins_whole(&self) -> bool {
        // A Flush before it belongs to a request, even after a ReadyForQuery: a client that pipelines has sent part of
        // the next batch by then (`pgsql_mix`, begun at frame 99).
        false
    }

    fn begins(&self, side: Side, bytes: &[u8]) -> bool {
        chain(side, bytes)
    }

    fn said_goodbye(&self) -> bool {
        self.terminated
    }
}

impl Postgres {
    /// A packet before the start-up is through.
    fn start(&mut self, bytes: &[u8], cx: &mut Context<'_>) -> Result<Passing, Stop> {
        let code = be32(bytes, 4).ok_or(Stop::Lost)?;
        let (op, note) = match code {
            SSL_REQUEST => ("SSLRequest", SINGLE),
            GSS_REQUEST => ("GSSENCRequest", SINGLE),
            CANCEL => ("CancelRequest", QUERY),
            _ => ("STARTUP", STARTUP),
        };
        self.single += u32::from(note == SINGLE);
        self.started = note == STARTUP;
        cx.open(op, note);
        Ok(if code == CANCEL { Passing::OneWay } else { Passing::Request { ends: true } })
    }

    fn request(&mut self, bytes: &[u8], cx: &mut Context<'_>) -> Result<Passing, Stop> {
        let newest = cx.exchanges.newest_mut().filter(|exchange| !exchange.response_done);
        let of_copy = newest.as_ref().is_some_and(|exchange| exchange.note & (COPY | KIND) == COPY | BATCH);
        match bytes[0] {
            kind @ (b'Q' | b'F') => {
                // A batch without Sync before it, a mere Flush for one, ends with the query.
                let exchange = match newest {
                    Some(exchange) if std::mem::take(&mut self.batch) => exchange,
                    _ => cx.open("", QUERY),
                };
                exchange.note = QUERY;
                exchange.op.clear();
                exchange.op.push(char::from(kind));
                if kind == b'Q' {
                    exchange.detail = statement::fingerprint(&bytes[5..]);
                }
                Ok(Passing::Request { ends: true })
            }
            // The second Sync of a COPY by the extended protocol: the server ignored the first.
            b'S' if of_copy && !self.batch => {
                newest.ok_or(Stop::Lost)?.note &= !COPY;
                Ok(Passing::Request { ends: true })
            }
            kind @ (b'P' | b'B' | b'D' | b'E' | b'C' | b'H' | b'S') => {
                if !self.batch {
                    cx.open("EXT", BATCH);
                }
                self.batch = kind != b'S';
                self.name_batch(bytes, cx);
                Ok(Passing::Request { ends: kind == b'S' })
            }
            b'd' | b'c' | b'f' => {
                newest.ok_or(Stop::Lost)?.note |= COPY;
                Ok(Passing::Request { ends: !self.batch })
            }
            b'p' => Ok(newest.map_or(Passing::Nothing, |_| Passing::Request { ends: true })),
            b'X' => {
                self.terminated = true;
                Ok(Passing::Nothing)
            }
            _ => Err(Stop::Lost),
        }
    }

    /// Sets the fingerprint of a batch from its first Parse, or from the statement that its first Bind names.
    fn name_batch(&mut self, bytes: &[u8], cx: &mut Context<'_>) {
        let Some(exchange) = cx.exchanges.newest_mut() else { return };
        let mut parts = bytes[5..].splitn(3, |byte| *byte == 0);
        match bytes[0] {
            b'P' => {
                let (Some(name), Some(text)) = (parts.next(), parts.next()) else { return };
                let fingerprint = statement::fingerprint(text);
                if !name.is_empty() && (self.prepared.len() < PREPARED || self.prepared.contains_key(&hash(name))) {
                    self.prepared.insert(hash(name), fingerprint.clone().into_boxed_str());
                }
                if exchange.detail.is_empty() {
                    exchange.detail = fingerprint;
                }
            }
            b'B' if exchange.detail.is_empty() => {
                let Some(name) = parts.nth(1) else { return };
                if let Some(fingerprint) = self.prepared.get(&hash(name)) {
                    exchange.detail.push_str(fingerprint);
                }
            }
            _ => {}
        }
    }

    fn response(&mut self, bytes: &[u8], cx: &mut Context<'_>) -> Result<Passing, Stop> {
        if self.single > 0 && bytes[0] != b'E' {
            self.single -= 1;
            let exchange = cx.exchanges.unanswered_mut().ok_or(Stop::Lost)?;
            exchange.status.push(char::from(bytes[0]));
            return match bytes[0] {
                b'N' => Ok(Passing::Byte { encrypted: false }),
                b'S' | b'G' => Ok(Passing::Byte { encrypted: true }),
                _ => Err(Stop::Lost),
            };
        }
        let Some(exchange) = cx.exchanges.unanswered_mut() else {
            self.terminated &= bytes[0] != b'E';
            return if b"NASE".contains(&bytes[0]) { Ok(Passing::Nothing) } else { Err(Stop::Lost) };
        };
        let mut is_fatal = false;
        if bytes[0] == b'E' {
            let (code, fatal) = error(&bytes[5..]);
            is_fatal = fatal;
            if exchange.status.is_empty() {
                exchange.status = code;
                exchange.class = class_of(&exchange.status);
            }
        }
        let ends = bytes[0] == b'Z';
        if ends && !exchange.request_done {
            return Err(Stop::Lost);
        }
        if ends && exchange.status.is_empty() {
            exchange.status.push_str("ok");
        }
        Ok(if bytes[0] == b'W' { Passing::Stream } else { Passing::Response { ends, is_fatal } })
    }
}

/// A packet before the start-up: length and code.
fn untyped(view: &[u8]) -> Head {
    let (Some(length), Some(code)) = (be32(view, 0), be32(view, 4)) else { return Head::Need(8) };
    let known = matches!(code, SSL_REQUEST | GSS_REQUEST | CANCEL) || code >> 16 == 3;
    if known && (8..=10_000).contains(&length) { Head::Frame { length: length.into(), inspect: 8 } } else { Head::Lost }
}

/// A message: type and length.
fn typed(view: &[u8], side: Side) -> Head {
    let Some(length) = be32(view, 1) else { return Head::Need(5) };
    if !is_known(side, view[0]) || !(4..=LENGTH_MAX).contains(&length) {
        return Head::Lost;
    }
    let inspect = match (side, view[0]) {
        (Side::Client, b'Q' | b'P' | b'B') => STATEMENT,
        (Side::Server, b'E') => ERROR,
        _ => 5,
    };
    Head::Frame { length: u64::from(length) + 1, inspect }
}

fn is_known(side: Side, kind: u8) -> bool {
    match side {
        Side::Client => b"QPBDECHSFXdcfp".contains(&kind),
        Side::Server => b"RKSZTDCENAn123stIVGHWdcv".contains(&kind),
    }
}

/// The SQLSTATE of an error, and whether the server closes the connection.
fn error(fields: &[u8]) -> (String, bool) {
    let mut code = String::from("?");
    let mut is_fatal = false;
    for field in fields.split(|byte| *byte == 0) {
        match field.split_first() {
            Some((b'C', text)) if text.len() == 5 => code = String::from_utf8_lossy(text).into_owned(),
            Some((b'S' | b'V', b"FATAL" | b"PANIC")) => is_fatal = true,
            _ => {}
        }
    }
    (code, is_fatal)
}

/// By the class of the SQLSTATE: connection, resources, operator, system and internal errors are the server's.
fn class_of(code: &str) -> Class {
    match code.get(..2) {
        Some("08" | "40" | "53" | "54" | "57" | "58" | "F0" | "XX" | "25") | None => Class::Error,
        Some(_) => Class::ClientError,
    }
}

fn hash(name: &[u8]) -> u64 {
    twox_hash::XxHash3_64::oneshot(name)
}

/// Whether `bytes` is a chain of messages, the last of which may be incomplete.
fn chain(side: Side, mut bytes: &[u8]) -> bool {
    // A message that only a client or only a server sends identifies the sender.
    let mut count = 0;
    while !bytes.is_empty() {
        let Some(length) = be32(bytes, 1) else { return count > 0 };
        let is_text = bytes[0] != b'Q' || bytes.get(length as usize).is_none_or(|byte| *byte == 0);
        if !is_known(side, bytes[0]) || !(4..=LENGTH_MAX).contains(&length) || !is_text {
            return false;
        }
        // COPY data, and messages of a batch that began before, belong to a request whose beginning is not here.
        if count == 0 && side == Side::Client && !b"QPBF".contains(&bytes[0]) {
            return false;
        }
        bytes = bytes.get(length as usize + 1..).unwrap_or_default();
        count += 1;
    }
    count > 0
}

fn detect(side: Side, bytes: &[u8]) -> Detection {
    match side {
        Side::Client => match (be32(bytes, 0), be32(bytes, 4)) {
            (Some(8), Some(SSL_REQUEST | GSS_REQUEST)) | (Some(16), Some(CANCEL)) => Detection::Sure,
            (Some(9..=10_000), Some(0x0003_0000..=0x0003_0002)) => Detection::Sure,
            (Some(_), Some(_)) => middle(side, bytes),
            _ if bytes[0] == 0 => Detection::More,
            _ => middle(side, bytes),
        },
        Side::Server => middle(side, bytes),
    }
}

/// Detects a connection seen from its middle.
fn middle(side: Side, bytes: &[u8]) -> Detection {
    if bytes.len() < 5 {
        return if is_known(side, bytes[0]) { Detection::More } else { Detection::No };
    }
    if chain(side, bytes) { Detection::Likely } else { Detection::No }
}
