//! The wire observer: captured packets become exchanges of requests and responses, each with four times in nanoseconds.
//!
//! Layers, from below; each knows only those under it:
//!
//! - [`protocol`]: one [`Decoder`] a protocol, a state machine over the two byte streams of a connection, and the
//!   [`protocol::TABLE`] of all.
//! - [`mod@file`]: frames of capture files; [`frame`]: what a frame carries.
//! - [`Observer`]: takes frames, keeps the table of connections, puts their streams in order, and reports to an
//!   [`Output`].
//! - [`Connection`]: feeds a decoder in order, across cut frames and holes, and decides when exchanges are certain.
//! - [`Exchanges`]: the open exchanges of a connection. Decoders open, fill and finish them; whatever becomes of one is
//!   reported to a [`Sink`].
//!
//! Invariants: an exchange is reported only when both messages are known to belong together; the time of a byte is the
//! capture time of the first frame that carried it; nothing here reads a clock, a file or a socket.
//!
//! # Writing a decoder
//!
//! Implement [`Decoder`], a [`Protocol`] row with its detection, and add the row to [`protocol::TABLE`].
//! `protocol/http1.rs` pairs in order and is the example; `Connection` is what tests feed: `Connection::new(decoder)`,
//! then `data`, `cut`, `hole`, `fin`, `reset`.
//!
//! [`Decoder::step`] sees the unread bytes of one side and answers with one [`Step`]:
//!
//! - `Need(n)`: call again when `n` bytes are unread. Never more than [`MAX_HEAD`]; bodies are skipped, not needed.
//! - `Take(n)`: these `n` bytes, all of them seen, are done. Call again at once.
//! - `Skip(n)`: the next `n` bytes are done, seen or not: arithmetic, across holes and cut frames. Call again once they
//!   have passed, even when no byte is unread then (answer `Need(1)` when there is nothing to do).
//! - `Lost`: these bytes are not of this protocol here. `Opaque`: from here on nothing can be read (TLS, compression,
//!   an upgrade).
//!
//! Times and sizes come from [`Context`]: `mark()` remembers where the next byte stands, `since(mark)` is the [`Span`]
//! from there to the last byte consumed, and `ahead(n)` is the span of the next `n` unread bytes for messages that are
//! whole in view. A message of many frames adds its spans with `Span::add`.
//!
//! Exchanges: `cx.exchanges.open(key)` at the first byte of a request, then fill `op`, `request` and `request_done`;
//! find it again by `unanswered_mut()` (in order) or `find_mut(id)` and fill `status`, `response`, `response_done`;
//! `cx.exchanges.settle()` reports what is complete. `cx.exchanges.without_reply(key)` finishes one that gets no answer
//! by design. When a response comes and nothing is open, answer `Step::Lost` if the protocol pairs in order (somebody's
//! request was missed), or ignore it if it is a push.
//!
//! After a hole that `Skip` did not cover, [`Connection`] calls [`Decoder::lost`]. With [`Pairing::Order`] both sides
//! are lost and begin again at a request that starts a segment for which [`Decoder::begins`] holds; with
//! [`Pairing::Id`] only that side.
#![forbid(unsafe_code)]

pub mod file;
pub mod frame;
pub mod operation;
pub mod protocol;

mod connection;
mod decoder;
mod exchange;
mod finding;
mod flow;
mod habit;
mod hash;
mod hpack;
mod mask;
mod observer;
mod output;
mod path;
mod rare;
mod reassembly;
mod runs;
mod shift;
mod span;
mod tls;
mod udp;

pub use connection::{Connection, Counts, End, MAX_HEAD};
pub use decoder::{Context, Decoder, Detection, Pairing, Protocol, Side, Step};
pub use exchange::{Class, Exchange, Exchanges, Key, MAX_OPEN, Reason, STALL, Sink, Stall, Unanswered};
pub use finding::{Finding, FindingKind};
pub use observer::{Limits, Observer, Options, Totals};
pub use output::{Output, Summary, TcpEvent};
pub use path::{Endpoint, Path};
pub use reassembly::SideCounts;
pub use span::{Mark, Nanos, Span};
pub use tls::{TlsEnd, TlsEvent, TlsHandshake, TlsVersion};
