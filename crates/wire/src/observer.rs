//! Takes frames in the order of their capture, and reports what went on in them.
//!
//! Limits: see [`Limits`]. Whoever is beyond them is dropped, the longest idle of a few first, and counted.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::connection::End;
use crate::decoder::{Protocol, Side};
use crate::file::Frame;
use crate::flow::Flow;
use crate::frame::{Datagram, Fragments, Ignored, Packet, Segment, TCP, decode};
use crate::habit::Habits;
use crate::hash::Seeded;
use crate::output::Output;
use crate::path::{Endpoint, FlowKey, Path};
use crate::protocol::{self, Hint};
use crate::span::Nanos;
use crate::udp::Datagrams;

/// A connection that ended is remembered this long, so that its late segments are recognised.
const LINGER: Nanos = 2_000_000_000;

/// Connections checked with each frame for overdue actions: the whole table is checked in as many frames as it has
/// connections.
const LOOKED_AT: usize = 2;

/// Connections among which the longest idle one is dropped when the table is full.
const CANDIDATES: usize = 16;

/// Server ports whose protocol was recognised, which are remembered as hints.
const MAX_LEARNED: usize = 4_096;

/// The limits of an observer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections at once.
    pub connections: usize,
    /// Bytes that wait for earlier ones, in all connections.
    pub held_bytes: usize,
    /// A connection without a segment for this long is dropped.
    pub idle: Nanos,
}

impl Default for Limits {
    fn default() -> Self {
        // 256 Ki connections of at most 1 KiB are 256 MiB when all idle.
        Self { connections: 262_144, held_bytes: 256 << 20, idle: 2 * 3_600 * 1_000_000_000 }
    }
}

/// How an observer reads.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The limits.
    pub limits: Limits,
    /// Ports of servers and their protocols: `--port 5432=pgsql`.
    pub ports: Vec<(u16, &'static Protocol)>,
    /// The protocols that are looked for: all by default.
    pub only: protocol::Set,
    /// Keep the heads of requests, without their secrets ([`crate::Exchange::head`]).
    pub keeps_heads: bool,
}

/// The totals of an observer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Frames.
    pub frames: u64,
    /// Bytes of the frames on the wire.
    pub bytes: u64,
    /// Frames that were not read, by [`Ignored`].
    pub ignored: [u64; Ignored::ALL.len()],
    /// Connections seen.
    pub connections: u64,
    /// Connections dropped because of the limits.
    pub evicted: u64,
    /// Connections now.
    pub open_connections: u64,
    /// Packets of fragments that were dropped.
    pub fragments_dropped: u64,
    /// First and last capture time.
    pub first: Option<Nanos>,
    /// See `first`.
    pub last: Option<Nanos>,
}

#[derive(Debug)]
enum Slot {
    Used { flow: Box<Flow> },
    Free,
}

/// Observes connections.
#[derive(Debug, Default)]
pub struct Observer {
    options: Options,
    index: HashMap<FlowKey, u32, Seeded>,
    slots: Vec<Slot>,
    /// The earliest time at which each slot is to be checked: separate from the slots, so that checking touches no
    /// cache line of theirs.
    due: Vec<Nanos>,
    free: Vec<u32>,
    hand: usize,
    held_bytes: usize,
    fragments: Fragments,
    datagrams: Datagrams,
    learned: HashMap<Endpoint, &'static str, Seeded>,
    habits: Habits,
    totals: Totals,
}

