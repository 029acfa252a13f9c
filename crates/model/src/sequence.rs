//! Which batches of a source are here already: the receiver's half of exactly-once.
//!
//! Invariants: while its source is remembered, a marked number is never called new again, and a number is
//! called new or duplicate only when that is known. Numbers need not be contiguous (a sender may count by its clock);
//! gaps stay open until [`Sequences::RUNS_MAX`] of them are, then the oldest gap is given up: what arrives in it later
//! is [`SequenceState::TooOld`], an honest "not known".
//! A source is one of its tenant: whoever knows the source of another tenant's sender marks nothing of it.
//! Limits: [`Sequences::RUNS_MAX`] runs a source, [`SourceTable::SOURCES_MAX`] sources; of the tenant that has most of
//! them those that were silent longest make room.
//! Format: [`SourceTable::to_bytes`] is versioned; docs/formats/manifest.md shows it.

use std::collections::HashMap;

use crate::{SourceId, Tenant};

/// The state of a sequence number at its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequenceState {
    /// Never marked.
    New,
    /// Marked before.
    Duplicate,
    /// In a gap that was dropped: it may have been marked or not.
    TooOld,
}

/// The marked numbers of one source, as runs of neighbours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sequences {
    /// Numbers below this are in no run and cannot be listed.
    forgotten_below: u64,
    /// Disjoint runs `(first, last)`, ascending, with a gap between any two.
    runs: Vec<(u64, u64)>,
}

impl Sequences {
    /// 1,024 runs of 16 bytes: 16 KiB for the worst source; one that counts without gaps has one run.
    pub const RUNS_MAX: usize = 1024;

    /// The current state of `sequence`.
    #[must_use]
    pub fn seen(&self, sequence: u64) -> SequenceState {
        let after = self.runs.partition_point(|run| run.1 < sequence);
        if self.runs.get(after).is_some_and(|run| run.0 <= sequence) {
            SequenceState::Duplicate
        } else if sequence < self.forgotten_below {
            SequenceState::TooOld
        } else {
            SequenceState::New
        }
    }

    /// Marks `sequence`. Marking twice changes nothing.
    pub fn mark(&mut self, sequence: u64) {
        if self.seen(sequence) != SequenceState::New {
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
            // Drops the gap after the first run. That run's numbers are then unknown too.
            self.runs.remove(0);
            self.forgotten_below = self.runs[0].0;
        }
    }

    /// The marked numbers that are listed, as runs `(first, last)` of neighbours, ascending.
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

/// The key of a source: it belongs to a tenant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    /// None in tables from before tenants were distinguished: these marks count for every tenant.
    tenant: Option<Tenant>,
    source: SourceId,
}

