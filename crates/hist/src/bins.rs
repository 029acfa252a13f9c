//! Sparse bins of one sign: sorted indexes beside their counts.
//!
//! Invariants: indexes strictly ascend; both columns have one length.

use crate::Count;

/// Bins of one sign, by ascending index (that is, by distance from zero).
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Bins<C> {
    index: Vec<i32>,
    count: Vec<C>,
}

impl<C: Count> Bins<C> {
    /// No bins.
    #[must_use]
    pub const fn new() -> Self {
        Self { index: Vec::new(), count: Vec::new() }
    }

    /// Bins from columns of one length, `index` strictly ascending.
    ///
    /// # Panics
    /// When they are not.
    #[must_use]
    pub fn from_columns(index: Vec<i32>, count: Vec<C>) -> Self {
        assert!(index.len() == count.len(), "{} indexes and {} counts", index.len(), count.len());
        assert!(index.is_sorted_by(|a, b| a < b), "indexes do not ascend: {index:?}");
        Self { index, count }
    }

    /// Number of bins held, whether or not their count is zero.
    #[must_use]
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// True when no bin is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Appends a bin above all others.
    ///
    /// # Panics
    /// When `index` is not above the last one.
    pub fn push(&mut self, index: i32, count: C) {
        if let Some(last) = self.index.last() {
            assert!(*last < index, "bin {index} pushed after bin {last}");
        }
        self.index.push(index);
        self.count.push(count);
    }

    /// Adds `count` to bin `index`, making the bin if it is not there.
    pub fn add(&mut self, index: i32, count: C) {
        match self.index.binary_search(&index) {
            Ok(at) => self.count[at] = self.count[at].plus(count),
            Err(at) => {
                self.index.insert(at, index);
                self.count.insert(at, count);
            }
        }
    }

    /// Adds every bin of `other`. One pass over both; no allocation when `other` brings no new index.
    pub fn merge(&mut self, other: &Self) {
        let mut missing = 0;
        let mut at = 0;
        for (index, count) in other.iter() {
            while at < self.index.len() && self.index[at] < index {
                at += 1;
            }
            if at < self.index.len() && self.index[at] == index {
                self.count[at] = self.count[at].plus(count);
            } else {
                missing += 1;
            }
        }
        if missing > 0 {
            self.insert_missing(other, missing);
        }
    }

    /// Second half of [`Bins::merge`]: makes room for `missing` bins and fills it from the back.
    fn insert_missing(&mut self, other: &Self, missing: usize) {
        let (mut from, mut source) = (self.index.len(), other.index.len());
        let mut to = from + missing;
        self.index.resize(to, 0);
        self.count.resize(to, C::ZERO);
        while to > from {
            let theirs = other.index[source - 1];
            if from > 0 && self.index[from - 1] >= theirs {
                if self.index[from - 1] == theirs {
                    // Already added in place.
                    source -= 1;
                }
                (from, to) = (from - 1, to - 1);
                self.index[to] = self.index[from];
                self.count[to] = self.count[from];
            } else {
                (source, to) = (source - 1, to - 1);
                self.index[to] = theirs;
                self.count[to] = other.count[source];
            }
        }
    }

    /// Drops the bins for which `keep` is false.
    pub fn retain(&mut self, mut keep: impl FnMut(i32, C) -> bool) {
        let mut kept = 0;
        for at in 0..self.index.len() {
            if keep(self.index[at], self.count[at]) {
                self.index[kept] = self.index[at];
                self.count[kept] = self.count[at];
                kept += 1;
            }
        }
        self.index.truncate(kept);
        self.count.truncate(kept);
    }

    /// Gives back the room for more bins than there are.
    pub fn shrink_to_fit(&mut self) {
        self.index.shrink_to_fit();
        self.count.shrink_to_fit();
    }

    /// Maps every index by a rule that preserves their order; counts of indexes that become equal are added.
    pub fn map_indexes(&mut self, rule: impl Fn(i32) -> i32) {
        let mut kept = 0;
        for at in 0..self.index.len() {
            let (index, count) = (rule(self.index[at]), self.count[at]);
            if kept > 0 && self.index[kept - 1] == index {
                self.count[kept - 1] = self.count[kept - 1].plus(count);
            } else {
                debug_assert!(kept == 0 || self.index[kept - 1] < index, "the rule must keep the order");
                self.index[kept] = index;
                self.count[kept] = count;
                kept += 1;
            }
        }
        self.index.truncate(kept);
        self.count.truncate(kept);
    }

    /// The same bins with other counts.
    pub fn map_counts<D: Count>(&self, rule: impl Fn(C) -> D) -> Bins<D> {
        Bins { index: self.index.clone(), count: self.count.iter().map(|count| rule(*count)).collect() }
    }

