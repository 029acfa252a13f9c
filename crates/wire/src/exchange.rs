//! The open exchanges of a connection, and what becomes of them.
//!
//! Conservation: every exchange that was opened is reported exactly once, as answered, unanswered or discarded, or is
//! still open.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use crate::span::{Nanos, Span};

/// Exchanges open at once on one connection. A pipeline of 16,384 requests is far beyond real clients; one more drops
/// the oldest as [`Reason::Limit`].
pub const MAX_OPEN: usize = 16_384;

/// Exchanges held back on a connection until it is certain that they pair rightly: see [`crate::Connection`].
const MAX_HELD: usize = 1_024;

/// Exchanges held back on all connections of a thread: some 400 bytes each, 26 MB.
const MAX_HELD_IN_ALL: usize = 65_536;

/// Responses in order that wait this long behind another are blocked by it: 50 ms is far longer than a pipeline itself
/// takes.
pub const STALL: Nanos = 50_000_000;

/// How the response will be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// By its place in the order.
    Order,
    /// By an id, unique among the open ones of the connection.
    Id(u64),
}

/// Whether a response was good, and which side is responsible for a bad one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// As requested.
    #[default]
    Ok,
    /// The request was at fault (HTTP 4xx, a syntax error).
    ClientError,
    /// The server is responsible, or the response does not say.
    Error,
}

/// Why a request got no response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Unanswered {
    /// None was expected.
    ByDesign,
    /// The connection was reset.
    Reset,
    /// The connection closed before a response.
    NoResponse,
    /// The request itself was incomplete.
    PartialRequest,
    /// The request could not be read.
    Malformed,
    /// PostgreSQL: the server gave up before ReadyForQuery.
    NoReadyForQuery,
}

impl Unanswered {
    /// The name in `why`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ByDesign => "no_response_by_design",
            Self::Reset => "rst",
            Self::NoResponse => "no_response",
            Self::PartialRequest => "partial_request",
            Self::Malformed => "malformed",
            Self::NoReadyForQuery => "no_ready_for_query",
        }
    }
}

/// Why an exchange is not reported although its request was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// Bytes are missing, and it is not certain which response is whose.
    Gap,
    /// The first or last byte of a message was not seen: its times are not known.
    Untimed,
    /// Too many are open.
    Limit,
    /// The bytes were not of the protocol.
    Protocol,
}

impl Reason {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Gap, Self::Untimed, Self::Limit, Self::Protocol];

    /// The name in summaries and labels.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Gap => "gap",
            Self::Untimed => "untimed",
            Self::Limit => "limit",
            Self::Protocol => "protocol",
        }
    }
}

/// A request and its response, as far as they are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    /// The protocol's name: a decoder may choose a finer one (`grpc` in HTTP/2).
    pub protocol: &'static str,
    /// How its response is found.
    pub key: Key,
    /// The operation: `GET /index.html`, `SELECT`, `Produce`.
    pub op: String,
    /// Distinguishes operations of one `op`, bounded and without values: a statement's fingerprint, a topic. Empty when
    /// `op` is sufficient.
    pub detail: String,
    /// The result: `200`, `ok`, an error code.
    pub status: String,
    /// The class of the result.
    pub class: Class,
    /// The request's bytes and times.
    pub request: Span,
    /// Whether the request has ended.
    pub request_done: bool,
    /// The response's bytes and times.
    pub response: Span,
    /// Whether the response has ended.
    pub response_done: bool,
    /// Which response of the connection this is, from 0.
    pub number: u64,
    /// For use by the decoder (HTTP: whether it was HEAD).
    pub note: u64,
    /// Requested by the server (AMQP's deliveries): request and response are then on the opposite sides.
    pub by_server: bool,
    /// There was a gap while it was open, so its response may have been missed.
    pub doubtful: bool,
    /// Bytes of its request may have been missed.
    pub is_partial: bool,
    /// The request's head without its secrets; only kept if [`crate::Options::keeps_heads`] is set, and where the
    /// protocol has one.
    pub head: Option<Box<str>>,
    /// Requests of its pipeline that had to wait for its response, and for how long.
    pub stall: Option<Stall>,
}

/// A slow response with others behind it: head-of-line blocking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stall {
    /// Requests that had arrived [`STALL`] or more before its response began.
    pub waiting: u64,
    /// From when it was its turn to the first byte of its response.
    pub nanos: Nanos,
}

