//! AMQP 0.9.1: methods and their answers, published messages and their confirms, deliveries and their acknowledgements.
//!
//! A message is its method frame with the content behind it. A published one is answered by a confirm on channels that
//! have them, and else not, by design; a delivered one is asked by the server and answered by the client's ack, nack or
//! reject; acknowledgements of several are honoured. A channel or connection that the server closes answers what was
//! asked on it.
//!
//! After a hole in what the client sent, the numbers of its messages are unknown: published messages are not followed
//! on that connection's channels any more, until a channel opens again.

mod method;

use std::collections::{HashMap, HashSet};

use self::method::Call;
use super::framed::{Framed, Frames, Head, Stop, be16, be32};
use crate::decoder::{Context, Detection, Pairing, Protocol, Side};
use crate::exchange::{Class, Exchange, Exchanges, Key, Reason, Unanswered};
use crate::operation::template;
use crate::span::Span;

pub(super) const PROTOCOL: Protocol =
    Protocol { name: "amqp", ports: &[5672], detect, new: || Box::new(Framed::new(Amqp::default())) };

/// The start of a client's data, before its version.
const GREETING: &[u8] = b"AMQP\0\0\x09\x01";

/// Bytes of a frame's header, and with the octet behind the payload.
const HEADER: usize = 7;
const OVERHEAD: u64 = 8;
const END: u8 = 0xce;

/// The largest payload that is accepted: RabbitMQ's own limit is 128 KiB, and the client may negotiate more.
const PAYLOAD_MAX: u32 = 128 << 20;

/// Bytes of a method that are inspected: two names of 255 and what is before them.
const METHOD: usize = HEADER + 4 + 2 + 2 * 256 + 2;

/// Channels of a connection that are followed: brokers allow 2,047 unless configured otherwise.
const CHANNELS_MAX: usize = 4_096;

/// Consumers without acknowledgements that are remembered, over all channels.
const CONSUMERS_MAX: usize = 4_096;

/// The kind of an exchange, in the highest bits of its id; below are its channel (16 bits) and its number on it (44).
const QUESTION: u64 = 1;
const PUBLISHED: u64 = 2;
const DELIVERED: u64 = 3;
const NUMBER_BITS: u32 = 44;

fn id(kind: u64, channel: u16, number: u64) -> u64 {
    kind << 60 | u64::from(channel) << NUMBER_BITS | number & ((1 << NUMBER_BITS) - 1)
}

/// The data passing on a side.
#[derive(Debug, Default)]
struct Direction {
    kind: u8,
    channel: u16,
    payload: u64,
    /// The head of a method or of a content header.
    head: Vec<u8>,
}

/// A message that is being sent.
#[derive(Debug, Clone, Copy)]
struct Content {
    /// The exchange that the message requests, and the one that it answers.
    asks: Option<u64>,
    answers: Option<u64>,
    /// Remaining bytes of the body; `None` before its header.
    left: Option<u64>,
}

#[derive(Debug, Default)]
struct Channel {
    /// Opened in view, with nothing missed since.
    is_known: bool,
    confirms: bool,
    published: u64,
    requested: u64,
    content: [Option<Content>; 2],
    /// The last requested consumer or get needs no acknowledgements.
    no_ack: bool,
}

#[derive(Debug, Default)]
struct Amqp {
    begun: bool,
    ways: [Direction; 2],
    channels: HashMap<u16, Channel>,
    /// Consumers whose messages need no acknowledgement, by channel and tag.
    no_ack: HashSet<(u16, u64)>,
}

impl Frames for Amqp {
    const PAIRING: Pairing = Pairing::Id;

