//! What is wrong with a connection, each kind with a name, a place and a number.

use crate::decoder::Side;
use crate::path::Path;
use crate::rare::LazyBox;
use crate::span::Nanos;

/// Retransmissions of one side within [`STORM_WINDOW`] that are a storm: three lost in a row stall a connection for a
/// second.
const STORM: u64 = 5;

/// See [`STORM`].
const STORM_WINDOW: Nanos = 10_000_000_000;

/// A client that sent data and received nothing for this long is talking to a peer that is gone.
const HALF_OPEN_AFTER: Nanos = 1_000_000_000;

/// A kind of finding. `docs/wire.md` explains each of them and what to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FindingKind {
    /// A request on a connection that the server had closed: a dead keep-alive connection was reused.
    DeadKeepalive,
    /// A SYN was answered by a reset: nothing listens, or a firewall rejects.
    Refused,
    /// A SYN was retransmitted: there is no response.
    SynUnanswered,
    /// Many retransmissions in a short time.
    RetransmissionStorm,
    /// A receiver has no room.
    ZeroWindow,
    /// One side sends and the other never responds.
    HalfOpen,
    /// A DNS query was retransmitted.
    DnsRetry,
    /// The response began before the request had ended.
    EarlyResponse,
    /// A slow response delayed those behind it in its pipeline.
    HeadOfLine,
    /// A client opens a connection for each request.
    ConnectionPerRequest,
}

impl FindingKind {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::DeadKeepalive,
        Self::Refused,
        Self::SynUnanswered,
        Self::RetransmissionStorm,
        Self::ZeroWindow,
        Self::HalfOpen,
        Self::DnsRetry,
        Self::EarlyResponse,
        Self::HeadOfLine,
        Self::ConnectionPerRequest,
    ];

    /// The name in the label `kind`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::DeadKeepalive => "dead_keepalive",
            Self::Refused => "refused",
            Self::SynUnanswered => "syn_unanswered",
            Self::RetransmissionStorm => "retransmission_storm",
            Self::ZeroWindow => "zero_window",
            Self::HalfOpen => "half_open",
            Self::DnsRetry => "dns_retry",
            Self::EarlyResponse => "early_response",
            Self::HeadOfLine => "head_of_line",
            Self::ConnectionPerRequest => "connection_per_request",
        }
    }

    /// The title for an engineer.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::DeadKeepalive => "reused a dead keep-alive connection",
            Self::Refused => "connection refused",
            Self::SynUnanswered => "nobody answers the SYN",
            Self::RetransmissionStorm => "retransmission storm",
            Self::ZeroWindow => "receiver has no room (zero window)",
            Self::HalfOpen => "half-open: the peer never answers",
            Self::DnsRetry => "DNS query sent again",
            Self::EarlyResponse => "response began before the request ended",
            Self::HeadOfLine => "head-of-line blocking in a pipeline",
            Self::ConnectionPerRequest => "the client opens a connection a request",
        }
    }
}

/// A problem, where and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finding {
    /// Its kind.
    pub kind: FindingKind,
    /// Where.
    pub path: Path,
    /// When it showed.
    pub at: Nanos,
    /// A duration: the idle time of a dead keep-alive connection, the wait for a response to a SYN, the length of a
    /// storm, the time that a slow response delayed others, the time in which connections of one request were opened.
    pub nanos: Nanos,
    /// How many: SYNs, retransmissions, requests that waited, connections.
    pub count: u64,
    /// The protocol, if it was recognised.
    pub protocol: Option<&'static str>,
}

/// The history of a connection so far.
#[derive(Debug, Default)]
pub(crate) struct ConnectionHistory {
    syns_again: u32,
    storm: LazyBox<[(u32, Nanos); 2]>,
    is_zero: [bool; 2],
    /// Idle time before the client spoke on a connection that the server had closed.
    dead_idle: Option<Nanos>,
    client_spoke: bool,
    server_spoke: bool,
    server_spoke_after_close: bool,
}

impl ConnectionHistory {
    /// How many SYNs were sent.
    pub(crate) fn syn_again(&mut self) -> u64 {
        self.syns_again += 1;
        u64::from(self.syns_again) + 1
    }

    /// A storm's size and length, once it is one.
    pub(crate) fn retransmitted(&mut self, side: Side, at: Nanos) -> Option<(u64, Nanos)> {
        let (count, since) = &mut self.storm.make()[side.index()];
        if *count == 0 || at - *since > STORM_WINDOW {
            (*count, *since) = (0, at);
        }
        *count += 1;
        (u64::from(*count) == STORM).then(|| (STORM, at - *since))
    }

    /// Whether the window closed just now.
    pub(crate) fn zero_window(&mut self, side: Side) -> bool {
        !std::mem::replace(&mut self.is_zero[side.index()], true)
    }

    pub(crate) fn window_opened(&mut self, side: Side) {
        self.is_zero[side.index()] = false;
    }

    pub(crate) fn client_spoke(&mut self, _at: Nanos, idle: Nanos, server_closed: bool) {
        self.client_spoke = true;
        if server_closed {
            self.dead_idle.get_or_insert(idle);
        }
    }

    pub(crate) fn server_spoke(&mut self, client_closed: bool) {
        self.server_spoke = true;
        self.server_spoke_after_close |= client_closed;
    }

    /// Whether the server sent after the client's close: the cause of the client's reset.
    pub(crate) fn server_spoke_after_close(&self) -> bool {
        self.server_spoke_after_close
    }

    /// How long the connection had idled when the client used it after the server's close.
    pub(crate) fn reused_dead(&self, resetter: Side) -> Option<Nanos> {
        self.dead_idle.filter(|_| resetter == Side::Server)
    }

    pub(crate) fn is_half_open(&self, lasted: Nanos) -> bool {
        self.client_spoke && !self.server_spoke && lasted > HALF_OPEN_AFTER
    }
}