impl Exchange {
    /// One of a protocol without connections.
    pub(crate) fn bare(protocol: &'static str) -> Self {
        Self::new(protocol, Key::Order)
    }

    /// Resets it to a new one that keeps its storage.
    fn renew(&mut self, protocol: &'static str, key: Key) {
        let [mut op, mut detail, mut status] = [&mut self.op, &mut self.detail, &mut self.status].map(std::mem::take);
        op.clear();
        detail.clear();
        status.clear();
        *self = Self { op, detail, status, ..Self::new(protocol, key) };
    }

    fn new(protocol: &'static str, key: Key) -> Self {
        Self {
            protocol,
            key,
            op: String::new(),
            detail: String::new(),
            status: String::new(),
            class: Class::Ok,
            request: Span::default(),
            request_done: false,
            response: Span::default(),
            response_done: false,
            number: 0,
            note: 0,
            by_server: false,
            doubtful: false,
            is_partial: false,
            head: None,
            stall: None,
        }
    }

    /// From the last byte of the request to the first of the response, in nanoseconds; negative when the response began
    /// first.
    #[must_use]
    pub fn service_time(&self) -> Option<i64> {
        Some(self.response.first? - self.request.last?)
    }

    /// From the first byte of the request to the last of the response, in nanoseconds.
    #[must_use]
    pub fn total_time(&self) -> Option<i64> {
        Some(self.response.last? - self.request.first?)
    }
}

/// Receives the outcomes of exchanges.
pub trait Sink {
    /// Request and response are complete and belong together.
    fn answered(&mut self, exchange: &Exchange);
    /// There was no response, and there will be none.
    fn unanswered(&mut self, exchange: &Exchange, why: Unanswered);
    /// It was seen and is not reported.
    fn discarded(&mut self, exchange: &Exchange, reason: Reason);
}

/// The open exchanges of one connection, oldest first.
#[derive(Debug)]
pub struct Exchanges {
    protocol: &'static str,
    /// Boxed: they move from table to table, and an idle connection has none.
    open: VecDeque<Box<Exchange>>,
    /// Finished ones for the connection to report.
    finished: Vec<(Box<Exchange>, RequestOutcome)>,
    responses: u64,
    /// The last byte of the last response in order.
    last_response: Option<Nanos>,
    opened: u64,
    /// The next one is.
    is_partial: bool,
    keeps_heads: bool,
    /// How many of `finished` are counted in [`HELD`].
    held: u16,
}

const _: () = assert!(MAX_OPEN + MAX_HELD < u16::MAX as usize);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestOutcome {
    Answered,
    Unanswered(Unanswered),
    Discarded(Reason),
}

impl Exchanges {
    pub(crate) fn new(protocol: &'static str) -> Self {
        Self {
            protocol,
            open: VecDeque::new(),
            finished: Vec::new(),
            responses: 0,
            last_response: None,
            opened: 0,
            is_partial: false,
            keeps_heads: false,
            held: 0,
        }
    }

    /// Whether decoders keep the heads of requests.
    #[must_use]
    pub fn keeps_heads(&self) -> bool {
        self.keeps_heads
    }

    /// Sets whether decoders keep the heads of requests.
    pub(crate) fn keep_heads(&mut self, keeps_heads: bool) {
        self.keeps_heads = keeps_heads;
    }

    /// A request begins. An open one with the same id is discarded first: its response was missed.
    pub fn open(&mut self, key: Key) -> &mut Exchange {
        if let Key::Id(id) = key {
            self.discard(id, Reason::Gap);
        }
        if self.open.len() >= MAX_OPEN {
            let oldest = self.open.pop_front().expect("a full table has an oldest");
            self.finish_one(oldest, RequestOutcome::Discarded(Reason::Limit));
        }
        self.opened += 1;
        let mut exchange = take_spare();
        exchange.renew(self.protocol, key);
        exchange.is_partial = std::mem::take(&mut self.is_partial);
        if self.open.capacity() == 0 {
            // Most connections have one at a time.
            self.open.reserve_exact(1);
        }
        self.open.push_back(exchange);
        self.open.back_mut().expect("pushed above")
    }

    /// The oldest whose response has not ended.
    pub fn unanswered_mut(&mut self) -> Option<&mut Exchange> {
        self.iter_mut().find(|exchange| !exchange.response_done)
    }

