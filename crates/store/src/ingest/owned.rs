//! What a series of the head is, and whose: the values by which it differs from another one of its family.
//!
//! Invariants: the series of a family have its tenant, its properties, and the names of its labels; the labels of a
//! series come back as they were declared. A family does not change, and lives as long as one of its series.
//! Format, in memory alone: for each label whose value differs, ascending, its place among the labels, which is one
//! character, and the value behind its length ([`ogive_model::text_run`]).
//! Threads: read by any; made by [`super::families`].

use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::{self, AtomicU32};

use ogive_model::text_run::{put_bits, put_text, take_text};
use ogive_model::{Labels, Matcher, SeriesDef, SeriesMeta, Tenant};

/// Two counters precede what is shared.
const COUNTERS_BYTES: usize = 2 * size_of::<usize>();
const _: () = assert!(Labels::COUNT_MAX <= 1 << 7);

/// What many series have in common.
#[derive(Debug)]
pub(crate) struct Family {
    tenant: Tenant,
    /// That of one of them, or of one that was.
    def: SeriesDef,
    /// Registered series of it. Only the journal writer looks.
    joined: AtomicU32,
}

impl Family {
    pub(crate) fn new(tenant: &Tenant, def: &SeriesDef) -> Arc<Self> {
        Arc::new(Self { tenant: tenant.clone(), def: def.clone(), joined: AtomicU32::new(0) })
    }

    pub(crate) const fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    pub(crate) const fn meta(&self) -> &SeriesMeta {
        &self.def.meta
    }

    pub(crate) const fn labels(&self) -> &Labels {
        &self.def.labels
    }

    /// What it takes in memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        COUNTERS_BYTES + size_of::<Self>() + self.def.labels.memory_bytes() + self.def.meta.unit.len()
    }
}

/// A series, and whose it is.
#[derive(Debug)]
pub(crate) struct Owned {
    family: Arc<Family>,
    differences: Box<str>,
}

const _: () = assert!(size_of::<Owned>() == 24);

impl Owned {
    /// The series with `labels` of a family.
    pub(crate) fn new(family: &Arc<Family>, labels: &Labels) -> Self {
        let mut differences = String::new();
        let is_of_it = put_differences(&mut differences, family.labels(), labels);
        assert!(is_of_it, "{labels:?} have other names than those of the family, {:?}", family.labels());
        Self::with_differences(family, &differences)
    }

    /// The series of a family whose differences from it are what [`put_differences`] made of them.
    pub(crate) fn with_differences(family: &Arc<Family>, differences: &str) -> Self {
        Self { family: Arc::clone(family), differences: differences.into() }
    }

    pub(crate) fn tenant(&self) -> &Tenant {
        &self.family.tenant
    }

    pub(crate) fn meta(&self) -> &SeriesMeta {
        &self.family.def.meta
    }

    /// Its labels, ascending by their names.
    pub(crate) fn pairs(&self) -> impl ExactSizeIterator<Item = (&str, &str)> + Clone + '_ {
        let mut own = Differences { rest: &self.differences }.peekable();
        let pairs = self.family.def.labels.iter().enumerate();
        pairs.map(move |(at, (name, value))| (name, own.next_if(|own| own.0 == at).map_or(value, |own| own.1)))
    }

    /// The value of a label; empty when it has none.
    pub(crate) fn get(&self, name: &str) -> &str {
        let Some((at, (_, value))) = self.family.def.labels.iter().enumerate().find(|pair| pair.1.0 == name) else {
            return "";
        };
        let own = Differences { rest: &self.differences }.find(|own| own.0 >= at);
        own.filter(|own| own.0 == at).map_or(value, |own| own.1)
    }

    /// Whether all matchers accept it.
    pub(crate) fn matches(&self, matchers: &[Matcher]) -> bool {
        matchers.iter().all(|matcher| matcher.matches(self.get(&matcher.name)))
    }

    /// Its labels, put together.
    pub(crate) fn labels(&self) -> Labels {
        match self.differences.is_empty() {
            true => self.family.def.labels.clone(),
            false => Labels::from_ascending(self.pairs()),
        }
    }

    /// How its labels compare with those of another series. A flush sorts all series, and most pairs are of one family.
    pub(crate) fn cmp_labels(&self, other: &Self) -> Ordering {
        if !Arc::ptr_eq(&self.family, &other.family) {
            return self.pairs().cmp(other.pairs());
        }
        let value = |place: usize| self.family.def.labels.iter().nth(place).map_or("", |pair| pair.1);
        let (own, others) = (Differences { rest: &self.differences }, Differences { rest: &other.differences });
        match own.zip(others).find(|(own, other)| own != other) {
            Some((own, other)) if own.0 == other.0 => own.1.cmp(other.1),
            // The one that differs from the family where the other one does not.
            Some((own, other)) if own.0 < other.0 => own.1.cmp(value(own.0)),
            Some((_, other)) => value(other.0).cmp(other.1),
            // The rest of the longer list: the first is where only that one differs.
            None => self.pairs().cmp(other.pairs()),
        }
    }

    /// What its labels take at most, put together.
    pub(crate) fn labels_bytes(&self) -> usize {
        self.family.def.labels.memory_bytes() + self.differences.len()
    }

    /// What it is, put together.
    pub(crate) fn def(&self) -> SeriesDef {
        SeriesDef { labels: self.labels(), meta: self.meta().clone() }
    }

    /// What it takes in memory, without its family.
    pub(crate) fn memory_bytes(&self) -> usize {
        COUNTERS_BYTES + size_of::<Self>() + self.differences.len()
    }

    /// The series is registered. Gives what it takes in memory; a family is counted with the first that joins it.
    pub(crate) fn join_family(&self) -> usize {
        // ORDERING: Relaxed; one thread registers series.
        let before = self.family.joined.fetch_add(1, atomic::Ordering::Relaxed);
        self.memory_bytes() + if before == 0 { self.family.memory_bytes() } else { 0 }
    }

    /// The series is no longer registered. Gives what is given back; a family is counted until the last leaves it.
    pub(crate) fn leave_family(&self) -> usize {
        // ORDERING: Relaxed, as above.
        let before = self.family.joined.fetch_sub(1, atomic::Ordering::Relaxed);
        assert!(before > 0, "a series leaves a family that none joined: {:?}", self.family);
        self.memory_bytes() + if before == 1 { self.family.memory_bytes() } else { 0 }
    }
}

