//! Kafka: requests and responses paired by their correlation id, named by their API.
//!
//! A Produce request with acks 0 is not answered, by design; what else has no answer has lost it. Topics are read from
//! Produce requests (versions 0 to 12 name them) and Fetch requests up to version 12; later ones carry ids, which name
//! nothing here.

mod api;

use super::framed::{Framed, Frames, Head, Stop, be16, be32};
use crate::decoder::{Context, Detection, Pairing, Protocol, Side};
use crate::exchange::{Exchanges, Key, Unanswered};
use crate::span::Span;

pub(super) const PROTOCOL: Protocol =
    Protocol { name: "kafka", ports: &[9092, 9093, 9094], detect, new: || Box::new(Framed::new(Kafka::default())) };

/// The longest message believed: brokers refuse requests above 100 MiB unless configured otherwise, responses may be
/// larger.
const LENGTH_MAX: u32 = 1 << 30;

/// Bytes of a request that are looked at: header, client, transaction and the first topic.
const REQUEST: usize = 512;

/// A segment at the start of a long message has at least this many bytes.
const SEGMENT: usize = 256;

const PRODUCE: u16 = 0;
const FETCH: u16 = 1;

#[derive(Debug, Default)]
struct Kafka {
    /// The request that is passing: its correlation id, and whether it gets a response.
    request: Option<(u32, bool)>,
    /// The response that is passing.
    response: Option<u32>,
}

impl Frames for Kafka {
    const PAIRING: Pairing = Pairing::Id;

    fn head(&mut self, side: Side, view: &[u8]) -> Head {
        let Some(length) = be32(view, 0) else { return Head::Need(4) };
        let least = if side == Side::Client { 8 } else { 4 };
        if !(least..=LENGTH_MAX).contains(&length) {
            return Head::Lost;
        }
        Head::Frame { length: u64::from(length) + 4, inspect: if side == Side::Client { REQUEST } else { 8 } }
    }

    fn begin(&mut self, side: Side, bytes: &[u8], _length: u64, cx: &mut Context<'_>) -> Result<(), Stop> {
        if side == Side::Server {
            self.response = be32(bytes, 4);
            return Ok(());
        }
        let head = Request::parse(bytes).ok_or(Stop::Lost)?;
        let first = cx.mark().at;
        let exchange = cx.exchanges.open(Key::Id(head.correlation.into()));
        exchange.op.push_str(head.name);
        exchange.detail = head.topic().unwrap_or_default();
        exchange.request.first = first;
        self.request = Some((head.correlation, head.is_answered()));
        Ok(())
    }

    fn end(&mut self, side: Side, span: Span, cx: &mut Context<'_>) -> Result<(), Stop> {
        if side == Side::Client {
            let Some((id, is_answered)) = self.request.take() else { return Ok(()) };
            if let Some(exchange) = cx.exchanges.find_mut(id.into()) {
                exchange.request = span;
                exchange.request_done = true;
            }
            if !is_answered {
                cx.exchanges.unanswered(id.into(), Unanswered::ByDesign);
            }
            return Ok(());
        }
        let Some(id) = self.response.take() else { return Ok(()) };
        if let Some(exchange) = cx.exchanges.find_mut(id.into()) {
            if !exchange.request_done {
                return Err(Stop::Lost);
            }
            exchange.response = span;
            exchange.response_done = true;
            exchange.status.push_str("ok");
            cx.exchanges.settle();
        }
        Ok(())
    }

    fn closed(&mut self, side: Side, cut: Option<Span>, cx: &mut Context<'_>) {
        if let (Side::Client, Some(span), Some((id, _))) = (side, cut, self.request.take())
            && let Some(exchange) = cx.exchanges.find_mut(id.into())
        {
            exchange.request = span;
        }
    }

    fn lost(&mut self, side: Side, exchanges: &mut Exchanges) {
        let id = match side {
            Side::Client => self.request.take().map(|(id, _)| id),
            Side::Server => self.response.take(),
        };
        if let Some(id) = id {
            exchanges.discard(id.into(), crate::Reason::Gap);
        }
    }

    fn begins(&self, side: Side, bytes: &[u8]) -> bool {
        match side {
            Side::Client => is_request(bytes),
            Side::Server => {
                // One response: its length is the segment's, or more follows; its id is one in flight, which `end`
                // finds out.
                let (Some(length), Some(_)) = (be32(bytes, 0), be32(bytes, 4)) else { return false };
                (4..=LENGTH_MAX).contains(&length) && ends_whole(bytes)
            }
        }
    }
}

/// The head of a request.
struct Request<'a> {
    api: u16,
    version: u16,
    correlation: u32,
    name: &'static str,
    /// The data after the header; `None` when it is not in view.
    body: Option<Reader<'a>>,
}