    /// Adds bytes to the oldest response that has not ended, and settles it when they are its last. `None` when no
    /// response is expected.
    pub fn respond(&mut self, span: Span, ends: bool) -> Option<()> {
        let exchange = self.unanswered_mut()?;
        exchange.response.add(span);
        if ends {
            exchange.response_done = true;
            self.settle();
        }
        Some(())
    }

    /// The one with this id.
    pub fn find_mut(&mut self, id: u64) -> Option<&mut Exchange> {
        self.iter_mut().find(|exchange| exchange.key == Key::Id(id))
    }

    /// The newest: the request that is being read, where requests do not interleave.
    pub fn newest_mut(&mut self) -> Option<&mut Exchange> {
        self.open.back_mut().map(Box::as_mut)
    }

    /// The open ones, oldest first.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Exchange> {
        self.open.iter_mut().map(Box::as_mut)
    }

    /// How many are open.
    #[must_use]
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether none is open.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Finishes the exchange with this id as one that gets no response.
    pub fn unanswered(&mut self, id: u64, why: Unanswered) {
        if let Some(at) = self.open.iter().position(|exchange| exchange.key == Key::Id(id)) {
            self.finish(at, RequestOutcome::Unanswered(why));
        }
    }

    /// Finishes the youngest as one that gets no response, by design or because it could not be read.
    pub fn newest_unanswered(&mut self, why: Unanswered) {
        if !self.open.is_empty() {
            self.finish(self.open.len() - 1, RequestOutcome::Unanswered(why));
        }
    }

    /// Finishes the oldest whose response has not ended as one that gets no response.
    pub fn oldest_unanswered(&mut self, why: Unanswered) {
        if let Some(at) = self.open.iter().position(|exchange| !exchange.response_done) {
            self.finish(at, RequestOutcome::Unanswered(why));
        }
    }

    /// Finishes the exchange with this id without reporting it.
    pub fn discard(&mut self, id: u64, reason: Reason) {
        if let Some(at) = self.open.iter().position(|exchange| exchange.key == Key::Id(id)) {
            self.finish(at, RequestOutcome::Discarded(reason));
        }
    }

    /// Reports each exchange with both messages complete. Call it after setting `request_done` or `response_done`.
    pub fn settle(&mut self) {
        while let Some(at) = self.complete() {
            let exchange = &mut self.open[at];
            exchange.number = self.responses;
            self.responses += 1;
            if exchange.key == Key::Order {
                self.look_behind(at);
            }
            let exchange = &self.open[at];
            let is_timed = exchange.request.is_timed() && exchange.response.is_timed();
            let fate = match (exchange.is_partial, is_timed) {
                (true, _) => RequestOutcome::Discarded(Reason::Gap),
                (false, true) => RequestOutcome::Answered,
                (false, false) => RequestOutcome::Discarded(Reason::Untimed),
            };
            self.finish(at, fate);
        }
    }

    /// Finds those that waited for the one that is complete.
    fn look_behind(&mut self, at: usize) {
        let exchange = &self.open[at];
        let (requested, first) = (exchange.request.last, exchange.response.first);
        let turn = requested.map(|requested| self.last_response.map_or(requested, |last| last.max(requested)));
        self.last_response = exchange.response.last;
        let (Some(turn), Some(first)) = (turn, first) else { return };
        let nanos = first - turn;
        if nanos < STALL {
            return;
        }
        let is_waiting =
            |other: &Exchange| other.request_done && other.request.last.is_some_and(|last| last <= first - STALL);
        let waiting = self.open.iter().skip(at + 1).take_while(|other| is_waiting(other)).count() as u64;
        if waiting > 0 {
            self.open[at].stall = Some(Stall { waiting, nanos });
        }
    }

    /// One with both messages complete: with pairing in order only the oldest can be.
    fn complete(&self) -> Option<usize> {
        let is_complete = |exchange: &Exchange| exchange.request_done && exchange.response_done;
        match self.open.front()?.key {
            Key::Order => is_complete(self.open.front()?).then_some(0),
            Key::Id(_) => self.open.iter().position(|exchange| is_complete(exchange)),
        }
    }

    fn finish(&mut self, at: usize, fate: RequestOutcome) {
        let exchange = self.open.remove(at).expect("the index was found just now");
        self.finish_one(exchange, fate);
    }

    fn finish_one(&mut self, exchange: Box<Exchange>, fate: RequestOutcome) {
        if self.finished.capacity() == 0 {
            self.finished = FINISHED.take();
        }
        self.finished.push((exchange, fate));
    }

    /// All open ones end.
    pub(crate) fn finish_all(&mut self, fate: impl Fn(&Exchange) -> RequestOutcome) {
        while let Some(exchange) = self.open.pop_front() {
            let fate = fate(&exchange);
            self.finish_one(exchange, fate);
        }
    }

    /// The next request is known to be partial.
    pub(crate) fn expect_partial(&mut self, is_partial: bool) {
        self.is_partial = is_partial;
    }

    pub(crate) fn doubt_all(&mut self) {
        self.open.iter_mut().for_each(|exchange| exchange.doubtful = true);
    }

    pub(crate) fn opened(&self) -> u64 {
        self.opened
    }

    pub(crate) fn has_finished(&self) -> bool {
        !self.finished.is_empty()
    }

    /// Finished exchanges are held until they are certain.
    pub(crate) fn hold(&mut self) {
        let count = u16::try_from(self.finished.len()).unwrap_or(u16::MAX);
        HELD.set((HELD.get() + usize::from(count)).saturating_sub(usize::from(self.held)));
        self.held = count;
    }

    fn release(&mut self) {
        let held = usize::from(std::mem::take(&mut self.held));
        HELD.set(HELD.get().saturating_sub(held));
    }

    /// Reports finished exchanges, in order.
    pub(crate) fn report(&mut self, sink: &mut dyn Sink) {
        self.release();
        let mut finished = std::mem::take(&mut self.finished);
        for (exchange, fate) in finished.drain(..) {
            match fate {
                RequestOutcome::Answered => sink.answered(&exchange),
                RequestOutcome::Unanswered(why) => sink.unanswered(&exchange, why),
                RequestOutcome::Discarded(reason) => sink.discarded(&exchange, reason),
            }
            give_spare(exchange);
        }
        if finished.capacity() <= MAX_SPARE {
            FINISHED.set(finished);
        }
    }

    /// Whether the limit of held exchanges is reached, for the connection or for the thread.
    pub(crate) fn is_held_full(&self) -> bool {
        self.finished.len() > MAX_HELD || (HELD.get() > MAX_HELD_IN_ALL && self.has_finished())
    }

    /// Finished exchanges that were held back are not certain.
    pub(crate) fn doubt_finished(&mut self) {
        for (_, fate) in &mut self.finished {
            *fate = RequestOutcome::Discarded(Reason::Gap);
        }
    }
}

