//! Bytes of a block that were read before they are needed.
//!
//! Invariant: they are not verified; each chunk is compared with its checksum when it is taken out, and read again from
//! whichever copy is good when it differs.

use std::ops::Range;
use std::sync::Arc;

use ogive_model::TimeRange;

use crate::Error;
use crate::block::Block;
use crate::block::cache::Part;
use crate::block::series::ChunkEntry;
use crate::codec::float_run::{self, Found, RunScratch};
use crate::codec::kept_floats::KeptFloats;

/// See the module.
#[derive(Default)]
pub(crate) struct Ahead {
    offset: u64,
    bytes: Vec<u8>,
}

impl Ahead {
    /// Whether a chunk is among them.
    pub(crate) fn holds(&self, chunk: &ChunkEntry) -> bool {
        self.bytes_of(chunk).is_some()
    }

    fn bytes_of(&self, chunk: &ChunkEntry) -> Option<&[u8]> {
        let from = usize::try_from(chunk.offset.checked_sub(self.offset)?).ok()?;
        self.bytes.get(from..)?.get(..chunk.length as usize)
    }
}

impl Block {
    /// Reads the bytes of `place`; what cannot be read is not there.
    pub(crate) fn read_ahead(&self, place: Range<u64>, ahead: &mut Ahead) {
        let length = usize::try_from(place.end.saturating_sub(place.start)).unwrap_or(0);
        ahead.offset = place.start;
        // What is there is overwritten.
        ahead.bytes.resize(length, 0);
        if !self.read_into(place.start, &mut ahead.bytes) {
            ahead.bytes.clear();
        }
    }

    /// The floats of a chunk inside `range`, as a run; all of them are kept when the chunk is `wanted`.
    pub(crate) fn float_run<'s>(
        &self,
        chunk: &ChunkEntry,
        ahead: &Ahead,
        range: TimeRange,
        scratch: &'s mut RunScratch,
        wanted: bool,
    ) -> Result<Found<'s>, Error> {
        let corrupt = |broken| self.corrupt(chunk.offset, broken);
        let run = match ahead.bytes_of(chunk).filter(|bytes| crc32c::crc32c(bytes) == chunk.checksum) {
            Some(bytes) => float_run::read_whole(bytes, scratch).map_err(corrupt)?,
            None => float_run::read_whole(&self.chunk_bytes(chunk)?, scratch).map_err(corrupt)?,
        };
        let Some(run) = run else { return Ok(Found::Unfit) };
        if wanted {
            self.keep(chunk, Part::Floats(Arc::new(KeptFloats::new(&run))));
        }
        Ok(float_run::inside(run, range))
    }
}