    fn head(&mut self, side: Side, view: &[u8]) -> Head {
        if side == Side::Client && !self.begun {
            return match view.len() < GREETING.len() {
                true if GREETING.starts_with(view) => Head::Need(GREETING.len()),
                false if view.starts_with(GREETING) => Head::Frame { length: GREETING.len() as u64, inspect: 0 },
                _ => Head::Lost,
            };
        }
        if view.len() < HEADER {
            return Head::Need(HEADER);
        }
        match be32(view, 3) {
            Some(payload) if matches!(view[0], 1 | 2 | 3 | 8) && payload <= PAYLOAD_MAX => {
                let inspect = if view[0] <= 2 { METHOD } else { HEADER };
                Head::Frame { length: u64::from(payload) + OVERHEAD, inspect }
            }
            _ => Head::Lost,
        }
    }

    fn begin(&mut self, side: Side, bytes: &[u8], length: u64, _cx: &mut Context<'_>) -> Result<(), Stop> {
        let way = &mut self.ways[side.index()];
        way.head.clear();
        if side == Side::Client && !std::mem::replace(&mut self.begun, true) {
            way.kind = 0;
            return Ok(());
        }
        (way.kind, way.payload) = (bytes[0], length - OVERHEAD);
        way.channel = be16(bytes, 1).ok_or(Stop::Lost)?;
        // The octet behind the payload is in view with a short frame.
        let payload = if bytes.len() as u64 == length { &bytes[HEADER..bytes.len() - 1] } else { &bytes[HEADER..] };
        if bytes.len() as u64 == length && bytes.last() != Some(&END) {
            return Err(Stop::Lost);
        }
        way.head.extend_from_slice(payload);
        Ok(())
    }

    fn end(&mut self, side: Side, span: Span, cx: &mut Context<'_>) -> Result<(), Stop> {
        let way = &mut self.ways[side.index()];
        let head = std::mem::take(&mut way.head);
        let (channel, payload) = (way.channel, way.payload);
        match std::mem::take(&mut way.kind) {
            1 => {
                let call = Call::parse(&head).ok_or(Stop::Lost)?;
                if !self.channels.contains_key(&channel) && self.channels.len() >= CHANNELS_MAX {
                    return Err(Stop::Lost);
                }
                self.method(side, channel, call, span, cx.exchanges);
            }
            2 => {
                let (Some(high), Some(low)) = (be32(&head, 4), be32(&head, 8)) else { return Err(Stop::Lost) };
                let Some(content) = self.content(side, channel) else { return Ok(()) };
                content.left = Some(u64::from(high) << 32 | u64::from(low));
                self.extend(side, channel, 0, span, cx.exchanges)?;
            }
            3 => self.extend(side, channel, payload, span, cx.exchanges)?,
            _ => {}
        }
        Ok(())
    }

    fn lost(&mut self, side: Side, exchanges: &mut Exchanges) {
        self.begun = true;
        self.ways[side.index()] = Direction::default();
        for channel in self.channels.values_mut() {
            channel.content[side.index()] = None;
            channel.is_known &= side == Side::Server;
        }
        // Exchanges that this side requested and did not finish, and those that it may have answered.
        let is_doubtful = |exchange: &&mut Exchange| {
            let asked_here = exchange.by_server == (side == Side::Server);
            !asked_here || !exchange.request_done
        };
        let doubtful: Vec<Key> = exchanges.iter_mut().filter(is_doubtful).map(|exchange| exchange.key).collect();
        for key in doubtful {
            if let Key::Id(id) = key {
                exchanges.discard(id, Reason::Gap);
            }
        }
    }

    fn begins(&self, _side: Side, bytes: &[u8]) -> bool {
        is_chain(bytes)
    }
}

impl Amqp {
    fn content(&mut self, side: Side, channel: u16) -> Option<&mut Content> {
        self.channels.get_mut(&channel)?.content[side.index()].as_mut()
    }