impl Drop for Exchanges {
    fn drop(&mut self) {
        self.release();
    }
}

/// Exchanges kept for reuse in a thread: a pipeline's burst.
const MAX_SPARE: usize = 64;

/// Bytes of text that a kept one may hold: longer texts are rare, and freed.
const MAX_TEXT: usize = 1_024;

thread_local! {
    /// Scratch space for finished exchanges: used only within one segment.
    static FINISHED: Cell<Vec<(Box<Exchange>, RequestOutcome)>> = const { Cell::new(Vec::new()) };
    /// Exchanges held back by the thread's connections. A connection that moves to another thread does not transfer its
    /// share: the count is a limit, not exact.
    static HELD: Cell<usize> = const { Cell::new(0) };
    /// Reused by the thread's next exchanges: an exchange then costs no allocation, and an idle connection holds none.
    #[allow(clippy::vec_box, reason = "they are handed out boxed")]
    static SPARE: RefCell<Vec<Box<Exchange>>> = const { RefCell::new(Vec::new()) };
}

/// Storage with any content.
fn take_spare() -> Box<Exchange> {
    SPARE.with_borrow_mut(Vec::pop).unwrap_or_else(|| Box::new(Exchange::new("", Key::Order)))
}

/// Keeps the storage of a reported one for reuse.
fn give_spare(exchange: Box<Exchange>) {
    let text = exchange.op.capacity() + exchange.detail.capacity() + exchange.status.capacity();
    SPARE.with_borrow_mut(|spare| {
        if spare.len() < MAX_SPARE && text <= MAX_TEXT {
            spare.push(exchange);
        }
    });
}
