//! The two byte streams of a TCP connection, put in order and delivered causally.
//!
//! A segment is delivered once (1) everything before it on its side was, and (2) everything of the other side that it
//! acknowledges was. So a response never comes before the request that caused it, even when the request was seen late
//! or never. What cannot be delivered waits; a byte's time is that of the first frame that carried it.
//!
//! What nobody will send again becomes a hole: bytes that the peer acknowledged and that did not show up for
//! [`ACKED_WAIT`], or others for [`UNACKED_WAIT`], or when a side holds [`MAX_HELD_BYTES`] or [`MAX_HELD_SEGMENTS`].

use crate::decoder::Side;
use crate::rare::LazyBox;
use crate::span::Nanos;

/// Bytes that wait on one side: 1 MiB, some milliseconds of a fast link.
pub(crate) const MAX_HELD_BYTES: usize = 1 << 20;

/// Segments that wait on one side.
pub(crate) const MAX_HELD_SEGMENTS: usize = 1_024;

/// The peer has these bytes, so they arrive here late (reordered, or retransmitted for a lost acknowledgement) or
/// never.
pub(crate) const ACKED_WAIT: Nanos = 250_000_000;

/// The peer lacks these bytes, so they will be retransmitted: within a few retransmission timeouts.
pub(crate) const UNACKED_WAIT: Nanos = 3_000_000_000;

/// A sequence number further away than this does not belong to the observed connection: windows are at most 1 GiB (RFC
/// 7323).
const MAX_JUMP: i64 = 1 << 30;

/// Receives the streams.
pub(crate) trait Delivery {
    /// The next bytes of a side.
    fn data(&mut self, side: Side, bytes: &[u8], at: Nanos, acked: Option<u64>);
    /// The next bytes passed and were not captured.
    fn cut(&mut self, side: Side, bytes: u64, at: Nanos);
    /// The next bytes were never seen.
    fn hole(&mut self, side: Side, bytes: u64);
    /// The side sends no more.
    fn fin(&mut self, side: Side, at: Nanos);
}

/// The part of a segment that belongs to the stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part<'a> {
    /// Sequence number of the first byte of payload.
    pub(crate) sequence: u32,
    /// What it acknowledges.
    pub(crate) acknowledges: Option<u32>,
    /// Captured bytes.
    pub(crate) payload: &'a [u8],
    /// Bytes on the wire.
    pub(crate) length: usize,
    /// The side ends after it.
    pub(crate) fin: bool,
    /// When it was captured.
    pub(crate) at: Nanos,
}

#[derive(Debug)]
struct QueuedSegment {
    start: u64,
    end: u64,
    fin: bool,
    at: Nanos,
    acked: Option<u64>,
    bytes: Vec<u8>,
    arrival: u64,
}

/// The counters of one side of a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SideCounts {
    /// Bytes of the stream that were delivered, holes included.
    pub bytes: u64,
    /// Segments whose payload was seen before, at least in part.
    pub retransmitted: u64,
    /// Their bytes.
    pub retransmitted_bytes: u64,
    /// Segments that arrived before an earlier one.
    pub reordered: u64,
    /// Bytes that were retransmitted with another value while the first ones waited.
    pub contradictory_bytes: u64,
    /// Holes.
    pub holes: u64,
    /// Bytes in holes.
    pub hole_bytes: u64,
    /// Segments outside of any window.
    pub stray: u64,
}

#[derive(Debug, Default)]
struct Half {
    /// Sequence number of the first byte.
    base: Option<u32>,
    /// Bytes delivered.
    next: u64,
    /// Bytes that the other side acknowledged.
    acked: u64,
    /// Sorted by start; ranges do not overlap.
    held: Vec<QueuedSegment>,
    /// Where the stream ends.
    fin: Option<u64>,
    fin_delivered: bool,
    counts: LazyBox<Counts>,
}

/// Counters that a side without losses does not need.
#[derive(Debug, Default)]
struct Counts {
    shown: SideCounts,
    /// Bytes of the segments that wait.
    held_bytes: usize,
}

