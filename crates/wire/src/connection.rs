//! One connection's two byte streams, fed in order to its protocol's decoder.
//!
//! Feed it causally: a segment that acknowledges bytes of the other side after those bytes (or the hole where they
//! were).
//!
//! After a hole that no message's length covers, pairing in order is lost on both sides, and what is open is discarded.
//! It begins again at a client's segment that (1) starts where a message may start, (2) acknowledges all that the
//! server has sent, and (3) follows bytes that the server sent since the hole: whoever does not pipeline has then had
//! every answer, and the answer to this request begins exactly at the acknowledged byte. Whether the client pipelines
//! after all shows as an answer too many; so what follows is held back until a further request finds nothing open, or
//! the connection closes with nothing open. A client that keeps `n` requests in flight, and sends one for each answer,
//! shows no answer too many: with `k` of them unseen, `n - k` seem to be open. So as many have to be open at once as
//! there were before the loss. Of a connection seen from its middle that number is not known: what it holds is certain
//! once a hidden pipeline is refuted ([`ShiftTest`]), or when the client took its leave, and the server closed owing
//! nothing.

use crate::decoder::{Context, Decoder, Pairing, Side, Step};
use crate::exchange::{Exchange, Exchanges, Key, Reason, RequestOutcome, Sink, Unanswered};
use crate::rare::LazyBox;
use crate::runs::Runs;
use crate::shift::ShiftTest;
use crate::span::{Nanos, Span};

/// Unread bytes that a decoder may wait for on one side: 64 KiB, more than any server accepts as the head of a message.
pub const MAX_HEAD: usize = 65_536;

/// Steps without progress before a decoder counts as stuck: decoders make two at most.
const MAX_IDLE_STEPS: u32 = 8;

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Both sides closed.
    Closed,
    /// One side reset it.
    Reset,
    /// One side reset it, and the reason was not seen: a response may have been missed.
    Unexplained,
    /// The capture ended first: open exchanges stay open.
    Cut,
}

/// The counters of a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Times the place in a stream was lost: a hole, a cut frame or bytes that are not of the protocol.
    pub losses: u64,
    /// How often the position was found again.
    pub resyncs: u64,
    /// Bytes that were skipped because their position in a message was not known.
    pub unread_bytes: u64,
}

#[derive(Debug, Default)]
struct Direction {
    /// Bytes that were received or are known to have passed.
    received: u64,
    /// Bytes that the decoder consumed.
    offset: u64,
    /// Bytes from `offset` to `received`.
    unread: LazyBox<Vec<u8>>,
    /// Capture times from `offset` on.
    runs: Runs,
    last: Option<Nanos>,
    skip: u64,
    until_close: bool,
    /// Unread bytes that the decoder waits for, at most [`MAX_HEAD`] and one.
    need: u32,
    is_lost: bool,
    /// The next byte must begin a message.
    verify: bool,
    closed: bool,
}

impl Direction {
    fn extend(&mut self, bytes: u64, at: Option<Nanos>) {
        self.received += bytes;
        self.runs.extend(self.received, at);
    }

    fn consume(&mut self, bytes: u64) {
        if bytes == 0 {
            return;
        }
        self.offset += bytes;
        debug_assert!(self.offset <= self.received);
        self.last = self.runs.consume(self.offset);
    }

    /// Forgets unread and partially read bytes.
    fn forget(&mut self) -> u64 {
        let unread = self.received - self.offset;
        self.offset = self.received;
        self.unread = LazyBox::default();
        self.runs.clear();
        self.skip = 0;
        self.need = 0;
        self.until_close = false;
        self.verify = false;
        unread
    }
}

/// How often a client has to send with nothing open before its depth counts as known: a client that pipelines steadily
/// does so once.
const TURNS: u8 = 3;

/// How many exchanges were open at once.
#[derive(Debug, Clone, Copy, Default)]
struct Depth {
    certain: u16,
    uncertain: u16,
    /// How often the client certainly sent with nothing open; at most [`TURNS`].
    turns: u8,
}

const _: () = assert!(crate::exchange::MAX_OPEN <= u16::MAX as usize);

