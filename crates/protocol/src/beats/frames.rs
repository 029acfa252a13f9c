//! Frames of a lumberjack stream, versions 1 and 2: windows, events, and compressed frames that hold further frames.
//!
//! Format: version (`1` or `2`), kind and big-endian u32: `W` count; `J` sequence, length, JSON; `D` sequence, count,
//! then for each pair length, key, length, value; `C` length, zlib. The receiver answers `A` sequence.
//! Invariants: the events of a window count up by one; a window begins when the one before it is complete.
//! Limits: [`EVENT_BYTES_MAX`] of an event are kept, a longer one in JSON is skipped; [`FRAME_BYTES_MAX`] of a frame,
//! compressed or not; [`WINDOW_MAX`] events of a window. Compressed bytes are not kept: they are decompressed as they
//! arrive.

use std::ops::Range;

use flate2::{Decompress, FlushDecompress, Status};

use super::{Content, EVENT_BYTES_MAX, number};
use crate::members::MEMBERS_MAX;

/// 32 MiB, as much as a compressed frame may expand to.
pub const FRAME_BYTES_MAX: usize = 32 << 20;

/// A million events; Filebeat's windows have 2,048 at most unless configured otherwise.
pub const WINDOW_MAX: u32 = 1 << 20;

/// What is looked at at once.
const PIECE_BYTES: usize = 16 << 10;

/// Why a connection makes no sense any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// No frame begins like this.
    #[error("a frame of an unknown version or kind")]
    Unknown,
    /// A window within another, or one of more than [`WINDOW_MAX`].
    #[error("a window begins within another, or has more than 1048576 events")]
    Window,
    /// An event outside a window or out of turn.
    #[error("an event has no window or is out of turn")]
    Sequence,
    /// A length beyond the limits or beyond the frame that holds it.
    #[error("a length is beyond its limit or beyond the frame around it")]
    Length,
    /// A compressed frame within a compressed frame.
    #[error("a compressed frame holds a compressed frame")]
    Nested,
    /// More than [`FRAME_BYTES_MAX`] in a compressed frame.
    #[error("a compressed frame expands to more than 33554432 bytes")]
    Expanded,
    /// Compressed bytes that are cut or damaged.
    #[error("the compressed bytes are cut or damaged")]
    Compression,
}

impl FrameError {
    /// The reason that is counted.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "frame_unknown",
            Self::Window => "window_invalid",
            Self::Sequence => "sequence_invalid",
            Self::Length => "length_invalid",
            Self::Nested => "frame_nested",
            Self::Expanded => "frame_too_large",
            Self::Compression => "compression_invalid",
        }
    }
}

/// An event of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowEvent<'f> {
    /// Its number, which acknowledges it and those of its window before it.
    pub sequence: u32,
    /// Whether the window is complete with it.
    pub is_last: bool,
    /// What it says.
    pub content: Content<'f>,
}

/// The answer, in the version of the window, that everything up to `sequence` is stored.
#[must_use]
pub fn acknowledgement(version: Version, sequence: u32) -> [u8; 6] {
    let [a, b, c, d] = sequence.to_be_bytes();
    [version as u8, b'A', a, b, c, d]
}

/// Which frames a client sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Version {
    /// Of Logstash's old forwarder: keys and values.
    One = b'1',
    /// Of Beats: JSON.
    #[default]
    Two = b'2',
}

/// What a frame is, without its bytes.
enum Step {
    Window(Version, u32),
    Packed(usize),
    Json(u32, Range<usize>),
    Pairs(u32, Range<usize>),
    TooLong(u32),
}

/// Bytes that arrived and were not read.
#[derive(Debug, Default)]
struct Buffer {
    bytes: Vec<u8>,
    /// Those before are read.
    at: usize,
    /// Those to come that belong to an event that is too long.
    skip: usize,
}

impl Buffer {
    fn rest(&self) -> &[u8] {
        &self.bytes[self.at..]
    }

