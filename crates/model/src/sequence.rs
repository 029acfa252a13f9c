//! Which batches of a source are here already: the receiver's half of exactly-once.
//!
//! Invariants: while its source is remembered, a marked number is never called new again, and a number is
//! called new or duplicate only when that is known. Numbers need not be contiguous (a sender may count by its clock); gaps stay open until
//! [`Sequences::RUNS_MAX`] of them are, then the oldest gap is given up: what arrives in it later is
//! [`Seen::TooOld`], an honest "cannot tell".
//! Limits: [`Sequences::RUNS_MAX`] runs a source, [`SourceTable::SOURCES_MAX`] sources; the one that was
//! silent longest makes room.
//! Format: [`SourceTable::to_bytes`] is versioned; docs/formats/manifest.md shows it.

use std::collections::HashMap;

use crate::SourceId;

/// What a sequence number is to its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Never marked.
    New,
    /// Marked before.
    Duplicate,
    /// In a gap that was given up: it may have been marked or not.
    TooOld,
}

/// The marked numbers of one source, as runs of neighbours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sequences {
    /// Numbers below this are in no run and cannot be told.
    forgotten_below: u64,
    /// Disjoint runs `(first, last)`, ascending, with a gap between any two.
    runs: Vec<(u64, u64)>,
}

impl Sequences {
    /// 1,024 runs of 16 bytes: 16 KiB for the worst source; one that counts without gaps has one run.
    pub const RUNS_MAX: usize = 1024;

    /// What `sequence` is now.
    #[must_use]
    pub fn seen(&self, sequence: u64) -> Seen {
        let after = self.runs.partition_point(|run| run.1 < sequence);
        if self.runs.get(after).is_some_and(|run| run.0 <= sequence) {
            Seen::Duplicate
        } else if sequence < self.forgotten_below {
            Seen::TooOld
        } else {
            Seen::New
        }
    }

    /// Marks `sequence`. Marking twice changes nothing.
    pub fn mark(&mut self, sequence: u64) {
        if self.seen(sequence) != Seen::New {
            return;
        }
        let after = self.runs.partition_point(|run| run.1 < sequence);
        let joins_before = after > 0 && self.runs[after - 1].1 + 1 == sequence;
        let joins_after = self.runs.get(after).is_some_and(|run| sequence + 1 == run.0);
        match (joins_before, joins_after) {
            (true, true) => {
                self.runs[after - 1].1 = self.runs[after].1;
                self.runs.remove(after);
            }
            (true, false) => self.runs[after - 1].1 = sequence,
            (false, true) => self.runs[after].0 = sequence,
            (false, false) => self.runs.insert(after, (sequence, sequence)),
        }
        if self.runs.len() > Self::RUNS_MAX {
            // Gives up the gap after the first run. That run's numbers are then "cannot tell" too.
            self.runs.remove(0);
            self.forgotten_below = self.runs[0].0;
        }
    }

    /// The marked numbers that are told, as runs `(first, last)` of neighbours, ascending.
    #[must_use]
    pub fn runs(&self) -> &[(u64, u64)] {
        &self.runs
    }

    /// Highest number marked.
    #[must_use]
    pub fn highest(&self) -> Option<u64> {
        self.runs.last().map(|run| run.1)
    }
}

/// The sequences of every source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceTable {
    sources: HashMap<SourceId, Source>,
    marks: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Source {
    sequences: Sequences,
    /// Value of `marks` at its last mark: orders sources by silence without a clock.
    last_mark: u64,
}

impl SourceTable {
    /// 100,000 sources of about 100 bytes: 10 MiB; a process a minute for two months.
    pub const SOURCES_MAX: usize = 100_000;
    /// Version of the bytes of [`SourceTable::to_bytes`].
    const VERSION: u32 = 1;

    /// What `(source, sequence)` is now.
    #[must_use]
    pub fn seen(&self, source: SourceId, sequence: u64) -> Seen {
        self.sources.get(&source).map_or(Seen::New, |known| known.sequences.seen(sequence))
    }

    /// Marks `(source, sequence)`; forgets the source that was silent longest when there are too many.
    pub fn mark(&mut self, source: SourceId, sequence: u64) {
        if self.sources.len() >= Self::SOURCES_MAX && !self.sources.contains_key(&source) {
            self.forget_silent();
        }
        self.marks += 1;
        let known = self.sources.entry(source).or_default();
        known.sequences.mark(sequence);
        known.last_mark = self.marks;
    }

    /// What is marked of `source`, if it is remembered.
    #[must_use]
    pub fn of(&self, source: SourceId) -> Option<&Sequences> {
        self.sources.get(&source).map(|known| &known.sequences)
    }