/// The sequences of every source of every tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceTable {
    sources: HashMap<Key, Source>,
    marks: u64,
    /// Whether there may be sources that count for every tenant.
    has_shared: bool,
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
    const VERSION: u32 = 2;
    /// The version without tenants, which is read.
    const VERSION_SHARED: u32 = 1;

    /// The current state of `(source, sequence)` of `tenant`.
    #[must_use]
    pub fn seen(&self, tenant: &Tenant, source: SourceId, sequence: u64) -> SequenceState {
        let of = |tenant: Option<Tenant>| {
            self.sources.get(&Key { tenant, source }).map_or(SequenceState::New, |known| known.sequences.seen(sequence))
        };
        match of(Some(tenant.clone())) {
            SequenceState::New if self.has_shared => of(None),
            own => own,
        }
    }

    /// Marks `(source, sequence)` of `tenant`; when there are too many sources, forgets those that were silent longest.
    pub fn mark(&mut self, tenant: &Tenant, source: SourceId, sequence: u64) {
        let key = Key { tenant: Some(tenant.clone()), source };
        if self.sources.len() >= Self::SOURCES_MAX && !self.sources.contains_key(&key) {
            self.forget_silent();
        }
        self.marks += 1;
        let known = self.sources.entry(key).or_default();
        known.sequences.mark(sequence);
        known.last_mark = self.marks;
        debug_assert!(self.sources.len() <= Self::SOURCES_MAX);
    }

    /// Every source with its marks, unordered. One that several tenants use appears as often.
    pub fn iter(&self) -> impl Iterator<Item = (SourceId, &Sequences)> {
        self.sources.iter().map(|(key, source)| (key.source, &source.sequences))
    }

    /// Number of sources remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sources.len()
    }

    /// Approximate memory of the table: its slots; additional runs of sources with more than a few are not counted.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        // A slot holds the id, the source and a control byte; the smallest run list has 4 entries of 16 bytes.
        let place = size_of::<(Key, Source)>() + 1;
        (self.sources.capacity() * place + self.sources.len() * 64) as u64
    }

    /// True when no source is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// Forgets the half that was silent longest of the tenant with the most sources, at most a tenth of all: one pass
    /// over the table makes room for many new sources, and a tenant that keeps creating new ones displaces its own
    /// first.
    fn forget_silent(&mut self) {
        let mut counts: HashMap<&Option<Tenant>, usize> = HashMap::new();
        self.sources.keys().for_each(|key| *counts.entry(&key.tenant).or_default() += 1);
        // By name where two have as many, so that a replay forgets the same.
        let most = counts.iter().max_by_key(|(tenant, count)| (**count, **tenant)).map(|(tenant, _)| (*tenant).clone());
        let most = most.filter(|_| counts.len() <= Self::SOURCES_MAX / 100);
        // With very many tenants, none has enough to give: then sources of all are forgotten.
        let gives = |key: &Key| most.as_ref().is_none_or(|most| key.tenant == *most);
        let mut marks: Vec<u64> =
            self.sources.iter().filter(|(key, _)| gives(key)).map(|(_, source)| source.last_mark).collect();
        let forgotten = (marks.len() / 2).min(Self::SOURCES_MAX / 10);
        let (_, threshold, _) = marks.select_nth_unstable(forgotten);
        let threshold = *threshold;
        self.sources.retain(|key, source| !gives(key) || source.last_mark > threshold);
    }

    /// The table as bytes, little-endian: u32 version, u32 sources, then for each u8 length of its tenant's name and
    /// the name (empty: it counts for every tenant), its id (u128), forgotten below (u64), u32 runs and the runs (u64
    /// first, u64 last). Sources are in the order of their last mark.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut order: Vec<(&Key, &Source)> = self.sources.iter().collect();
        order.sort_by_key(|(_, source)| source.last_mark);
        let mut out = Vec::new();
        out.extend_from_slice(&Self::VERSION.to_le_bytes());
        out.extend_from_slice(&u32::try_from(order.len()).expect("SOURCES_MAX is below 2^32").to_le_bytes());
        for (key, source) in order {
            let tenant = key.tenant.as_ref().map_or("", Tenant::as_str);
            out.push(u8::try_from(tenant.len()).expect("a tenant's name has 150 bytes at most"));
            out.extend_from_slice(tenant.as_bytes());
            out.extend_from_slice(&key.source.0.to_le_bytes());
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

    /// Decodes [`SourceTable::to_bytes`], including the version before tenants were distinguished; `None` when the
    /// bytes are anything else.
    #[must_use]
    pub fn from_bytes(mut bytes: &[u8]) -> Option<Self> {
        let mut out = Self::default();
        let version = u32::from_le_bytes(take(&mut bytes)?);
        if !matches!(version, Self::VERSION | Self::VERSION_SHARED) {
            return None;
        }
        let sources = u32::from_le_bytes(take(&mut bytes)?) as usize;
        if sources > Self::SOURCES_MAX {
            return None;
        }
        for _ in 0..sources {
            let tenant = if version == Self::VERSION_SHARED { None } else { take_tenant(&mut bytes)? };
            out.has_shared |= tenant.is_none();
            let source = SourceId(u128::from_le_bytes(take(&mut bytes)?));
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
            let sequences = Sequences { forgotten_below, runs };
            out.sources.insert(Key { tenant, source }, Source { sequences, last_mark: out.marks });
        }
        bytes.is_empty().then_some(out)
    }
}