    fn is_empty(&self) -> bool {
        self.rest().is_empty() && self.skip == 0
    }

    fn add(&mut self, piece: &[u8]) {
        if self.at == self.bytes.len() && self.bytes.capacity() > 4 * PIECE_BYTES {
            // Without its memory, which a large event leaves behind.
            self.bytes = Vec::new();
        } else {
            self.bytes.drain(..self.at);
        }
        self.at = 0;
        self.bytes.extend_from_slice(piece);
    }

    /// Takes a piece of `bytes`; false when there is none.
    fn fill(&mut self, bytes: &mut &[u8]) -> bool {
        let (piece, after) = bytes.split_at(bytes.len().min(PIECE_BYTES));
        *bytes = after;
        self.add(piece);
        !piece.is_empty()
    }

    /// The next frame, when it is complete.
    fn step(&mut self) -> Result<Option<Step>, FrameError> {
        let skipped = self.skip.min(self.rest().len());
        self.skip -= skipped;
        self.at += skipped;
        let (from, rest) = (self.at, self.rest());
        let kind = match rest {
            [b'1' | b'2', kind @ (b'W' | b'C' | b'D'), ..] | [b'2', kind @ b'J', ..] => *kind,
            [] | [b'1' | b'2'] => return Ok(None),
            _ => return Err(FrameError::Unknown),
        };
        let Some(first) = number(rest, 2) else { return Ok(None) };
        if kind == b'W' {
            let version = if rest[0] == b'1' { Version::One } else { Version::Two };
            self.at += 6;
            return Ok(Some(Step::Window(version, first)));
        }
        if kind == b'C' {
            self.at += 6;
            return Ok(Some(Step::Packed(first as usize)));
        }
        let Some(second) = number(rest, 6).map(|number| number as usize) else { return Ok(None) };
        let end = match kind {
            b'J' if second > FRAME_BYTES_MAX => return Err(FrameError::Length),
            b'J' if second > EVENT_BYTES_MAX => {
                (self.at, self.skip) = (from + 10, second);
                return Ok(Some(Step::TooLong(first)));
            }
            b'J' if rest.len() < 10 + second => return Ok(None),
            b'J' => 10 + second,
            _ => match pairs_end(rest, second)? {
                Some(end) => end,
                None => return Ok(None),
            },
        };
        self.at += end;
        let range = from + 10..from + end;
        Ok(Some(if kind == b'J' { Step::Json(first, range) } else { Step::Pairs(first, range) }))
    }
}

/// Where the pairs of a frame end, when they are all there.
fn pairs_end(frame: &[u8], count: usize) -> Result<Option<usize>, FrameError> {
    if count > MEMBERS_MAX {
        return Err(FrameError::Length);
    }
    let mut end = 10;
    for _ in 0..2 * count {
        let Some(length) = number(frame, end) else { return Ok(None) };
        end += 4 + length as usize;
        if end > 10 + EVENT_BYTES_MAX {
            return Err(FrameError::Length);
        }
    }
    Ok((end <= frame.len()).then_some(end))
}

/// A compressed frame that is being read.
#[derive(Debug)]
struct Packed {
    /// Compressed bytes to come.
    left: usize,
    inflater: Decompress,
    has_ended: bool,
    out: Buffer,
}

impl Packed {
    /// Decompresses a piece of `input`, and returns how many bytes of it were used.
    fn inflate(&mut self, input: &[u8]) -> Result<usize, FrameError> {
        let mut piece = [0; PIECE_BYTES];
        let (before_in, before_out) = (self.inflater.total_in(), self.inflater.total_out());
        let input = &input[..input.len().min(self.left)];
        let status = self.inflater.decompress(input, &mut piece, FlushDecompress::None);
        let status = status.map_err(|_| FrameError::Compression)?;
        // Both are at most the length of a piece.
        let used = (self.inflater.total_in() - before_in) as usize;
        let made = (self.inflater.total_out() - before_out) as usize;
        self.left -= used;
        self.has_ended = status == Status::StreamEnd;
        if self.inflater.total_out() > FRAME_BYTES_MAX as u64 {
            return Err(FrameError::Expanded);
        }
        let is_stuck = used == 0 && made == 0 && !self.has_ended;
        if is_stuck || (self.has_ended && self.left > 0) {
            return Err(FrameError::Compression);
        }
        self.out.add(&piece[..made]);
        Ok(used)
    }
}