impl Half {
    /// The offset of a sequence number, near the next byte; `None` when it is outside any window.
    fn offset(&self, sequence: u32) -> Option<i64> {
        let base = self.base?;
        let next = i64::try_from(self.next).ok()?;
        #[allow(clippy::cast_possible_truncation, reason = "sequence numbers are modulo 2^32")]
        let distance = sequence.wrapping_sub(base).wrapping_sub(self.next as u32).cast_signed();
        let distance = i64::from(distance);
        (distance.abs() <= MAX_JUMP).then_some(next + distance)
    }

    fn is_blocked(&self) -> bool {
        !self.held.is_empty()
    }

    fn held_bytes(&self) -> usize {
        self.counts.get().map_or(0, |counts| counts.held_bytes)
    }
}

/// Both sides of a connection.
#[derive(Debug, Default)]
pub(crate) struct Reassembly {
    halves: [Half; 2],
    arrivals: u64,
}

/// The classification of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// It was delivered or waits.
    New,
    /// All of it was seen before.
    Again,
    /// Its sequence number is out of any window.
    Stray,
}

impl Reassembly {
    /// The side's first byte has this sequence number.
    pub(crate) fn set_base(&mut self, side: Side, sequence: u32) {
        self.halves[side.index()].base.get_or_insert(sequence);
    }

    pub(crate) fn counts(&self, side: Side) -> SideCounts {
        let half = &self.halves[side.index()];
        SideCounts { bytes: half.next, ..half.counts.get().map_or_else(SideCounts::default, |counts| counts.shown) }
    }

    pub(crate) fn has_fin(&self, side: Side) -> bool {
        self.halves[side.index()].fin.is_some()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.halves.iter().all(|half| half.fin_delivered)
    }

    pub(crate) fn is_blocked(&self) -> bool {
        self.halves.iter().any(Half::is_blocked)
    }

    /// Bytes that wait.
    pub(crate) fn held_bytes(&self) -> usize {
        self.halves.iter().map(Half::held_bytes).sum()
    }

    /// Whether a sequence number is near the side's next one.
    pub(crate) fn is_near(&self, side: Side, sequence: u32, within: i64) -> bool {
        let half = &self.halves[side.index()];
        half.offset(sequence).is_none_or(|offset| (offset - i64::try_from(half.next).unwrap_or(0)).abs() <= within)
    }

    /// The offset of the other side that a segment of `side` acknowledges.
    fn acknowledged(&mut self, side: Side, acknowledges: Option<u32>) -> Option<u64> {
        let other = &mut self.halves[side.other().index()];
        let acknowledges = acknowledges?;
        other.base.get_or_insert(acknowledges);
        let offset = u64::try_from(other.offset(acknowledges)?).ok()?;
        // The end of the stream counts as one.
        let offset = other.fin.map_or(offset, |fin| offset.min(fin));
        other.acked = other.acked.max(offset);
        Some(offset)
    }

    /// Processes a segment of `side`.
    pub(crate) fn segment(&mut self, side: Side, part: Part<'_>, delivery: &mut dyn Delivery) -> Arrival {
        let acked = self.acknowledged(side, part.acknowledges);
        let half = &mut self.halves[side.index()];
        if part.length == 0 && !part.fin {
            return Arrival::New;
        }
        half.base.get_or_insert(part.sequence);
        let Some(offset) = half.offset(part.sequence) else {
            half.counts.make().shown.stray += 1;
            return Arrival::Stray;
        };
        let next = i64::try_from(half.next).unwrap_or(i64::MAX);
        let end = offset + i64::try_from(part.length).unwrap_or(0);
        let past = usize::try_from((next - offset).max(0)).unwrap_or(usize::MAX);
        if past > 0 && part.length > 0 {
            half.counts.make().shown.retransmitted += 1;
            half.counts.make().shown.retransmitted_bytes += past.min(part.length) as u64;
        }
        if end < next || (end == next && !part.fin) || (part.fin && half.fin_delivered) {
            return Arrival::Again;
        }
        let start = u64::try_from(offset.max(next)).unwrap_or(0);
        let end = u64::try_from(end).unwrap_or(0);
        if part.fin {
            half.fin.get_or_insert(end);
        }
        let payload = part.payload.get(past..).unwrap_or_default();
        let payload = &payload[..payload.len().min(usize::try_from(end - start).unwrap_or(0))];
        let is_caused = acked.is_none_or(|acked| acked <= self.halves[side.other().index()].next);
        let half = &mut self.halves[side.index()];
        if half.held.is_empty() && start == half.next && is_caused {
            half.next = end;
            deliver(side, payload, end - start, part.at, acked, delivery);
            if part.fin {
                half.fin_delivered = true;
                delivery.fin(side, part.at);
            }
            if self.halves[side.other().index()].is_blocked() {
                self.drain(delivery);
            }
            return Arrival::New;
        }
        let held = QueuedSegment {
            start,
            end,
            fin: part.fin,
            at: part.at,
            acked,
            bytes: payload.to_vec(),
            arrival: self.arrivals,
        };
        self.arrivals += 1;
        self.hold(side, held);
        self.drain(delivery);
        if self.is_over_limit(side) {
            self.resolve(None, delivery);
        }
        Arrival::New
    }