/// One connection and its decoder.
pub struct Connection {
    decoder: Box<dyn Decoder>,
    exchanges: Exchanges,
    sides: [Direction; 2],
    is_opaque: bool,
    /// Exchanges are held back: see the module's page.
    is_uncertain: bool,
    /// The maximum number of exchanges open at once, overall and since the position was found again.
    depth: Depth,
    /// Bytes of the server that had passed when the position was lost; `None` for a connection seen from its middle.
    server_at_loss: Option<u64>,
    /// The test whether older responses are still owed; `None` once they are not.
    shift: Option<Box<ShiftTest>>,
    counts: LazyBox<Counts>,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("exchanges", &self.exchanges)
            .field("sides", &self.sides)
            .finish_non_exhaustive()
    }
}

impl Connection {
    /// A connection seen from its first byte. `protocol` is the name for its exchanges.
    #[must_use]
    pub fn new(protocol: &'static str, decoder: Box<dyn Decoder>) -> Self {
        Self {
            decoder,
            exchanges: Exchanges::new(protocol),
            sides: [Direction::default(), Direction::default()],
            is_opaque: false,
            is_uncertain: false,
            depth: Depth::default(),
            server_at_loss: None,
            shift: None,
            counts: LazyBox::default(),
        }
    }

    /// A connection whose beginning was not seen; offsets count from the first bytes passed in.
    #[must_use]
    pub fn from_middle(protocol: &'static str, decoder: Box<dyn Decoder>) -> Self {
        let mut connection = Self::new(protocol, decoder);
        for side in [Side::Client, Side::Server] {
            connection.sides[side.index()].is_lost = true;
            connection.decoder.lost(side, &mut connection.exchanges);
        }
        if connection.decoder.pairing() == Pairing::Order {
            connection.shift = Some(Box::default());
        }
        connection
    }

    /// Keeps the heads of requests, without their secrets.
    #[must_use]
    pub fn with_heads(mut self, keeps_heads: bool) -> Self {
        self.exchanges.keep_heads(keeps_heads);
        self
    }

    /// Nothing from the server was seen yet, so the first bytes of the client may continue a request. Where the first
    /// request is not reported anyway, that does no harm.
    pub fn wait_for_server(&mut self) {
        if self.decoder.begins_whole() {
            self.server_at_loss = Some(0);
        }
    }

