//! Bytes of a block that were read before they are needed.
//!
//! Invariant: they are not verified; each chunk is compared with its checksum when it is taken out, and read again from
//! whichever copy is good when it differs.

use std::ops::Range;
use std::sync::Arc;

use ogive_model::TimeRange;

use crate::Error;
use crate::block::Block;
use crate::block::cache::Lookup;
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

    /// The floats of a chunk inside `range`, as a run; `lookup` is what the cache has of it, which is not all.
    pub(crate) fn float_run<'s>(
        &self,
        chunk: &ChunkEntry,
        ahead: &Ahead,
        range: TimeRange,
        scratch: &'s mut RunScratch,
        lookup: &Lookup<KeptFloats>,
    ) -> Result<Found<'s>, Error> {
        let corrupt = |broken| self.corrupt(chunk.offset, broken);
        let run = match ahead.bytes_of(chunk).filter(|bytes| crc32c::crc32c(bytes) == chunk.checksum) {
            Some(bytes) => float_run::read_whole(bytes, scratch).map_err(corrupt)?,
            None => float_run::read_whole(&self.chunk_bytes(chunk)?, scratch).map_err(corrupt)?,
        };
        let Some(run) = run else {
            if matches!(lookup, Lookup::New | Lookup::Wanted) {
                self.keep_unfit(chunk);
            }
            return Ok(Found::Unfit);
        };
        if matches!(lookup, Lookup::Wanted) {
            self.keep(chunk, Arc::new(KeptFloats::new(&run)));
        }
        let found = float_run::inside(run, range);
        // Where nothing is found, what is not a run is asked next, and that is one use.
        if matches!(found, Found::Run(_)) {
            self.note(chunk, lookup);
        }
        Ok(found)
    }
}
