//! MySQL and MariaDB: login, text and prepared statements, several results, LOAD DATA LOCAL.
//!
//! One exchange a command (the client's packet with sequence 0); `CONNECT` is the login up to OK or an error. Several
//! results are one exchange, and the data of LOAD DATA LOCAL belong to the request. What a result looks like is mostly
//! read from the packets themselves, so that a connection seen from its middle is read as well: only a prepared
//! statement needs to know whether the client does without EOF packets, which the login or the first result says.

mod reply;

use std::collections::HashMap;

use self::reply::{GOES_ON, Reply, command};
use super::framed::{Framed, Frames, Head, Stop, le32};
use crate::decoder::{Context, Detection, Pairing, Protocol, Side};
use crate::exchange::{Class, Exchange, Exchanges, Unanswered};
use crate::operation::statement;
use crate::span::Span;

pub(super) const PROTOCOL: Protocol =
    Protocol { name: "mysql", ports: &[3306, 3307], detect, new: || Box::new(Framed::new(MySql::default())) };

/// Bytes of a statement from which its fingerprint is made.
const STATEMENT: usize = 1_024;

/// Bytes of a server's packet that are looked at: an OK packet up to its flags has 24 with its header; a greeting needs
/// its version too.
const REPLY: usize = 128;

/// Prepared statements whose fingerprint is remembered on a connection.
const PREPARED: usize = 256;

const CLIENT_COMPRESS: u32 = 1 << 5;
const CLIENT_SSL: u32 = 1 << 11;
const CLIENT_DEPRECATE_EOF: u32 = 1 << 24;
const CLIENT_ZSTD: u32 = 1 << 26;
const CLIENT_QUERY_ATTRIBUTES: u32 = 1 << 27;

/// The meaning of a packet that is passing, once it has passed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Passing {
    /// Part of no exchange.
    #[default]
    Nothing,
    /// Of the client: part of the newest exchange, which it ends or not.
    Request { ends: bool },
    /// Of the client: a command without a response.
    OneWay,
    /// Of the client: the file of the oldest exchange.
    File { ends: bool },
    /// Of the client: a request for encryption.
    Encrypt,
    /// Of the client: a replica's, whose response does not end.
    Replicate,
    /// Of the server: part of the oldest open exchange.
    Response { ends: bool },
}

#[derive(Debug, Default)]
struct MySql {
    /// The greeting has passed, or the connection is seen from its middle.
    greeted: bool,
    /// The login has passed.
    logged_in: bool,
    /// The server's capabilities, and then those that both use.
    capabilities: u32,
    /// The client has sent COM_QUIT, which the server reads when it has answered everything before it.
    quit: bool,
    /// The client sends a file, up to an empty packet.
    is_file: bool,
    /// The next packet of the side continues a message.
    goes_on: [bool; 2],
    reply: Reply,
    passing: [Passing; 2],
    prepared: HashMap<u32, Box<str>>,
    /// The statement prepared last, which MariaDB's clients may execute before they know its number.
    prepared_last: Option<u32>,
}

impl Frames for MySql {
    const PAIRING: Pairing = Pairing::Order;

    fn head(&mut self, side: Side, view: &[u8]) -> Head {
        let Some(header) = le32(view, 0) else { return Head::Need(4) };
        let inspect = 4 + if side == Side::Client { STATEMENT } else { REPLY };
        Head::Frame { length: u64::from(header & 0xff_ffff) + 4, inspect }
    }

    fn begin(&mut self, side: Side, bytes: &[u8], length: u64, cx: &mut Context<'_>) -> Result<(), Stop> {
        let payload = length - 4;
        let goes_on = payload == GOES_ON;
        let continues = std::mem::replace(&mut self.goes_on[side.index()], goes_on);
        let passing = match side {
            Side::Client if continues && !self.is_file => Passing::Request { ends: !goes_on },
            Side::Client => self.request(bytes, payload, cx)?,
            Side::Server if continues => Passing::Response { ends: false },
            Side::Server => self.response(bytes, payload, cx)?,
        };
        self.passing[side.index()] = passing;
        Ok(())
    }

    fn end(&mut self, side: Side, span: Span, cx: &mut Context<'_>) -> Result<(), Stop> {
        match std::mem::take(&mut self.passing[side.index()]) {
            Passing::Nothing => {}
            Passing::Request { ends } => {
                let exchange = cx.exchanges.newest_mut().ok_or(Stop::Lost)?;
                exchange.request.add(span);
                exchange.request_done |= ends;
            }
            Passing::OneWay => {
                cx.exchanges.newest_mut().ok_or(Stop::Lost)?.request.add(span);
                cx.exchanges.newest_unanswered(Unanswered::ByDesign);
            }
            Passing::File { ends } => {
                // The response may have arrived already: a server refuses a file before its end.
                let exchange = cx.exchanges.iter_mut().find(|exchange| !exchange.request_done).ok_or(Stop::Lost)?;
                exchange.request.add(span);
                exchange.request_done = ends;
                cx.exchanges.settle();
            }
            Passing::Encrypt | Passing::Replicate => return Err(Stop::Opaque),
            Passing::Response { ends } => return self.respond(span, ends, cx),
        }
        Ok(())
    }

