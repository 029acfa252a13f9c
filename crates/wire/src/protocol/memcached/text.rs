//! Text and meta commands of memcached.

use super::super::line::{decimal, line_len, push_text, trim_end};
use crate::decoder::{Context, Detection, Side, Step};
use crate::exchange::{Class, Exchange, Key, Unanswered};
use crate::span::Mark;

/// The longest value believed: the server's own limit is 1 GiB.
const VALUE_MAX: u64 = 1 << 30;

/// Bytes kept of an unknown command.
const NAME_MAX: usize = 32;

/// The kind of response to a command, in the lowest bits of its note.
const ONE_LINE: u64 = 0;
const VALUES: u64 = 1;
const LINES: u64 = 2;
const META: u64 = 3;
const KIND: u64 = 7;
/// A quiet meta command, whose identity is in the bits from 32 on; 0 for one without.
const QUIET: u64 = 8;
/// Values found, 12 bits, and keys requested, 12 bits.
const HIT: u64 = 1 << 4;
const COUNT: u64 = 0xfff;

const COMMANDS: [&[u8]; 34] = [
    b"get",
    b"gets",
    b"gat",
    b"gats",
    b"set",
    b"add",
    b"replace",
    b"append",
    b"prepend",
    b"cas",
    b"incr",
    b"decr",
    b"delete",
    b"touch",
    b"flush_all",
    b"version",
    b"verbosity",
    b"stats",
    b"quit",
    b"shutdown",
    b"mg",
    b"ms",
    b"md",
    b"ma",
    b"mn",
    b"me",
    b"slabs",
    b"lru",
    b"lru_crawler",
    b"watch",
    b"cache_memlimit",
    b"refresh_certs",
    b"extstore",
    b"debug",
];

const ANSWERS: [&[u8]; 26] = [
    b"STORED",
    b"NOT_STORED",
    b"EXISTS",
    b"NOT_FOUND",
    b"DELETED",
    b"TOUCHED",
    b"OK",
    b"END",
    b"VALUE",
    b"STAT",
    b"RESET",
    b"VERSION",
    b"ERROR",
    b"CLIENT_ERROR",
    b"SERVER_ERROR",
    b"HD",
    b"VA",
    b"EN",
    b"NF",
    b"NS",
    b"EX",
    b"MN",
    b"ME",
    b"BUSY",
    b"NOTSPARE",
    b"key=",
];

/// The state of a side.
#[derive(Debug, Clone, Copy, Default)]
enum SideState {
    /// At the beginning of a line that begins or continues a message.
    #[default]
    Line,
    /// Behind a request's value, which began at the mark.
    Request(Mark, bool),
    /// After a value of a response that began at the mark, and whether it ends with it.
    Answer(Mark, bool),
}

#[derive(Debug, Default)]
pub(super) struct Text {
    sides: [SideState; 2],
    /// The beginning of the response that continues with the next line.
    answer: Option<Mark>,
    /// The client has sent `quit`, which the server reads when it has answered everything before it.
    quit: bool,
}

impl Text {
    pub(super) fn step(&mut self, side: Side, view: &[u8], cx: &mut Context<'_>) -> Step {
        match std::mem::take(&mut self.sides[side.index()]) {
            SideState::Request(mark, is_answered) => {
                finish_request(mark, is_answered, cx);
                return Step::Take(0);
            }
            SideState::Answer(mark, ends) => {
                self.answer = if ends { None } else { Some(mark) };
                return if ends && !finish_answer(mark, cx) { Step::Lost } else { Step::Take(0) };
            }
            SideState::Line => {}
        }
        let Some(length) = line_len(view) else { return Step::Need(view.len() + 1) };
        let line = trim_end(&view[..length]);
        let step = match side {
            Side::Client => self.command(line, length, cx),
            Side::Server => self.answer(line, length, cx),
        };
        step.unwrap_or(Step::Lost)
    }

    /// Whether the client's last command was `quit`.
    pub(super) fn has_quit(&self) -> bool {
        self.quit
    }

