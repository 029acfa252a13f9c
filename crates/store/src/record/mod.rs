//! The payload of a journal record: a frame of `ogive_model::wire`, or floats in columns, whose series are numbers.
//!
//! Format: `docs/formats/record.md`.
//! Invariants: a number is bound to one identity in a part of the journal, by two records before it is used without, so
//! that one damaged record costs its own samples only, and by later ones again, so that more damage costs a multiple of
//! its records at most. What defines an identity are other records, of which there are several too.
//! Failure: a record that breaks a rule is an error; samples whose numbers no readable record binds are left out.

mod decode;
mod encode;
mod values;

use std::borrow::Cow;
use std::collections::HashMap;

use ogive_model::{Batch, Error, Sample, SeriesId, Value};

pub(crate) use decode::FloatRecord;
pub(crate) use encode::{RecordEncoder, RecordHead};

const MAGIC: [u8; 4] = *b"OGVR";
const VERSION: u8 = 1;
/// Nanoseconds of a millisecond.
const MS_NS: i64 = 1_000_000;
/// One time for all samples.
const TIMES_EQUAL: u8 = 0;
/// Milliseconds from the time before.
const TIMES_MS: u8 = 1;
/// Nanoseconds from the time before.
const TIMES_NS: u8 = 2;

/// 2^26 series are numbered, 17 GB of them: what a replay holds of their numbers is 256 MiB at most.
pub(crate) const NUMBER_MAX: u32 = 1 << 26;

/// Whether a record binds the number of a series that so many records of its part have already. With one of them
/// damaged there is another; when all that there are lie in one bad sector, three times as many are lost before the
/// next one. 64 records of one series each fill a sector of 4 KiB; each 128th costs 0.13 bytes a sample.
pub(crate) const fn is_binding(records: u8) -> bool {
    matches!(records, 0 | 1 | 4 | 16 | 64 | 128)
}

/// One record more: of those above 128 each 128th counts as the 128th.
pub(crate) const fn next_record(records: u8) -> u8 {
    if records == u8::MAX { 128 } else { records + 1 }
}

/// Records of a part that define a series that no block has, at most.
pub(crate) const DEFINITIONS: u8 = 4;

/// How many records are to define a series that so many records of its part have already: two, since one may be
/// damaged, and others later, so that not all of them are in one bad sector.
pub(crate) const fn definitions_due(records: u8) -> u8 {
    match records {
        0..16 => 2,
        16..64 => 3,
        64.. => DEFINITIONS,
    }
}

/// Reads records of a store's journal as frames, for tools. Records are to be read in their order.
#[derive(Default)]
pub struct RecordReader {
    part: Option<u32>,
    ids: HashMap<u32, SeriesId>,
    /// Samples whose series no readable record names.
    lost: u64,
}

impl RecordReader {
    /// A reader at the beginning of a journal.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The frame of a batch or of definitions that a record stands for.
    ///
    /// # Errors
    /// When the record is neither; what [`Batch::encode`] says.
    pub fn frame<'a>(&mut self, record: &'a [u8]) -> Result<Cow<'a, [u8]>, Error> {
        let Some(found) = FloatRecord::read(record)? else { return Ok(Cow::Borrowed(record)) };
        if self.part != Some(found.part) {
            (self.part, self.ids) = (Some(found.part), HashMap::new());
        }
        self.ids.extend(found.bindings.iter().copied());
        let mut batch =
            Batch { source: found.source, sequence: found.sequence, tenant: found.tenant.clone(), ..Batch::default() };
        // The place of each number among the series of the batch.
        let mut places: HashMap<u32, u32> = HashMap::new();
        let lost = self.lost;
        found.each(|number, time_ns, value| {
            let Some(id) = self.ids.get(&number) else {
                self.lost += 1;
                return;
            };
            let series = *places.entry(number).or_insert_with(|| {
                batch.known.push(*id);
                batch.known.len() as u32 - 1
            });
            batch.samples.push(Ok(Sample { series, time_ns, start_ns: None, value: Value::Float(value) }));
        });
        let passed = batch.samples.len() as u64 + (self.lost - lost);
        assert_eq!(passed, found.len() as u64, "each sample of a record is in its frame, or counted as lost");
        batch.encode().map(Cow::Owned)
    }

    /// Samples that were left out since this was last asked, because the records that name their series cannot be read.
    pub const fn take_lost(&mut self) -> u64 {
        std::mem::replace(&mut self.lost, 0)
    }
}

#[cfg(test)]
mod tests;