/// The tenant of a source; None for one that counts for every tenant.
fn take_tenant(bytes: &mut &[u8]) -> Option<Option<Tenant>> {
    let [length] = take(bytes)?;
    let (name, rest) = bytes.split_at_checked(usize::from(length))?;
    *bytes = rest;
    match name {
        b"" => Some(None),
        name => Tenant::new(std::str::from_utf8(name).ok()?).ok().map(Some),
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
                let expected = if set.contains(&number) { SequenceState::Duplicate } else { SequenceState::New };
                prop_assert_eq!(sequences.seen(number), expected);
            }
            prop_assert_eq!(sequences.highest(), set.last().copied());
        }

        #[test]
        fn bytes_come_back(marks in prop::collection::vec((0..3_usize, 0..5_u128, any::<u64>()), 0..60)) {
            let tenants = ["default", "team-a", "b"].map(|name| Tenant::new(name).unwrap());
            let mut table = SourceTable::default();
            let mut set = BTreeSet::new();
            for (tenant, source, sequence) in &marks {
                table.mark(&tenants[*tenant], SourceId(*source), *sequence);
                set.insert((*tenant, *source, *sequence));
            }
            let bytes = table.to_bytes();
            let back = SourceTable::from_bytes(&bytes).unwrap();
            prop_assert_eq!(&back.to_bytes(), &bytes);
            for (_, source, sequence) in marks {
                for (at, tenant) in tenants.iter().enumerate() {
                    let expected = if set.contains(&(at, source, sequence)) { SequenceState::Duplicate } else { SequenceState::New };
                    prop_assert_eq!(back.seen(tenant, SourceId(source), sequence), expected);
                }
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
            assert_eq!(sequences.seen(sequence), SequenceState::Duplicate);
        }
        assert_eq!(sequences.runs, [(0, 1), (u64::MAX - 1, u64::MAX)]);
    }

    #[test]
    fn the_oldest_gap_is_given_up_at_the_limit_and_said_so() {
        let mut sequences = Sequences::default();
        let limit = Sequences::RUNS_MAX as u64;
        (0..limit).for_each(|at| sequences.mark(at * 10));
        assert_eq!((sequences.seen(0), sequences.seen(5)), (SequenceState::Duplicate, SequenceState::New));
        sequences.mark(limit * 10);
        assert_eq!((sequences.seen(0), sequences.seen(5)), (SequenceState::TooOld, SequenceState::TooOld));
        assert_eq!((sequences.seen(10), sequences.seen(15)), (SequenceState::Duplicate, SequenceState::New));
    }

    #[test]
    fn the_most_silent_sources_make_room() {
        let tenant = Tenant::default();
        let mut table = SourceTable::default();
        (0..SourceTable::SOURCES_MAX as u128).for_each(|source| table.mark(&tenant, SourceId(source), 1));
        table.mark(&tenant, SourceId(0), 2);
        table.mark(&tenant, SourceId(u128::MAX), 1);
        assert!(table.len() <= SourceTable::SOURCES_MAX);
        assert_eq!(table.seen(&tenant, SourceId(0), 1), SequenceState::Duplicate);
        assert_eq!(table.seen(&tenant, SourceId(u128::MAX), 1), SequenceState::Duplicate);
        assert_eq!(table.seen(&tenant, SourceId(1), 1), SequenceState::New);
    }

    #[test]
    fn a_tenant_with_ever_new_sources_makes_nobody_else_forgotten() {
        let [quiet, loud] = ["quiet", "loud"].map(|name| Tenant::new(name).unwrap());
        let mut table = SourceTable::default();
        (0..100).for_each(|source| table.mark(&quiet, SourceId(source), 1));
        (0..SourceTable::SOURCES_MAX as u128).for_each(|source| table.mark(&loud, SourceId(source), 1));
        assert!(table.len() <= SourceTable::SOURCES_MAX);
        assert!((0..100).all(|source| table.seen(&quiet, SourceId(source), 1) == SequenceState::Duplicate));
        // Nobody is spared where each tenant has but one.
        let tenants: Vec<Tenant> = (0..2_000).map(|at| Tenant::new(&format!("t{at}")).unwrap()).collect();
        let marks = (0..20_000_u128).map(|source| (&tenants[source as usize % 2_000], SourceId(source)));
        marks.for_each(|(tenant, source)| table.mark(tenant, source, 1));
        assert!(table.len() <= SourceTable::SOURCES_MAX);
    }

    /// What was marked before tenants were distinguished is known to each of them, so that what is sent again behind an
    /// update counts once; what is marked now is not.
    #[test]
    fn a_table_of_before_counts_for_every_tenant() {
        let mut bytes = vec![1, 0, 0, 0, 1, 0, 0, 0];
        bytes.extend_from_slice(&7_u128.to_le_bytes());
        for number in [3_u64, 5, 9] {
            bytes.extend_from_slice(&number.to_le_bytes()[..]);
            if number == 3 {
                bytes.extend_from_slice(&1_u32.to_le_bytes());
            }
        }
        let mut table = SourceTable::from_bytes(&bytes).unwrap();
        let [one, two] = ["default", "team-b"].map(|name| Tenant::new(name).unwrap());
        table.mark(&one, SourceId(7), 20);
        let again = SourceTable::from_bytes(&table.to_bytes()).unwrap();
        for table in [&table, &again] {
            for tenant in [&one, &two] {
                let seen = |sequence| table.seen(tenant, SourceId(7), sequence);
                assert_eq!(
                    (seen(2), seen(4), seen(5), seen(9)),
                    (SequenceState::TooOld, SequenceState::New, SequenceState::Duplicate, SequenceState::Duplicate)
                );
            }
            assert_eq!(table.seen(&one, SourceId(7), 20), SequenceState::Duplicate);
            assert_eq!(table.seen(&two, SourceId(7), 20), SequenceState::New);
        }
        assert!(!again.to_bytes().is_empty() && SourceTable::from_bytes(&[3, 0, 0, 0, 0, 0, 0, 0]).is_none());
    }
}
