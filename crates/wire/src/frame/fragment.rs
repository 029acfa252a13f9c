//! Fragments of IP packets, until the packet is whole.
//!
//! Limits: [`MAX_PACKETS`] packets at once, the oldest dropped first; 64 KiB and [`MAX_PIECES`] pieces a packet. A
//! piece that overlaps another drops the packet (RFC 5722, for IPv4 as well): whoever sends such has nothing to be
//! measured by.

use std::collections::VecDeque;
use std::net::IpAddr;

use super::{Fragment, Packet};
use crate::span::Nanos;

/// Packets that may wait for fragments at once: 64 of 64 KiB are 4 MiB.
pub(super) const MAX_PACKETS: usize = 64;

/// Pieces of a packet: 64 KiB in the smallest MTU of IPv4 (576) are 119.
pub(super) const MAX_PIECES: usize = 128;

/// Bytes of a packet.
const MAX_BYTES: usize = 65_535;

/// One fragment's bytes and time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Bytes of the packet before it.
    pub offset: usize,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// When it was captured.
    pub at: Nanos,
}

#[derive(Debug, PartialEq, Eq, Clone, Copy)]
struct PacketKey {
    from: IpAddr,
    to: IpAddr,
    protocol: u8,
    id: u32,
}

#[derive(Debug)]
struct PendingDatagram {
    key: PacketKey,
    pieces: Vec<Piece>,
    /// Known once the last fragment has arrived.
    total: Option<usize>,
}

impl PendingDatagram {
    fn is_whole(&self) -> bool {
        let bytes: usize = self.pieces.iter().map(|piece| piece.bytes.len()).sum();
        self.total == Some(bytes)
    }
}

/// Packets that wait for fragments.
#[derive(Debug, Default)]
pub struct Fragments {
    waiting: VecDeque<PendingDatagram>,
    dropped: u64,
}

impl Fragments {
    /// Packets that were dropped: too many at once, pieces that overlap, too long, or cut by the snap length.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Adds a fragment; returns the pieces of the packet in order, once it is complete.
    pub fn add(&mut self, packet: &Packet<'_>, fragment: Fragment, at: Nanos) -> Option<Vec<Piece>> {
        let key = PacketKey { from: packet.from, to: packet.to, protocol: packet.protocol, id: fragment.id };
        let end = fragment.offset + packet.length;
        let index = self.waiting.iter().position(|waiting| waiting.key == key);
        if packet.payload.len() < packet.length || end > MAX_BYTES || packet.length == 0 {
            self.drop_packet(index);
            return None;
        }
        let index = index.unwrap_or_else(|| self.start(key));
        let waiting = &mut self.waiting[index];
        let same = |piece: &Piece| piece.offset == fragment.offset && piece.bytes == packet.payload;
        if waiting.pieces.iter().any(same) {
            // The same fragment a second time: its first copy counts.
            return None;
        }
        let overlaps = |piece: &Piece| piece.offset < end && fragment.offset < piece.offset + piece.bytes.len();
        let contradicts = waiting.total.is_some_and(|total| end > total || (!fragment.more && end != total));
        if waiting.pieces.iter().any(overlaps) || contradicts || waiting.pieces.len() >= MAX_PIECES {
            self.drop_packet(Some(index));
            return None;
        }
        waiting.pieces.push(Piece { offset: fragment.offset, bytes: packet.payload.to_vec(), at });
        if !fragment.more {
            waiting.total = Some(end);
        }
        if !waiting.is_whole() {
            return None;
        }
        let mut whole = self.waiting.remove(index)?;
        whole.pieces.sort_by_key(|piece| piece.offset);
        Some(whole.pieces)
    }

    fn start(&mut self, key: PacketKey) -> usize {
        if self.waiting.len() >= MAX_PACKETS {
            self.waiting.pop_front();
            self.dropped += 1;
        }
        self.waiting.push_back(PendingDatagram { key, pieces: Vec::new(), total: None });
        self.waiting.len() - 1
    }

    fn drop_packet(&mut self, index: Option<usize>) {
        self.dropped += 1;
        if let Some(index) = index {
            self.waiting.remove(index);
        }
    }
}
