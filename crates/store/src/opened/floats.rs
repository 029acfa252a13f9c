//! Series of floats whose samples are passed on as they are in the blocks, without a copy of them all.
//!
//! Chunks of neighbouring series are read at once: they are neighbours in the file, and each is compared with its own
//! checksum before it is used.

use std::ops::Range;

use ogive_model::{FloatHead, FloatRun, Kind, Labels, Temporality};

use super::scratch::FloatScratch;
use super::{BlockPart, Lineup, Opened, Part, Set};
use crate::block::{ChunkEntry, Lookup};
use crate::codec::float_run::Found;
use crate::codec::kept_floats::KeptFloats;
use crate::ingest::head::HeadAnswer;
use crate::{Budget, Error, tombstone};

/// 64 KiB of a block: the chunks of some 70 series of a day of samples each 30 s. More hardly saves any calls.
const AHEAD_BYTES: usize = 64 << 10;
/// 1 MiB of all blocks, for each thread that reads.
const AHEAD_BYTES_ALL: usize = 1 << 20;
/// 4 KiB: reading what is not wanted costs as much as another call.
const GAP_BYTES: u64 = 4 << 10;

impl Opened<'_> {
    /// The floats of label set `number`, which has `parts`; None when it has others too, or when they are no runs.
    pub(super) fn floats(
        &self,
        number: usize,
        parts: &[(Kind, Part)],
        budget: &mut Budget,
        each: &mut dyn FnMut(FloatRun<'_>),
    ) -> Result<Option<FloatHead>, Error> {
        if parts.iter().any(|(kind, part)| *kind != Kind::Float || part.is_rolled()) {
            return Ok(None);
        }
        let parts: Vec<&Part> = parts.iter().map(|(_, part)| part).collect();
        let Some(Lineup { order, blank: mut series }) = self.lined_up(&parts)? else { return Ok(None) };
        if series.meta.temporality == Temporality::Delta || series.rollup_ms != 0 {
            return Ok(None);
        }
        // Not what the budget gave: heads may have a sample twice.
        let mut samples = 0;
        let mut each = |run: FloatRun<'_>| {
            samples += run.times.count();
            each(run);
        };
        let mut scratch = self.scratches.get();
        let mut read = Ok(true);
        for part in order.iter().map(|at| parts[*at]) {
            read = match part {
                Part::Block(part) => self.block_runs(number, part, &mut scratch, budget, &mut each),
                Part::Head(head) => self.head_run(head, budget, &mut each),
            };
            if !matches!(read, Ok(true)) {
                break;
            }
        }
        self.scratches.put(scratch);
        if !read? || samples == 0 {
            return Ok(None);
        }
        series.labels = Labels::clone(&self.sets[number].labels);
        Ok(Some(FloatHead { series, samples }))
    }

    /// False when what a head has is no run.
    fn head_run(
        &self,
        head: &HeadAnswer,
        budget: &mut Budget,
        each: &mut dyn FnMut(FloatRun<'_>),
    ) -> Result<bool, Error> {
        let _held = self.hold_rows(head.rows_max())?;
        let data = head.data(self.range, false, budget)?;
        let Some(run) = FloatRun::from_series(&data) else { return Ok(tombstone::is_empty(&data)) };
        each(run);
        Ok(true)
    }

    /// False when a part has no runs.
    fn block_runs(
        &self,
        number: usize,
        part: &BlockPart,
        scratch: &mut FloatScratch,
        budget: &mut Budget,
        each: &mut dyn FnMut(FloatRun<'_>),
    ) -> Result<bool, Error> {
        let block = self.view.blocks.numbered(part.number).1?;
        let range = self.requested[part.requested].selection.range;
        let FloatScratch { run, ahead } = scratch;
        let ahead = ahead.entry(part.number).or_default();
        for chunk in part.entry.chunks.iter().filter(|chunk| chunk.touches(range)) {
            let lookup = block.look_up::<KeptFloats>(chunk);
            if let Lookup::Kept(kept) = &lookup {
                let samples = passed_on(kept.run(range, run), each);
                budget.take(samples.unwrap_or(0))?;
                continue;
            }
            // A longer one is read alone: its bytes would be kept until the selection ends.
            if u64::from(chunk.length) <= self.ahead_bytes() && !ahead.holds(chunk) {
                let place = self.neighbours(number, part, chunk);
                assert!(place.end - place.start <= self.ahead_bytes(), "{place:?} is too much to read at once");
                block.read_ahead(place, ahead);
            }
            let found = block.float_run(chunk, ahead, range, run, &lookup)?;
            let Some(samples) = passed_on(found, each) else { return Ok(false) };
            budget.take(samples)?;
        }
        Ok(true)
    }

    /// The most bytes of a block that are read at once.
    fn ahead_bytes(&self) -> u64 {
        AHEAD_BYTES.min(AHEAD_BYTES_ALL / self.blocks.max(1)) as u64
    }

    /// The bytes from `chunk` of a part on that this label set and the next ones will be read from.
    fn neighbours(&self, number: usize, part: &BlockPart, chunk: &ChunkEntry) -> Range<u64> {
        let most = self.ahead_bytes();
        let mut place = chunk.offset..chunk.end();
        // False when one is too far.
        let mut extend = |chunks: &[ChunkEntry]| {
            for one in chunks {
                if one.offset < place.end {
                    continue;
                }
                if one.offset - place.end > GAP_BYTES || one.end() - place.start > most {
                    return false;
                }
                place.end = one.end();
            }
            true
        };
        if !extend(&part.entry.chunks) {
            return place;
        }
        for Set { parts, .. } in &self.sets[number + 1..] {
            // Whoever reads it has what it needs.
            let Ok(parts) = parts.try_lock() else { break };
            let found = parts.iter().find_map(|(_, one)| match one {
                Part::Block(other) if other.number == part.number => Some(&other.entry),
                _ => None,
            });
            // One that this block lacks ends it: there may be many of these.
            if !found.is_some_and(|entry| extend(&entry.chunks)) {
                break;
            }
        }
        place
    }
}

impl Part {
    /// Whether it has the aggregates of a rollup.
    const fn is_rolled(&self) -> bool {
        match self {
            Self::Block(part) => part.entry.aggregates,
            Self::Head(_) => false,
        }
    }
}

/// Passes on the run of a chunk, and returns how many samples it has; None when it is none.
fn passed_on(found: Found<'_>, each: &mut dyn FnMut(FloatRun<'_>)) -> Option<usize> {
    match found {
        Found::Run(run) => {
            each(run);
            Some(run.times.count())
        }
        Found::Nothing => Some(0),
        Found::Unfit => None,
    }
}