impl<'a> Request<'a> {
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (api, version, correlation) = (be16(bytes, 4)?, be16(bytes, 6)?, be32(bytes, 8)?);
        let (name, flexible) = api::find(api)?;
        if version > api::VERSION_MAX {
            return None;
        }
        let mut body = Reader { bytes: bytes.get(12..)? };
        let is_flexible = version >= flexible;
        let complete = body.string().is_some() && (!is_flexible || body.tags().is_some());
        Some(Self { api, version, correlation, name, body: complete.then_some(body) })
    }

    /// Whether the broker responds: always, except to Produce with acks 0.
    fn is_answered(&self) -> bool {
        self.api != PRODUCE || self.acks().is_none_or(|(acks, _)| acks != 0)
    }

    /// The acks of a Produce, and the rest.
    fn acks(&self) -> Option<(u16, Reader<'a>)> {
        let mut body = self.body?;
        match self.version {
            0..=2 => {}
            3..=8 => drop(body.string()?),
            _ => drop(body.compact()?),
        }
        Some((body.u16()?, body))
    }

    fn topic(&self) -> Option<String> {
        let name = match (self.api, self.version) {
            (PRODUCE, 0..=12) => {
                let (_, mut body) = self.acks()?;
                body.skip(4)?;
                body.first_of_array(self.version >= 9)?
            }
            (FETCH, 0..=12) => {
                let mut body = self.body?;
                // Replica, wait, least; then most, isolation, and session and epoch.
                body.skip(12 + if self.version >= 3 { 4 } else { 0 } + usize::from(self.version >= 4))?;
                body.skip(if self.version >= 7 { 8 } else { 0 })?;
                body.first_of_array(self.version >= 12)?
            }
            _ => return None,
        };
        let is_legal = !name.is_empty()
            && name.len() <= 249
            && name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(byte));
        if is_legal { String::from_utf8(name.to_vec()).ok() } else { None }
    }
}

/// The rest of a message in view.
#[derive(Debug, Clone, Copy)]
struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    fn skip(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.bytes.split_at_checked(count)?;
        self.bytes = rest;
        Some(head)
    }

    fn u16(&mut self) -> Option<u16> {
        be16(self.skip(2)?, 0)
    }

    /// A nullable string with a length of two bytes.
    fn string(&mut self) -> Option<&'a [u8]> {
        match self.u16()? {
            u16::MAX => Some(&[]),
            length => self.skip(length.into()),
        }
    }

    /// A variable-length integer of at most five bytes.
    fn varint(&mut self) -> Option<u32> {
        let mut value = 0;
        for shift in [0, 7, 14, 21, 28] {
            let byte = self.skip(1)?[0];
            value |= u32::from(byte & 0x7f).checked_shl(shift)?;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// A compact string: its length plus one first, 0 for none.
    fn compact(&mut self) -> Option<&'a [u8]> {
        let length = self.varint()?.saturating_sub(1);
        self.skip(usize::try_from(length).ok()?)
    }

    /// Tagged fields; each step consumes bytes, so a false count costs nothing.
    fn tags(&mut self) -> Option<()> {
        for _ in 0..self.varint()? {
            self.varint()?;
            let length = self.varint()?;
            self.skip(usize::try_from(length).ok()?)?;
        }
        Some(())
    }

    /// The name at the start of the first element of an array.
    fn first_of_array(&mut self, is_compact: bool) -> Option<&'a [u8]> {
        if is_compact {
            self.varint()?.checked_sub(2)?;
            self.compact()
        } else {
            be32(self.skip(4)?, 0)?.checked_sub(1)?;
            self.string()
        }
    }
}

/// Whether `bytes` begins with a request that is at least one segment long, or ends where the bytes end.
fn is_request(bytes: &[u8]) -> bool {
    let Some(request) = Request::parse(bytes) else { return false };
    let client = be16(bytes, 12).unwrap_or(u16::MAX);
    let name = if client == u16::MAX { Some(&[][..]) } else { bytes.get(14..14 + usize::from(client)) };
    let is_named = name.is_some_and(|name| name.iter().all(|byte| (b' '..=b'~').contains(byte)));
    is_named && request.body.is_some() && be32(bytes, 0).is_some_and(|length| length <= LENGTH_MAX) && ends_whole(bytes)
}

/// Whether the messages in `bytes` end where it ends, or the last one continues after it.
fn ends_whole(mut bytes: &[u8]) -> bool {
    let whole = bytes.len();
    let mut messages = 0;
    while let Some(length) = be32(bytes, 0) {
        if !(4..=LENGTH_MAX).contains(&length) {
            return false;
        }
        messages += 1;
        match bytes.get(length as usize + 4..) {
            Some(rest) => bytes = rest,
            // A message that continues fills the segment in which it begins.
            None => return whole >= SEGMENT,
        }
    }
    messages > 0
}

fn detect(side: Side, bytes: &[u8]) -> Detection {
    match side {
        Side::Client if bytes.len() < 14 => match be32(bytes, 0) {
            Some(length) if !(8..=LENGTH_MAX).contains(&length) => Detection::No,
            None if bytes[0] > 0x3f => Detection::No,
            _ => Detection::More,
        },
        Side::Client if is_request(bytes) => Detection::Likely,
        // A response contains too little to identify it.
        Side::Client | Side::Server => Detection::No,
    }
}
