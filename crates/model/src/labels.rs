//! A sorted set of label names and values.
//!
//! Invariants: names strictly ascend by bytes; no name and no value is empty (an empty value is the same
//! as no label); at most [`Labels::COUNT_MAX`] labels.
//! Format, in memory alone: one shared text. First the number of labels in two characters, then for each its name and
//! its value, each behind its length ([`crate::text_run`]). All that precedes them is ASCII, so that the whole is UTF-8
//! and needs no second allocation for where the texts begin: a label set is made with one, and its nine labels take 200
//! bytes where two strings for each took 900.
//! Limits: the constants of [`Labels`], checked when a set is made.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use crate::Error;
use crate::error::within;
use crate::text_run::{TEXT_BYTES_END, length_at, put_bits, put_text, take_text};

/// The label with the metric's name.
pub const METRIC_NAME: &str = "__name__";

/// Characters of the number of labels.
const HEADER: usize = 2;
const _: () = assert!(Labels::COUNT_MAX < 1 << 14);
const _: () = assert!(Labels::VALUE_BYTES_MAX < TEXT_BYTES_END && Labels::NAME_BYTES_MAX < TEXT_BYTES_END);

/// A sorted label set; cloning shares it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Labels(Arc<str>);

impl Labels {
    /// 128 labels: four times as many as large Kubernetes series have.
    pub const COUNT_MAX: usize = 128;
    /// 1 KiB for a name: names are identifiers.
    pub const NAME_BYTES_MAX: usize = 1024;
    /// 16 KiB for a value: a URL or a statement, not a document.
    pub const VALUE_BYTES_MAX: usize = 16 * 1024;

    /// No labels.
    #[must_use]
    pub fn empty() -> Self {
        Self::pack(&[] as &[(&str, &str)])
    }

    /// A set from pairs in any order; pairs with an empty value are left out.
    ///
    /// # Errors
    /// [`Error::DuplicateLabel`], [`Error::EmptyLabelName`], or [`Error::TooLarge`] past a limit.
    pub fn new<N: AsRef<str>, V: AsRef<str>>(pairs: impl IntoIterator<Item = (N, V)>) -> Result<Self, Error> {
        let pairs = pairs.into_iter();
        let mut sorted: Vec<(N, V)> = Vec::with_capacity(pairs.size_hint().0.min(Self::COUNT_MAX));
        let (mut ascends, mut empty) = (true, false);
        for pair in pairs {
            let (name, value) = (pair.0.as_ref(), pair.1.as_ref());
            if name.is_empty() {
                return Err(Error::EmptyLabelName);
            }
            within("a label name's bytes", name.len(), Self::NAME_BYTES_MAX)?;
            within("a label value's bytes", value.len(), Self::VALUE_BYTES_MAX)?;
            within("the number of labels", sorted.len() + 1, Self::COUNT_MAX)?;
            ascends &= sorted.last().is_none_or(|last| last.0.as_ref() < name);
            empty |= value.is_empty();
            sorted.push(pair);
        }
        if !ascends {
            sorted.sort_by(|a, b| a.0.as_ref().cmp(b.0.as_ref()));
            if let Some(pair) = sorted.windows(2).find(|pair| pair[0].0.as_ref() == pair[1].0.as_ref()) {
                return Err(Error::DuplicateLabel { name: pair[0].0.as_ref().to_owned() });
            }
        }
        if empty {
            sorted.retain(|pair| !pair.1.as_ref().is_empty());
        }
        Ok(Self::pack(&sorted))
    }

    /// The set of pairs, which already satisfy the invariants.
    fn pack<N: AsRef<str>, V: AsRef<str>>(pairs: &[(N, V)]) -> Self {
        Self::from_ascending(pairs.iter().map(|pair| (pair.0.as_ref(), pair.1.as_ref())))
    }