    fn is_over_limit(&self, side: Side) -> bool {
        let half = &self.halves[side.index()];
        half.held_bytes() > MAX_HELD_BYTES || half.held.len() > MAX_HELD_SEGMENTS
    }

    /// Keeps the part of a segment that is not held yet: the first copy of a byte counts.
    fn hold(&mut self, side: Side, segment: QueuedSegment) {
        let half = &mut self.halves[side.index()];
        if half.held.last().is_some_and(|last| segment.end <= last.start || segment.start < last.end) {
            half.counts.make().shown.reordered += 1;
        }
        let mut start = segment.start;
        let mut index = half.held.partition_point(|held| held.end <= start && held.start < start);
        let mut pieces = 0;
        while start < segment.end || (segment.start == segment.end && pieces == 0) {
            pieces += 1;
            let next = half.held.get(index).map(|held| (held.start, held.end));
            if start < segment.end && next.is_some_and(|(from, to)| from == to && from <= start) {
                // An end without bytes: it does not divide them.
                index += 1;
                continue;
            }
            if let Some((from, to)) = next
                && from <= start
                && start < to
            {
                half.counts.make().shown.retransmitted_bytes += to.min(segment.end) - start;
                half.counts.make().shown.contradictory_bytes +=
                    contradiction(&half.held[index], &segment, start, to.min(segment.end));
                start = to;
                index += 1;
                continue;
            }
            let end = next.map_or(segment.end, |(from, _)| from.min(segment.end)).max(start);
            let slice =
                |offset: u64| usize::try_from(offset - segment.start).unwrap_or(usize::MAX).min(segment.bytes.len());
            let bytes = segment.bytes[slice(start)..slice(end)].to_vec();
            half.counts.make().held_bytes += bytes.len();
            let fin = segment.fin && end == segment.end;
            half.held.insert(
                index,
                QueuedSegment {
                    start,
                    end,
                    fin,
                    at: segment.at,
                    acked: segment.acked,
                    bytes,
                    arrival: segment.arrival,
                },
            );
            index += 1;
            start = end;
        }
    }

    /// Delivers what is ready.
    fn drain(&mut self, delivery: &mut dyn Delivery) {
        let mut stuck = 0;
        let mut side = Side::Client;
        while stuck < 2 {
            stuck = if self.drain_side(side, delivery) { 0 } else { stuck + 1 };
            side = side.other();
            if stuck == 2 && self.break_cycle() {
                stuck = 0;
            }
        }
    }

