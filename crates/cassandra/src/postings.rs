//! Which of the series in memory have which labels: a set of series for each label of a tenant, so that a query looks
//! at the values of the labels that it names, and not at every series.
//!
//! Invariants: a series is in the set of its tenant and in one set for each of its labels. Numbers are the caller's.
//! Limits: those of the index that holds it, which counts [`Postings::bytes`].

use std::collections::HashMap;

use ogive_model::{Labels, MatchOp, Matcher, Tenant};
use roaring::RoaringBitmap;

/// What a value takes beside its text: its place in the table and its set, which begins with some 50 bytes.
const VALUE_BYTES: u64 = 128;
/// What a series takes in a set: two bytes in a full one, and more where series are few.
const MEMBER_BYTES: u64 = 4;

/// Sets of series of one tenant.
#[derive(Debug, Default)]
struct Tenancy {
    all: RoaringBitmap,
    labels: HashMap<String, HashMap<String, RoaringBitmap>>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Postings {
    tenants: HashMap<Tenant, Tenancy>,
    bytes: u64,
}

impl Postings {
    /// Bytes in memory, about.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds a series under its number.
    pub(crate) fn add(&mut self, tenant: &Tenant, labels: &Labels, number: u32) {
        let tenancy = match self.tenants.get_mut(tenant) {
            Some(tenancy) => tenancy,
            None => self.tenants.entry(tenant.clone()).or_default(),
        };
        tenancy.all.insert(number);
        for (name, value) in labels.iter() {
            let values = match tenancy.labels.get_mut(name) {
                Some(values) => values,
                None => tenancy.labels.entry(name.to_owned()).or_default(),
            };
            let set = match values.get_mut(value) {
                Some(set) => set,
                None => {
                    self.bytes += VALUE_BYTES + value.len() as u64;
                    values.entry(value.to_owned()).or_default()
                }
            };
            set.insert(number);
            self.bytes += MEMBER_BYTES;
        }
    }

    /// The series of a tenant that every matcher accepts.
    pub(crate) fn select(&self, tenant: &Tenant, matchers: &[Matcher]) -> RoaringBitmap {
        let Some(tenancy) = self.tenants.get(tenant) else { return RoaringBitmap::new() };
        let mut chosen: Option<RoaringBitmap> = None;
        // Those that name a value first: they leave least.
        let (equal, others): (Vec<_>, Vec<_>) = matchers.iter().partition(|one| one.op == MatchOp::Equal);
        for matcher in equal.into_iter().chain(others) {
            let set = tenancy.accepted(matcher);
            let left = match chosen {
                Some(chosen) => chosen & set,
                None => set,
            };
            if left.is_empty() {
                return left;
            }
            chosen = Some(left);
        }
        chosen.unwrap_or_else(|| tenancy.all.clone())
    }
}

impl Tenancy {
    /// The series that a matcher accepts.
    fn accepted(&self, matcher: &Matcher) -> RoaringBitmap {
        let Some(values) = self.labels.get(&matcher.name) else {
            return if matcher.matches_empty() { self.all.clone() } else { RoaringBitmap::new() };
        };
        let sets = |is_accepted: bool| {
            let sets = values.iter().filter(move |(value, _)| matcher.matches(value) == is_accepted);
            sets.fold(RoaringBitmap::new(), |all, (_, set)| all | set)
        };
        match (matcher.matches_empty(), matcher.op) {
            // A series without the label is accepted too.
            (true, _) => &self.all - sets(false),
            (false, MatchOp::Equal) => values.get(&matcher.value).cloned().unwrap_or_default(),
            (false, _) => sets(true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUES: [&str; 4] = ["", "a", "b", "ab"];

    /// What is to be found, by looking at every series.
    fn of_each(series: &[(Tenant, Labels)], tenant: &Tenant, matchers: &[Matcher]) -> Vec<u32> {
        let fits = |(owner, labels): &(Tenant, Labels)| {
            owner == tenant && matchers.iter().all(|one| one.matches(labels.get(&one.name)))
        };
        (0..).zip(series).filter(|(_, one)| fits(one)).map(|(number, _)| number).collect()
    }

    #[test]
    fn what_is_selected_is_what_each_series_says_of_itself() {
        let tenants = [Tenant::default(), Tenant::new("other").unwrap()];
        let (mut series, mut postings) = (Vec::new(), Postings::default());
        for number in 0..128_usize {
            let labels = ["host", "route", "code"].into_iter().enumerate();
            let labels = labels.map(|(at, name)| (name, VALUES[number / 4_usize.pow(at as u32) % 4]));
            let labels = Labels::new(labels.filter(|(_, value)| !value.is_empty())).unwrap();
            let tenant = tenants[number / 64].clone();
            postings.add(&tenant, &labels, number as u32);
            series.push((tenant, labels));
        }
        assert!(postings.bytes() > 0);
        let mut matchers = Vec::new();
        for name in ["host", "route", "missing"] {
            for op in [MatchOp::Equal, MatchOp::NotEqual, MatchOp::Regex, MatchOp::NotRegex] {
                for value in ["", "a", "ab", "a|b", ".*", ".+", "none"] {
                    matchers.push(Matcher::new(name, op, value).unwrap());
                }
            }
        }
        for tenant in tenants.iter().chain([&Tenant::new("unknown").unwrap()]) {
            let check = |some: &[Matcher]| {
                let found: Vec<u32> = postings.select(tenant, some).iter().collect();
                assert_eq!(found, of_each(&series, tenant, some), "{some:?}");
            };
            check(&[]);
            for first in &matchers {
                check(std::slice::from_ref(first));
                matchers.iter().for_each(|second| check(&[first.clone(), second.clone()]));
            }
        }
    }
}