    /// Number of sources remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sources.len()
    }

    /// Bytes that the table takes, about: its places, and the runs of a source that has more than a few are left out.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        // A place holds the id, the source and a byte of control; the least run list has 4 places of 16 bytes.
        let place = size_of::<(SourceId, Source)>() + 1;
        (self.sources.capacity() * place + self.sources.len() * 64) as u64
    }

    /// True when no source is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// Forgets the tenth that was silent longest: one pass over the table pays for thousands of new sources.
    fn forget_silent(&mut self) {
        let mut marks: Vec<u64> = self.sources.values().map(|source| source.last_mark).collect();
        let tenth = marks.len() / 10;
        let (_, threshold, _) = marks.select_nth_unstable(tenth);
        let threshold = *threshold;
        self.sources.retain(|_, source| source.last_mark > threshold);
    }

    /// The table as bytes, little-endian: u32 version, u32 sources, then for each its id (u128), forgotten
    /// below (u64), u32 runs and the runs (u64 first, u64 last). Sources stand in order of their last mark.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut order: Vec<(&SourceId, &Source)> = self.sources.iter().collect();
        order.sort_by_key(|(_, source)| source.last_mark);
        let mut out = Vec::new();
        out.extend_from_slice(&Self::VERSION.to_le_bytes());
        out.extend_from_slice(&u32::try_from(order.len()).expect("SOURCES_MAX is below 2^32").to_le_bytes());
        for (id, source) in order {
            out.extend_from_slice(&id.0.to_le_bytes());
            out.extend_from_slice(&source.sequences.forgotten_below.to_le_bytes());
            let runs = u32::try_from(source.sequences.runs.len()).expect("RUNS_MAX is below 2^32");
            out.extend_from_slice(&runs.to_le_bytes());
            for (first, last) in &source.sequences.runs {
                out.extend_from_slice(&first.to_le_bytes());
                out.extend_from_slice(&last.to_le_bytes());
            }
        }
        out
    }

    /// Reads [`SourceTable::to_bytes`]; `None` when the bytes are anything else.
    #[must_use]
    pub fn from_bytes(mut bytes: &[u8]) -> Option<Self> {
        let mut out = Self::default();
        if u32::from_le_bytes(take(&mut bytes)?) != Self::VERSION {
            return None;
        }
        let sources = u32::from_le_bytes(take(&mut bytes)?) as usize;
        if sources > Self::SOURCES_MAX {
            return None;
        }
        for _ in 0..sources {
            let id = SourceId(u128::from_le_bytes(take(&mut bytes)?));
            let forgotten_below = u64::from_le_bytes(take(&mut bytes)?);
            let mut runs: Vec<(u64, u64)> = Vec::new();
            for _ in 0..u32::from_le_bytes(take(&mut bytes)?) {
                let run = (u64::from_le_bytes(take(&mut bytes)?), u64::from_le_bytes(take(&mut bytes)?));
                let above = runs.last().is_none_or(|before| before.1 < u64::MAX - 1 && before.1 + 1 < run.0);
                if run.0 > run.1 || !above || runs.len() == Sequences::RUNS_MAX {
                    return None;
                }
                runs.push(run);
            }
            out.marks += 1;
            out.sources.insert(id, Source { sequences: Sequences { forgotten_below, runs }, last_mark: out.marks });
        }
        bytes.is_empty().then_some(out)
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (head, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*head)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_agrees_with_a_set(marks in prop::collection::vec(0..200_u64, 0..300)) {
            let (mut sequences, mut set) = (Sequences::default(), BTreeSet::new());
            for mark in marks {
                sequences.mark(mark);
                set.insert(mark);
            }
            for number in 0..210 {
                let expected = if set.contains(&number) { Seen::Duplicate } else { Seen::New };
                prop_assert_eq!(sequences.seen(number), expected);
            }
            prop_assert_eq!(sequences.highest(), set.last().copied());
        }

        #[test]
        fn bytes_come_back(marks in prop::collection::vec((0..5_u128, any::<u64>()), 0..200)) {
            let mut table = SourceTable::default();
            marks.iter().for_each(|(source, sequence)| table.mark(SourceId(*source), *sequence));
            let bytes = table.to_bytes();
            let back = SourceTable::from_bytes(&bytes).unwrap();
            prop_assert_eq!(&back.to_bytes(), &bytes);
            for (source, sequence) in marks {
                prop_assert_eq!(back.seen(SourceId(source), sequence), Seen::Duplicate);
            }
            for length in 0..bytes.len() {
                prop_assert_eq!(SourceTable::from_bytes(&bytes[..length]), None);
            }
        }
    }

    #[test]
    fn the_ends_of_the_range_do_not_overflow() {
        let mut sequences = Sequences::default();
        for sequence in [u64::MAX, 0, u64::MAX - 1, 1] {
            sequences.mark(sequence);
            assert_eq!(sequences.seen(sequence), Seen::Duplicate);
        }
        assert_eq!(sequences.runs, [(0, 1), (u64::MAX - 1, u64::MAX)]);
    }

    #[test]
    fn the_oldest_gap_is_given_up_at_the_limit_and_said_so() {
        let mut sequences = Sequences::default();
        let limit = Sequences::RUNS_MAX as u64;
        (0..limit).for_each(|at| sequences.mark(at * 10));
        assert_eq!((sequences.seen(0), sequences.seen(5)), (Seen::Duplicate, Seen::New));
        sequences.mark(limit * 10);
        assert_eq!((sequences.seen(0), sequences.seen(5)), (Seen::TooOld, Seen::TooOld));
        assert_eq!((sequences.seen(10), sequences.seen(15)), (Seen::Duplicate, Seen::New));
    }

    #[test]
    fn the_most_silent_sources_make_room() {
        let mut table = SourceTable::default();
        (0..SourceTable::SOURCES_MAX as u128).for_each(|source| table.mark(SourceId(source), 1));
        table.mark(SourceId(0), 2);
        table.mark(SourceId(u128::MAX), 1);
        assert!(table.len() <= SourceTable::SOURCES_MAX);
        assert_eq!(table.seen(SourceId(0), 1), Seen::Duplicate);
        assert_eq!(table.seen(SourceId(u128::MAX), 1), Seen::Duplicate);
        assert_eq!(table.seen(SourceId(1), 1), Seen::New);
    }
}
