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

    /// Count of bin `index`, zero when it is not held.
    #[must_use]
    pub fn get(&self, index: i32) -> C {
        self.index.binary_search(&index).map_or(C::ZERO, |at| self.count[at])
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
