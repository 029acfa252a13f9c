//! A sorted set of label names and values.
//!
//! Invariants: names strictly ascend by bytes; no name and no value is empty (an empty value is the same
//! as no label); at most [`Labels::COUNT_MAX`] labels.
//! Limits: the constants of [`Labels`], checked when a set is made.

use std::fmt;
use std::sync::Arc;

use crate::Error;
use crate::error::within;

/// The label that holds the metric's name.
pub const METRIC_NAME: &str = "__name__";

/// A sorted label set; cloning shares it.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Labels(Arc<[(Box<str>, Box<str>)]>);

impl Labels {
    /// 128 labels: four times what crowded Kubernetes series carry.
    pub const COUNT_MAX: usize = 128;
    /// 1 KiB for a name: names are identifiers.
    pub const NAME_BYTES_MAX: usize = 1024;
    /// 16 KiB for a value: a URL or a statement, not a document.
    pub const VALUE_BYTES_MAX: usize = 16 * 1024;

    /// No labels.
    #[must_use]
    pub fn empty() -> Self {
        Self(Arc::new([]))
    }

    /// A set from pairs in any order; pairs with an empty value are left out.
    ///
    /// # Errors
    /// [`Error::DuplicateLabel`], [`Error::EmptyLabelName`], or [`Error::TooLarge`] past a limit.
    pub fn new<N: Into<Box<str>>, V: Into<Box<str>>>(pairs: impl IntoIterator<Item = (N, V)>) -> Result<Self, Error> {
        let mut sorted: Vec<(Box<str>, Box<str>)> = Vec::new();
        for (name, value) in pairs {
            let (name, value) = (name.into(), value.into());
            if name.is_empty() {
                return Err(Error::EmptyLabelName);
            }
            within("a label name's bytes", name.len(), Self::NAME_BYTES_MAX)?;
            within("a label value's bytes", value.len(), Self::VALUE_BYTES_MAX)?;
            sorted.push((name, value));
            within("the number of labels", sorted.len(), Self::COUNT_MAX)?;
        }
        sorted.sort();
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(Error::DuplicateLabel { name: pair[0].0.to_string() });
        }
        sorted.retain(|(_, value)| !value.is_empty());
        Ok(Self(sorted.into()))
    }

    /// Value of label `name`; the empty string when it is not there, as PromQL has it.
    #[must_use]
    pub fn get(&self, name: &str) -> &str {
        self.0.binary_search_by(|pair| (*pair.0).cmp(name)).map_or("", |at| &self.0[at].1)
    }

    /// The metric's name, empty when there is none.
    #[must_use]
    pub fn metric_name(&self) -> &str {
        self.get(METRIC_NAME)
    }

    /// `(name, value)` by ascending name.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&str, &str)> + ExactSizeIterator + '_ {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    /// Number of labels.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True when there is no label.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The set of those labels whose name `keep` accepts.
    #[must_use]
    pub fn filtered(&self, mut keep: impl FnMut(&str) -> bool) -> Self {
        Self(self.0.iter().filter(|(name, _)| keep(name)).cloned().collect())
    }

    /// The set with `name` set to `value`, or taken away when `value` is empty.
    #[must_use]
    pub fn with(&self, name: &str, value: &str) -> Self {
        let mut pairs: Vec<(Box<str>, Box<str>)> = self.0.iter().filter(|(n, _)| **n != *name).cloned().collect();
        if !value.is_empty() {
            let at = pairs.partition_point(|(n, _)| **n < *name);
            pairs.insert(at, (name.into(), value.into()));
        }
        Self(pairs.into())
    }

    /// The canonical bytes: for each label its name and its value, each behind its length as u32 little-endian.
    #[must_use]
    pub fn canonical_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.iter().map(|(n, v)| n.len() + v.len() + 8).sum());
        for text in self.iter().flat_map(|(name, value)| [name, value]) {
            let length = u32::try_from(text.len()).expect("label limits are below 4 GiB");
            out.extend_from_slice(&length.to_le_bytes());
            out.extend_from_slice(text.as_bytes());
        }
        out
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
        assert!(many(Labels::COUNT_MAX).is_ok());
        assert!(matches!(many(Labels::COUNT_MAX + 1), Err(Error::TooLarge { .. })));
        assert!(Labels::new([("a", "v".repeat(Labels::VALUE_BYTES_MAX))]).is_ok());
        assert!(matches!(Labels::new([("a", "v".repeat(Labels::VALUE_BYTES_MAX + 1))]), Err(Error::TooLarge { .. })));
        assert!(matches!(Labels::new([("n".repeat(Labels::NAME_BYTES_MAX + 1), "v")]), Err(Error::TooLarge { .. })));
    }

    #[test]
    fn with_replaces_inserts_and_removes() {
        let labels = Labels::new([("a", "1"), ("c", "3")]).unwrap();
        assert_eq!(labels.with("b", "2").to_string(), r#"{a="1", b="2", c="3"}"#);
        assert_eq!(labels.with("a", "9").to_string(), r#"{a="9", c="3"}"#);
        assert_eq!(labels.with("c", "").to_string(), r#"{a="1"}"#);
    }
}
