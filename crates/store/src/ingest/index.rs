//! The label index of a head: label name to value to the series that carry it.
//!
//! Invariants: a series is in one list for each of its labels, and in no other; no list is empty.
//! Threads: its shard's only.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;

use ogive_model::{MatchOp, Matcher};

use crate::ingest::room::reserve_for_one;

/// Series that carry one label. Most values of a large head are of one series, which needs no allocation.
#[derive(Debug)]
enum List {
    One(u32),
    Many(Vec<u32>),
}

impl List {
    fn push(&mut self, series: u32) {
        debug_assert!(self.as_slice().last() != Some(&series), "series {series} carries a label once");
        match self {
            Self::One(first) => *self = Self::Many(vec![*first, series]),
            Self::Many(all) => {
                reserve_for_one(all);
                all.push(series);
            }
        }
    }

    fn as_slice(&self) -> &[u32] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(all) => all,
        }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct LabelIndex(HashMap<Box<str>, BTreeMap<Box<str>, List>>);

impl LabelIndex {
    /// Adds a series.
    pub(crate) fn add<'a>(&mut self, series: u32, labels: impl Iterator<Item = (&'a str, &'a str)>) {
        for (name, value) in labels {
            if !self.0.contains_key(name) {
                self.0.insert(name.into(), BTreeMap::new());
            }
            let values = self.0.get_mut(name).expect("the name was just made");
            match values.get_mut(value) {
                Some(list) => list.push(series),
                None => {
                    values.insert(value.into(), List::One(series));
                }
            }
        }
    }

    /// Takes those series with one of these labels away that are not to be kept.
    pub(crate) fn retain<'a>(&mut self, labels: impl Iterator<Item = (&'a str, &'a str)>, keep: impl Fn(u32) -> bool) {
        let touched: BTreeSet<(&str, &str)> = labels.collect();
        for (name, value) in touched {
            let values = self.0.get_mut(name).expect("every label is indexed");
            let list = values.get_mut(value).expect("every label is indexed");
            let is_empty = match list {
                List::One(series) => !keep(*series),
                List::Many(all) => {
                    all.retain(|series| keep(*series));
                    all.is_empty()
                }
            };
            if is_empty {
                values.remove(value);
            }
            if values.is_empty() {
                self.0.remove(name);
            }
        }
    }

    /// All label names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(|name| &**name)
    }

    /// The values of label `name` behind `after`, ascending, with the series that carry each.
    pub(crate) fn values(&self, name: &str, after: Option<&str>) -> impl Iterator<Item = (&str, &[u32])> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let values = self.0.get(name).map(|values| values.range::<str, _>((from, Bound::Unbounded)));
        values.into_iter().flatten().map(|(value, list)| (&**value, list.as_slice()))
    }

    /// Series among which are all that match: from the shortest list that a matcher gives. Nothing when no matcher
    /// narrows them.
    pub(crate) fn candidates(&self, matchers: &[Matcher]) -> Option<Vec<u32>> {
        let needed = matchers.iter().filter(|matcher| !matcher.matches_empty());
        let lists = needed.map(|matcher| {
            let Some(values) = self.0.get(&*matcher.name) else { return Vec::new() };
            match matcher.op {
                MatchOp::Equal => values.get(&*matcher.value).map(|list| vec![list]).unwrap_or_default(),
                _ => values.iter().filter(|(value, _)| matcher.matches(value)).map(|(_, list)| list).collect(),
            }
        });
        let shortest = lists.min_by_key(|lists| lists.iter().map(|list| list.as_slice().len()).sum::<usize>())?;
        Some(shortest.into_iter().flat_map(List::as_slice).copied().collect())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use ogive_model::Labels;
    use proptest::prelude::*;

    use super::*;

    fn labels(name: u8, a: u8) -> Labels {
        Labels::new([("__name__", format!("m{name}")), ("a", format!("v{a}"))]).unwrap()
    }

    proptest! {
        /// Against looking at every series.
        #[test]
        fn candidates_hold_every_match_and_nothing_that_went(
            series in prop::collection::vec((0..3_u8, 0..5_u8, any::<bool>()), 0..60), name in 0..4_u8, a in 0..6_u8,
        ) {
            let mut index = LabelIndex::default();
            let all: BTreeMap<u32, (Labels, bool)> =
                series.iter().zip(0..).map(|((name, a, stays), at)| (at, (labels(*name, *a), *stays))).collect();
            all.iter().for_each(|(at, (labels, _))| index.add(*at, labels.iter()));
            let going: Vec<&Labels> = all.values().filter(|(_, stays)| !stays).map(|(labels, _)| labels).collect();
            index.retain(going.into_iter().flat_map(Labels::iter), |at| all[&at].1);
            let m = |name: &str, op, value: String| Matcher::new(name, op, value).unwrap();
            let of_name = m("__name__", MatchOp::Equal, format!("m{name}"));
            let of_a = m("a", MatchOp::Regex, format!("v[{a}{}]", a + 1));
            for matchers in [vec![of_name.clone()], vec![of_a.clone()], vec![of_name, of_a]] {
                let found = index.candidates(&matchers).unwrap();
                let matches = |labels: &Labels| matchers.iter().all(|one| one.matches(labels.get(&one.name)));
                let expected: Vec<u32> = all.iter().filter(|(_, (l, stays))| *stays && matches(l)).map(|(at, _)| *at).collect();
                prop_assert!(expected.iter().all(|at| found.contains(at)));
                prop_assert!(found.iter().all(|at| all[at].1));
            }
            prop_assert!(index.candidates(&[]).is_none());
            index.retain(all.values().filter(|one| one.1).flat_map(|(labels, _)| labels.iter()), |_| false);
            prop_assert!(index.0.is_empty());
        }
    }
}
