//! The readers' view of the spool: its durable end, its segments, and the latest records in memory.
//!
//! Invariants: the board shows durable records only; the records in memory are the latest ones, without a gap.
//! Threads: the writer publishes after each fsync; readers copy what they need under a short lock.
//! Limits: the records in memory hold at most the bytes given to [`Board::new`], and always the latest one.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ogive_journal::{Disk, Position, SegmentRange};
use ogive_model::WallMs;

use crate::Error;
use crate::record;

/// A record of the spool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where it is.
    pub position: u64,
    /// When it arrived.
    pub arrival: WallMs,
    /// The batch.
    pub frame: Arc<[u8]>,
}

impl Entry {
    /// Its memory.
    fn memory(&self) -> usize {
        self.frame.len() + 128
    }
}

/// A segment, and when its records arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentState {
    /// Where it is.
    pub range: SegmentRange,
    /// The arrival of its first record; None while it is empty.
    pub arrival_first: Option<WallMs>,
    /// The latest arrival of a record in it; for the last segment, so far.
    pub arrival_last: Option<WallMs>,
}

impl SegmentState {
    /// Its positions.
    #[must_use]
    pub fn positions(&self) -> Range<u64> {
        self.range.first.0..self.range.end.0
    }
}

/// The contents of a segment.
#[derive(Debug, Default)]
pub struct Loaded {
    /// The records, ascending.
    pub entries: Vec<Entry>,
    /// Positions that cannot be read any more.
    pub lost: Vec<Range<u64>>,
}

#[derive(Debug, Default)]
struct State {
    tail: VecDeque<Entry>,
    tail_bytes: usize,
    segments: Vec<SegmentState>,
    end: u64,
}

/// See the module.
#[derive(Debug)]
pub struct Board {
    state: Mutex<State>,
    tail_bytes_max: usize,
}

impl Board {
    pub(crate) fn new(tail_bytes_max: usize) -> Self {
        Self { state: Mutex::default(), tail_bytes_max }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes what became durable. `end` is the position after the last of it.
    pub(crate) fn publish(&self, entries: Vec<Entry>, segments: Vec<SegmentState>, end: u64) {
        let mut state = self.state();
        assert!(state.end <= end, "what was durable to {} is so only to {end}", state.end);
        assert!(segments.is_sorted_by(|one, next| one.range.end <= next.range.first), "segments ascend");
        for entry in entries {
            assert!(state.tail.back().is_none_or(|last| last.position + 1 == entry.position), "the tail has no hole");
            state.tail_bytes += entry.memory();
            state.tail.push_back(entry);
        }
        assert!(state.tail.back().is_none_or(|last| last.position < end), "nothing is here that is not durable");
        while state.tail_bytes > self.tail_bytes_max && state.tail.len() > 1 {
            let gone = state.tail.pop_front().expect("it has more than one");
            state.tail_bytes -= gone.memory();
        }
        debug_assert_eq!(state.tail_bytes, state.tail.iter().map(Entry::memory).sum::<usize>());
        (state.segments, state.end) = (segments, end);
    }

    /// Behind the last durable record.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.state().end
    }

    /// The first record that still exists.
    #[must_use]
    pub fn first(&self) -> u64 {
        let state = self.state();
        state.segments.first().map_or(state.end, |segment| segment.range.first.0)
    }

    /// Every segment, ascending.
    #[must_use]
    pub fn segments(&self) -> Vec<SegmentState> {
        self.state().segments.clone()
    }

    /// Bytes of all segments.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.state().segments.iter().map(|segment| segment.range.bytes).sum()
    }

    /// The first record in memory.
    #[must_use]
    pub fn tail_first(&self) -> u64 {
        let state = self.state();
        state.tail.front().map_or(state.end, |first| first.position)
    }

    /// A record, when it is in memory.
    #[must_use]
    pub fn recent(&self, position: u64) -> Option<Entry> {
        let state = self.state();
        let first = state.tail.front()?.position;
        let entry = state.tail.get(usize::try_from(position.checked_sub(first)?).ok()?)?;
        assert_eq!(entry.position, position, "the tail has no hole");
        Some(entry.clone())
    }

    /// The segment that contains `position`.
    #[must_use]
    pub fn segment_of(&self, position: u64) -> Option<SegmentState> {
        let state = self.state();
        let at = state.segments.partition_point(|segment| segment.range.end.0 <= position);
        state.segments.get(at).filter(|segment| segment.range.first.0 <= position).cloned()
    }

    /// Reads the durable part of a segment.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn load(&self, disk: &dyn Disk, segment: &SegmentRange) -> Result<Loaded, Error> {
        let mut loaded = Loaded::default();
        let limit = segment.end.0.min(self.end());
        segment.replay::<Error>(disk, segment.first..Position(limit), |position, bytes| {
            match record::decode(bytes) {
                Some((arrival, frame)) => {
                    loaded.entries.push(Entry { position: position.0, arrival, frame: frame.into() });
                }
                None => loaded.lost.push(position.0..position.0 + 1),
            }
            Ok(())
        })?;
        let asked = segment.first.0..limit;
        assert!(loaded.entries.iter().all(|entry| asked.contains(&entry.position)), "records of {asked:?} alone");
        // Positions missing from the records are damaged on the disk.
        let mut expected = segment.first.0;
        let mut found: Vec<u64> = loaded.entries.iter().map(|entry| entry.position).collect();
        found.extend(loaded.lost.iter().map(|range| range.start));
        found.sort_unstable();
        for position in found.into_iter().chain([limit]) {
            if expected < position {
                loaded.lost.push(expected..position);
            }
            expected = position + 1;
        }
        Ok(loaded)
    }
}