    /// A method has passed.
    fn method(&mut self, side: Side, channel: u16, call: Call<'_>, span: Span, exchanges: &mut Exchanges) {
        self.channels.entry(channel).or_default();
        match call.method {
            method::PUBLISH => self.publish(channel, call, span, exchanges),
            method::DELIVER => {
                let is_one_way = self.no_ack.contains(&(channel, hash(call.consumer())));
                let asks = call.tag().map(|tag| deliver("basic.deliver", channel, tag, is_one_way, span, exchanges));
                self.expect(side, channel, asks, None);
            }
            method::GET_OK => {
                let answers = answer("basic.get", "basic.get-ok", side, channel, span, exchanges);
                let is_one_way = self.channels.get(&channel).is_some_and(|channel| channel.no_ack);
                let asks = call.tag().map(|tag| deliver("basic.get-ok", channel, tag, is_one_way, span, exchanges));
                self.expect(side, channel, asks, answers);
            }
            method::RETURN => self.expect(side, channel, None, None),
            method::ACK => acknowledge(side, channel, call, "basic.ack", span, exchanges),
            method::NACK => acknowledge(side, channel, call, "basic.nack", span, exchanges),
            method::REJECT => acknowledge(side, channel, call, "basic.reject", span, exchanges),
            _ => self.question(side, channel, call, span, exchanges),
        }
    }

    /// The content that follows a method.
    fn expect(&mut self, side: Side, channel: u16, asks: Option<u64>, answers: Option<u64>) {
        if let Some(channel) = self.channels.get_mut(&channel) {
            channel.content[side.index()] = Some(Content { asks, answers, left: None });
        }
    }

    fn publish(&mut self, number: u16, call: Call<'_>, span: Span, exchanges: &mut Exchanges) {
        let Some(channel) = self.channels.get_mut(&number) else { return };
        channel.published += 1;
        let id = id(PUBLISHED, number, channel.published);
        let (confirms, is_known) = (channel.confirms, channel.is_known);
        let exchange = open(exchanges, id, if confirms { "basic.publish(confirm)" } else { "basic.publish" }, span);
        exchange.detail = about(call);
        self.expect(Side::Client, number, Some(id), None);
        if !is_known {
            exchanges.discard(id, Reason::Gap);
        }
    }

    /// A part of a message.
    fn extend(
        &mut self,
        side: Side,
        number: u16,
        payload: u64,
        span: Span,
        exchanges: &mut Exchanges,
    ) -> Result<(), Stop> {
        let Some(content) = self.content(side, number) else { return Ok(()) };
        let left = content.left.and_then(|left| left.checked_sub(payload)).ok_or(Stop::Lost)?;
        content.left = Some(left);
        let content = *content;
        if left == 0
            && let Some(channel) = self.channels.get_mut(&number)
        {
            channel.content[side.index()] = None;
        }
        if let Some(exchange) = content.asks.and_then(|id| exchanges.find_mut(id)) {
            exchange.request.add(span);
            exchange.request_done = left == 0;
        }
        if let Some(exchange) = content.answers.and_then(|id| exchanges.find_mut(id)) {
            exchange.response.add(span);
            exchange.response_done = left == 0;
        }
        if left == 0 {
            let one_way = |id: &u64| exchanges.find_mut(*id).is_some_and(|exchange| exchange.note == ONE_WAY);
            let confirms = self.channels.get(&number).is_some_and(|channel| channel.confirms);
            let unconfirmed = |id: &u64| id >> 60 == PUBLISHED && !confirms;
            if let Some(id) = content.asks.filter(unconfirmed).or(content.asks.filter(one_way)) {
                exchanges.unanswered(id, Unanswered::ByDesign);
            }
            exchanges.settle();
        }
        Ok(())
    }

