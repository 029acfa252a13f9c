//! Redis: RESP2 and RESP3.
//!
//! Replies come in the order of the commands. RESP3 pushes and messages of subscriptions belong to no command;
//! (un)subscribing to n channels gets n replies. Commands after `CLIENT REPLY OFF` or `SKIP` get none. What follows
//! `MONITOR` is a stream and is not read.

use super::line::{decimal, line_len, push_text, trim_end};
use crate::decoder::{Context, Decoder, Detection, Protocol, Side, Step};
use crate::exchange::{Class, Exchange, Exchanges, Key, Unanswered};
use crate::span::Mark;

/// The row of the table.
pub(super) const PROTOCOL: Protocol =
    Protocol { name: "redis", ports: &[6379, 6380, 26379], detect, new: || Box::<Redis>::default() };

/// A command's name is kept up to this length.
const MAX_NAME: usize = 32;

/// Arguments of a command, elements of a reply: Redis allows 2^20 and 2^32.
const MAX_ELEMENTS: u64 = 1 << 32;

/// Levels of nested replies are only counted, so the only limit is the number of outstanding elements.
const MAX_PENDING: u64 = 1 << 40;

/// A line: sizes are short; simple strings and inline commands are at most 64 KiB.
const MAX_LINE: usize = 65_000;

/// `Exchange::note`: the number of outstanding replies, above these flags.
const NOTE_SUBSCRIBES: u64 = 1;
const NOTE_MONITOR: u64 = 2;
const NOTE_SHIFT: u32 = 8;

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Silence {
    #[default]
    None,
    /// Of the next command.
    Next,
    /// Until CLIENT REPLY ON.
    Off,
}

#[derive(Debug, Default)]
struct Request {
    mark: Option<Mark>,
    /// Remaining arguments.
    left: u64,
    /// Arguments received so far.
    index: u64,
    /// Whether the second argument was REPLY, for CLIENT.
    is_reply_option: bool,
    silence: Option<Silence>,
}

#[derive(Debug, Default)]
struct Reply {
    mark: Option<Mark>,
    /// Remaining elements.
    left: u64,
    /// It belongs to no command.
    is_push: bool,
}

#[derive(Debug, Default)]
struct Redis {
    request: Request,
    reply: Reply,
    silence: Silence,
    /// (Un)subscribed: messages may arrive as plain arrays.
    subscribed: bool,
    /// A stream follows.
    is_monitor: bool,
    /// QUIT was answered; it is the last command.
    quit: bool,
}

impl Decoder for Redis {
    fn step(&mut self, side: Side, view: &[u8], cx: &mut Context<'_>) -> Step {
        match side {
            Side::Client => self.command(view, cx),
            Side::Server => self.element(view, cx),
        }
    }

    fn lost(&mut self, side: Side, _exchanges: &mut Exchanges) {
        match side {
            Side::Client => self.request = Request::default(),
            Side::Server => self.reply = Reply::default(),
        }
        self.silence = Silence::None;
        self.quit = false;
    }

    fn said_goodbye(&self) -> bool {
        self.quit
    }

    fn begins(&self, side: Side, bytes: &[u8]) -> bool {
        match side {
            Side::Client => detect(side, bytes) == Detection::Sure,
            Side::Server => line_len(bytes).is_some_and(|length| {
                let (kind, rest) = bytes[..length].split_first().expect("a line has an end");
                is_reply(*kind, trim_end(rest))
            }),
        }
    }
}

