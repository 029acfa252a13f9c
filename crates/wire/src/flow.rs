//! One TCP connection: who opened it, its streams, the protocol it speaks, and what is wrong with it.

mod reader;

use crate::decoder::Side;
use crate::finding::{ConnectionHistory, Finding, FindingKind};
use crate::frame::Segment;
use crate::output::{Output, Reporter, Summary, Tally, TcpEvent};
use crate::path::{FlowKey, Path};
use crate::protocol::Hint;
use crate::reassembly::{Arrival, Part, Reassembly};
use crate::span::Nanos;

pub(crate) use reader::Reader;

/// A TCP connection as observed.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) path: Path,
    /// Whether the client is the lower endpoint of the [`FlowKey`].
    pub(crate) client_is_lower: bool,
    streams: Reassembly,
    reader: Reader,
    tally: Tally,
    seen: ConnectionHistory,
    first: Nanos,
    pub(crate) last: Nanos,
    last_data: Nanos,
    syn: Option<(u32, Nanos)>,
    handshake: Option<Nanos>,
    has_syn_ack: bool,
    /// Since when the client waits for the server's first byte.
    requested: Option<Nanos>,
    /// It has ended, and further segments are late.
    pub(crate) is_over: bool,
    /// Its summary, once it closed, until that is taken.
    pub(crate) closed: Option<Box<Summary>>,
}

impl Flow {
    pub(crate) fn new(path: Path, at: Nanos) -> Self {
        Self {
            path,
            client_is_lower: FlowKey::from_parts(
                (&path.client.ip, path.client.port),
                (&path.server.ip, path.server.port),
            )
            .1,
            streams: Reassembly::default(),
            reader: Reader::default(),
            tally: Tally::default(),
            seen: ConnectionHistory::default(),
            first: at,
            last: at,
            last_data: at,
            syn: None,
            handshake: None,
            has_syn_ack: false,
            requested: None,
            is_over: false,
            closed: None,
        }
    }

    /// Whether a SYN with this sequence number opens another connection between the same endpoints.
    pub(crate) fn is_reused_by(&self, segment: &Segment<'_>) -> bool {
        segment.syn
            && segment.acknowledges.is_none()
            && self.syn.is_none_or(|(sequence, _)| sequence != segment.sequence)
    }