    pub(super) fn closed(&mut self, side: Side, cx: &mut Context<'_>) {
        if let (Side::Client, SideState::Request(mark, _)) = (side, self.sides[0]) {
            let span = cx.since(mark);
            if let Some(exchange) = cx.exchanges.newest_mut().filter(|exchange| !exchange.request_done) {
                exchange.request = span;
            }
        }
    }

    fn command(&mut self, line: &[u8], length: usize, cx: &mut Context<'_>) -> Option<Step> {
        let mut words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
        let name = words.next().unwrap_or_default();
        self.quit = name == b"quit";
        let rest: Vec<&[u8]> = words.take(COUNT as usize).collect();
        let mark = cx.mark();
        let exchange = cx.exchanges.open(Key::Order);
        let is_name = name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
        push_text(&mut exchange.op, if is_name && !name.is_empty() { name } else { b"?" }, NAME_MAX);
        exchange.note = note(name, &rest);
        exchange.request.first = mark.at;
        let is_silent = rest.last() == Some(&&b"noreply"[..]) || matches!(name, b"quit" | b"shutdown");
        let value = match name {
            b"set" | b"add" | b"replace" | b"append" | b"prepend" | b"cas" => rest.get(3).copied().and_then(decimal),
            b"ms" => rest.get(1).copied().and_then(decimal),
            b"watch" => return Some(Step::Opaque),
            _ => None,
        };
        self.sides[0] = SideState::Request(mark, !is_silent);
        let behind = value.filter(|value| *value <= VALUE_MAX).map_or(0, |value| value + 2);
        Some(Step::Skip(length as u64 + behind))
    }

    /// A line from the server. `None` when it matches nothing.
    fn answer(&mut self, line: &[u8], length: usize, cx: &mut Context<'_>) -> Option<Step> {
        let code = line.split(|byte| *byte == b' ').next()?;
        if self.answer.is_none() {
            pass_quiet(code, line, cx)?;
        }
        let mark = self.answer.unwrap_or_else(|| cx.mark());
        let exchange = cx.exchanges.unanswered_mut().filter(|exchange| exchange.request_done)?;
        let is_error = matches!(code, b"ERROR" | b"CLIENT_ERROR" | b"SERVER_ERROR");
        let mut words = line.split(|byte| *byte == b' ').skip(1);
        let (ends, value) = match exchange.note & KIND {
            VALUES if code == b"VALUE" => {
                exchange.note += HIT;
                (false, Some(decimal(words.nth(2)?)?))
            }
            META if code == b"VA" => (true, Some(decimal(words.next()?)?)),
            LINES => (is_error || matches!(code, b"END" | b"OK" | b"RESET" | b"BUSY"), None),
            VALUES if code != b"END" && !is_error => return None,
            _ => (true, None),
        };
        if ends {
            set_status(exchange, code);
        }
        self.sides[1] = SideState::Answer(mark, ends);
        let behind = value.filter(|value| *value <= VALUE_MAX).map_or(0, |value| value + 2);
        Some(Step::Skip(length as u64 + behind))
    }
}

fn set_status(exchange: &mut Exchange, code: &[u8]) {
    exchange.class = match code {
        b"ERROR" | b"CLIENT_ERROR" => Class::ClientError,
        b"SERVER_ERROR" => Class::Error,
        _ => Class::Ok,
    };
    if exchange.note & KIND == VALUES && code == b"END" {
        let (hits, keys) = (exchange.note >> 4 & COUNT, exchange.note >> 16 & COUNT);
        exchange.status = format!("hit{hits}/{keys}");
    } else {
        push_text(&mut exchange.status, code, NAME_MAX);
    }
}

/// The note of a command.
fn note(name: &[u8], rest: &[&[u8]]) -> u64 {
    match name {
        b"get" | b"gets" => VALUES | (rest.len() as u64 & COUNT) << 16,
        b"gat" | b"gats" => VALUES | (rest.len().saturating_sub(1) as u64 & COUNT) << 16,
        b"stats" => LINES,
        b"lru_crawler" if matches!(rest.first(), Some(&(b"metadump" | b"mgdump"))) => LINES,
        b"mg" | b"ms" | b"md" | b"ma" => {
            let flags = rest.get(if name == b"ms" { 2 } else { 1 }..).unwrap_or_default();
            if !flags.contains(&&b"q"[..]) {
                return META;
            }
            let opaque = flags.iter().find(|flag| flag.first() == Some(&b'O')).copied();
            let key = if flags.contains(&&b"k"[..]) { rest.first().copied() } else { None };
            META | QUIET
                | opaque.map_or_else(|| key.map_or(0, |key| identity(b'k', key)), |o| identity(b'O', &o[1..])) << 32
        }
        b"me" | b"mn" => META,
        _ => ONE_LINE,
    }
}

