//! A set of positions as disjoint ranges.
//!
//! Invariants: ranges are ascending, none is empty, and no two touch.

use std::ops::Range;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges(Vec<Range<u64>>);

impl Ranges {
    /// Adds a range, which may already be present in part or completely.
    pub fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        // Ranges that touch it are merged with it.
        let from = self.0.partition_point(|have| have.end < range.start);
        let to = self.0.partition_point(|have| have.start <= range.end);
        let mut joined = range;
        if from < to {
            joined = joined.start.min(self.0[from].start)..joined.end.max(self.0[to - 1].end);
        }
        assert!(from == 0 || self.0[from - 1].end < joined.start, "the range before does not touch {joined:?}");
        assert!(self.0.get(to).is_none_or(|next| joined.end < next.start), "the next range does not touch {joined:?}");
        self.0.splice(from..to, [joined]);
    }

    /// Whether `position` is in it.
    #[must_use]
    pub fn contains(&self, position: u64) -> bool {
        let at = self.0.partition_point(|have| have.end <= position);
        self.0.get(at).is_some_and(|have| have.start <= position)
    }

    /// The parts of `range` that are not in it, ascending.
    pub fn missing(&self, range: Range<u64>) -> impl DoubleEndedIterator<Item = Range<u64>> + '_ {
        let from = self.0.partition_point(|have| have.end <= range.start);
        let to = self.0.partition_point(|have| have.start < range.end).max(from);
        let inside = &self.0[from..to];
        (0..=inside.len()).filter_map(move |at| {
            let start = if at == 0 { range.start } else { inside[at - 1].end.max(range.start) };
            let end = inside.get(at).map_or(range.end, |have| have.start.min(range.end));
            (start < end).then_some(start..end)
        })
    }

    /// How many positions of `range` are not in it.
    #[must_use]
    pub fn missing_count(&self, range: Range<u64>) -> u64 {
        let length = range.end.saturating_sub(range.start);
        let count = self.missing(range).map(|missing| missing.end - missing.start).sum();
        assert!(count <= length, "{count} of {length} positions are missing");
        count
    }

    /// The first position from `from` on that is not contained.
    #[must_use]
    pub fn first_missing(&self, from: u64) -> u64 {
        let at = self.0.partition_point(|have| have.end <= from);
        let first = self.0.get(at).filter(|have| have.start <= from).map_or(from, |have| have.end);
        debug_assert!(!self.contains(first), "no two ranges touch");
        first
    }

    /// Its ranges.
    #[must_use]
    pub fn as_slice(&self) -> &[Range<u64>] {
        &self.0
    }

    /// One behind its highest position; 0 when it is empty.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.0.last().map_or(0, |last| last.end)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_agrees_with_a_set(inserts in prop::collection::vec((0..100_u64, 0..12_u64), 0..60), from in 0..110_u64, length in 0..50_u64) {
            let (mut ranges, mut set) = (Ranges::default(), BTreeSet::new());
            for (start, length) in inserts {
                ranges.insert(start..start + length);
                set.extend(start..start + length);
            }
            prop_assert!(ranges.as_slice().windows(2).all(|pair| pair[0].end < pair[1].start));
            prop_assert!(ranges.as_slice().iter().all(|range| !range.is_empty()));
            for position in 0..130 {
                prop_assert_eq!(ranges.contains(position), set.contains(&position));
            }
            let missing: Vec<u64> = ranges.missing(from..from + length).flatten().collect();
            let expected: Vec<u64> = (from..from + length).filter(|position| !set.contains(position)).collect();
            prop_assert_eq!(ranges.missing_count(from..from + length), expected.len() as u64);
            let backwards: Vec<u64> = ranges.missing(from..from + length).rev().flat_map(Iterator::rev).collect();
            prop_assert_eq!(&backwards, &expected.iter().rev().copied().collect::<Vec<_>>());
            prop_assert_eq!(missing, expected);
            prop_assert_eq!(ranges.first_missing(from), (from..).find(|position| !set.contains(position)).unwrap());
            prop_assert_eq!(ranges.end(), set.last().map_or(0, |last| last + 1));
        }
    }
}
