//! What a protocol's decoder is: a state machine over the two byte streams of one connection.

use crate::exchange::{Exchange, Exchanges, Key};
use crate::runs::Runs;
use crate::span::{Mark, Nanos, Span};

/// The sender of bytes: the side that opened the connection, or the one that accepted it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// Opened the connection.
    Client,
    /// Accepted it.
    Server,
}

impl Side {
    /// 0 for the client, 1 for the server.
    #[must_use]
    pub fn index(self) -> usize {
        match self {
            Self::Client => 0,
            Self::Server => 1,
        }
    }

    /// The opposite side.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// What is to be done with the unread bytes of a side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Call again when this many bytes are unread; at most [`crate::MAX_HEAD`].
    Need(usize),
    /// This many bytes, all of them in view, are consumed.
    Take(usize),
    /// This many bytes are consumed as they pass, captured or not.
    Skip(u64),
    /// All further bytes of this side belong to the message until the side closes; then [`Decoder::closed`] is called.
    UntilClose,
    /// These bytes are not valid for the protocol at this position.
    Lost,
    /// From here on neither side can be read: encrypted, compressed or another protocol. Open exchanges stay open until
    /// the connection ends.
    Opaque,
}

/// How a protocol's responses find their requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pairing {
    /// In the order of the requests.
    Order,
    /// By an id that both carry.
    Id,
}

/// What the first bytes of a side indicate about a protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detection {
    /// Not this protocol.
    No,
    /// Too few bytes to decide.
    More,
    /// Possible: accepted when the port agrees, or when no other protocol is likelier.
    Likely,
    /// This protocol and no other.
    Sure,
}

/// One protocol: its name, the ports it usually has, and how to recognise and read it.
#[derive(Debug, Clone, Copy)]
pub struct Protocol {
    /// The name in `--port PORT=NAME` and in the label `protocol`.
    pub name: &'static str,
    /// Usual ports of servers; a hint, not a condition.
    pub ports: &'static [u16],
    /// Classifies the first bytes of a side (never empty). `Side` is their sender if the guess of roles is right.
    pub detect: fn(Side, &[u8]) -> Detection,
    /// A decoder for a new connection.
    pub new: fn() -> Box<dyn Decoder>,
}

/// Reads the messages of one connection. See the crate's page for how.
pub trait Decoder: Send {
    /// How responses find their requests.
    fn pairing(&self) -> Pairing {
        Pairing::Order
    }

    /// Processes the unread bytes of `side`, from where the last step ended.
    fn step(&mut self, side: Side, view: &[u8], cx: &mut Context<'_>) -> Step;

    /// `side` sends no more: ends a message that lasts until then. `clean` is false when bytes are missing before the
    /// end.
    fn closed(&mut self, side: Side, clean: bool, cx: &mut Context<'_>) {
        let _ = (side, clean, cx);
    }

    /// Bytes of `side` that were not skipped are missing: forget what was partially read on it. With [`Pairing::Order`]
    /// it is called for both sides. It is also called for both sides of a connection that is seen from its middle. With
    /// [`Pairing::Id`] drop from the table (`cx.exchanges.discard`) what was being filled on this side.
    fn lost(&mut self, side: Side, exchanges: &mut Exchanges);

    /// Whether `bytes`, the start of a segment after a gap or in the middle of a connection, begin a message of `side`.
    /// Be strict: a wrong yes may pair wrongly.
    fn begins(&self, side: Side, bytes: &[u8]) -> bool;

    /// Whether a segment that begins a message after a loss also begins a request. If not, the first request after a
    /// loss is not reported: it may have begun earlier (PostgreSQL's Flush may precede a query).
    fn begins_whole(&self) -> bool {
        true
    }

    /// Whether the client has sent a message that ends the connection once everything before it is answered
    /// (PostgreSQL's Terminate): when the server has closed after it, nothing is owed.
    fn said_goodbye(&self) -> bool {
        false
    }
}

/// What a step may use: the table of open exchanges, and the position of the view.
#[derive(Debug)]
pub struct Context<'a> {
    /// The connection's open exchanges.
    pub exchanges: &'a mut Exchanges,
    /// Bytes of this side before the view.
    pub(crate) offset: u64,
    /// Capture times of the bytes in view.
    pub(crate) runs: &'a Runs,
    /// Capture time of the byte before the view.
    pub(crate) last: Option<Nanos>,
}

impl Context<'_> {
    /// The place of the first byte in view.
    #[must_use]
    pub fn mark(&self) -> Mark {
        Mark { offset: self.offset, at: self.time_of(self.offset) }
    }

    /// A new exchange, paired in order, whose request begins with the first byte in view.
    pub fn open(&mut self, op: &str, note: u64) -> &mut Exchange {
        let first = self.mark().at;
        let exchange = self.exchanges.open(Key::Order);
        exchange.op.push_str(op);
        exchange.note = note;
        exchange.request.first = first;
        exchange
    }

    /// From `mark` to the last byte consumed.
    #[must_use]
    pub fn since(&self, mark: Mark) -> Span {
        let bytes = self.offset - mark.offset;
        if bytes == 0 { Span::default() } else { Span { bytes, first: mark.at, last: self.last } }
    }

    /// The next `n` bytes of the view.
    #[must_use]
    pub fn ahead(&self, n: usize) -> Span {
        if n == 0 {
            return Span::default();
        }
        let bytes = n as u64;
        Span { bytes, first: self.time_of(self.offset), last: self.time_of(self.offset + bytes - 1) }
    }

    /// From `mark` through the next `n` bytes of the view.
    #[must_use]
    pub fn through(&self, mark: Mark, n: usize) -> Span {
        let mut span = self.since(mark);
        span.add(self.ahead(n));
        span
    }

    fn time_of(&self, offset: u64) -> Option<Nanos> {
        self.runs.time_of(offset)
    }
}
