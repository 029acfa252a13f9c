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
use crate::{Batch, Error, Tenant};

/// First bytes of a frame.
const MAGIC: [u8; 4] = *b"OGVF";
/// The first version of frame and schema, of batches of the default tenant.
const VERSION_PLAIN: u16 = 1;
/// Version of frames that name their tenant between header and message: a side that knows only the first version
/// refuses them instead of mixing tenants.
const VERSION_TENANT: u16 = 2;
/// Frame header: magic, version, flags (0), length of what follows, CRC32C of the 12 bytes before it and of that.
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
        frame(&self.tenant, builder.finish(encode::message(self), None))
    }

    /// Reads a frame.
    ///
    /// # Errors
    /// [`Error::TooLarge`], [`Error::Malformed`] or [`Error::Checksum`]: nothing of the batch was taken.
    pub fn decode(frame: &[u8]) -> Result<Self, Error> {
        let (tenant, message) = parts(frame)?;
        decode::batch(tenant, message)
    }
}

/// A frame around `message`, whatever it holds, of `tenant`.
///
/// # Errors
/// [`Error::TooLarge`] when the frame would pass [`FRAME_BYTES_MAX`].
pub fn frame(tenant: &Tenant, message: &[u8]) -> Result<Vec<u8>, Error> {
    let name = if tenant.is_default() { "" } else { tenant.as_str() };
    let named = usize::from(!name.is_empty()) + name.len();
    within("a batch's bytes", HEADER_BYTES + named + message.len(), FRAME_BYTES_MAX)?;
    let length = u32::try_from(named + message.len()).expect("FRAME_BYTES_MAX is below 4 GiB");
    let version = if name.is_empty() { VERSION_PLAIN } else { VERSION_TENANT };
    let mut frame = Vec::with_capacity(HEADER_BYTES + named + message.len());
    frame.extend_from_slice(&MAGIC);
    frame.extend_from_slice(&version.to_le_bytes());
    frame.extend_from_slice(&[0, 0]);
    frame.extend_from_slice(&length.to_le_bytes());
    frame.extend_from_slice(&[0; 4]);
    if !name.is_empty() {
        frame.push(u8::try_from(name.len()).expect("a tenant's name is below 256 bytes"));
        frame.extend_from_slice(name.as_bytes());
    }
    frame.extend_from_slice(message);
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&frame[..12]), &frame[HEADER_BYTES..]);
    frame[12..HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
    Ok(frame)
}

/// The good frame `frame` as one of `tenant`.
///
/// # Errors
/// What [`Batch::decode`] says of the frame, or [`Error::TooLarge`] when it would pass [`FRAME_BYTES_MAX`].
pub fn with_tenant(framed: &[u8], tenant: &Tenant) -> Result<Vec<u8>, Error> {
    let (_, message) = parts(framed)?;
    frame(tenant, message)
}

/// The tenant and the message inside a frame, once the frame is known to be whole.
fn parts(frame: &[u8]) -> Result<(Tenant, &[u8]), Error> {
    within("a batch's bytes", frame.len(), FRAME_BYTES_MAX)?;
    let Some((header, payload)) = frame.split_at_checked(HEADER_BYTES) else {
        return Err(malformed(format!("{} bytes, shorter than the frame header of {HEADER_BYTES}", frame.len())));
    };
    if header[..4] != MAGIC {
        return Err(malformed("the frame does not begin with OGVF"));
    }
    let version = u16::from_le_bytes([header[4], header[5]]);
    if version != VERSION_PLAIN && version != VERSION_TENANT {
        return Err(malformed(format!(
            "frame version {version}; this side reads versions {VERSION_PLAIN} to {VERSION_TENANT}"
        )));
    }
    let declared = u32::from_le_bytes([header[8], header[9], header[10], header[11]]) as usize;
    if declared != payload.len() {
        return Err(malformed(format!("the frame declares {declared} bytes and holds {}", payload.len())));
    }
    let found = u32::from_le_bytes([header[12], header[13], header[14], header[15]]);
    let expected = crc32c::crc32c_append(crc32c::crc32c(&header[..12]), payload);
    if expected != found {
        return Err(Error::Checksum { expected, found });
    }
    if version == VERSION_PLAIN {
        return Ok((Tenant::default(), payload));
    }
    let named = payload.split_first().and_then(|(length, rest)| rest.split_at_checked(usize::from(*length)));
    let Some((name, message)) = named else { return Err(malformed("the frame ends inside its tenant's name")) };
    let name = std::str::from_utf8(name).map_err(|_| malformed("the tenant's name is not UTF-8"))?;
    Ok((Tenant::new(name)?, message))
}

fn malformed(what: impl Into<String>) -> Error {
    Error::Malformed(what.into())
}

#[cfg(test)]
mod tests;
