//! From a captured frame to what its IP packet carries: link headers, VLAN tags, IPv4 and IPv6 with extension headers,
//! fragments.
//!
//! Checksums are not looked at: loopback and network cards with offloading leave them unfilled.

mod fragment;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub use fragment::{Fragments, Piece};

use crate::span::Nanos;

/// The first header of a frame (the numbers are those of tcpdump.org's list of link types).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// Ethernet, VLAN tags included.
    Ethernet,
    /// An IP packet and nothing before it.
    Raw,
    /// The address family in 4 bytes (BSD loopback).
    Null,
    /// Linux cooked, version 1 (`tcpdump -i any`).
    Cooked,
    /// Linux cooked, version 2.
    Cooked2,
    /// An unsupported one.
    Other(u32),
}

impl Link {
    /// The link type of this number.
    #[must_use]
    pub fn from_number(number: u32) -> Self {
        match number {
            0 | 108 => Self::Null,
            1 => Self::Ethernet,
            12 | 14 | 101 | 228 | 229 => Self::Raw,
            113 => Self::Cooked,
            276 => Self::Cooked2,
            other => Self::Other(other),
        }
    }
}

/// VLAN tags and IPv6 extension headers that are followed; more are not sent.
const MAX_HEADERS: usize = 8;

/// `ARPHRD_LOOPBACK` and the type of an outgoing packet, in cooked headers.
const ARPHRD_LOOPBACK: u16 = 772;
const OUTGOING: u16 = 4;

pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;

/// Why a frame was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Ignored {
    /// No IP packet (ARP, LLDP).
    NotIp,
    /// IP, but neither TCP nor UDP.
    Protocol,
    /// The second sight of a loopback packet.
    Copy,
    /// Its headers were not captured completely.
    Cut,
    /// Its lengths contradict each other.
    Malformed,
    /// A fragment that waits for others.
    Fragment,
    /// An unsupported link type.
    Link,
}

impl Ignored {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::NotIp, Self::Protocol, Self::Copy, Self::Cut, Self::Malformed, Self::Fragment, Self::Link];

    /// The name in summaries and labels.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NotIp => "not_ip",
            Self::Protocol => "protocol",
            Self::Copy => "copy",
            Self::Cut => "cut",
            Self::Malformed => "malformed",
            Self::Fragment => "fragment",
            Self::Link => "link",
        }
    }
}

/// The contents of an IP packet.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    /// Its sender.
    pub from: IpAddr,
    /// Its destination.
    pub to: IpAddr,
    /// The number of the protocol it carries.
    pub protocol: u8,
    /// The bytes that were captured.
    pub payload: &'a [u8],
    /// Its original length.
    pub length: usize,
    /// Set in a fragment.
    pub fragment: Option<Fragment>,
}

/// A fragment's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fragment {
    /// The packet it is of.
    pub id: u32,
    /// Bytes of the packet before it.
    pub offset: usize,
    /// Whether it is not the last.
    pub more: bool,
}

/// Decodes a frame's headers. `length` is the frame's length on the wire.
///
/// # Errors
/// Why it is ignored.
#[inline]
pub fn decode(link: Link, bytes: &[u8], length: usize) -> Result<Packet<'_>, Ignored> {
    let skipped = match link {
        Link::Ethernet => return ethernet(bytes, length),
        Link::Raw => 0,
        Link::Null => 4,
        Link::Cooked => {
            let (kind, hardware) = (be16(bytes, 0)?, be16(bytes, 2)?);
            if kind == OUTGOING && hardware == ARPHRD_LOOPBACK {
                return Err(Ignored::Copy);
            }
            return ether_type(bytes, length, 14);
        }
        Link::Cooked2 => {
            let (hardware, kind) = (be16(bytes, 8)?, u16::from(*bytes.get(10).ok_or(Ignored::Cut)?));
            if kind == OUTGOING && hardware == ARPHRD_LOOPBACK {
                return Err(Ignored::Copy);
            }
            let rest = bytes.get(20..).ok_or(Ignored::Cut)?;
            return by_type(be16(bytes, 0)?, rest, length.saturating_sub(20));
        }
        Link::Other(_) => return Err(Ignored::Link),
    };
    ip(bytes.get(skipped..).ok_or(Ignored::Cut)?, length.saturating_sub(skipped))
}