    /// The counters.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts.get().copied().unwrap_or_default()
    }

    /// Requests seen so far, whatever their outcome.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.exchanges.opened()
    }

    /// Exchanges without their response yet.
    #[must_use]
    pub fn open(&self) -> usize {
        self.exchanges.len()
    }

    /// Bytes of a side so far.
    #[must_use]
    pub fn received(&self, side: Side) -> u64 {
        self.sides[side.index()].received
    }

    /// Whether the protocol has switched to something that cannot be read.
    #[must_use]
    pub fn is_opaque(&self) -> bool {
        self.is_opaque
    }

    /// The next bytes of a side, captured at `at`, in a segment that acknowledges the other side's first `acked` bytes.
    pub fn data(&mut self, side: Side, bytes: &[u8], at: Nanos, acked: Option<u64>, sink: &mut dyn Sink) {
        if bytes.is_empty() {
            return;
        }
        match side {
            Side::Client => self.confirm(acked, at),
            Side::Server => self.hear(acked, at),
        }
        let starts = self.sides[side.index()].is_lost && self.may_begin(side, bytes, acked);
        if starts {
            self.begin(side);
            self.take_turn(at);
        }
        let direction = &mut self.sides[side.index()];
        direction.extend(bytes.len() as u64, Some(at));
        if direction.is_lost || self.is_opaque {
            self.counts.make().unread_bytes += direction.forget();
            direction.last = Some(at);
            if !self.is_opaque {
                // A response may have been among them.
                self.exchanges.doubt_all();
            }
            if side == Side::Client {
                // The client's next bytes may continue this until the server responds.
                self.server_at_loss = Some(self.sides[Side::Server.index()].received);
            }
        } else {
            self.pump(side, bytes);
            self.measure_depth(side);
        }
        self.report(sink);
    }

    /// The next `bytes` bytes of a side passed at `at` and were not captured completely.
    pub fn cut(&mut self, side: Side, bytes: u64, at: Nanos, sink: &mut dyn Sink) {
        self.pass(side, bytes, Some(at), sink);
    }

    /// The next `bytes` bytes of a side were never seen.
    pub fn hole(&mut self, side: Side, bytes: u64, sink: &mut dyn Sink) {
        self.pass(side, bytes, None, sink);
    }

    fn pass(&mut self, side: Side, bytes: u64, at: Option<Nanos>, sink: &mut dyn Sink) {
        if bytes == 0 {
            return;
        }
        let before = self.sides[Side::Server.index()].received;
        let direction = &mut self.sides[side.index()];
        let had_unread = direction.received > direction.offset;
        direction.extend(bytes, at);
        if direction.is_lost || self.is_opaque {
            self.counts.make().unread_bytes += direction.forget();
            direction.last = at;
            if !self.is_opaque {
                self.exchanges.doubt_all();
            }
        } else if had_unread || !self.skip_over(side) {
            self.lose(side, Reason::Gap, before);
        }
        self.report(sink);
    }

    /// Skips bytes that were received but not seen, as far as messages skip them.
    fn skip_over(&mut self, side: Side) -> bool {
        for _ in 0..MAX_IDLE_STEPS {
            let direction = &mut self.sides[side.index()];
            let unread = direction.received - direction.offset;
            let pass = if direction.until_close { unread } else { unread.min(direction.skip) };
            direction.consume(pass);
            direction.skip = direction.skip.saturating_sub(pass);
            if direction.until_close || direction.skip > 0 {
                return true;
            }
            match self.step(side, &[]) {
                Step::Skip(bytes) => self.sides[side.index()].skip = bytes,
                Step::UntilClose => self.sides[side.index()].until_close = true,
                Step::Opaque => {
                    self.become_opaque();
                    return true;
                }
                Step::Need(bytes) => {
                    let direction = &mut self.sides[side.index()];
                    direction.need = small(bytes);
                    return direction.received == direction.offset;
                }
                Step::Take(0) => {}
                Step::Take(_) | Step::Lost => return false,
            }
        }
        false
    }

    fn step(&mut self, side: Side, view: &[u8]) -> Step {
        let direction = &self.sides[side.index()];
        let mut context = Context {
            exchanges: &mut self.exchanges,
            offset: direction.offset,
            runs: &direction.runs,
            last: direction.last,
        };
        self.decoder.step(side, view, &mut context)
    }

    /// Lets the decoder read the unread bytes, `fresh` last.
    fn pump(&mut self, side: Side, fresh: &[u8]) {
        let mut buffer = self.sides[side.index()].unread.take();
        let is_buffered = !buffer.is_empty();
        if is_buffered {
            buffer.extend_from_slice(fresh);
        }
        let used = self.read(side, if is_buffered { &buffer } else { fresh });
        let Some(used) = used else { return };
        if is_buffered {
            buffer.drain(..used);
        } else {
            buffer.extend_from_slice(&fresh[used..]);
        }
        if !buffer.is_empty() {
            // An idle connection holds no buffer.
            *self.sides[side.index()].unread.make() = buffer;
        }
    }

    /// How much of `view` was consumed; `None` when the position is lost.
    fn read(&mut self, side: Side, view: &[u8]) -> Option<usize> {
        let mut used = 0;
        let mut idle = 0;
        loop {
            let direction = &mut self.sides[side.index()];
            if direction.skip > 0 || direction.until_close {
                let left = (view.len() - used) as u64;
                let pass = if direction.until_close { left } else { left.min(direction.skip) };
                direction.consume(pass);
                direction.skip = direction.skip.saturating_sub(pass);
                used += usize::try_from(pass).expect("no more than the view");
                if direction.skip > 0 || direction.until_close {
                    return Some(used);
                }
            }
            let rest = &view[used..];
            if rest.len() < direction.need as usize {
                return Some(used);
            }
            direction.need = 0;
            if direction.verify && !rest.is_empty() {
                direction.verify = false;
                if !self.decoder.begins(side, rest) {
                    return self.fail(side);
                }
            }
            let step = self.step(side, rest);
            let direction = &mut self.sides[side.index()];
            match step {
                Step::Need(bytes) if bytes > MAX_HEAD || rest.len() >= MAX_HEAD => return self.fail(side),
                Step::Need(bytes) => {
                    direction.need = small(bytes.max(rest.len() + 1));
                    return Some(used);
                }
                Step::Take(bytes) if bytes <= rest.len() => {
                    direction.consume(bytes as u64);
                    used += bytes;
                    idle = if bytes == 0 { idle + 1 } else { 0 };
                }
                Step::Skip(bytes) => {
                    direction.skip = bytes;
                    idle = if bytes == 0 { idle + 1 } else { 0 };
                }
                Step::UntilClose => direction.until_close = true,
                Step::Opaque => {
                    self.become_opaque();
                    return None;
                }
                Step::Take(_) | Step::Lost => return self.fail(side),
            }
            if idle > MAX_IDLE_STEPS {
                return self.fail(side);
            }
        }
    }

    fn fail(&mut self, side: Side) -> Option<usize> {
        let before = self.sides[Side::Server.index()].received;
        self.lose(side, Reason::Protocol, before);
        None
    }

    fn become_opaque(&mut self) {
        self.is_opaque = true;
        for side in &mut self.sides {
            side.forget();
        }
    }

    /// The position on `side` is lost. `server_received`: bytes of the server before the gap.
    fn lose(&mut self, side: Side, reason: Reason, server_received: u64) {
        self.counts.make().losses += 1;
        self.exchanges.doubt_all();
        let sides: &[Side] = match self.decoder.pairing() {
            Pairing::Order => &[Side::Client, Side::Server],
            Pairing::Id => std::slice::from_ref(match side {
                Side::Client => &Side::Client,
                Side::Server => &Side::Server,
            }),
        };
        for side in sides {
            let direction = &mut self.sides[side.index()];
            self.counts.make().unread_bytes += direction.forget();
            direction.is_lost = true;
            self.decoder.lost(*side, &mut self.exchanges);
        }
        if self.decoder.pairing() == Pairing::Order {
            if self.is_uncertain {
                self.exchanges.doubt_finished();
            }
            self.exchanges.finish_all(|_| RequestOutcome::Discarded(reason));
            self.is_uncertain = false;
            self.server_at_loss = Some(server_received);
            if self.shift.is_some() || self.depth.turns < TURNS {
                // The previous counts belonged to another position.
                self.shift = Some(Box::default());
            }
        }
    }

    fn may_begin(&self, side: Side, bytes: &[u8], acked: Option<u64>) -> bool {
        if self.is_opaque {
            return false;
        }
        if self.decoder.pairing() == Pairing::Order {
            let server = self.sides[Side::Server.index()].received;
            let is_turn =
                side == Side::Client && acked == Some(server) && self.server_at_loss.is_none_or(|lost| server > lost);
            if !is_turn {
                return false;
            }
        }
        self.decoder.begins(side, bytes)
    }

    fn begin(&mut self, side: Side) {
        self.counts.make().resyncs += 1;
        if self.decoder.pairing() == Pairing::Id {
            self.sides[side.index()].is_lost = false;
            return;
        }
        for side in &mut self.sides {
            side.is_lost = false;
        }
        self.sides[Side::Server.index()].verify = true;
        self.exchanges.expect_partial(!self.decoder.begins_whole());
        self.is_uncertain = true;
        self.depth.uncertain = 0;
    }

    /// A client that sends again with nothing open, after receiving all that the server sent, does not pipeline, or has
    /// as many open at once as ever: held exchanges are certain.
    fn confirm(&mut self, acked: Option<u64>, at: Nanos) {
        let is_known = !self.is_uncertain && !self.sides.iter().any(|side| side.is_lost);
        if self.depth.turns < TURNS && is_known && self.exchanges.is_empty() {
            self.depth.turns += 1;
        }
        if !self.is_uncertain || acked != Some(self.sides[1].received) || !self.is_settled() {
            return;
        }
        let is_certain = match &self.shift {
            Some(shift) => shift.is_refuted(),
            None => self.depth.uncertain >= self.depth.certain,
        };
        if is_certain {
            self.be_certain();
        } else {
            self.take_turn(at);
        }
    }

    /// Held exchanges are certain, and so is how many the client has open at once.
    fn be_certain(&mut self) {
        self.is_uncertain = false;
        self.shift = None;
        self.depth.turns = TURNS;
        self.depth.certain = self.depth.certain.max(self.depth.uncertain);
    }

    /// The client sends, and nothing seems to be open.
    fn take_turn(&mut self, at: Nanos) {
        let [client, server] = &self.sides;
        if let (Some(shift), Some(last)) = (&mut self.shift, server.last) {
            shift.client_spoke(last, at, client.received);
        }
    }

    /// The server sends: this cannot respond to a request that it has not received.
    fn hear(&mut self, acked: Option<u64>, at: Nanos) {
        if let Some(shift) = self.shift.as_mut().filter(|_| self.is_uncertain)
            && !shift.server_spoke(at, acked)
        {
            let received = self.sides[Side::Server.index()].received;
            self.lose(Side::Server, Reason::Gap, received);
        }
    }

    /// Counts the open exchanges after a client's segment.
    fn measure_depth(&mut self, side: Side) {
        if side == Side::Client {
            let open = u16::try_from(self.exchanges.len()).expect("no more than may be open");
            let depth = if self.is_uncertain { &mut self.depth.uncertain } else { &mut self.depth.certain };
            *depth = open.max(*depth);
        }
    }

    /// Nothing is open, there are held exchanges, and both sides are between messages.
    fn is_settled(&self) -> bool {
        let is_between =
            |side: &Direction| side.skip == 0 && !side.until_close && side.received == side.offset && !side.is_lost;
        self.exchanges.is_empty() && self.exchanges.has_finished() && self.sides.iter().all(is_between)
    }

    /// A side sends no more.
    pub fn fin(&mut self, side: Side, sink: &mut dyn Sink) {
        let direction = &mut self.sides[side.index()];
        if std::mem::replace(&mut direction.closed, true) {
            return;
        }
        let was_lost = direction.is_lost;
        direction.until_close = false;
        if !self.is_opaque && !was_lost {
            let mut context = Context {
                exchanges: &mut self.exchanges,
                offset: direction.offset,
                runs: &direction.runs,
                last: direction.last,
            };
            self.decoder.closed(side, true, &mut context);
        }
        self.report(sink);
    }

    /// The connection ended: whatever is open gets its verdict.
    pub fn finish(&mut self, end: End, sink: &mut dyn Sink) {
        if end != End::Cut {
            let is_certain = self.shift.is_none() || (end == End::Closed && self.decoder.said_goodbye());
            if is_certain && self.is_settled() {
                self.is_uncertain = false;
            }
            self.open_partial();
            self.exchanges.finish_all(|exchange| verdict(exchange, end));
        }
        if self.is_uncertain {
            self.exchanges.doubt_finished();
            self.is_uncertain = false;
        }
        self.report(sink);
    }

    /// Bytes of an incomplete request are reported as a partial request.
    fn open_partial(&mut self) {
        let client = &self.sides[Side::Client.index()];
        if client.is_lost || self.is_opaque {
            return;
        }
        let Some(unread) = client.unread.get().filter(|unread| !unread.is_empty()) else { return };
        let (first, last) = client.runs.ends();
        let span = Span { bytes: unread.len() as u64, first, last };
        match self.exchanges.newest_mut() {
            Some(exchange) if !exchange.request_done => exchange.request.add(span),
            _ => {
                let exchange = self.exchanges.open(Key::Order);
                exchange.op.push('?');
                exchange.request = span;
            }
        }
    }

    fn report(&mut self, sink: &mut dyn Sink) {
        if self.is_uncertain {
            self.exchanges.hold();
        }
        if self.is_uncertain && self.exchanges.is_held_full() && self.shift.is_some() {
            // The previous counts remain valid, and later traffic may prove certainty.
            self.exchanges.doubt_finished();
            self.exchanges.report(sink);
        } else if self.is_uncertain && self.exchanges.is_held_full() {
            let before = self.sides[Side::Server.index()].received;
            self.lose(Side::Client, Reason::Gap, before);
        }
        if !self.is_uncertain && self.exchanges.has_finished() {
            self.exchanges.report(sink);
        }
    }
}

/// The number of bytes that a decoder waits for, saturated: a value far above the limit need not be exact.
fn small(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

fn verdict(exchange: &Exchange, end: End) -> RequestOutcome {
    if exchange.doubtful || exchange.is_partial || end == End::Unexplained {
        RequestOutcome::Discarded(Reason::Gap)
    } else if !exchange.request_done {
        RequestOutcome::Unanswered(Unanswered::PartialRequest)
    } else if end == End::Reset {
        RequestOutcome::Unanswered(Unanswered::Reset)
    } else {
        RequestOutcome::Unanswered(Unanswered::NoResponse)
    }
}
