//! The labels that a stream of IRONdb has here, and the stream that labels are of.
//!
//! Format: the name is the metric's, `check_uuid` the check, `account_id` the account unless it is 0; each stream tag
//! is a label. Tags that cannot be one (without a value, with a category that repeats or is a label's name here) stand
//! in `stream_tags`, as their canonical text. A series that is a part of a rollup has its field in `rollup_part`.
//! Invariants: two streams never have the same labels; `from_labels` gives what was written.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ogive_model::{Labels, METRIC_NAME, SeriesDef, SeriesMeta};
use ogive_protocol::lines::{Fault, Pairs};

use crate::name::{self, MetricName};

/// The label of the check.
pub const CHECK: &str = "check_uuid";
/// The label of the account.
pub const ACCOUNT: &str = "account_id";
/// The label of tags that cannot be labels.
pub const TAGS: &str = "stream_tags";
/// The label of a part of a rollup.
pub const PART: &str = "rollup_part";
/// The series that hold the tags of checks, as texts.
pub const CHECK_TAGS: &str = "irondb_check_tags";

/// A stream.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    /// The check.
    pub check: String,
    /// The account; 0 when it is not known.
    pub account: i64,
    /// The name without tags.
    pub base: String,
    /// Categories and values, ascending.
    pub tags: Vec<(String, String)>,
}

impl Identity {
    /// The stream of a check that `name` names, of any account.
    ///
    /// # Errors
    /// As [`name::parse`].
    pub fn parse(check: &str, name: &str) -> Result<Self, Fault> {
        let parsed = name::parse(name)?;
        Ok(Self { check: check.into(), account: 0, base: parsed.base.into(), tags: sorted(parsed) })
    }

    /// The stream of a series, and the part of a rollup that it holds, if any. None for a series that belongs to no
    /// check.
    #[must_use]
    pub fn from_labels(labels: &Labels) -> Option<(Self, Option<String>)> {
        let check = labels.get(CHECK);
        if check.is_empty() || labels.metric_name().is_empty() {
            return None;
        }
        let mut tags: Vec<_> = labels
            .iter()
            .filter(|(name, _)| !is_taken(name))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let others = labels.get(TAGS);
        if !others.is_empty() {
            tags.extend(sorted(name::parse(&format!("x|ST[{others}]")).ok()?));
        }
        tags.sort_unstable();
        let account = labels.get(ACCOUNT).parse().unwrap_or(0);
        let part = Some(labels.get(PART)).filter(|part| !part.is_empty()).map(str::to_owned);
        Some((Self { check: check.into(), account, base: labels.metric_name().into(), tags }, part))
    }

    /// Name and tags as IRONdb writes them.
    #[must_use]
    pub fn canonical(&self) -> String {
        let mut out = self.base.clone();
        if !self.tags.is_empty() {
            out.push_str("|ST[");
            out.push_str(&tag_text(&self.tags));
            out.push(']');
        }
        out
    }

    /// Whether both are the same stream, ignoring the account.
    #[must_use]
    pub fn is_same_stream(&self, other: &Self) -> bool {
        (&self.check, &self.base, &self.tags) == (&other.check, &other.base, &other.tags)
    }
}

/// Names of labels that a tag cannot have.
fn is_taken(name: &str) -> bool {
    matches!(name, METRIC_NAME | CHECK | ACCOUNT | TAGS | PART)
}

fn sorted(name: MetricName<'_>) -> Vec<(String, String)> {
    let mut tags: Vec<_> =
        name.tags.into_iter().map(|(category, value)| (category.into_owned(), value.into_owned())).collect();
    tags.sort_unstable();
    tags.dedup();
    tags
}

/// Tags with commas between them.
#[must_use]
pub fn tag_text(tags: &[(String, String)]) -> String {
    let one = |(category, value): &(String, String)| format!("{}:{}", part(category, false), part(value, true));
    tags.iter().map(one).collect::<Vec<_>>().join(",")
}

/// A category or a value: unchanged if its characters allow that, otherwise in base64.
#[must_use]
pub fn part(text: &str, is_value: bool) -> Cow<'_, str> {
    let plain = |byte: u8| {
        byte.is_ascii_alphanumeric() || b"`+!@#$%^&\"'/?._-".contains(&byte) || is_value && b":=".contains(&byte)
    };
    if text.bytes().all(plain) && !text.starts_with("b\"") {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("b\"{}\"", STANDARD.encode(text)))
}

/// The series of a stream.
///
/// # Errors
/// What is wrong with the name or its tags.
pub fn series(
    check: &str,
    account: i64,
    name: &str,
    rollup_part: Option<&str>,
    meta: SeriesMeta,
) -> Result<SeriesDef, Fault> {
    let parsed = name::parse(name)?;
    let mut pairs = Pairs::named(Cow::Owned(parsed.base.to_owned()));
    pairs.add(CHECK.into(), Cow::Owned(check.to_owned()))?;
    if account != 0 {
        pairs.add(ACCOUNT.into(), Cow::Owned(account.to_string()))?;
    }
    if let Some(rollup_part) = rollup_part {
        pairs.add(PART.into(), Cow::Owned(rollup_part.to_owned()))?;
    }
    let tags = sorted(parsed);
    let is_single = |category: &str| tags.iter().filter(|(other, _)| other == category).count() == 1;
    let (labels, others): (Vec<_>, Vec<_>) = tags
        .iter()
        .cloned()
        .partition(|(category, value)| !value.is_empty() && !is_taken(category) && is_single(category));
    for (category, value) in labels {
        pairs.add(Cow::Owned(category), Cow::Owned(value))?;
    }
    if !others.is_empty() {
        pairs.add(TAGS.into(), Cow::Owned(tag_text(&others)))?;
    }
    pairs.series(meta)
}

#[cfg(test)]
mod tests {
    use ogive_model::{Kind, Temporality};

    use super::*;

    const CHECK_ID: &str = "8b9d2b4e-0c5a-4f0e-8f0d-5a2f6f0c1d2e";

    /// The stream that comes back for one that was written.
    fn back(name: &str) -> Identity {
        let meta = SeriesMeta { kind: Kind::Float, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };
        let series = series(CHECK_ID, 7, name, Some("count"), meta).unwrap();
        let (identity, part) = Identity::from_labels(&series.labels).unwrap();
        assert_eq!((identity.account, part.as_deref()), (7, Some("count")));
        assert!(identity.is_same_stream(&Identity::parse(CHECK_ID, name).unwrap()), "{name}");
        identity
    }

    #[test]
    fn every_stream_comes_back() {
        for (name, canonical) in [
            ("cpu`user", "cpu`user"),
            ("a|ST[z:1,b:2]", "a|ST[b:2,z:1]"),
            ("a|ST[z:,b:2,lone]|MT{x:1}", "a|ST[b:2,lone:,z:]"),
            ("a|ST[c:1,c:2,c:1]", "a|ST[c:1,c:2]"),
            ("a|ST[check_uuid:x,__name__:y]", "a|ST[__name__:y,check_uuid:x]"),
            ("a|ST[b\"aGVsbG8=\":b\"eCx5\"]", "a|ST[hello:b\"eCx5\"]"),
            ("a|ST[h\u{e4}:\u{fc}]", "a|ST[b\"aMOk\":b\"w7w=\"]"),
        ] {
            assert_eq!(back(name).canonical(), canonical);
        }
        assert!(Identity::from_labels(&Labels::new([("__name__", "up")]).unwrap()).is_none());
    }
}
