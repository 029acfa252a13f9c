//! Messages and segments of CQL: their headers, and what is read of their bodies.

use crate::decoder::Side;
use crate::exchange::Class;
use crate::protocol::framed::{be16, be32};

/// Bytes of a message's header.
pub(super) const HEADER: usize = 9;

/// Bytes of a segment's header: a length with flags, and their CRC.
pub(super) const SEGMENT: usize = 6;

/// The longest message: the server's own limit.
const LENGTH_MAX: u64 = 256 << 20;

pub(super) const STARTUP: u8 = 0x01;
pub(super) const EVENT: u8 = 0x0c;
const ERROR: u8 = 0x00;
const OPTIONS: u8 = 0x05;
const QUERY: u8 = 0x07;
const RESULT: u8 = 0x08;
const PREPARE: u8 = 0x09;
const EXECUTE: u8 = 0x0a;
const BATCH: u8 = 0x0d;

/// Flags of a message: a compressed body, a tracing id, a custom payload, warnings.
const COMPRESSED: u8 = 1;
const TRACING: u8 = 2;
const PAYLOAD: u8 = 4;
const WARNINGS: u8 = 8;

/// The header of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) version: u8,
    pub(super) flags: u8,
    pub(super) stream: u16,
    pub(super) opcode: u8,
    pub(super) length: u64,
}

impl Header {
    /// Reads the head of `bytes`.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let length = u64::from(be32(bytes, 5)?);
        Some(Self { version: bytes[0] & 0x7f, flags: bytes[1], stream: be16(bytes, 2)?, opcode: bytes[4], length })
    }

    /// Whether a message of `side` may have this header.
    pub(super) fn is_plausible(&self, side: Side) -> bool {
        let is_known = match side {
            Side::Client => matches!(self.opcode, 0x01 | 0x05 | 0x07 | 0x09..=0x0b | 0x0d | 0x0f),
            Side::Server => matches!(self.opcode, 0x00 | 0x02 | 0x03 | 0x06 | 0x08 | 0x0c | 0x0e | 0x10),
        };
        // Only events have a stream below 0.
        let is_stream = self.stream < 0x8000 || (side == Side::Server && self.opcode == EVENT);
        is_known && is_stream && self.flags < 0x20 && self.length <= LENGTH_MAX
    }

    /// Whether it is the first message of a connection.
    pub(super) fn is_opening(&self, side: Side) -> bool {
        side == Side::Client
            && match self.opcode {
                OPTIONS => self.length == 0,
                STARTUP => (10..10_000).contains(&self.length),
                _ => false,
            }
    }
}

/// Whether a message of `side` may begin with `byte`.
pub(super) fn is_version(side: Side, byte: u8) -> bool {
    match side {
        Side::Client => (3..=5).contains(&byte),
        Side::Server => (0x83..=0x85).contains(&byte),
    }
}

/// The name of a request.
pub(super) fn name(opcode: u8) -> Option<&'static str> {
    Some(match opcode {
        STARTUP => "STARTUP",
        OPTIONS => "OPTIONS",
        QUERY => "QUERY",
        PREPARE => "PREPARE",
        EXECUTE => "EXECUTE",
        0x0b => "REGISTER",
        BATCH => "BATCH",
        0x0f => "AUTH_RESPONSE",
        _ => return None,
    })
}

/// What a request executes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Statement<'a> {
    /// A text, which may be cut.
    Text(&'a [u8]),
    /// A prepared statement's id.
    Prepared(&'a [u8]),
}

/// The statement of a request, the first one of a batch.
pub(super) fn statement<'a>(header: &Header, body: &'a [u8]) -> Option<Statement<'a>> {
    if header.flags & (COMPRESSED | PAYLOAD) != 0 {
        return None;
    }
    match header.opcode {
        QUERY | PREPARE => Some(Statement::Text(long_text(body)?)),
        EXECUTE => Some(Statement::Prepared(short_bytes(body)?)),
        BATCH => {
            let first = body.get(3..)?;
            match first.split_first()? {
                (0, rest) => Some(Statement::Text(long_text(rest)?)),
                (_, rest) => Some(Statement::Prepared(short_bytes(rest)?)),
            }
        }
        _ => None,
    }
}

fn long_text(body: &[u8]) -> Option<&[u8]> {
    let length = usize::try_from(be32(body, 0)?).ok()?;
    let text = &body[4..];
    Some(&text[..length.min(text.len())])
}

fn short_bytes(body: &[u8]) -> Option<&[u8]> {
    body.get(2..2 + usize::from(be16(body, 0)?))
}