/// Appends the values of `labels` that differ from those `of` another series, with their places. False when their names
/// differ, too.
pub(crate) fn put_differences(out: &mut String, of: &Labels, labels: &Labels) -> bool {
    if of.len() != labels.len() {
        return false;
    }
    for (place, (of, own)) in of.iter().zip(labels.iter()).enumerate() {
        if of.0 != own.0 {
            return false;
        }
        if of.1 != own.1 {
            assert!(place < 1 << 7, "{place} is not of seven bits");
            put_bits(out, place);
            put_text(out, own.1);
        }
    }
    true
}

/// Values that differ, with their places.
#[derive(Clone)]
struct Differences<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Differences<'a> {
    type Item = (usize, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        let place = usize::from(*self.rest.as_bytes().first()?);
        self.rest = &self.rest[1..];
        Some((place, take_text(&mut self.rest)))
    }
}

#[cfg(test)]
mod tests {
    use ogive_model::text_run::LONG;
    use ogive_model::{Kind, MatchOp, Temporality};
    use proptest::prelude::*;

    use super::*;

    fn def(labels: &Labels) -> SeriesDef {
        let meta = SeriesMeta { kind: Kind::Float, temporality: Temporality::Gauge, unit: "s".into(), width_ms: 7 };
        SeriesDef { labels: labels.clone(), meta }
    }

    fn check(founder: &Labels, labels: &Labels) {
        let tenant = Tenant::new("t").unwrap();
        let family = Family::new(&tenant, &def(founder));
        let owned = Owned::new(&family, labels);
        assert_eq!((owned.def(), owned.tenant()), (def(labels), &tenant));
        assert!(owned.pairs().eq(labels.iter()) && owned.pairs().len() == labels.len());
        for (name, value) in labels.iter() {
            assert_eq!(owned.get(name), value);
            assert!(owned.matches(&[Matcher::new(name, MatchOp::Equal, value).unwrap()]));
            assert!(!owned.matches(&[Matcher::new(name, MatchOp::NotEqual, value).unwrap()]));
        }
        assert_eq!(owned.get("no label"), "");
    }

    #[test]
    fn values_of_every_length_come_back() {
        let of = |length: usize| Labels::new([("a", "x".repeat(length)), ("b", "é".into())]).unwrap();
        for length in [1, LONG - 1, LONG, LONG + 1, 127, 128, 129, Labels::VALUE_BYTES_MAX] {
            check(&of(length), &of(length));
            check(&of(2), &of(length));
        }
        check(&Labels::empty(), &Labels::empty());
    }

    proptest! {
        #[test]
        fn labels_come_back(values in prop::collection::vec(("\\PC{1,120}", "\\PC{1,3}", any::<bool>()), 0..128)) {
            let of = |own: bool| {
                let value = |at: usize| {
                    let (a, b, differs) = &values[at];
                    if own && *differs { b.clone() } else { a.clone() }
                };
                Labels::new((0..values.len()).map(|at| (format!("label{at}"), value(at)))).unwrap()
            };
            check(&of(false), &of(true));
            check(&of(true), &of(false));
        }

        #[test]
        fn series_are_in_the_order_of_their_labels(
            values in prop::collection::vec(prop::collection::vec(0..3_u8, 4), 3),
        ) {
            let labels = |values: &Vec<u8>| {
                Labels::new(values.iter().zip(["a", "b", "c", "d"]).map(|(value, name)| (name, value.to_string()))).unwrap()
            };
            let [of, a, b] = [0, 1, 2].map(|at| labels(&values[at]));
            let family = Family::new(&Tenant::default(), &def(&of));
            let [one, other] = [&a, &b].map(|labels| Owned::new(&family, labels));
            prop_assert_eq!(one.cmp_labels(&other), a.cmp(&b));
            let alone = Owned::new(&Family::new(&Tenant::default(), &def(&b)), &b);
            prop_assert_eq!(one.cmp_labels(&alone), a.cmp(&b));
        }
    }
}