    fn drain_side(&mut self, side: Side, delivery: &mut dyn Delivery) -> bool {
        let other = &self.halves[side.other().index()];
        // An acknowledged end counts as one more.
        let other = if other.fin == Some(other.next) { other.next + 1 } else { other.next };
        let half = &mut self.halves[side.index()];
        let mut count = 0;
        for held in &half.held {
            if held.start > half.next || held.acked.is_some_and(|acked| acked > other) {
                break;
            }
            count += 1;
            let past = usize::try_from(half.next - held.start).unwrap_or(usize::MAX);
            if held.end > half.next {
                let bytes = held.bytes.get(past..).unwrap_or_default();
                let length = held.end - half.next;
                half.next = held.end;
                deliver(side, bytes, length, held.at, held.acked, delivery);
            }
            if held.fin && !half.fin_delivered {
                half.fin_delivered = true;
                delivery.fin(side, held.at);
            }
            half.counts.make().held_bytes -= held.bytes.len();
        }
        half.held.drain(..count);
        if half.held.is_empty() {
            half.held = Vec::new();
        }
        count > 0
    }

    /// Declares the gaps that are overdue at `now`, or with `None` all that block anything.
    pub(crate) fn resolve(&mut self, now: Option<Nanos>, delivery: &mut dyn Delivery) {
        while let Some((side, hole, since, is_acked)) = self.blocker() {
            if let Some(now) = now {
                let wait = if is_acked { ACKED_WAIT } else { UNACKED_WAIT };
                if now.saturating_sub(since) < wait {
                    return;
                }
            }
            let half = &mut self.halves[side.index()];
            half.counts.make().shown.holes += 1;
            half.counts.make().shown.hole_bytes += hole;
            half.next += hole;
            delivery.hole(side, hole);
            self.drain(delivery);
        }
    }

    /// The gap that blocks the oldest waiting segment: its side, its size, since when, and whether the peer has the
    /// bytes.
    fn blocker(&self) -> Option<(Side, u64, Nanos, bool)> {
        let oldest =
            |side: Side| self.halves[side.index()].held.iter().min_by_key(|held| held.arrival).map(|held| (side, held));
        let (side, held) =
            [Side::Client, Side::Server].into_iter().filter_map(oldest).min_by_key(|(_, held)| held.arrival)?;
        let half = &self.halves[side.index()];
        let first = &half.held[0];
        if first.start > half.next {
            return Some((side, first.start - half.next, held.at, half.acked >= first.start));
        }
        // The first segment of its side is ready except for what it acknowledges.
        let other = &self.halves[side.other().index()];
        let acked = first.acked.filter(|acked| *acked > other.next)?;
        let end = other
            .held
            .first()
            .map_or(acked, |held| if held.start > other.next { acked.min(held.start) } else { acked });
        Some((side.other(), end - other.next, held.at, true))
    }

    /// Two segments that acknowledge each other's bytes: the later one is a retransmission, with an acknowledgement
    /// newer than its bytes. Its bytes go first.
    fn break_cycle(&mut self) -> bool {
        let [client, server] = &self.halves;
        let (Some(first), Some(second)) = (client.held.first(), server.held.first()) else { return false };
        let waits = |held: &QueuedSegment, half: &Half, other: &Half| {
            held.start <= half.next && held.acked.is_some_and(|acked| acked > other.next)
        };
        if !waits(first, client, server) || !waits(second, server, client) {
            return false;
        }
        let later = usize::from(second.arrival > first.arrival);
        self.halves[later].held[0].acked = None;
        true
    }
}

/// Bytes of `segment` from `start` to `end` that differ from those that are held.
fn contradiction(held: &QueuedSegment, segment: &QueuedSegment, start: u64, end: u64) -> u64 {
    let slice =
        |of: &QueuedSegment, offset: u64| usize::try_from(offset - of.start).unwrap_or(usize::MAX).min(of.bytes.len());
    let old = &held.bytes[slice(held, start)..slice(held, end)];
    let new = &segment.bytes[slice(segment, start)..slice(segment, end)];
    old.iter().zip(new).filter(|(old, new)| old != new).count() as u64
}

fn deliver(side: Side, bytes: &[u8], length: u64, at: Nanos, acked: Option<u64>, delivery: &mut dyn Delivery) {
    if !bytes.is_empty() {
        delivery.data(side, bytes, at, acked);
    }
    let cut = length - bytes.len() as u64;
    if cut > 0 {
        delivery.cut(side, cut, at);
    }
}