/// A response's body behind its tracing id, warnings and payload.
fn plain<'a>(header: &Header, mut body: &'a [u8]) -> Option<&'a [u8]> {
    if header.flags & COMPRESSED != 0 {
        return None;
    }
    if header.flags & TRACING != 0 {
        body = body.get(16..)?;
    }
    if header.flags & WARNINGS != 0 {
        let count = be16(body, 0)?;
        body = &body[2..];
        for _ in 0..count {
            body = &body[2 + short_bytes(body)?.len()..];
        }
    }
    if header.flags & PAYLOAD != 0 {
        let count = be16(body, 0)?;
        body = &body[2..];
        for _ in 0..count {
            body = &body[2 + short_bytes(body)?.len()..];
            let length = be32(body, 0)?;
            body = &body[4..];
            // A length below 0 is no value.
            body = if length >> 31 == 1 { body } else { body.get(length as usize..)? };
        }
    }
    Some(body)
}

/// The code of an error.
pub(super) fn error(header: &Header, body: &[u8]) -> Option<u32> {
    if header.opcode == ERROR { be32(plain(header, body)?, 0) } else { None }
}

/// Errors below 0x2000 are the server's, but for a protocol error and bad credentials.
pub(super) fn class_of(code: u32) -> Class {
    if code >= 0x2000 || matches!(code, 0x000a | 0x0100) { Class::ClientError } else { Class::Error }
}

/// The id of the statement that a response reports as prepared.
pub(super) fn prepared<'a>(header: &Header, body: &'a [u8]) -> Option<&'a [u8]> {
    if header.opcode != RESULT {
        return None;
    }
    let body = plain(header, body)?;
    if be32(body, 0)? == 4 { short_bytes(&body[4..]) } else { None }
}

/// Whether STARTUP's options request compression.
pub(super) fn wants_compression(body: &[u8]) -> bool {
    body.windows(11).any(|window| window == b"COMPRESSION")
}

/// The payload's length of the segment at the start of `bytes`; `None` when its checksum is wrong.
pub(super) fn segment(bytes: &[u8]) -> Option<u64> {
    let header = u32::from_le_bytes([*bytes.first()?, *bytes.get(1)?, *bytes.get(2)?, 0]);
    let check = u32::from_le_bytes([*bytes.get(3)?, *bytes.get(4)?, *bytes.get(5)?, 0]);
    let payload = u64::from(header & 0x1_ffff);
    if crc24(header) == check && payload > 0 { Some(payload) } else { None }
}

/// The CRC-24 of a segment's three bytes (CQL 5, section 2.1).
fn crc24(header: u32) -> u32 {
    let mut crc = 0x87_5060_u32;
    for shift in [0, 8, 16] {
        crc ^= (header >> shift & 0xff) << 16;
        for _ in 0..8 {
            crc <<= 1;
            if crc & 0x100_0000 != 0 {
                crc ^= 0x197_4f0b;
            }
        }
    }
    crc
}

/// Whether `bytes` is a chain of messages of `side`, the last of which may be incomplete.
pub(super) fn is_chain(side: Side, mut bytes: &[u8]) -> bool {
    let mut messages = 0;
    while let Some(header) = Header::parse(bytes) {
        if !is_version(side, bytes[0]) || !header.is_plausible(side) {
            return false;
        }
        messages += 1;
        let length = usize::try_from(header.length).unwrap_or(usize::MAX).saturating_add(HEADER);
        match bytes.get(length..) {
            Some(rest) => bytes = rest,
            None => return true,
        }
    }
    messages > 0 && bytes.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_known_by_its_checksum() {
        // Eleven bytes, self-contained.
        let header = 11_u32 | 1 << 17;
        let mut bytes = header.to_le_bytes()[..3].to_vec();
        bytes.extend(&crc24(header).to_le_bytes()[..3]);
        assert_eq!(segment(&bytes), Some(11));
        for bit in 0..48 {
            let mut broken = bytes.clone();
            broken[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(segment(&broken), None, "bit {bit}");
        }
    }

    #[test]
    fn bodies_cut_anywhere_are_read_without_a_panic() {
        let header = Header { version: 4, flags: 0, stream: 1, opcode: 0, length: 0 };
        let body = b"\0\x02\0\x03abc\0\x01x\0\0\0\x02ab\0\x05idxyz";
        for flags in 0..16 {
            for opcode in 0..16 {
                for cut in 0..=body.len() {
                    let header = Header { flags, opcode, ..header };
                    let _ = (
                        statement(&header, &body[..cut]),
                        error(&header, &body[..cut]),
                        prepared(&header, &body[..cut]),
                    );
                }
            }
        }
    }
}
