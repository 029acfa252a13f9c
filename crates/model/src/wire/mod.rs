//! The native batch as bytes: a checksummed frame around a columnar FlatBuffers message.
//!
//! Format: `docs/formats/batch.md`; the message's schema is `schema/batch.fbs`.
//! Invariants: `decode(encode(batch))` gives the good series and samples of `batch`, floats first, then
//! integer histograms, float histograms and texts.
//! Limits: the constants below, each checked before what it bounds is allocated.
//! Failure: a frame that is cut, changed or not a batch is an [`Error`]; a bad series or sample inside a good
//! frame spoils only itself.

mod decode;
mod encode;
#[rustfmt::skip]
#[allow(unsafe_code, dead_code, missing_docs, unreachable_pub, clippy::all, clippy::undocumented_unsafe_blocks, rustdoc::all)]
mod generated;
mod varint;

use crate::error::within;
use crate::{Batch, Error};

/// First bytes of a frame.
const MAGIC: [u8; 4] = *b"OGVF";
/// Version of frame and schema together.
const VERSION: u16 = 1;
/// Frame header: magic, version, flags (0), payload length, CRC32C of the 12 bytes before it and the payload.
pub const HEADER_BYTES: usize = 16;
/// 32 MiB: a second of 100,000 histograms of 40 bins at 100 bytes, times three.
pub const FRAME_BYTES_MAX: usize = 32 << 20;
/// 100,000 series in one batch: a host's whole set in one message.
pub const SERIES_MAX: usize = 100_000;
/// 64 MiB of decoded labels and texts: a FlatBuffers message may point at one string many times, so what it
/// unfolds to is bounded apart from its own length.
pub const TEXT_BYTES_MAX: usize = 64 << 20;
/// Bins of one histogram: all 2 + 2 * 90 * 256 that OpenHistogram can have.
pub const BINS_MAX: usize = 46_082;
/// 1 MiB for a text sample.
pub const TEXT_SAMPLE_BYTES_MAX: usize = 1 << 20;

impl Batch {
    /// The frame of the good series and samples. Samples of a series that is not good are left out too.
    ///
    /// # Errors
    /// [`Error::TooLarge`] when the frame would pass [`FRAME_BYTES_MAX`].
    pub fn encode(&self) -> Result<Vec<u8>, Error> {
        let mut builder = planus::Builder::new();
        frame(builder.finish(encode::message(self), None))
    }

    /// Reads a frame.
    ///
    /// # Errors
    /// [`Error::TooLarge`], [`Error::Malformed`] or [`Error::Checksum`]: nothing of the batch was taken.
    pub fn decode(frame: &[u8]) -> Result<Self, Error> {
        decode::batch(payload(frame)?)
    }
}

/// A frame around `message`, whatever it holds.
///
/// # Errors
/// [`Error::TooLarge`] when the frame would pass [`FRAME_BYTES_MAX`].
pub fn frame(message: &[u8]) -> Result<Vec<u8>, Error> {
    within("a batch's bytes", HEADER_BYTES + message.len(), FRAME_BYTES_MAX)?;
    let length = u32::try_from(message.len()).expect("FRAME_BYTES_MAX is below 4 GiB");
    let mut frame = Vec::with_capacity(HEADER_BYTES + message.len());
    frame.extend_from_slice(&MAGIC);
    frame.extend_from_slice(&VERSION.to_le_bytes());
    frame.extend_from_slice(&[0, 0]);
    frame.extend_from_slice(&length.to_le_bytes());
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&frame), message);
    frame.extend_from_slice(&checksum.to_le_bytes());
    frame.extend_from_slice(message);
    Ok(frame)
}

/// The message inside a frame, once the frame is known to be whole.
fn payload(frame: &[u8]) -> Result<&[u8], Error> {
    within("a batch's bytes", frame.len(), FRAME_BYTES_MAX)?;
    let Some((header, payload)) = frame.split_at_checked(HEADER_BYTES) else {
        return Err(malformed(format!("{} bytes, shorter than the frame header of {HEADER_BYTES}", frame.len())));
    };
    if header[..4] != MAGIC {
        return Err(malformed("the frame does not begin with OGVF"));
    }
    let version = u16::from_le_bytes([header[4], header[5]]);
    if version != VERSION {
        return Err(malformed(format!("frame version {version}; this side reads version {VERSION}")));
    }
    let declared = u32::from_le_bytes([header[8], header[9], header[10], header[11]]) as usize;
    if declared != payload.len() {
        return Err(malformed(format!("the frame declares {declared} bytes and holds {}", payload.len())));
    }
    let found = u32::from_le_bytes([header[12], header[13], header[14], header[15]]);
    let expected = crc32c::crc32c_append(crc32c::crc32c(&header[..12]), payload);
    if expected == found { Ok(payload) } else { Err(Error::Checksum { expected, found }) }
}

fn malformed(what: impl Into<String>) -> Error {
    Error::Malformed(what.into())
}

#[cfg(test)]
mod tests;