impl Redis {
    fn command(&mut self, view: &[u8], cx: &mut Context<'_>) -> Step {
        if self.request.left == 0 && self.request.mark.is_some() {
            // The last argument was skipped to its end.
            self.request_ends(0, cx);
        }
        if view.is_empty() {
            return Step::Need(1);
        }
        let Some(length) = line_len(view) else { return more(view) };
        let line = trim_end(&view[..length]);
        if self.request.left > 0 {
            return self.argument(line, length, view, cx);
        }
        match line.split_first() {
            Some((b'*', count)) => {
                let Some(count) = decimal(count).filter(|count| *count <= MAX_ELEMENTS) else { return Step::Lost };
                if count == 0 {
                    return Step::Take(length);
                }
                let mark = cx.mark();
                self.request = Request { mark: Some(mark), left: count, ..Request::default() };
                let seen = cx.ahead(length);
                let exchange = cx.exchanges.open(Key::Order);
                exchange.op.push('?');
                exchange.note = 1 << NOTE_SHIFT;
                exchange.request = seen;
                Step::Take(length)
            }
            None => Step::Take(length),
            Some((first, _)) if first.is_ascii_alphabetic() => self.inline(line, length, cx),
            Some(_) => Step::Lost,
        }
    }

    /// A command as a line of words.
    fn inline(&mut self, line: &[u8], length: usize, cx: &mut Context<'_>) -> Step {
        self.request = Request { mark: Some(cx.mark()), ..Request::default() };
        let exchange = cx.exchanges.open(Key::Order);
        exchange.note = 1 << NOTE_SHIFT;
        let words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
        let count = words.clone().count() as u64;
        for (index, word) in words.enumerate() {
            self.request.index = index as u64;
            self.request.word(word, count, exchange);
        }
        self.request_ends(length, cx);
        Step::Take(length)
    }

    /// `$LENGTH` and the bytes of an argument; the first two are looked at.
    fn argument(&mut self, line: &[u8], length: usize, view: &[u8], cx: &mut Context<'_>) -> Step {
        let Some(size) = line.strip_prefix(b"$").and_then(decimal) else { return Step::Lost };
        let rest = &view[length..];
        if self.request.index < 3 {
            let seen = usize::try_from(size).unwrap_or(usize::MAX).min(MAX_NAME);
            if rest.len() < seen {
                return Step::Need(length + seen);
            }
            let count = self.request.left + self.request.index;
            if let Some(exchange) = cx.exchanges.newest_mut() {
                self.request.word(&rest[..seen], count, exchange);
            }
        }
        self.request.index += 1;
        self.request.left -= 1;
        let all = length as u64 + size + 2;
        match usize::try_from(all) {
            Ok(all) if all <= view.len() => {
                if self.request.left == 0 {
                    self.request_ends(all, cx);
                }
                Step::Take(all)
            }
            _ => Step::Skip(all),
        }
    }

    /// The command is complete with the next `ahead` bytes.
    fn request_ends(&mut self, ahead: usize, cx: &mut Context<'_>) {
        let request = std::mem::take(&mut self.request);
        let Some(mark) = request.mark else { return };
        let span = cx.through(mark, ahead);
        let Some(exchange) = cx.exchanges.newest_mut() else { return };
        exchange.request = span;
        exchange.request_done = true;
        self.subscribed |= exchange.note & NOTE_SUBSCRIBES != 0;
        let was = self.silence;
        self.silence = match (request.silence, was) {
            (Some(silence), _) => silence,
            (None, Silence::Next) => Silence::None,
            (None, same) => same,
        };
        // CLIENT REPLY ON is answered, OFF and SKIP are not.
        let is_silent = request.silence.map_or(was != Silence::None, |silence| silence != Silence::None);
        if is_silent {
            cx.exchanges.newest_unanswered(Unanswered::ByDesign);
        } else {
            cx.exchanges.settle();
        }
    }