    /// The set of pairs that ascend and are within the limits, as those of a set are: they are not checked again.
    ///
    /// # Panics
    /// When a text is longer than the in-memory form can represent, half a megabyte, or there are 16,384 pairs.
    #[must_use]
    pub fn from_ascending<'a>(pairs: impl ExactSizeIterator<Item = (&'a str, &'a str)> + Clone) -> Self {
        let bytes = HEADER + pairs.clone().map(|(name, value)| name.len() + value.len() + 6).sum::<usize>();
        Packer { text: String::with_capacity(bytes) }.pack(pairs)
    }

    /// Value of label `name`; the empty string when it is not there, as PromQL has it.
    #[must_use]
    pub fn get(&self, name: &str) -> &str {
        let mut pairs = self.iter();
        // A linear search: they are adjacent in memory, and a set has some ten.
        pairs.find(|pair| pair.0 == name).map_or("", |pair| pair.1)
    }

    /// The metric's name, empty when there is none.
    #[must_use]
    pub fn metric_name(&self) -> &str {
        self.get(METRIC_NAME)
    }

    /// `(name, value)` by ascending name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> + Clone + '_ {
        Pairs { rest: &self.0[HEADER..], left: self.len() }
    }

    /// Number of labels.
    #[must_use]
    pub fn len(&self) -> usize {
        let header = self.0.as_bytes();
        usize::from(header[0]) << 7 | usize::from(header[1])
    }

    /// True when there is no label.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory of the set, however many share it.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        // Two counters precede a shared text.
        2 * size_of::<usize>() + self.0.len()
    }

    /// `{a="b", c="d"}` with the metric's name among them, as messages write a set.
    #[must_use]
    pub fn braced(&self) -> String {
        let pairs: Vec<String> = self.iter().map(|(name, value)| format!("{name}={value:?}")).collect();
        format!("{{{}}}", pairs.join(", "))
    }

    /// The set of those labels whose name `keep` accepts.
    #[must_use]
    pub fn filtered(&self, mut keep: impl FnMut(&str) -> bool) -> Self {
        Self::pack(&self.iter().filter(|(name, _)| keep(name)).collect::<Vec<_>>())
    }

    /// As [`Labels::with`], with checks of the limits.
    ///
    /// # Errors
    /// [`Error::EmptyLabelName`], or [`Error::TooLarge`] past a limit.
    pub fn try_with(&self, name: &str, value: &str) -> Result<Self, Error> {
        if name.is_empty() {
            return Err(Error::EmptyLabelName);
        }
        within("a label name's bytes", name.len(), Self::NAME_BYTES_MAX)?;
        within("a label value's bytes", value.len(), Self::VALUE_BYTES_MAX)?;
        let is_new = !value.is_empty() && self.get(name).is_empty();
        within("the number of labels", self.len() + usize::from(is_new), Self::COUNT_MAX)?;
        Ok(self.with(name, value))
    }

    /// The set with `name` set to `value`, or removed if `value` is empty.
    ///
    /// # Panics
    /// When a text is longer than the in-memory form can represent, half a megabyte: for input from outside use
    /// [`Labels::try_with`].
    #[must_use]
    pub fn with(&self, name: &str, value: &str) -> Self {
        let mut pairs: Vec<(&str, &str)> = self.iter().filter(|pair| pair.0 != name).collect();
        if !value.is_empty() {
            let at = pairs.partition_point(|pair| pair.0 < name);
            pairs.insert(at, (name, value));
        }
        Self::pack(&pairs)
    }

    /// The canonical bytes: for each label its name and its value, each preceded by its length as u32 little-endian.
    #[must_use]
    pub fn canonical_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.0.len() + 6 * self.len());
        for text in self.iter().flat_map(|(name, value)| [name, value]) {
            let length = u32::try_from(text.len()).expect("label limits are below 4 GiB");
            out.extend_from_slice(&length.to_le_bytes());
            out.extend_from_slice(text.as_bytes());
        }
        out
    }
}

/// Makes sets from pairs that already satisfy the invariants, in memory that it uses again.
#[derive(Default)]
pub(crate) struct Packer {
    text: String,
}

impl Packer {
    /// The set of `pairs`.
    pub(crate) fn pack<'a>(&mut self, pairs: impl ExactSizeIterator<Item = (&'a str, &'a str)>) -> Labels {
        let out = &mut self.text;
        out.clear();
        assert!(pairs.len() < 1 << 14, "{} labels", pairs.len());
        put_bits(out, pairs.len() >> 7);
        put_bits(out, pairs.len());
        for (name, value) in pairs {
            // Room for both at once, so that what is appended below needs none.
            out.reserve(name.len() + value.len() + 6);
            put_text(out, name);
            put_text(out, value);
        }
        Labels(out.as_str().into())
    }
}

