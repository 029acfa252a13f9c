//! The indexes that any of some rows of bins have, and which column each is.
//!
//! Invariants: indexes ascend strictly; each bin of each row has a column, whether it holds something or not.

use ogive_hist::{Bins, Count};

/// 8,192 indexes, a table of 32 KiB: 90 decades of the default scheme. Beyond it the indexes are sorted.
const SPAN_MAX: i64 = 8192;

/// The columns of rows of bins.
pub(crate) struct Union {
    indexes: Vec<i32>,
    column_of: ColumnOf,
}

/// Which column an index is.
enum ColumnOf {
    /// By its distance from the least one.
    Table(i32, Vec<u32>),
    /// By search.
    Sorted,
}

impl Union {
    /// That of `rows`.
    pub(crate) fn new<C: Count>(rows: &[&Bins<C>]) -> Self {
        let least = rows.iter().filter_map(|bins| bins.indexes().first()).min().copied().unwrap_or(0);
        let greatest = rows.iter().filter_map(|bins| bins.indexes().last()).max().copied().unwrap_or(0);
        let span = i64::from(greatest) - i64::from(least) + 1;
        let mut indexes = Vec::new();
        if span > SPAN_MAX {
            indexes.reserve(rows.iter().map(|bins| bins.len()).sum());
            rows.iter().for_each(|bins| indexes.extend_from_slice(bins.indexes()));
            indexes.sort_unstable();
            indexes.dedup();
            return Self { indexes, column_of: ColumnOf::Sorted };
        }
        let mut columns = vec![0_u32; span as usize];
        let mut before: &[i32] = &[];
        for bins in rows.iter().filter(|bins| bins.indexes() != std::mem::replace(&mut before, bins.indexes())) {
            bins.indexes().iter().for_each(|index| columns[(index - least) as usize] = 1);
        }
        for (distance, column) in (0..).zip(&mut columns) {
            if *column == 1 {
                *column = indexes.len() as u32;
                indexes.push(least + distance);
            }
        }
        debug_assert!(indexes.is_sorted_by(|one, next| one < next), "indexes of bins ascend");
        Self { indexes, column_of: ColumnOf::Table(least, columns) }
    }

    /// The index of each column.
    pub(crate) fn indexes(&self) -> &[i32] {
        &self.indexes
    }

    /// The column of an index that a row has.
    pub(crate) fn column(&self, index: i32) -> usize {
        match &self.column_of {
            ColumnOf::Table(least, columns) => columns[(index - least) as usize] as usize,
            ColumnOf::Sorted => self.indexes.binary_search(&index).expect("the union holds every index"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_union_is_the_set_of_all_indexes(
            rows in prop::collection::vec(prop::collection::btree_set(-40..40_i32, 0..20), 0..9),
            far in prop::option::of(any::<i32>()),
        ) {
            let rows = rows.into_iter().chain(far.map(|index| BTreeSet::from([index])));
            let rows: Vec<Bins<u64>> = rows.map(|row| row.into_iter().map(|index| (index, 1)).collect()).collect();
            let set: BTreeSet<i32> = rows.iter().flat_map(|bins| bins.indexes().iter().copied()).collect();
            let union = Union::new(&rows.iter().collect::<Vec<_>>());
            prop_assert_eq!(union.indexes(), set.iter().copied().collect::<Vec<_>>());
            for (column, index) in set.into_iter().enumerate() {
                prop_assert_eq!(union.column(index), column);
            }
        }
    }
}