    /// The next element of a reply.
    fn element(&mut self, view: &[u8], cx: &mut Context<'_>) -> Step {
        if self.reply.left == 0 && self.reply.mark.is_some() {
            self.reply_ends(0, cx);
        }
        if self.is_monitor {
            return Step::Opaque;
        }
        if view.is_empty() {
            return Step::Need(1);
        }
        let Some(length) = line_len(view) else { return more(view) };
        let line = trim_end(&view[..length]);
        let Some((kind, rest)) = line.split_first() else { return Step::Lost };
        let is_first = self.reply.mark.is_none();
        if is_first {
            match self.start(*kind, length, view, cx) {
                Ok(()) => {}
                Err(step) => return step,
            }
        }
        let size = match kind {
            b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(' => Size::Line,
            b'$' | b'*' if rest == b"-1" => Size::Line,
            b'$' | b'=' | b'!' => size_of(rest).map_or(Size::Bad, Size::Blob),
            b'*' | b'~' | b'>' => size_of(rest).map_or(Size::Bad, Size::Elements),
            b'%' => size_of(rest).map_or(Size::Bad, |pairs| Size::Elements(pairs.saturating_mul(2))),
            // Attributes precede the element to which they belong.
            b'|' => size_of(rest).map_or(Size::Bad, |pairs| Size::Elements(pairs.saturating_mul(2).saturating_add(1))),
            _ => Size::Bad,
        };
        if is_first {
            let text = if *kind == b'!' { view.get(length..).unwrap_or_default() } else { rest };
            if *kind == b'!' && text.len() < 64 && line_len(text).is_none() {
                self.reply.mark = None;
                return Step::Need(view.len() + 1);
            }
            self.status(*kind, text, cx);
        }
        self.reply.left -= 1;
        let all = match size {
            Size::Bad => return Step::Lost,
            Size::Line => length as u64,
            Size::Blob(bytes) => length as u64 + bytes + 2,
            Size::Elements(count) => {
                self.reply.left += count;
                if self.reply.left > MAX_PENDING {
                    return Step::Lost;
                }
                length as u64
            }
        };
        match usize::try_from(all) {
            Ok(all) if all <= view.len() => {
                if self.reply.left == 0 {
                    self.reply_ends(all, cx);
                }
                Step::Take(all)
            }
            _ => Step::Skip(all),
        }
    }

    /// A reply begins: finds the request to which it belongs.
    fn start(&mut self, kind: u8, length: usize, view: &[u8], cx: &mut Context<'_>) -> Result<(), Step> {
        let is_subscription = kind == b'>' || (kind == b'*' && self.subscribed);
        let word = if is_subscription { Some(first_word(&view[length..]).ok_or_else(|| more(view))?) } else { None };
        let front = cx.exchanges.unanswered_mut();
        let front_subscribes = front.as_ref().is_some_and(|exchange| exchange.note & NOTE_SUBSCRIBES != 0);
        let is_push = match word {
            None => false,
            Some(word) => {
                let confirms = word.ends_with(b"subscribe");
                if kind == b'>' { !(confirms && front_subscribes) } else { word.ends_with(b"message") }
            }
        };
        if !is_push && front.is_none() {
            return Err(Step::Lost);
        }
        self.reply = Reply { mark: Some(cx.mark()), left: 1, is_push };
        Ok(())
    }

    fn status(&self, kind: u8, text: &[u8], cx: &mut Context<'_>) {
        if self.reply.is_push {
            return;
        }
        let Some(exchange) = cx.exchanges.unanswered_mut() else { return };
        if exchange.response.bytes > 0 {
            return;
        }
        if matches!(kind, b'-' | b'!') {
            let word = text.split(|byte| matches!(byte, b' ' | b'\r')).next().unwrap_or_default();
            push_text(&mut exchange.status, word, MAX_NAME);
            exchange.class = Class::Error;
        } else {
            exchange.status.push_str("ok");
        }
    }

    fn reply_ends(&mut self, ahead: usize, cx: &mut Context<'_>) {
        let reply = std::mem::take(&mut self.reply);
        let Some(mark) = reply.mark else { return };
        if reply.is_push {
            return;
        }
        let span = cx.through(mark, ahead);
        let Some(exchange) = cx.exchanges.unanswered_mut() else { return };
        exchange.response.add(span);
        exchange.note -= 1 << NOTE_SHIFT;
        exchange.response_done = exchange.note >> NOTE_SHIFT == 0;
        self.quit = exchange.op == "QUIT";
        self.is_monitor |= exchange.note & NOTE_MONITOR != 0;
        cx.exchanges.settle();
    }
}

impl Request {
    /// A word of the command: the first is its name.
    fn word(&mut self, word: &[u8], count: u64, exchange: &mut Exchange) {
        match self.index {
            0 => {
                exchange.op.clear();
                push_text(&mut exchange.op, word, MAX_NAME);
                exchange.op.make_ascii_uppercase();
                if exchange.op.ends_with("SUBSCRIBE") {
                    // Unsubscribing from all is answered at least once.
                    exchange.note = NOTE_SUBSCRIBES | (count.saturating_sub(1).max(1) << NOTE_SHIFT);
                } else if exchange.op == "MONITOR" {
                    exchange.note |= NOTE_MONITOR;
                }
            }
            1 => self.is_reply_option = exchange.op == "CLIENT" && word.eq_ignore_ascii_case(b"REPLY"),
            2 if self.is_reply_option => {
                self.silence = match word.to_ascii_uppercase().as_slice() {
                    b"OFF" => Some(Silence::Off),
                    b"SKIP" => Some(Silence::Next),
                    b"ON" => Some(Silence::None),
                    _ => None,
                };
            }
            _ => {}
        }
    }
}

enum Size {
    Line,
    Blob(u64),
    Elements(u64),
    Bad,
}

fn size_of(digits: &[u8]) -> Option<u64> {
    decimal(digits).filter(|size| *size <= MAX_ELEMENTS)
}

fn more(view: &[u8]) -> Step {
    if view.len() > MAX_LINE { Step::Lost } else { Step::Need(view.len() + 1) }
}

/// The complete bulk string or simple string that begins here, if any.
fn first_word(bytes: &[u8]) -> Option<&[u8]> {
    let length = line_len(bytes)?;
    let line = trim_end(&bytes[..length]);
    match line.first()? {
        b'$' => {
            let size = usize::try_from(decimal(&line[1..])?).ok()?;
            bytes.get(length..length.checked_add(size)?)
        }
        _ => Some(&line[1..]),
    }
}

fn detect(side: Side, bytes: &[u8]) -> Detection {
    let Some(length) = line_len(bytes) else {
        let is_start = match side {
            Side::Client => bytes[0] == b'*' && bytes[1..].iter().all(|byte| byte.is_ascii_digit() || *byte == b'\r'),
            Side::Server => false,
        };
        return if is_start && bytes.len() < 16 { Detection::More } else { Detection::No };
    };
    let line = trim_end(&bytes[..length]);
    let Some((kind, rest)) = line.split_first() else { return Detection::No };
    let is_terminated = bytes[..length].ends_with(b"\r\n");
    match side {
        Side::Client if *kind == b'*' && is_terminated && decimal(rest).is_some_and(|count| count > 0) => {
            match bytes.get(length) {
                Some(b'$') => Detection::Sure,
                Some(_) => Detection::No,
                None => Detection::More,
            }
        }
        Side::Client => {
            let word = line.split(|byte| *byte == b' ').next().unwrap_or_default();
            if INLINE.iter().any(|name| name.eq_ignore_ascii_case(word)) { Detection::Likely } else { Detection::No }
        }
        // A Redis server never speaks first, and other servers greet with a plus too.
        Side::Server if matches!(kind, b'+' | b'-') => Detection::No,
        Side::Server if is_terminated && is_reply(*kind, rest) => Detection::Likely,
        Side::Server => Detection::No,
    }
}

/// Whether a line begins a reply.
fn is_reply(kind: u8, rest: &[u8]) -> bool {
    let is_number = |digits: &[u8]| decimal(digits.strip_prefix(b"-").unwrap_or(digits)).is_some();
    match kind {
        b'+' | b'-' => !rest.is_empty() && rest.iter().all(|byte| (32..127).contains(byte)),
        b':' | b'$' | b'*' | b'%' | b'~' | b'>' | b'=' | b'!' => is_number(rest),
        b'_' => rest.is_empty(),
        b'#' => matches!(rest, b"t" | b"f"),
        b',' | b'(' => !rest.is_empty(),
        _ => false,
    }
}

/// Commands that people type without a client.
const INLINE: [&[u8]; 6] = [b"PING", b"INFO", b"AUTH", b"COMMAND", b"MONITOR", b"DBSIZE"];