/// The rest of a set's labels.
#[derive(Clone)]
struct Pairs<'a> {
    rest: &'a str,
    left: usize,
}

impl<'a> Pairs<'a> {
    fn text(&mut self) -> &'a str {
        take_text(&mut self.rest)
    }
}

impl<'a> Iterator for Pairs<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        Some((self.text(), self.text()))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Pairs<'_> {}

impl Ord for Labels {
    /// By the pairs in turn, as lists of pairs compare.
    fn cmp(&self, other: &Self) -> Ordering {
        // Equal sets occur most often where the series of several blocks are joined, and need no comparison of each
        // label.
        if Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0 {
            return Ordering::Equal;
        }
        let (a, b) = (&self.0[HEADER..], &other.0[HEADER..]);
        let Some(differs) = first_difference(a.as_bytes(), b.as_bytes()) else {
            // One begins with all of the other.
            return a.len().cmp(&b.len());
        };
        // What is equal is skipped by its lengths: the two differ in the text that begins here.
        let mut at = 0;
        loop {
            let (header, length) = length_at(&a.as_bytes()[at..]);
            if at + header + length > differs {
                break;
            }
            at += header + length;
        }
        text_at(a.as_bytes(), at).cmp(text_at(b.as_bytes(), at))
    }
}

/// The bytes of the text whose length is at `at`; they order as texts do.
fn text_at(bytes: &[u8], at: usize) -> &[u8] {
    let (header, length) = length_at(&bytes[at..]);
    &bytes[at + header..][..length]
}

/// Where two texts differ first; None when one begins with all of the other.
fn first_difference(a: &[u8], b: &[u8]) -> Option<usize> {
    /// As many at once as processors compare at once.
    const BYTES: usize = 16;
    let equal = a.chunks_exact(BYTES).zip(b.chunks_exact(BYTES)).take_while(|(a, b)| a == b).count() * BYTES;
    let found = a[equal..].iter().zip(&b[equal..]).position(|(a, b)| a != b);
    found.map(|at| equal + at)
}

