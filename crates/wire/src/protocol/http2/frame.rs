//! Frames of HTTP/2 (RFC 9113, section 4.1).

use crate::decoder::Side;

/// Bytes of a frame's header.
pub(super) const HEADER: usize = 9;

/// The largest frame that a peer sends unless it was allowed more.
const LENGTH_USUAL: usize = 16_384;

const END_STREAM: u8 = 0x01;
const END_HEADERS: u8 = 0x04;
const PADDED: u8 = 0x08;
const PRIORITY: u8 = 0x20;

/// The flags of SETTINGS that acknowledges nothing.
pub(super) const ACK_LESS: u8 = 0;

const SETTINGS: u8 = 4;

/// The kind of a frame, as far as it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Data,
    Headers,
    Reset,
    Promise,
    Continuation,
    /// A frame of the connection, or of an unknown kind: skipped.
    Other,
}

impl Kind {
    /// Whether it carries a part of a header block.
    pub(super) fn has_block(self) -> bool {
        matches!(self, Self::Headers | Self::Promise | Self::Continuation)
    }
}

/// The header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) length: usize,
    pub(super) kind: Kind,
    code: u8,
    flags: u8,
    pub(super) stream: u32,
}

impl Frame {
    /// Parses the header at the start of `bytes`; `None` when it is too short, or its stream is invalid for its kind.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let head: [u8; HEADER] = bytes.get(..HEADER)?.try_into().ok()?;
        let kind = match head[3] {
            0 => Kind::Data,
            1 => Kind::Headers,
            3 => Kind::Reset,
            5 => Kind::Promise,
            9 => Kind::Continuation,
            _ => Kind::Other,
        };
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]) & 0x7fff_ffff;
        let frame = Self { length, kind, code: head[3], flags: head[4], stream };
        if frame.is_legal() { Some(frame) } else { None }
    }

    /// Whether its stream and length are valid for its kind.
    fn is_legal(&self) -> bool {
        match self.code {
            0 | 1 | 5 | 9 => self.stream > 0,
            2 => self.stream > 0 && self.length == 5,
            3 => self.stream > 0 && self.length == 4,
            SETTINGS => self.stream == 0 && self.length.is_multiple_of(6),
            6 => self.stream == 0 && self.length == 8,
            7 => self.stream == 0 && self.length >= 8,
            8 => self.length == 4,
            // An extension's.
            _ => self.length <= LENGTH_USUAL,
        }
    }

    pub(super) fn ends_stream(&self) -> bool {
        self.flags & END_STREAM != 0
    }

    pub(super) fn ends_headers(&self) -> bool {
        self.flags & END_HEADERS != 0
    }

    /// Whether it is SETTINGS with these flags.
    pub(super) fn is_settings(&self, flags: u8) -> bool {
        self.code == SETTINGS && self.flags == flags
    }

    /// The part of a header block in `payload`: without padding, priority and promised stream. `None` when they do not
    /// fit, or when the payload is incomplete.
    pub(super) fn fragment<'a>(&self, payload: &'a [u8]) -> Option<&'a [u8]> {
        if payload.len() != self.length {
            return None;
        }
        let is_padded = self.flags & PADDED != 0 && self.kind != Kind::Continuation;
        let (padding, rest) =
            if is_padded { payload.split_first().map(|(n, rest)| (usize::from(*n), rest))? } else { (0, payload) };
        let skip = match self.kind {
            Kind::Headers if self.flags & PRIORITY != 0 => 5,
            Kind::Promise => 4,
            _ => 0,
        };
        rest.get(skip..rest.len().checked_sub(padding)?)
    }
}

/// Whether `bytes` is a chain of frames of `side`, the last of which may be incomplete.
pub(super) fn is_chain(side: Side, mut bytes: &[u8]) -> bool {
    let mut frames = 0;
    while bytes.len() >= HEADER {
        let Some(frame) = Frame::parse(bytes) else { return false };
        let is_usual =
            frame.length <= LENGTH_USUAL && frame.code <= 9 && bytes[5] & 0x80 == 0 && frame.flags & !0x2d == 0;
        let is_from = side == Side::Server || !frame.stream.is_multiple_of(2) || frame.stream == 0 || frame.code == 2;
        if !is_usual || !is_from || (frames == 0 && frame.kind == Kind::Continuation) {
            return false;
        }
        frames += 1;
        match bytes.get(HEADER + frame.length..) {
            Some(rest) => bytes = rest,
            None => return true,
        }
    }
    frames > 0
}