    fn closed(&mut self, side: Side, cut: Option<Span>, cx: &mut Context<'_>) {
        if let (Side::Client, Some(span), Some(exchange)) = (side, cut, cx.exchanges.newest_mut()) {
            exchange.request.add(span);
        }
    }

    fn lost(&mut self, _side: Side, _exchanges: &mut Exchanges) {
        (self.greeted, self.logged_in, self.is_file) = (true, true, false);
        self.goes_on = [false; 2];
        self.reply.reset();
        self.passing = [Passing::Nothing; 2];
        self.quit = false;
    }

    fn said_goodbye(&self) -> bool {
        self.quit
    }

    fn begins(&self, side: Side, bytes: &[u8]) -> bool {
        match side {
            Side::Client => is_command(bytes),
            Side::Server => le32(bytes, 0).is_some_and(|header| header >> 24 == 1 && header & 0xff_ffff > 0),
        }
    }
}

impl MySql {
    fn request(&mut self, bytes: &[u8], payload: u64, cx: &mut Context<'_>) -> Result<Passing, Stop> {
        if !self.greeted {
            return Err(Stop::Lost);
        }
        if self.is_file {
            self.is_file = payload > 0;
            return Ok(Passing::File { ends: !self.is_file });
        }
        if !self.logged_in {
            return self.login(bytes, payload, cx);
        }
        let (sequence, body) = (bytes[3], &bytes[4..]);
        let Some(&code) = body.first() else {
            // An empty password.
            return if sequence == 0 { Err(Stop::Lost) } else { Ok(Passing::Request { ends: true }) };
        };
        if sequence != 0 {
            let is_login = |exchange: &mut Exchange| matches!(exchange.note, command::LOGIN | command::CHANGE_USER);
            let belongs = cx.exchanges.newest_mut().is_some_and(is_login);
            return if belongs { Ok(Passing::Request { ends: true }) } else { Err(Stop::Lost) };
        }
        let name = command::name(code).ok_or(Stop::Lost)?;
        self.quit = u64::from(code) == command::QUIT;
        let detail = self.detail(code, body);
        let exchange = cx.open(name, code.into());
        exchange.detail = detail;
        Ok(match u64::from(code) {
            command::QUIT | command::SEND_LONG_DATA | command::STMT_CLOSE => Passing::OneWay,
            command::BINLOG_DUMP | command::BINLOG_DUMP_GTID => Passing::Replicate,
            _ => Passing::Request { ends: payload != GOES_ON },
        })
    }

    /// The client's first packet: a request for encryption, or its name and password.
    fn login(&mut self, bytes: &[u8], payload: u64, cx: &mut Context<'_>) -> Result<Passing, Stop> {
        let wanted = le32(bytes, 4).ok_or(Stop::Lost)?;
        if bytes[3] != 1 {
            return Err(Stop::Lost);
        }
        self.capabilities &= wanted;
        if payload == 32 && wanted & CLIENT_SSL != 0 {
            return Ok(Passing::Encrypt);
        }
        self.logged_in = true;
        self.reply.deprecate_eof(self.capabilities & CLIENT_DEPRECATE_EOF != 0);
        cx.open("CONNECT", command::LOGIN);
        Ok(Passing::Request { ends: true })
    }

    /// The fingerprint of what a command executes.
    fn detail(&mut self, code: u8, body: &[u8]) -> String {
        let text = match u64::from(code) {
            // Statement attributes, which are usually absent.
            command::QUERY if self.capabilities & CLIENT_QUERY_ATTRIBUTES != 0 => {
                body.strip_prefix(&[code, 0, 1]).unwrap_or(&[])
            }
            command::QUERY | command::PREPARE => &body[1..],
            command::EXECUTE | command::BULK | command::FETCH => {
                let id = le32(body, 1).and_then(|id| if id == u32::MAX { self.prepared_last } else { Some(id) });
                return id.and_then(|id| self.prepared.get(&id)).map(ToString::to_string).unwrap_or_default();
            }
            command::STMT_CLOSE => {
                le32(body, 1).and_then(|id| self.prepared.remove(&id));
                return String::new();
            }
            _ => return String::new(),
        };
        statement::fingerprint_mysql(text)
    }

