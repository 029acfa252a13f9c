//! Stretches of time that overlap or touch nowhere.
//!
//! Limits: [`RANGES_MAX`]; beyond it the two that are nearest become one, with what is between them: more is read
//! again, nothing is lost.

use std::collections::BTreeMap;

use ogive_model::{Ms, WallMs};

/// 4,096 stretches of 16 bytes: samples of as many moments that are all late.
const RANGES_MAX: usize = 4_096;

/// From (excluded) to (included).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ranges(BTreeMap<WallMs, WallMs>);

impl Ranges {
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The start of the first one.
    pub(crate) fn first(&self) -> Option<WallMs> {
        self.0.first_key_value().map(|(from, _)| *from)
    }

    /// Adds (from, to].
    pub(crate) fn add(&mut self, from: WallMs, to: WallMs) {
        if from >= to {
            return;
        }
        let (mut from, mut to) = (from, to);
        // Those that begin at or before its end, the last first.
        while let Some((&before, &end)) = self.0.range(..=to).next_back().filter(|(_, end)| **end >= from) {
            self.0.remove(&before);
            (from, to) = (from.min(before), to.max(end));
        }
        self.0.insert(from, to);
        if self.0.len() > RANGES_MAX {
            self.join_nearest();
        }
    }

    fn join_nearest(&mut self) {
        let gaps = self.0.iter().zip(self.0.iter().skip(1)).map(|(one, next)| (*next.0 - *one.1, *one.0, *next.0));
        let Some((_, one, next)) = gaps.min() else { return };
        let end = self.0.remove(&next).expect("it is there");
        self.0.insert(one, end);
    }

    pub(crate) fn add_all(&mut self, other: &Self) {
        other.0.iter().for_each(|(from, to)| self.add(*from, *to));
    }

    /// Takes the first range up to `until`, at most `length_max` long.
    pub(crate) fn take(&mut self, until: WallMs, length_max: Ms) -> Option<(WallMs, WallMs)> {
        let (from, end) = self.0.first_key_value().map(|(from, to)| (*from, *to))?;
        let to = end.min(until).min(from.saturating_add(length_max));
        if from >= to {
            return None;
        }
        self.0.remove(&from);
        if to < end {
            self.0.insert(to, end);
        }
        Some((from, to))
    }

    /// Drops ranges that end at or before `until`.
    pub(crate) fn forget(&mut self, until: WallMs) {
        while self.take(until, Ms::MAX).is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(ranges: &Ranges) -> Vec<(i64, i64)> {
        ranges.0.iter().map(|(from, to)| (from.0, to.0)).collect()
    }

    fn add(ranges: &mut Ranges, from: i64, to: i64) {
        ranges.add(WallMs(from), WallMs(to));
    }

    fn take(ranges: &mut Ranges, until: i64, length_max: i64) -> Option<(i64, i64)> {
        ranges.take(WallMs(until), Ms(length_max)).map(|(from, to)| (from.0, to.0))
    }

    #[test]
    fn ranges_join_where_they_meet_and_are_taken_in_order() {
        let mut ranges = Ranges::default();
        for (from, to) in [(5, 6), (1, 2), (8, 9), (2, 3), (4, 5), (7, 7)] {
            add(&mut ranges, from, to);
        }
        assert_eq!(pairs(&ranges), [(1, 3), (4, 6), (8, 9)]);
        add(&mut ranges, 0, 5);
        assert_eq!(pairs(&ranges), [(0, 6), (8, 9)]);
        assert_eq!(take(&mut ranges, 100, 4), Some((0, 4)));
        assert_eq!((take(&mut ranges, 5, 100), take(&mut ranges, 5, 100)), (Some((4, 5)), None));
        ranges.forget(WallMs(8));
        assert_eq!((pairs(&ranges), ranges.first()), (vec![(8, 9)], Some(WallMs(8))));
    }

    #[test]
    fn beyond_the_limit_the_nearest_become_one() {
        let mut ranges = Ranges::default();
        (0..RANGES_MAX as i64).for_each(|at| add(&mut ranges, 10 * at, 10 * at + 1));
        assert_eq!(ranges.0.len(), RANGES_MAX);
        add(&mut ranges, -5, -4);
        assert_eq!((ranges.0.len(), pairs(&ranges)[0]), (RANGES_MAX, (-5, 1)));
    }
}