    /// A method that requests or answers.
    fn question(&mut self, side: Side, number: u16, call: Call<'_>, span: Span, exchanges: &mut Exchanges) {
        if let Some(name) = call.answers() {
            let status =
                if call.method == method::GET_EMPTY { "basic.get-empty".to_owned() } else { format!("{name}-ok") };
            if let Some(id) = answer(name, &status, side, number, span, exchanges)
                && let Some(exchange) = exchanges.find_mut(id)
            {
                exchange.response_done = true;
                exchanges.settle();
            }
            self.answered(number, call, exchanges);
            return;
        }
        let Some(name) = call.question() else { return };
        self.close(side, number, call, span, exchanges);
        let Some(channel) = self.channels.get_mut(&number) else { return };
        channel.requested += 1;
        let id = id(QUESTION, number, channel.requested);
        match call.method {
            method::CHANNEL_OPEN => *channel = Channel { is_known: true, ..Channel::default() },
            method::CONFIRM => (channel.confirms, channel.published) = (true, 0),
            method::CONSUME | method::GET => channel.no_ack = call.is_no_ack(),
            _ => {}
        }
        if call.method == method::CONSUME && call.is_no_ack() && self.no_ack.len() < CONSUMERS_MAX {
            self.no_ack.insert((number, hash(call.consumer())));
        }
        let exchange = open(exchanges, id, name, span);
        (exchange.request_done, exchange.by_server) = (true, side == Side::Server);
        exchange.detail = about(call);
        if call.is_no_wait() {
            exchanges.unanswered(id, Unanswered::ByDesign);
        }
    }

    /// Handles the side effects of an answer.
    fn answered(&mut self, number: u16, call: Call<'_>, exchanges: &mut Exchanges) {
        let Some(channel) = self.channels.get_mut(&number) else { return };
        match call.method {
            // The server names a consumer that has no name.
            method::CONSUME_OK if channel.no_ack && self.no_ack.len() < CONSUMERS_MAX => {
                self.no_ack.insert((number, hash(call.consumer())));
            }
            method::CHANNEL_CLOSE_OK => {
                self.channels.remove(&number);
                self.no_ack.retain(|(channel, _)| *channel != number);
                for id in open_on(number, None, exchanges) {
                    exchanges.unanswered(id, Unanswered::NoResponse);
                }
            }
            _ => {}
        }
    }

    /// A close by the server answers what is open: on its channel, or on all.
    fn close(&mut self, side: Side, number: u16, call: Call<'_>, span: Span, exchanges: &mut Exchanges) {
        let name = match call.method {
            method::CHANNEL_CLOSE => "channel.close",
            method::CONNECTION_CLOSE => "connection.close",
            _ => return,
        };
        if side == Side::Client {
            return;
        }
        let code = call.code().unwrap_or(0);
        let numbers: Vec<u16> = if number == 0 { self.channels.keys().copied().collect() } else { vec![number] };
        for number in numbers {
            for id in open_on(number, Some(QUESTION), exchanges) {
                let Some(exchange) = exchanges.find_mut(id).filter(|exchange| !exchange.by_server) else { continue };
                exchange.status = format!("{name} {code}");
                exchange.class = if (400..500).contains(&code) { Class::ClientError } else { Class::Error };
                (exchange.response, exchange.response_done) = (span, true);
            }
        }
        exchanges.settle();
    }
}

/// The note of a delivery without acknowledgement.
const ONE_WAY: u64 = 1;

fn open<'a>(exchanges: &'a mut Exchanges, id: u64, op: &str, span: Span) -> &'a mut Exchange {
    let exchange = exchanges.open(Key::Id(id));
    exchange.op.push_str(op);
    exchange.request = span;
    exchange
}

/// A message on its way to a consumer, and the id of its exchange.
fn deliver(op: &str, channel: u16, tag: u64, is_one_way: bool, span: Span, exchanges: &mut Exchanges) -> u64 {
    let id = id(DELIVERED, channel, tag);
    let exchange = open(exchanges, id, op, span);
    exchange.by_server = true;
    exchange.note = if is_one_way { ONE_WAY } else { 0 };
    id
}