impl Observer {
    /// An observer of nothing yet.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self { options, ..Self::default() }
    }

    /// The totals so far.
    #[must_use]
    pub fn totals(&self) -> Totals {
        Totals { open_connections: self.index.len() as u64, fragments_dropped: self.fragments.dropped(), ..self.totals }
    }

    /// Bytes that wait for earlier ones, in all connections.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Processes a frame.
    pub fn frame(&mut self, frame: &Frame<'_>, output: &mut dyn Output) {
        self.totals.frames += 1;
        self.totals.bytes += frame.length as u64;
        self.totals.first.get_or_insert(frame.at);
        self.totals.last = Some(frame.at);
        // By reference: see `FlowKey::from_parts`.
        let taken = match &decode(frame.link, frame.bytes, frame.length) {
            Ok(packet) => self.packet(packet, frame.at, output),
            Err(ignored) => Err(*ignored),
        };
        if let Err(ignored) = taken {
            self.totals.ignored[ignored as usize] += 1;
        }
        self.look_around(frame.at, output);
    }

    /// Performs overdue actions at `now`: for live captures, where no frame may arrive for a while.
    pub fn tick(&mut self, now: Nanos, output: &mut dyn Output) {
        for slot in 0..self.slots.len() {
            if self.due[slot] <= now {
                self.look_at(slot, now, output);
            }
        }
        self.datagrams.expire(now, output);
    }

    /// The capture ends: everything that waits is read, open exchanges stay open.
    pub fn finish(&mut self, output: &mut dyn Output) {
        for slot in 0..self.slots.len() {
            self.end(slot, End::Cut, output);
        }
        self.datagrams.finish(output);
    }

    fn packet(&mut self, packet: &Packet<'_>, at: Nanos, output: &mut dyn Output) -> Result<(), Ignored> {
        let Some(fragment) = packet.fragment else {
            return if packet.protocol == TCP {
                let segment = Segment::parse(packet.payload, packet.length)?;
                self.segment(&packet.from, &packet.to, &segment, at, output);
                Ok(())
            } else {
                self.datagram(packet.from, packet.to, &Datagram::parse(packet.payload, packet.length, at, at)?, output)
            };
        };
        let pieces = self.fragments.add(packet, fragment, at).ok_or(Ignored::Fragment)?;
        let whole: Vec<u8> = pieces.iter().flat_map(|piece| piece.bytes.iter().copied()).collect();
        if packet.protocol != TCP {
            let first = pieces.first().map_or(at, |piece| piece.at);
            let last = pieces.last().map_or(at, |piece| piece.at);
            return self.datagram(packet.from, packet.to, &Datagram::parse(&whole, whole.len(), first, last)?, output);
        }
        let segment = Segment::parse(&whole, whole.len())?;
        let header = whole.len() - segment.length;
        for piece in &pieces {
            // Each fragment's bytes have their own time, as if each were a segment.
            let (from, to) = (piece.offset.max(header), piece.offset + piece.bytes.len());
            let skipped = u32::try_from(from - header).unwrap_or(0);
            let is_last = to == whole.len();
            let payload = whole.get(from..to).unwrap_or_default();
            let part = Segment {
                sequence: segment.sequence.wrapping_add(skipped),
                fin: segment.fin && is_last,
                payload,
                length: payload.len(),
                ..segment
            };
            self.segment(&packet.from, &packet.to, &part, piece.at, output);
        }
        Ok(())
    }

    fn datagram(
        &mut self,
        from: IpAddr,
        to: IpAddr,
        datagram: &Datagram<'_>,
        output: &mut dyn Output,
    ) -> Result<(), Ignored> {
        let (from, to) = (Endpoint { ip: from, port: datagram.from }, Endpoint { ip: to, port: datagram.to });
        if self.datagrams.take(from, to, datagram, output) { Ok(()) } else { Err(Ignored::Protocol) }
    }

    /// A segment that `from` sent.
    fn segment(&mut self, from: &IpAddr, to: &IpAddr, segment: &Segment<'_>, at: Nanos, output: &mut dyn Output) {
        let (key, is_from_lower) = FlowKey::from_parts((from, segment.from), (to, segment.to));
        let mut slot = self.index.get(&key).map(|slot| *slot as usize);
        if let Some(used) = slot
            && let Slot::Used { flow } = &self.slots[used]
            && flow.is_reused_by(segment)
        {
            self.end(used, End::Closed, output);
            slot = None;
        }
        let slot = match slot {
            Some(slot) => slot,
            // Only a SYN or a segment with data creates a connection: stray acknowledgements do not.
            None if segment.syn || segment.length > 0 => self.add(key, self.roles(from, to, segment), at, output),
            None => return,
        };
        let Slot::Used { flow } = &self.slots[slot] else { return };
        if flow.is_over {
            return;
        }
        // Only data identifies the protocol.
        let hint = if segment.length == 0 && !flow.is_blocked() { Hint::default() } else { self.hint(slot) };
        let Slot::Used { flow } = &mut self.slots[slot] else { return };
        let side = if flow.client_is_lower == is_from_lower { Side::Client } else { Side::Server };
        let held = flow.held_bytes();
        let was_known = flow.protocol().is_some();
        flow.segment(side, segment, at, hint, output);
        let now_held = flow.held_bytes();
        let is_over = flow.is_over;
        if is_over {
            self.due[slot] = flow.last.saturating_add(LINGER);
        } else if flow.is_blocked() {
            self.due[slot] = at;
        }
        if !was_known && let Some(name) = flow.protocol() {
            let server = flow.path.server;
            self.learn(server, name);
        }
        if is_over {
            self.look_back(slot, output);
        }
        if held != now_held {
            self.held_bytes = (self.held_bytes + now_held).saturating_sub(held);
            if self.held_bytes > self.options.limits.held_bytes {
                self.relieve(slot, output);
            }
        }
    }

    /// A closed connection is evidence of its client's habits.
    fn look_back(&mut self, slot: usize, output: &mut dyn Output) {
        if let Slot::Used { flow } = &mut self.slots[slot]
            && let Some(summary) = flow.closed.take()
            && let Some(finding) = self.habits.closed(&summary)
        {
            output.finding(&finding);
        }
    }

    fn account(&mut self, slot: usize, before: usize) {
        if let Slot::Used { flow } = &self.slots[slot] {
            self.held_bytes = (self.held_bytes + flow.held_bytes()).saturating_sub(before);
        }
    }

    /// The total of waiting data is too large: what this connection waits for is declared a gap.
    fn relieve(&mut self, slot: usize, output: &mut dyn Output) {
        let hint = self.hint(slot);
        if let Slot::Used { flow } = &mut self.slots[slot] {
            let held = flow.held_bytes();
            flow.resolve(None, hint, output);
            self.account(slot, held);
        }
    }

    /// Decides who is the client: the sender of the SYN, or the likelier one by the ports.
    fn roles(&self, from: &IpAddr, to: &IpAddr, segment: &Segment<'_>) -> Path {
        let from = Endpoint { ip: *from, port: segment.from };
        let to = Endpoint { ip: *to, port: segment.to };
        let is_server =
            |endpoint: Endpoint| self.learned.contains_key(&endpoint) || self.named(endpoint.port).is_some();
        let from_is_client = if segment.syn {
            segment.acknowledges.is_none()
        } else {
            match (is_server(from), is_server(to)) {
                (false, true) => true,
                (true, false) => false,
                _ => from.port > to.port,
            }
        };
        if from_is_client { Path { client: from, server: to } } else { Path { client: to, server: from } }
    }

    fn named(&self, port: u16) -> Option<&'static Protocol> {
        let named = self.options.ports.iter().find(|(named, _)| *named == port);
        named.map(|(_, protocol)| *protocol).or_else(|| protocol::by_port(port))
    }

    #[inline]
    fn hint(&self, slot: usize) -> Hint {
        match &self.slots[slot] {
            Slot::Used { flow } if flow.protocol().is_some() => Hint::default(),
            _ => self.looked_up_hint(slot),
        }
    }

    fn looked_up_hint(&self, slot: usize) -> Hint {
        let only = self.options.only;
        let port = match &self.slots[slot] {
            Slot::Used { flow } => {
                let learned = self.learned.get(&flow.path.server).and_then(|name| protocol::by_name(name));
                learned.or_else(|| self.named(flow.path.server.port))
            }
            Slot::Free => None,
        };
        Hint { port, only, keeps_heads: self.options.keeps_heads }
    }

    fn learn(&mut self, server: Endpoint, name: &'static str) {
        if self.learned.len() < MAX_LEARNED || self.learned.contains_key(&server) {
            self.learned.insert(server, name);
        }
    }

    fn add(&mut self, key: FlowKey, path: Path, at: Nanos, output: &mut dyn Output) -> usize {
        if self.index.len() >= self.options.limits.connections {
            self.evict(output);
        }
        self.totals.connections += 1;
        let used = Slot::Used { flow: Box::new(Flow::new(path, at)) };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = used;
                self.due[slot as usize] = at.saturating_add(self.options.limits.idle);
                slot
            }
            None => {
                self.slots.push(used);
                self.due.push(at.saturating_add(self.options.limits.idle));
                u32::try_from(self.slots.len() - 1).expect("the table's limit is below 2^32")
            }
        };
        self.index.insert(key, slot);
        slot as usize
    }

    /// A connection ends: waiting data is read, and its slot is freed.
    fn end(&mut self, slot: usize, end: End, output: &mut dyn Output) {
        let hint = self.hint(slot);
        if let Slot::Used { flow } = &mut self.slots[slot] {
            let held = flow.held_bytes();
            flow.resolve(None, hint, output);
            flow.end(end, output);
            self.account(slot, held);
        }
        self.look_back(slot, output);
        self.release(slot);
    }

    fn release(&mut self, slot: usize) {
        if let Slot::Used { flow } = std::mem::replace(&mut self.slots[slot], Slot::Free) {
            let key = FlowKey::new(flow.path.client, flow.path.server);
            self.held_bytes = self.held_bytes.saturating_sub(flow.held_bytes());
            self.index.remove(&key);
            self.free.push(u32::try_from(slot).expect("the table's limit is below 2^32"));
        }
    }

    fn evict(&mut self, output: &mut dyn Output) {
        let count = self.slots.len();
        let candidates = (0..CANDIDATES.min(count)).map(|step| (self.hand + step) % count);
        let last = |slot: usize| if let Slot::Used { flow } = &self.slots[slot] { flow.last } else { Nanos::MAX };
        let Some(slot) = candidates.min_by_key(|slot| last(*slot)) else { return };
        self.hand = (self.hand + CANDIDATES) % count;
        self.totals.evicted += 1;
        self.end(slot, End::Cut, output);
    }

    fn look_around(&mut self, now: Nanos, output: &mut dyn Output) {
        for _ in 0..LOOKED_AT.min(self.due.len()) {
            self.hand = if self.hand + 1 >= self.due.len() { 0 } else { self.hand + 1 };
            if self.due[self.hand] <= now {
                self.look_at(self.hand, now, output);
            }
        }
    }

    /// Performs overdue actions of a slot, and records when to check it again.
    fn look_at(&mut self, slot: usize, now: Nanos, output: &mut dyn Output) {
        let idle = self.options.limits.idle;
        let Slot::Used { flow } = &mut self.slots[slot] else {
            self.due[slot] = Nanos::MAX;
            return;
        };
        let quiet = now.saturating_sub(flow.last);
        if flow.is_over {
            self.due[slot] = flow.last.saturating_add(LINGER);
            if quiet > LINGER {
                self.release(slot);
            }
            return;
        }
        self.due[slot] = flow.last.saturating_add(idle);
        if flow.is_blocked() {
            let hint = self.hint(slot);
            let Slot::Used { flow } = &mut self.slots[slot] else { return };
            let held = flow.held_bytes();
            flow.resolve(Some(now), hint, output);
            self.due[slot] = now;
            self.account(slot, held);
            self.look_back(slot, output);
        } else if quiet > idle {
            flow.end(End::Cut, output);
            self.totals.evicted += 1;
            self.release(slot);
        }
    }
}
