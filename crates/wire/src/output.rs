//! What an observer reports, and to whom.

use crate::decoder::Side;
use crate::exchange::{Exchange, Reason, Sink, Stall, Unanswered};
use crate::finding::{Finding, FindingKind};
use crate::path::Path;
use crate::rare::LazyBox;
use crate::reassembly::SideCounts;
use crate::span::Nanos;
use crate::tls::{TlsEvent, Watcher};

/// Receives the measurements.
pub trait Output {
    /// Request and response are complete and belong together.
    fn answered(&mut self, path: &Path, exchange: &Exchange);
    /// There was no response, and there will be none.
    fn unanswered(&mut self, path: &Path, exchange: &Exchange, why: Unanswered);
    /// It was seen and is not reported.
    fn discarded(&mut self, path: &Path, exchange: &Exchange, reason: Reason);
    /// A handshake: from SYN to SYN/ACK.
    fn connected(&mut self, path: &Path, took: Nanos, at: Nanos);
    /// Something is wrong.
    fn finding(&mut self, finding: &Finding);
    /// A connection ended, or the capture did.
    fn closed(&mut self, summary: &Summary);
    /// Something happened on a TLS connection.
    fn tls(&mut self, path: &Path, event: &TlsEvent<'_>) {
        let _ = (path, event);
    }
    /// Something happened on a TCP connection, whose protocol has this name once it is recognised.
    fn tcp(&mut self, path: &Path, protocol: Option<&'static str>, event: TcpEvent) {
        let _ = (path, protocol, event);
    }
}

/// TCP events of a connection, whatever its protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TcpEvent {
    /// The server's first byte after bytes of the client, on a connection of unknown protocol: nanoseconds after the
    /// client's last byte, or after the SYN/ACK when the server speaks first.
    FirstByte(Nanos),
    /// A segment whose bytes were all seen before.
    Retransmission(Side),
    /// A side reset the connection.
    Reset(Side),
    /// A side's receive window closed.
    ZeroWindow(Side),
}

/// The totals of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Its endpoints.
    pub path: Path,
    /// The protocol, if it was recognised.
    pub protocol: Option<&'static str>,
    /// First and last segment.
    pub first: Nanos,
    /// See `first`.
    pub last: Nanos,
    /// From SYN to SYN/ACK.
    pub handshake: Option<Nanos>,
    /// Whether its beginning was seen.
    pub from_start: bool,
    /// Whether it ended before the capture did.
    pub ended: bool,
    /// Requests seen = answered + unanswered + discarded + open.
    pub requests: u64,
    /// Answered requests.
    pub answered: u64,
    /// Unanswered ones.
    pub unanswered: u64,
    /// Requests seen but not reported, by [`Reason`].
    pub discarded: [u64; Reason::ALL.len()],
    /// Still open at the end.
    pub open: u64,
    /// How often the position was lost and found again.
    pub losses: u64,
    /// See `losses`.
    pub resyncs: u64,
    /// The client's and the server's stream.
    pub sides: [SideCounts; 2],
}

impl Summary {
    /// Whether every request has its fate.
    #[must_use]
    pub fn is_conserved(&self) -> bool {
        self.requests == self.answered + self.unanswered + self.discarded.iter().sum::<u64>() + self.open
    }
}

/// The totals of reported exchanges.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) answered: u64,
    pub(crate) others: LazyBox<UnansweredTotals>,
}

/// The totals of those without a response.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct UnansweredTotals {
    pub(crate) unanswered: u64,
    pub(crate) discarded: [u64; Reason::ALL.len()],
}

/// Passes a connection's reports on with its path.
pub(crate) struct Reporter<'a> {
    pub(crate) path: &'a Path,
    pub(crate) tally: &'a mut Tally,
    pub(crate) output: &'a mut dyn Output,
}

impl Watcher for Reporter<'_> {
    fn tls(&mut self, event: TlsEvent<'_>) {
        self.output.tls(self.path, &event);
    }
}

impl Sink for Reporter<'_> {
    fn answered(&mut self, exchange: &Exchange) {
        self.tally.answered += 1;
        if let Some(early) = exchange.service_time().filter(|nanos| *nanos < 0) {
            let (path, at) = (*self.path, exchange.response.first.unwrap_or_default());
            let protocol = Some(exchange.protocol);
            self.output.finding(&Finding {
                kind: FindingKind::EarlyResponse,
                path,
                at,
                nanos: -early,
                count: 1,
                protocol,
            });
        }
        if let Some(Stall { waiting, nanos }) = exchange.stall {
            self.output.finding(&Finding {
                kind: FindingKind::HeadOfLine,
                path: *self.path,
                at: exchange.response.first.unwrap_or_default(),
                nanos,
                count: waiting,
                protocol: Some(exchange.protocol),
            });
        }
        self.output.answered(self.path, exchange);
    }

    fn unanswered(&mut self, exchange: &Exchange, why: Unanswered) {
        self.tally.others.make().unanswered += 1;
        self.output.unanswered(self.path, exchange, why);
    }

    fn discarded(&mut self, exchange: &Exchange, reason: Reason) {
        self.tally.others.make().discarded[reason as usize] += 1;
        self.output.discarded(self.path, exchange, reason);
    }
}
