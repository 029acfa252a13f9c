//! Protocols whose messages say their length at the start: what they have in common.
//!
//! [`Framed`] turns the steps of a [`Decoder`] into two calls a frame: [`Frames::begin`] with the first bytes, and
//! [`Frames::end`] once the last one has passed. All that lies between is skipped by arithmetic, seen or not.

use crate::decoder::{Context, Decoder, Pairing, Side, Step};
use crate::exchange::Exchanges;
use crate::span::{Mark, Span};

/// What the head of a frame says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Head {
    /// This many bytes are needed to decide.
    Need(usize),
    /// A frame of `length` bytes, including its head; [`Frames::begin`] wants the first `inspect` of them.
    Frame {
        /// Bytes of the whole frame; at least 1.
        length: u64,
        /// Bytes to inspect; limited to `length`.
        inspect: usize,
    },
    /// Not of this protocol.
    Lost,
}

/// Why a frame ends the reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// The frame does not fit here: see [`Step::Lost`].
    Lost,
    /// See [`Step::Opaque`].
    Opaque,
}

impl From<Stop> for Step {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Lost => Self::Lost,
            Stop::Opaque => Self::Opaque,
        }
    }
}

/// A protocol of frames.
pub(super) trait Frames: Send {
    /// How responses find their requests.
    const PAIRING: Pairing;

    /// Parses the head of the frame at the start of `view`, which is never empty.
    fn head(&mut self, side: Side, view: &[u8]) -> Head;

    /// A frame of `length` bytes begins with `bytes`.
    fn begin(&mut self, side: Side, bytes: &[u8], length: u64, cx: &mut Context<'_>) -> Result<(), Stop>;

    /// The frame that began last on `side` has passed.
    fn end(&mut self, side: Side, span: Span, cx: &mut Context<'_>) -> Result<(), Stop>;

    /// `side` closed, with `cut` bytes of an unfinished frame.
    fn closed(&mut self, side: Side, cut: Option<Span>, cx: &mut Context<'_>) {
        let _ = (side, cut, cx);
    }

    /// See [`Decoder::lost`].
    fn lost(&mut self, side: Side, exchanges: &mut Exchanges);

    /// See [`Decoder::begins`].
    fn begins(&self, side: Side, bytes: &[u8]) -> bool;

    /// See [`Decoder::begins_whole`].
    fn begins_whole(&self) -> bool {
        true
    }

    /// See [`Decoder::said_goodbye`].
    fn said_goodbye(&self) -> bool {
        false
    }
}

/// The decoder of a protocol of frames.
#[derive(Debug)]
pub(super) struct Framed<F> {
    frames: F,
    /// The start of the frame that is passing, by side.
    passing: [Option<Mark>; 2],
}

impl<F: Frames> Framed<F> {
    pub(super) fn new(frames: F) -> Self {
        Self { frames, passing: [None; 2] }
    }

    fn advance(&mut self, side: Side, view: &[u8], cx: &mut Context<'_>) -> Result<Step, Stop> {
        if let Some(mark) = self.passing[side.index()].take() {
            self.frames.end(side, cx.since(mark), cx)?;
        }
        if view.is_empty() {
            return Ok(Step::Need(1));
        }
        match self.frames.head(side, view) {
            Head::Need(bytes) => Ok(Step::Need(bytes)),
            Head::Lost => Err(Stop::Lost),
            Head::Frame { length, inspect } => {
                assert!(length > 0, "a frame has a head");
                let inspect = usize::try_from(length).map_or(inspect, |length| inspect.min(length));
                let Some(bytes) = view.get(..inspect) else { return Ok(Step::Need(inspect)) };
                self.passing[side.index()] = Some(cx.mark());
                self.frames.begin(side, bytes, length, cx)?;
                Ok(Step::Skip(length))
            }
        }
    }
}

impl<F: Frames> Decoder for Framed<F> {
    fn pairing(&self) -> Pairing {
        F::PAIRING
    }

    fn step(&mut self, side: Side, view: &[u8], cx: &mut Context<'_>) -> Step {
        self.advance(side, view, cx).unwrap_or_else(Step::from)
    }

    fn closed(&mut self, side: Side, _clean: bool, cx: &mut Context<'_>) {
        let cut = self.passing[side.index()].take().map(|mark| cx.since(mark));
        self.frames.closed(side, cut, cx);
    }

    fn lost(&mut self, side: Side, exchanges: &mut Exchanges) {
        self.passing[side.index()] = None;
        self.frames.lost(side, exchanges);
    }

    fn begins(&self, side: Side, bytes: &[u8]) -> bool {
        self.frames.begins(side, bytes)
    }

    fn begins_whole(&self) -> bool {
        self.frames.begins_whole()
    }

    fn said_goodbye(&self) -> bool {
        self.frames.said_goodbye()
    }
}

/// The big-endian `u16` at `at`.
pub(super) fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

/// The big-endian `u32` at `at`.
pub(super) fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

/// The little-endian `u16` at `at`.
pub(super) fn le16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

/// The little-endian `u32` at `at`.
pub(super) fn le32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}