/// The oldest request of this name that the other side made on the channel begins to be answered.
fn answer(name: &str, status: &str, side: Side, channel: u16, span: Span, exchanges: &mut Exchanges) -> Option<u64> {
    let by_server = side == Side::Client;
    let ids = open_on(channel, Some(QUESTION), exchanges);
    let is_asked =
        |exchange: &Exchange| exchange.by_server == by_server && exchange.op == name && exchange.status.is_empty();
    let id = ids.into_iter().find(|id| exchanges.find_mut(*id).is_some_and(|exchange| is_asked(exchange)))?;
    let exchange = exchanges.find_mut(id)?;
    exchange.status.push_str(status);
    exchange.response = span;
    Some(id)
}

/// An ack, nack or reject, of a confirm by the server or of deliveries by the client.
fn acknowledge(side: Side, channel: u16, call: Call<'_>, status: &str, span: Span, exchanges: &mut Exchanges) {
    let Some(tag) = call.tag() else { return };
    let kind = if side == Side::Server { PUBLISHED } else { DELIVERED };
    let last = id(kind, channel, tag);
    let is_covered = |id: &u64| *id == last || (call.is_multiple() && (tag == 0 || *id <= last));
    for id in open_on(channel, Some(kind), exchanges).into_iter().filter(is_covered) {
        let Some(exchange) = exchanges.find_mut(id).filter(|exchange| exchange.request_done) else { continue };
        exchange.status = status.to_owned();
        exchange.class = if call.method == method::ACK { Class::Ok } else { Class::Error };
        (exchange.response, exchange.response_done) = (span, true);
    }
    exchanges.settle();
}

/// The ids of the open exchanges of a channel, of one kind or of all.
fn open_on(channel: u16, kind: Option<u64>, exchanges: &mut Exchanges) -> Vec<u64> {
    let is_there =
        |id: &u64| *id >> NUMBER_BITS & 0xffff == u64::from(channel) && kind.is_none_or(|kind| *id >> 60 == kind);
    let ids = exchanges.iter_mut().filter_map(|exchange| match exchange.key {
        Key::Id(id) => Some(id),
        Key::Order => None,
    });
    ids.filter(is_there).collect()
}

/// The object of a method, with random parts of generated names folded.
fn about(call: Call<'_>) -> String {
    let name = String::from_utf8_lossy(call.about());
    name.split('.').map(template::fold).collect::<Vec<_>>().join(".")
}

fn hash(name: &[u8]) -> u64 {
    twox_hash::XxHash3_64::oneshot(name)
}

/// Whether `bytes` is a chain of frames, the last of which may be incomplete, that begins with a method or a heartbeat.
fn is_chain(mut bytes: &[u8]) -> bool {
    let mut frames = 0;
    while bytes.len() >= HEADER {
        let Some(payload) = be32(bytes, 3).filter(|payload| *payload <= PAYLOAD_MAX) else { return false };
        let is_kind = match bytes[0] {
            1 => {
                payload >= 4
                    && be16(bytes, HEADER).is_none_or(|class| matches!(class, 10 | 20 | 40 | 50 | 60 | 85 | 90))
            }
            2 => frames > 0 && payload >= 14,
            3 => frames > 0,
            8 => payload == 0 && bytes[1..3] == [0, 0],
            _ => false,
        };
        if !is_kind {
            return false;
        }
        frames += 1;
        let end = HEADER + payload as usize;
        match bytes.get(end) {
            None => return true,
            Some(&END) => bytes = &bytes[end + 1..],
            Some(_) => return false,
        }
    }
    frames > 0
}

fn detect(side: Side, bytes: &[u8]) -> Detection {
    let is_greeting = side == Side::Client && (bytes.starts_with(b"AMQP") || b"AMQP".starts_with(bytes));
    if is_greeting {
        return match bytes.len() {
            0..8 => Detection::More,
            _ if bytes.starts_with(GREETING) => Detection::Sure,
            _ => Detection::No,
        };
    }
    match bytes.len() {
        0..HEADER if matches!(bytes[0], 1 | 8) => Detection::More,
        _ if is_chain(bytes) => Detection::Likely,
        _ => Detection::No,
    }
}