impl PartialOrd for Labels {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Labels {
    /// As PromQL writes it: `name{a="b", c="d"}`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.metric_name();
        out.write_str(name)?;
        let mut rest = self.iter().filter(|(label, _)| *label != METRIC_NAME).peekable();
        if rest.peek().is_none() && !name.is_empty() {
            return Ok(());
        }
        out.write_str("{")?;
        for (at, (label, value)) in rest.enumerate() {
            write!(out, "{}{label}={value:?}", if at > 0 { ", " } else { "" })?;
        }
        out.write_str("}")
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn pairs_are_sorted_and_empty_values_left_out() {
        let labels = Labels::new([("b", "2"), ("__name__", "m"), ("c", ""), ("a", "1")]).unwrap();
        assert_eq!(labels.iter().collect::<Vec<_>>(), [("__name__", "m"), ("a", "1"), ("b", "2")]);
        assert_eq!(labels.to_string(), r#"m{a="1", b="2"}"#);
        assert_eq!(labels.get("c"), "");
    }

    #[test]
    fn duplicates_and_empty_names_are_refused() {
        assert_eq!(Labels::new([("a", "1"), ("a", "2")]), Err(Error::DuplicateLabel { name: "a".into() }));
        assert_eq!(Labels::new([("a", "1"), ("a", "")]), Err(Error::DuplicateLabel { name: "a".into() }));
        assert_eq!(Labels::new([("", "1")]), Err(Error::EmptyLabelName));
    }

    #[test]
    fn limits_hold_at_their_value_and_one_above() {
        let many = |n: usize| Labels::new((0..n).map(|i| (format!("l{i:04}"), "v")));
        assert_eq!(many(Labels::COUNT_MAX).unwrap().len(), Labels::COUNT_MAX);
        assert!(matches!(many(Labels::COUNT_MAX + 1), Err(Error::TooLarge { .. })));
        assert!(Labels::new([("a", "v".repeat(Labels::VALUE_BYTES_MAX))]).is_ok());
        assert!(matches!(Labels::new([("a", "v".repeat(Labels::VALUE_BYTES_MAX + 1))]), Err(Error::TooLarge { .. })));
        assert!(matches!(Labels::new([("n".repeat(Labels::NAME_BYTES_MAX + 1), "v")]), Err(Error::TooLarge { .. })));
    }

    #[test]
    fn a_set_from_another_keeps_the_limits() {
        let text = |length: usize| "v".repeat(length);
        let labels = Labels::new([("a", "1")]).unwrap();
        assert_eq!(
            labels.try_with("b", &text(Labels::VALUE_BYTES_MAX)).unwrap().get("b").len(),
            Labels::VALUE_BYTES_MAX
        );
        assert!(matches!(labels.try_with("b", &text(Labels::VALUE_BYTES_MAX + 1)), Err(Error::TooLarge { .. })));
        assert!(labels.try_with(&text(Labels::NAME_BYTES_MAX), "v").is_ok());
        assert!(matches!(labels.try_with(&text(Labels::NAME_BYTES_MAX + 1), "v"), Err(Error::TooLarge { .. })));
        assert!(matches!(labels.try_with("", "v"), Err(Error::EmptyLabelName)));
        let most = Labels::new((0..Labels::COUNT_MAX).map(|i| (format!("l{i:04}"), "v"))).unwrap();
        assert!(most.try_with("l0001", "w").is_ok() && most.try_with("new", "").is_ok());
        assert!(matches!(most.try_with("new", "v"), Err(Error::TooLarge { .. })));
    }

    #[test]
    fn with_replaces_inserts_and_removes() {
        let labels = Labels::new([("a", "1"), ("c", "3")]).unwrap();
        assert_eq!(labels.with("b", "2").to_string(), r#"{a="1", b="2", c="3"}"#);
        assert_eq!(labels.with("a", "9").to_string(), r#"{a="9", c="3"}"#);
        assert_eq!(labels.with("c", "").to_string(), r#"{a="1"}"#);
        assert_eq!(labels.filtered(|name| name != "a").to_string(), r#"{c="3"}"#);
    }

    fn any_pairs() -> impl Strategy<Value = BTreeMap<String, String>> {
        let lengths = prop_oneof![8 => 1..12_usize, 1 => 90..100_usize, 1 => 16_380..=Labels::VALUE_BYTES_MAX];
        let value = ("[a-zäß日]", lengths).prop_map(|(letter, length)| letter.repeat(length / letter.len()));
        prop::collection::btree_map("[a-cä_]{1,3}", value.prop_filter("not empty", |value| !value.is_empty()), 0..6)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Against sorted maps of strings.
        #[test]
        fn a_set_is_a_sorted_map(pairs in any_pairs(), other in any_pairs()) {
            let labels = Labels::new(pairs.iter().rev()).unwrap();
            let expected: Vec<(&str, &str)> = pairs.iter().map(|(name, value)| (&**name, &**value)).collect();
            prop_assert_eq!(labels.iter().collect::<Vec<_>>(), expected);
            prop_assert_eq!(labels.len(), pairs.len());
            pairs.iter().for_each(|(name, value)| assert_eq!(labels.get(name), value));
            let other_labels = Labels::new(&other).unwrap();
            prop_assert_eq!(labels.cmp(&other_labels), pairs.iter().cmp(other.iter()));
            prop_assert_eq!(labels == other_labels, pairs == other);
            let canonical: Vec<u8> = pairs.iter().flat_map(|(name, value)| [name, value])
                .flat_map(|text| [&(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat()).collect();
            prop_assert_eq!(labels.canonical_bytes(), canonical);
        }

        #[test]
        fn sets_that_begin_alike_order_as_their_pairs(
            pairs in any_pairs(), name in "[a-dä_]{1,3}", value in "[by]{1,100}", other in "[by]{1,100}",
        ) {
            let with = |value: &str| {
                let mut pairs = pairs.clone();
                pairs.insert(name.clone(), value.to_owned());
                pairs
            };
            let all = [pairs.clone(), with(&value), with(&other), with(&format!("{value}b"))];
            for (one, next) in all.iter().flat_map(|one| all.iter().map(move |next| (one, next))) {
                let labels = |pairs| Labels::new::<&String, &String>(pairs).unwrap();
                prop_assert_eq!(labels(one).cmp(&labels(next)), one.iter().cmp(next.iter()));
            }
        }
    }
}