    /// As [`Bins::map_counts`], reusing the memory if counts of both types have the same size.
    pub fn into_counts<D: Count>(self, rule: impl Fn(C) -> D) -> Bins<D> {
        Bins { index: self.index, count: self.count.into_iter().map(rule).collect() }
    }

    /// Sum of all counts.
    #[must_use]
    pub fn total(&self) -> C {
        self.count.iter().fold(C::ZERO, |total, count| total.plus(*count))
    }

    /// Empty bins with room for `capacity`.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self { index: Vec::with_capacity(capacity), count: Vec::with_capacity(capacity) }
    }

    /// Count of bin `index`, zero when it is not held.
    #[must_use]
    pub fn get(&self, index: i32) -> C {
        self.index.binary_search(&index).map_or(C::ZERO, |at| self.count[at])
    }

    /// Count of bin `index` to change in place, if it is held.
    pub fn get_mut(&mut self, index: i32) -> Option<&mut C> {
        self.index.binary_search(&index).ok().map(|at| &mut self.count[at])
    }

    /// `(index, count)` by ascending index.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (i32, C)> + ExactSizeIterator + '_ {
        self.index.iter().copied().zip(self.count.iter().copied())
    }

    /// The indexes, ascending.
    #[must_use]
    pub fn indexes(&self) -> &[i32] {
        &self.index
    }

    /// The counts, in the order of [`Bins::indexes`].
    #[must_use]
    pub fn counts(&self) -> &[C] {
        &self.count
    }

    /// The counts, to change in place.
    pub fn counts_mut(&mut self) -> &mut [C] {
        &mut self.count
    }
}

impl<C: Count> FromIterator<(i32, C)> for Bins<C> {
    /// Collects bins in any order; equal indexes add up.
    fn from_iter<I: IntoIterator<Item = (i32, C)>>(bins: I) -> Self {
        let mut pairs: Vec<(i32, C)> = bins.into_iter().collect();
        pairs.sort_by_key(|pair| pair.0);
        let mut out = Self::new();
        for (index, count) in pairs {
            if out.index.last() == Some(&index) {
                let last = out.count.last_mut().expect("columns have one length");
                *last = last.plus(count);
            } else {
                out.push(index, count);
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn pairs() -> impl Strategy<Value = Vec<(i32, u64)>> {
        prop::collection::vec((-20..20_i32, 0..1000_u64), 0..30)
    }

    #[test]
    #[should_panic(expected = "indexes do not ascend")]
    fn columns_that_do_not_ascend_are_refused() {
        let _ = Bins::from_columns(vec![1, 1], vec![2_u64, 3]);
    }

    #[test]
    fn dropped_bins_leave_their_room_until_it_is_given_back() {
        let mut bins = Bins::from_columns((0..1000).collect(), vec![1_u64; 1000]);
        bins.retain(|index, _| index == 7);
        assert!(bins.index.capacity() >= 1000 && bins.count.capacity() >= 1000);
        bins.shrink_to_fit();
        assert!(bins.index.capacity() < 10 && bins.count.capacity() < 10);
        assert_eq!(bins.iter().collect::<Vec<_>>(), [(7, 1)]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn columns_become_the_bins_that_they_were(pairs in pairs()) {
            let bins: Bins<u64> = pairs.into_iter().collect();
            prop_assert_eq!(&Bins::from_columns(bins.indexes().to_vec(), bins.counts().to_vec()), &bins);
            let floats = bins.map_counts(|count| count as f64);
            prop_assert_eq!(bins.into_counts(|count| count as f64), floats);
        }

        #[test]
        fn merge_is_the_sum_of_maps(left in pairs(), right in pairs()) {
            let mut model = BTreeMap::new();
            for (index, count) in left.iter().chain(&right) {
                *model.entry(*index).or_insert(0) += count;
            }
            let mut merged: Bins<u64> = left.into_iter().collect();
            merged.merge(&right.into_iter().collect());
            prop_assert_eq!(merged.iter().collect::<Vec<_>>(), model.into_iter().collect::<Vec<_>>());
        }

        #[test]
        fn map_indexes_is_the_sum_over_groups(bins in pairs()) {
            let mut model = BTreeMap::new();
            for (index, count) in &bins {
                *model.entry(index >> 2).or_insert(0) += count;
            }
            let mut mapped: Bins<u64> = bins.into_iter().collect();
            mapped.map_indexes(|index| index >> 2);
            prop_assert_eq!(mapped.iter().collect::<Vec<_>>(), model.into_iter().collect::<Vec<_>>());
        }
    }
}