/// The events of one stream.
#[derive(Debug, Default)]
pub struct Frames {
    input: Buffer,
    packed: Option<Packed>,
    version: Version,
    /// Events to come of the window.
    left: u32,
    last: Option<u32>,
}

impl Frames {
    /// The next event of what arrived before and `bytes`, of which as many are taken as that needs; none when they are
    /// all taken.
    ///
    /// # Errors
    /// Why the stream makes no sense from here on: it is not to be read further.
    pub fn next(&mut self, bytes: &mut &[u8]) -> Result<Option<WindowEvent<'_>>, FrameError> {
        let (sequence, range, is_json) = loop {
            let buffer = self.packed.as_mut().map_or(&mut self.input, |packed| &mut packed.out);
            match buffer.step()? {
                Some(Step::Window(version, count)) => self.open(version, count)?,
                Some(Step::Packed(_)) if self.packed.is_some() => return Err(FrameError::Nested),
                Some(Step::Packed(left)) if left > FRAME_BYTES_MAX => return Err(FrameError::Length),
                Some(Step::Packed(left)) => {
                    let inflater = Decompress::new(true);
                    self.packed = Some(Packed { left, inflater, has_ended: false, out: Buffer::default() });
                }
                Some(Step::Json(sequence, range)) => break (sequence, Some(range), true),
                Some(Step::Pairs(sequence, range)) => break (sequence, Some(range), false),
                Some(Step::TooLong(sequence)) => break (sequence, None, true),
                None if self.fill(bytes)? => {}
                None => return Ok(None),
            }
        };
        self.count(sequence)?;
        let is_last = self.left == 0;
        let buffer = self.packed.as_ref().map_or(&self.input, |packed| &packed.out);
        let content = match range.map(|range| &buffer.bytes[range]) {
            Some(json) if is_json => Content::Json(json),
            Some(pairs) => Content::Pairs(pairs),
            None => Content::TooLong,
        };
        Ok(Some(WindowEvent { sequence, is_last, content }))
    }

    /// Makes more of what arrived readable; false when nothing is left.
    fn fill(&mut self, bytes: &mut &[u8]) -> Result<bool, FrameError> {
        let Some(packed) = &mut self.packed else { return Ok(self.input.fill(bytes)) };
        if packed.has_ended {
            if !packed.out.is_empty() {
                return Err(FrameError::Length);
            }
            self.packed = None;
            return Ok(true);
        }
        if packed.left > 0 && self.input.is_empty() && !self.input.fill(bytes) {
            return Ok(false);
        }
        self.input.at += packed.inflate(self.input.rest())?;
        Ok(true)
    }

    fn open(&mut self, version: Version, count: u32) -> Result<(), FrameError> {
        if self.left > 0 || count > WINDOW_MAX {
            return Err(FrameError::Window);
        }
        (self.version, self.left, self.last) = (version, count, None);
        Ok(())
    }

    fn count(&mut self, sequence: u32) -> Result<(), FrameError> {
        if self.left == 0 || self.last.is_some_and(|last| last.wrapping_add(1) != sequence) {
            return Err(FrameError::Sequence);
        }
        self.left -= 1;
        self.last = Some(sequence);
        Ok(())
    }

    /// The version of the window.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Bytes that are kept of a frame that is not complete.
    #[must_use]
    pub fn held(&self) -> usize {
        self.input.rest().len() + self.packed.as_ref().map_or(0, |packed| packed.out.rest().len())
    }

    /// Whether a frame or window has begun that is not complete.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        !self.input.is_empty() || self.packed.is_some() || self.left > 0
    }
}