    /// Whether the guess of roles can still be turned round.
    pub(crate) fn protocol(&self) -> Option<&'static str> {
        self.reader.protocol()
    }

    pub(crate) fn is_blocked(&self) -> bool {
        self.streams.is_blocked()
    }

    pub(crate) fn held_bytes(&self) -> usize {
        self.streams.held_bytes()
    }

    /// Processes a segment of `side`.
    pub(crate) fn segment(
        &mut self,
        side: Side,
        segment: &Segment<'_>,
        at: Nanos,
        hint: Hint,
        output: &mut dyn Output,
    ) {
        let idle = at - self.last_data;
        if segment.length > 0 {
            self.last_data = at;
        }
        self.last = self.last.max(at);
        if segment.syn {
            self.open(side, segment, at, output);
        }
        if segment.rst {
            self.reset(side, segment, at, output);
            return;
        }
        self.watch(side, segment, at, idle, output);
        let start = if segment.syn { segment.sequence.wrapping_add(1) } else { segment.sequence };
        let part = Part {
            sequence: start,
            acknowledges: segment.acknowledges,
            payload: segment.payload,
            length: segment.length,
            fin: segment.fin,
            at,
        };
        self.reader.set_from_start(self.has_syn_ack);
        let mut reporter = Reporter { path: &self.path, tally: &mut self.tally, output };
        let arrival = self.streams.segment(
            side,
            part,
            &mut reader::Feed { reader: &mut self.reader, reporter: &mut reporter, hint },
        );
        match arrival {
            Arrival::Again if segment.length > 1 => self.retransmitted(side, at, output),
            Arrival::New if segment.length > 0 => self.spoke(side, at, output),
            _ => {}
        }
        if self.streams.is_closed() && !self.is_over {
            self.end(crate::End::Closed, output);
        } else if self.streams.is_blocked() {
            self.resolve(Some(at), hint, output);
        }
    }

    /// Declares holes that are overdue.
    pub(crate) fn resolve(&mut self, now: Option<Nanos>, hint: Hint, output: &mut dyn Output) {
        let mut reporter = Reporter { path: &self.path, tally: &mut self.tally, output };
        self.streams.resolve(now, &mut reader::Feed { reader: &mut self.reader, reporter: &mut reporter, hint });
        if self.streams.is_closed() && !self.is_over {
            self.end(crate::End::Closed, output);
        }
    }

    fn open(&mut self, side: Side, segment: &Segment<'_>, at: Nanos, output: &mut dyn Output) {
        self.streams.set_base(side, segment.sequence.wrapping_add(1));
        match (side, segment.acknowledges) {
            (Side::Client, None) => match self.syn {
                None => self.syn = Some((segment.sequence, at)),
                Some((_, first)) => {
                    let count = self.seen.syn_again();
                    let waited = at - first;
                    self.report(FindingKind::SynUnanswered, at, waited, count, output);
                }
            },
            (Side::Server, Some(acknowledges)) => {
                self.streams.set_base(Side::Client, acknowledges);
                if !std::mem::replace(&mut self.has_syn_ack, true)
                    && let Some((_, syn)) = self.syn
                {
                    self.handshake = Some(at - syn);
                    // If the server speaks first, its response time counts from here.
                    self.requested = Some(at);
                    output.connected(&self.path, at - syn, at);
                }
            }
            _ => {}
        }
    }

    /// Looks for problems before the segment is processed.
    fn watch(&mut self, side: Side, segment: &Segment<'_>, at: Nanos, idle: Nanos, output: &mut dyn Output) {
        if segment.window == 0 && !segment.syn {
            if self.seen.zero_window(side) {
                output.tcp(&self.path, self.reader.protocol(), TcpEvent::ZeroWindow(side));
                self.report(FindingKind::ZeroWindow, at, 0, 1, output);
            }
        } else {
            self.seen.window_opened(side);
        }
        if side == Side::Client && segment.length > 0 && !self.is_over {
            self.seen.client_spoke(at, idle, self.streams.has_fin(Side::Server));
        }
        if side == Side::Server && segment.length > 0 {
            self.seen.server_spoke(self.streams.has_fin(Side::Client));
        }
    }

    /// Bytes of a side that are new.
    fn spoke(&mut self, side: Side, at: Nanos, output: &mut dyn Output) {
        if side == Side::Client {
            self.requested = Some(at);
        } else if let Some(requested) = self.requested.take()
            && self.reader.protocol().is_none()
        {
            output.tcp(&self.path, None, TcpEvent::FirstByte(at - requested));
        }
    }

    fn retransmitted(&mut self, side: Side, at: Nanos, output: &mut dyn Output) {
        output.tcp(&self.path, self.reader.protocol(), TcpEvent::Retransmission(side));
        if let Some((count, span)) = self.seen.retransmitted(side, at) {
            self.report(FindingKind::RetransmissionStorm, at, span, count, output);
        }
    }

    fn reset(&mut self, side: Side, segment: &Segment<'_>, at: Nanos, output: &mut dyn Output) {
        /// A reset this far from the stream's end is forged or of an older connection.
        const NEAR: i64 = 1 << 20;
        if self.is_over {
            return;
        }
        let is_refusal = side == Side::Server && self.syn.is_some() && !self.has_syn_ack;
        if !is_refusal && !self.streams.is_near(side, segment.sequence, NEAR) {
            return;
        }
        output.tcp(&self.path, self.reader.protocol(), TcpEvent::Reset(side));
        let mut reporter = Reporter { path: &self.path, tally: &mut self.tally, output };
        self.streams.resolve(
            None,
            &mut reader::Feed { reader: &mut self.reader, reporter: &mut reporter, hint: Hint::default() },
        );
        if is_refusal {
            let waited = self.syn.map_or(0, |(_, syn)| at - syn);
            self.report(FindingKind::Refused, at, waited, 1, output);
        } else if let Some(idle) = self.seen.reused_dead(side).filter(|_| self.reader.open() > 0) {
            self.report(FindingKind::DeadKeepalive, at, idle, 1, output);
        }
        // A client that had closed was no longer waiting for a response: the reset has no further meaning.
        let end = match (self.streams.has_fin(Side::Client), side) {
            (true, Side::Client) if !self.seen.server_spoke_after_close() => crate::End::Unexplained,
            (true, _) => crate::End::Closed,
            (false, _) => crate::End::Reset,
        };
        self.end(end, output);
    }

    fn report(&self, kind: FindingKind, at: Nanos, nanos: Nanos, count: u64, output: &mut dyn Output) {
        output.finding(&Finding { kind, path: self.path, at, nanos, count, protocol: self.reader.protocol() });
    }

    /// The connection ends, or with [`crate::End::Cut`] the capture does.
    pub(crate) fn end(&mut self, end: crate::End, output: &mut dyn Output) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        if end == crate::End::Cut && self.seen.is_half_open(self.last - self.first) {
            self.report(FindingKind::HalfOpen, self.last, self.last - self.first, 1, output);
        }
        let mut reporter = Reporter { path: &self.path, tally: &mut self.tally, output };
        let (requests, open, counts) = self.reader.finish(end, &mut reporter);
        let others = self.tally.others.get().copied().unwrap_or_default();
        let summary = Summary {
            path: self.path,
            protocol: self.reader.protocol(),
            first: self.first,
            last: self.last,
            handshake: self.handshake,
            from_start: self.has_syn_ack,
            ended: end != crate::End::Cut,
            requests,
            answered: self.tally.answered,
            unanswered: others.unanswered,
            discarded: others.discarded,
            open,
            losses: counts.losses,
            resyncs: counts.resyncs,
            sides: [self.streams.counts(Side::Client), self.streams.counts(Side::Server)],
        };
        debug_assert!(summary.is_conserved(), "{summary:?}");
        output.closed(&summary);
        self.closed = summary.ended.then(|| Box::new(summary));
        self.reader = Reader::default();
    }
}