    fn response(&mut self, bytes: &[u8], payload: u64, cx: &mut Context<'_>) -> Result<Passing, Stop> {
        let body = &bytes[4..];
        if !self.greeted {
            self.greeted = true;
            // A server with too many connections begins with an error.
            self.capabilities = if body.first() == Some(&0xff) { 0 } else { greeting(body).ok_or(Stop::Lost)? };
            return Ok(Passing::Nothing);
        }
        let Some(exchange) = cx.exchanges.unanswered_mut() else {
            // The server may close an idle connection with an error.
            return if body.first() == Some(&0xff) { Ok(Passing::Nothing) } else { Err(Stop::Lost) };
        };
        let ends = self.reply.packet(exchange.note, body, payload)?;
        if let Some(code) = self.reply.error() {
            exchange.status = code.to_string();
            exchange.class = class_of(code);
        }
        if let Some(id) = self.reply.prepared() {
            self.prepared_last = Some(id);
            if !exchange.detail.is_empty() && (self.prepared.len() < PREPARED || self.prepared.contains_key(&id)) {
                self.prepared.insert(id, exchange.detail.clone().into_boxed_str());
            }
        }
        if self.reply.wants_file() {
            self.is_file = true;
            exchange.request_done = false;
        }
        Ok(Passing::Response { ends })
    }

    fn respond(&mut self, span: Span, ends: bool, cx: &mut Context<'_>) -> Result<(), Stop> {
        let exchange = cx.exchanges.unanswered_mut().ok_or(Stop::Lost)?;
        exchange.response.add(span);
        if !ends {
            return Ok(());
        }
        if !exchange.request_done && !self.is_file {
            return Err(Stop::Lost);
        }
        let is_login = exchange.note == command::LOGIN;
        if exchange.status.is_empty() {
            exchange.status.push_str("ok");
        }
        let is_ok = exchange.status == "ok";
        exchange.response_done = true;
        cx.exchanges.settle();
        let is_compressed = self.capabilities & (CLIENT_COMPRESS | CLIENT_ZSTD) != 0;
        if is_login && is_ok && is_compressed { Err(Stop::Opaque) } else { Ok(()) }
    }
}

/// The capabilities in a server's greeting.
fn greeting(body: &[u8]) -> Option<u32> {
    let version = body.strip_prefix(&[10])?;
    let end = version.iter().position(|byte| *byte == 0)?;
    // Thread, eight bytes of a challenge, a filler.
    let rest = version.get(end + 1 + 4 + 8 + 1..)?;
    let low = u16::from_le_bytes([*rest.first()?, *rest.get(1)?]);
    let high = u16::from_le_bytes([*rest.get(5)?, *rest.get(6)?]);
    Some(u32::from(low) | u32::from(high) << 16)
}

/// Errors of the server's resources are its own; syntax, names, keys and rights are the client's.
fn class_of(code: u16) -> Class {
    match code {
        1_005..=1_006
        | 1_009..=1_039
        | 1_040..=1_043
        | 1_053
        | 1_077..=1_081
        | 1_105
        | 1_114
        | 1_135
        | 1_158..=1_161
        | 1_180..=1_206
        | 1_213
        | 1_290
        | 1_317
        | 1_836
        | 1_927
        | 3_024 => Class::Error,
        _ => Class::ClientError,
    }
}

/// Whether `bytes` is one complete command.
fn is_command(bytes: &[u8]) -> bool {
    let Some(header) = le32(bytes, 0) else { return false };
    let whole = (header & 0xff_ffff) as usize + 4 == bytes.len() && header >> 24 == 0;
    let Some(&code) = bytes.get(4) else { return false };
    let is_text = |text: &[u8]| text.iter().all(|byte| *byte >= b' ' || b"\t\r\n".contains(byte));
    whole
        && match u64::from(code) {
            command::QUERY | command::PREPARE => bytes.len() > 8 && is_text(&bytes[5..bytes.len().min(64)]),
            command::EXECUTE => bytes.len() >= 14,
            command::FETCH => bytes.len() == 13,
            command::RESET => bytes.len() == 9,
            command::PING | command::STATISTICS => bytes.len() == 5,
            _ => false,
        }
}

fn detect(side: Side, bytes: &[u8]) -> Detection {
    match side {
        Side::Server => {
            let Some(header) = le32(bytes, 0) else { return Detection::More };
            let Some(body) = bytes.get(4..).filter(|body| !body.is_empty()) else { return Detection::More };
            match (header, body[0]) {
                (0..=0x3ff, 10) if body.len() < 4 => Detection::More,
                (0..=0x3ff, 10) if body[1].is_ascii_digit() && body[2..].contains(&0) => Detection::Sure,
                _ => Detection::No,
            }
        }
        Side::Client if is_command(bytes) => Detection::Likely,
        Side::Client => Detection::No,
    }
}