/// 32 bits that distinguish quiet commands; never 0.
fn identity(kind: u8, text: &[u8]) -> u64 {
    (twox_hash::XxHash3_64::oneshot_with_seed(kind.into(), text) & 0xffff_ffff) | 1
}

/// Finishes the quiet commands that a response implies. `None` when it is not known to which command it belongs.
fn pass_quiet(code: &[u8], line: &[u8], cx: &mut Context<'_>) -> Option<()> {
    let is_quiet = |exchange: &mut Exchange| exchange.note & QUIET != 0;
    if !cx.exchanges.unanswered_mut().is_some_and(is_quiet) {
        return Some(());
    }
    let flags = || line.split(|byte| *byte == b' ').skip(1).filter(|word| !word.is_empty());
    let opaque = flags().find(|word| word[0] == b'O').map(|word| identity(b'O', &word[1..]));
    let key = flags().find(|word| word[0] == b'k').map(|word| identity(b'k', &word[1..]));
    let whose = opaque.or(key).map(|identity| META | QUIET | identity << 32);
    let ends_batch = code == b"MN";
    loop {
        let exchange = cx.exchanges.unanswered_mut()?;
        match (is_quiet(exchange), ends_batch) {
            (false, true) => return if exchange.op == "mn" { Some(()) } else { None },
            (true, false) if whose == Some(exchange.note) => return Some(()),
            (false, false) => return None,
            (true, _) if ends_batch || whose.is_some() => cx.exchanges.oldest_unanswered(Unanswered::ByDesign),
            (true, _) => return None,
        }
    }
}

fn finish_request(mark: Mark, is_answered: bool, cx: &mut Context<'_>) {
    let span = cx.since(mark);
    if let Some(exchange) = cx.exchanges.newest_mut() {
        (exchange.request, exchange.request_done) = (span, true);
    }
    if !is_answered {
        cx.exchanges.newest_unanswered(Unanswered::ByDesign);
    }
}

/// Finishes the exchange; returns whether there was one.
fn finish_answer(mark: Mark, cx: &mut Context<'_>) -> bool {
    let span = cx.since(mark);
    let Some(exchange) = cx.exchanges.unanswered_mut() else { return false };
    (exchange.response, exchange.response_done) = (span, true);
    cx.exchanges.settle();
    true
}

/// Whether `bytes` begins with a message of `side`: a known word at the start of a complete line.
pub(super) fn is_message(side: Side, bytes: &[u8]) -> bool {
    let Some(length) = line_len(bytes) else { return false };
    let line = trim_end(&bytes[..length]);
    let word = line.split(|byte| *byte == b' ').next().unwrap_or_default();
    let is_number = side == Side::Server && decimal(word).is_some();
    let known: &[&[u8]] = if side == Side::Client { &COMMANDS } else { &ANSWERS };
    line.len() + 2 == length && (known.contains(&word) || is_number)
}

pub(super) fn detect(side: Side, bytes: &[u8]) -> Detection {
    let known: &[&[u8]] = if side == Side::Client { &COMMANDS } else { &ANSWERS };
    let could_be = |word: &&[u8]| {
        let length = word.len().min(bytes.len());
        word[..length] == bytes[..length] && bytes.get(word.len()).is_none_or(|byte| matches!(byte, b' ' | b'\r'))
    };
    if !known.iter().any(could_be) {
        return Detection::No;
    }
    match line_len(bytes) {
        None if bytes.len() < 1_024 => Detection::More,
        _ if is_message(side, bytes) => Detection::Likely,
        _ => Detection::No,
    }
}
