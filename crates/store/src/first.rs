//! The first so many of what comes in any order: what a listing with a limit gives, without holding the rest.

use std::borrow::Borrow;
use std::collections::BTreeSet;

/// See the module.
#[derive(Debug)]
pub(crate) struct First<T> {
    all: BTreeSet<T>,
    limit: usize,
}

impl<T: Ord> First<T> {
    /// None yet, and never more than `limit`.
    pub(crate) const fn new(limit: usize) -> Self {
        Self { all: BTreeSet::new(), limit }
    }

    /// Takes an item that is among the first and not there yet. False when neither it nor a greater one can be among them: who goes
    /// through items in their order ends then.
    pub(crate) fn add<Q: ?Sized + Ord + ToOwned<Owned = T>>(&mut self, item: &Q) -> bool
    where
        T: Borrow<Q>,
    {
        if self.all.len() >= self.limit && self.all.last().is_none_or(|last| last.borrow() < item) {
            return false;
        }
        if !self.all.contains(item) {
            self.all.insert(item.to_owned());
            if self.all.len() > self.limit {
                self.all.pop_last();
            }
        }
        true
    }

    /// They, ascending.
    pub(crate) fn into_set(self) -> BTreeSet<T> {
        self.all
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn they_are_those_that_sorting_gives(items in prop::collection::vec("[a-d]{0,2}", 0..40), limit in 0..8_usize) {
            let mut first = First::new(limit);
            let sorted: Vec<String> = items.iter().cloned().collect::<BTreeSet<_>>().into_iter().collect();
            for item in &items {
                let later = first.add(item.as_str());
                prop_assert_eq!(later, sorted.iter().take(limit).any(|one| one >= item) && limit > 0 || first.all.len() < limit
                    || first.all.last().is_some_and(|last| item <= last));
            }
            prop_assert!(first.into_set().iter().eq(sorted.iter().take(limit)));
        }
    }
}
