//! The native batch as bytes: a checksummed frame around a columnar FlatBuffers message.
//!
//! Format: `docs/formats/batch.md`; the message's schema is `schema/batch.fbs`.
//! A batch that declares many series has them in a dictionary before the message.
//! Invariants: `decode(encode(batch))` gives the good series and samples of `batch`, floats first, then
//! integer histograms, float histograms and texts.
//! Limits: the constants of `frame.rs`, each checked before what it bounds is allocated.
//! Failure: a frame that is cut, changed or not a batch is an [`Error`]; a bad series or sample inside a good
//! frame spoils only itself.

mod decode;
mod dictionary;
mod encode;
mod frame;
#[rustfmt::skip]
#[allow(unsafe_code, dead_code, missing_docs, unreachable_pub, clippy::all, clippy::undocumented_unsafe_blocks, rustdoc::all)]
mod generated;
mod varint;
mod view;

use crate::{Batch, Error, SeriesDef, Tenant};

pub use frame::{
    BINS_MAX, FRAME_BYTES_MAX, FRAMES_MAX, HEADER_BYTES, HISTOGRAMS_MAX, SERIES_MAX, SERIES_WIDE_MAX, TEXT_BYTES_MAX,
    TEXT_SAMPLE_BYTES_MAX, frame, frame_declaring, frames, with_tenant,
};
use frame::{
    FLAG_DEFINITIONS, VERSION_NAMED, VERSION_PLAIN, VERSION_STARTED, malformed, parts, put_declaring, put_frame,
};
pub use view::{Floats, HistogramRow, Histograms, View};

impl Batch {
    /// The frame of the valid series and samples, in the lowest version that can represent it. Samples of an invalid
    /// series are left out too.
    ///
    /// # Errors
    /// [`Error::TooLarge`] when no reader would accept the frame: it would exceed [`FRAME_BYTES_MAX`], or its decoded
    /// form [`SERIES_MAX`], [`TEXT_BYTES_MAX`] or [`HISTOGRAMS_MAX`].
    pub fn encode(&self) -> Result<Vec<u8>, Error> {
        self.encode_within(SERIES_MAX, dictionary::written)
    }

    /// As [`Batch::encode`], with all that it declares in the FlatBuffers message: in one of the first three versions,
    /// which readers generated from `schema/batch.fbs` understand.
    ///
    /// # Errors
    /// As [`Batch::encode`].
    pub fn encode_in_tables(&self) -> Result<Vec<u8>, Error> {
        self.encode_within(SERIES_MAX, |_| None)
    }

    /// As [`Batch::encode`], for up to [`SERIES_WIDE_MAX`] series: for [`Batch::decode_wide`], not for a journal.
    ///
    /// # Errors
    /// As [`Batch::encode`].
    pub fn encode_wide(&self) -> Result<Vec<u8>, Error> {
        self.encode_within(SERIES_WIDE_MAX, dictionary::written)
    }

    /// `dictionary` has the series, unless it is none: then the message declares them.
    fn encode_within(
        &self,
        series_max: usize,
        dictionary: impl FnOnce(&[&SeriesDef]) -> Option<Vec<u8>>,
    ) -> Result<Vec<u8>, Error> {
        let mut builder = planus::Builder::new();
        let defs: Vec<&SeriesDef> = self.series.iter().flatten().collect();
        let declared = dictionary(&defs);
        let message = encode::message(self, declared.is_none());
        encode::check_limits(&message, &defs, series_max)?;
        if let Some(declared) = declared {
            return put_declaring(0, &self.tenant, &declared, builder.finish(message, None));
        }
        let version = match () {
            () if encode::has_starts(&message) => VERSION_STARTED,
            () if !self.known.is_empty() => VERSION_NAMED,
            () => VERSION_PLAIN,
        };
        put_frame(version, 0, &self.tenant, &[builder.finish(message, None)])
    }

    /// Decodes a frame.
    ///
    /// # Errors
    /// [`Error::TooLarge`], [`Error::Malformed`] or [`Error::Checksum`]: nothing of the batch was accepted.
    pub fn decode(frame: &[u8]) -> Result<Self, Error> {
        Self::decode_within(frame, SERIES_MAX)
    }

    /// Decodes a frame of up to [`SERIES_WIDE_MAX`] series, which has to be divided before it is stored.
    ///
    /// # Errors
    /// As [`Batch::decode`].
    pub fn decode_wide(frame: &[u8]) -> Result<Self, Error> {
        Self::decode_within(frame, SERIES_WIDE_MAX)
    }

    fn decode_within(frame: &[u8], series_max: usize) -> Result<Self, Error> {
        let parts = parts(frame)?;
        if parts.flags & FLAG_DEFINITIONS != 0 {
            return Err(malformed("the frame defines series and is no batch"));
        }
        decode::batch(parts, series_max)
    }
}

/// A frame that defines `series` of `tenant`, so that later frames of a journal may name them by their identity.
///
/// # Errors
/// [`Error::TooLarge`] as [`Batch::encode`].
pub fn encode_definitions<'a>(
    tenant: &Tenant,
    series: impl IntoIterator<Item = &'a SeriesDef>,
) -> Result<Vec<u8>, Error> {
    let mut builder = planus::Builder::new();
    let defs: Vec<&SeriesDef> = series.into_iter().collect();
    let declared = dictionary::written(&defs);
    let message = encode::definitions(if declared.is_none() { &defs } else { &[] });
    encode::check_limits(&message, &defs, SERIES_MAX)?;
    if let Some(declared) = declared {
        return put_declaring(FLAG_DEFINITIONS, tenant, &declared, builder.finish(message, None));
    }
    put_frame(VERSION_NAMED, FLAG_DEFINITIONS, tenant, &[builder.finish(message, None)])
}

/// The tenant and the series that a frame of a journal defines; nothing when it is a batch.
///
/// # Errors
/// As [`Batch::decode`].
pub fn decode_definitions(frame: &[u8]) -> Result<Option<(Tenant, Vec<SeriesDef>)>, Error> {
    let parts = parts(frame)?;
    if parts.flags & FLAG_DEFINITIONS == 0 {
        return Ok(None);
    }
    let batch = decode::batch(parts, SERIES_MAX)?;
    Ok(Some((batch.tenant, batch.series.into_iter().collect::<Result<Vec<_>, _>>()?)))
}

/// A frame of a journal with the arrival time of the following frames, nanoseconds since 1970: a definition of no
/// series, which readers that do not know it skip.
///
/// # Panics
/// Never: it is far below the limit of a frame.
#[must_use]
pub fn encode_arrival(time_ns: i64) -> Vec<u8> {
    let mut builder = planus::Builder::new();
    let message = encode::arrival(time_ns.max(1).unsigned_abs());
    let frame = put_frame(VERSION_NAMED, FLAG_DEFINITIONS, &Tenant::default(), &[builder.finish(message, None)]);
    frame.expect("a hundred bytes")
}

/// The time of a frame made by [`encode_arrival`]; None for another frame.
///
/// # Errors
/// As [`Batch::decode`].
pub fn decode_arrival(frame: &[u8]) -> Result<Option<i64>, Error> {
    let parts = parts(frame)?;
    if parts.flags & FLAG_DEFINITIONS == 0 {
        return Ok(None);
    }
    let batch = decode::batch(parts, SERIES_MAX)?;
    let is_arrival = batch.series.is_empty() && batch.sequence > 0;
    Ok(i64::try_from(batch.sequence).ok().filter(|_| is_arrival))
}

#[cfg(test)]
mod dictionary_tests;
#[cfg(test)]
mod tests;