#[inline]
fn ethernet(bytes: &[u8], length: usize) -> Result<Packet<'_>, Ignored> {
    ether_type(bytes, length, 12)
}

/// The type at `at`, behind any VLAN tags, and the packet behind it.
#[inline]
fn ether_type(bytes: &[u8], length: usize, mut at: usize) -> Result<Packet<'_>, Ignored> {
    for _ in 0..MAX_HEADERS {
        let kind = be16(bytes, at)?;
        at += 2;
        if matches!(kind, 0x8100 | 0x88a8 | 0x9100) {
            at += 2;
            continue;
        }
        return by_type(kind, bytes.get(at..).ok_or(Ignored::Cut)?, length.saturating_sub(at));
    }
    Err(Ignored::Malformed)
}

#[inline]
fn by_type(kind: u16, bytes: &[u8], length: usize) -> Result<Packet<'_>, Ignored> {
    match kind {
        0x0800 | 0x86dd => ip(bytes, length),
        0x8100 | 0x88a8 => by_type(be16(bytes, 2)?, bytes.get(4..).ok_or(Ignored::Cut)?, length.saturating_sub(4)),
        _ => Err(Ignored::NotIp),
    }
}

#[inline]
fn ip(bytes: &[u8], length: usize) -> Result<Packet<'_>, Ignored> {
    match bytes.first().ok_or(Ignored::Cut)? >> 4 {
        4 => ipv4(bytes, length),
        6 => ipv6(bytes, length),
        _ => Err(Ignored::NotIp),
    }
}

#[inline]
fn ipv4(bytes: &[u8], length: usize) -> Result<Packet<'_>, Ignored> {
    let header = bytes.get(..20).ok_or(Ignored::Cut)?;
    let start = usize::from(header[0] & 15) * 4;
    // A length of 0 is a super-frame that the card was to cut up: it is as long as the frame.
    let total = match be16(header, 2)? {
        0 => length,
        total => usize::from(total),
    };
    if start < 20 || total < start || total > length {
        return Err(Ignored::Malformed);
    }
    let flags = be16(header, 6)?;
    let (offset, more) = (usize::from(flags & 0x1fff) * 8, flags & 0x2000 != 0);
    let fragment = (offset > 0 || more).then(|| Fragment {
        id: u32::from(u16::from_be_bytes([header[4], header[5]])),
        offset,
        more,
    });
    let address = |at: usize| IpAddr::V4(Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]));
    carried(address(12), address(16), header[9], bytes, start, total, fragment)
}

fn ipv6(bytes: &[u8], length: usize) -> Result<Packet<'_>, Ignored> {
    let header = bytes.get(..40).ok_or(Ignored::Cut)?;
    let total = match be16(header, 4)? {
        // A jumbogram, or a super-frame: as long as the frame.
        0 => length,
        payload => 40 + usize::from(payload),
    };
    if total > length {
        return Err(Ignored::Malformed);
    }
    let address = |at: usize| {
        let octets: [u8; 16] = header[at..at + 16].try_into().expect("sixteen bytes of a header of forty");
        IpAddr::V6(Ipv6Addr::from(octets))
    };
    let (from, to) = (address(8), address(24));
    let (mut next, mut start, mut fragment) = (header[6], 40, None);
    for _ in 0..MAX_HEADERS {
        let extension = |bytes: &[u8]| bytes.get(start..start + 8).map(|head| (head[0], usize::from(head[1])));
        match next {
            0 | 43 | 60 | 135 => {
                let (following, words) = extension(bytes).ok_or(Ignored::Cut)?;
                (next, start) = (following, start + 8 + words * 8);
            }
            51 => {
                let (following, words) = extension(bytes).ok_or(Ignored::Cut)?;
                (next, start) = (following, start + 8 + words * 4);
            }
            44 => {
                let head = bytes.get(start..start + 8).ok_or(Ignored::Cut)?;
                let place = be16(head, 2)?;
                let (offset, more) = (usize::from(place & 0xfff8), place & 1 != 0);
                if offset > 0 || more {
                    let id = u32::from_be_bytes([head[4], head[5], head[6], head[7]]);
                    fragment = Some(Fragment { id, offset, more });
                }
                (next, start) = (head[0], start + 8);
                if offset > 0 {
                    break;
                }
            }
            _ => break,
        }
    }
    if start > total {
        return Err(Ignored::Malformed);
    }
    carried(from, to, next, bytes, start, total, fragment)
}

