//! The first N items of an unordered stream: the result of a listing with a limit, without holding the rest.

use std::borrow::Borrow;
use std::collections::BTreeSet;

use ogive_model::{Charge, Labels, SelectError};

/// See the module.
#[derive(Debug)]
pub(crate) struct First<T> {
    all: BTreeSet<T>,
    limit: usize,
    held: Charge,
    /// Why it ended before its limit.
    refused: Option<SelectError>,
}

/// What a list holds.
pub(crate) trait Listable: Ord {
    /// Bytes that one takes.
    fn bytes(&self) -> usize;
}

/// An item's share of a node of the tree and of what is empty in it.
const NODE_BYTES: usize = 32;

impl Listable for String {
    fn bytes(&self) -> usize {
        NODE_BYTES + size_of::<Self>() + self.len()
    }
}

impl Listable for Labels {
    fn bytes(&self) -> usize {
        NODE_BYTES + size_of::<Self>() + self.memory_bytes()
    }
}

impl<T: Listable> First<T> {
    /// None yet, and never more than `limit`. What they take is added to `held`.
    pub(crate) const fn new(limit: usize, held: Charge) -> Self {
        Self { all: BTreeSet::new(), limit, held, refused: None }
    }

    /// Takes an item that is among the first and not there yet. False when neither it nor a greater one can be among
    /// them: who goes through items in their order ends then.
    pub(crate) fn add<Q: ?Sized + Ord + ToOwned<Owned = T>>(&mut self, item: &Q) -> bool
    where
        T: Borrow<Q>,
    {
        if self.refused.is_some() {
            return false;
        }
        if self.all.len() >= self.limit && self.all.last().is_none_or(|last| last.borrow() < item) {
            return false;
        }
        if !self.all.contains(item) {
            let item = item.to_owned();
            if let Err(exceeded) = self.held.grow(item.bytes()) {
                self.refused = Some(exceeded.into());
                return false;
            }
            self.all.insert(item);
            if self.all.len() > self.limit {
                self.held.shrink(self.all.pop_last().map_or(0, |last| last.bytes()));
            }
        }
        debug_assert!(self.all.len() <= self.limit, "{} items where {} are the first", self.all.len(), self.limit);
        true
    }

    /// Fails when there was no room for one.
    pub(crate) fn check(&self) -> Result<(), SelectError> {
        self.refused.clone().map_or(Ok(()), Err)
    }

    /// They, ascending. They stay charged for as long as the budget lives.
    pub(crate) fn into_set(self) -> Result<BTreeSet<T>, SelectError> {
        self.check()?;
        self.held.keep();
        Ok(self.all)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn they_are_those_that_sorting_gives(items in prop::collection::vec("[a-d]{0,2}", 0..40), limit in 0..8_usize) {
            let mut first = First::new(limit, Charge::default());
            let sorted: Vec<String> = items.iter().cloned().collect::<BTreeSet<_>>().into_iter().collect();
            for item in &items {
                let later = first.add(item.as_str());
                prop_assert_eq!(later, sorted.iter().take(limit).any(|one| one >= item) && limit > 0 || first.all.len() < limit
                    || first.all.last().is_some_and(|last| item <= last));
            }
            prop_assert!(first.into_set().unwrap().iter().eq(sorted.iter().take(limit)));
        }
    }
}