#[inline]
fn carried(
    from: IpAddr,
    to: IpAddr,
    protocol: u8,
    bytes: &[u8],
    start: usize,
    total: usize,
    fragment: Option<Fragment>,
) -> Result<Packet<'_>, Ignored> {
    if !matches!(protocol, TCP | UDP) {
        return Err(Ignored::Protocol);
    }
    let payload = bytes.get(start..total.min(bytes.len())).ok_or(Ignored::Cut)?;
    Ok(Packet { from, to, protocol, payload, length: total - start, fragment })
}

#[inline]
fn be16(bytes: &[u8], at: usize) -> Result<u16, Ignored> {
    let value = bytes.get(at..at + 2).ok_or(Ignored::Cut)?;
    Ok(u16::from_be_bytes([value[0], value[1]]))
}

/// A TCP segment.
#[derive(Debug, Clone, Copy)]
pub struct Segment<'a> {
    /// Source port.
    pub from: u16,
    /// Destination port.
    pub to: u16,
    /// Sequence number of its first byte (or of SYN).
    pub sequence: u32,
    /// The acknowledged sequence number, if the ACK flag is set.
    pub acknowledges: Option<u32>,
    /// SYN.
    pub syn: bool,
    /// FIN.
    pub fin: bool,
    /// RST.
    pub rst: bool,
    /// The sender's receive window, before scaling.
    pub window: u16,
    /// The captured bytes of its payload.
    pub payload: &'a [u8],
    /// The original length of the payload.
    pub length: usize,
}

impl<'a> Segment<'a> {
    /// Parses the segment in a complete IP packet; `length` is the packet's payload length on the wire.
    ///
    /// # Errors
    /// When its header is truncated or inconsistent.
    pub fn parse(bytes: &'a [u8], length: usize) -> Result<Self, Ignored> {
        let header = bytes.get(..20).ok_or(Ignored::Cut)?;
        let start = usize::from(header[12] >> 4) * 4;
        if start < 20 || start > length {
            return Err(Ignored::Malformed);
        }
        let word = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let half = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let flags = header[13];
        Ok(Self {
            from: half(0),
            to: half(2),
            sequence: word(4),
            acknowledges: (flags & 0x10 != 0).then(|| word(8)),
            syn: flags & 2 != 0,
            fin: flags & 1 != 0,
            rst: flags & 4 != 0,
            window: half(14),
            payload: bytes.get(start..).unwrap_or_default(),
            length: length - start,
        })
    }
}

/// A UDP datagram.
#[derive(Debug, Clone, Copy)]
pub struct Datagram<'a> {
    /// Source port.
    pub from: u16,
    /// Destination port.
    pub to: u16,
    /// The captured bytes of its payload.
    pub payload: &'a [u8],
    /// The original length of the payload.
    pub length: usize,
    /// When its first byte was captured.
    pub first: Nanos,
    /// When its last byte was captured: later in a packet of fragments.
    pub last: Nanos,
}

impl<'a> Datagram<'a> {
    /// Parses the datagram in a complete IP packet.
    ///
    /// # Errors
    /// When its header is truncated or inconsistent.
    pub fn parse(bytes: &'a [u8], length: usize, first: Nanos, last: Nanos) -> Result<Self, Ignored> {
        let header = bytes.get(..8).ok_or(Ignored::Cut)?;
        let half = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let reported = usize::from(half(4));
        let total = if reported == 0 { length } else { reported };
        if total < 8 || total > length {
            return Err(Ignored::Malformed);
        }
        let payload = &bytes[8..total.min(bytes.len())];
        Ok(Self { from: half(0), to: half(2), payload, length: total - 8, first, last })
    }
}
