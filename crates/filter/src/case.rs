//! Cases as people write them: `[[case]]` tables beside the filters.

use std::collections::BTreeMap;

use serde::Deserialize;

/// An input line, and the expected results. Omitted results are not checked.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The line, or several consecutive ones.
    pub(crate) line: Lines,
    /// When each line comes, in seconds; a millisecond after each other when it is missing.
    #[serde(default)]
    pub(crate) at: Vec<f64>,
    /// Labels of its series; its name is `log` when it is not among them.
    #[serde(default)]
    pub(crate) labels: BTreeMap<String, String>,
    /// What is stored: `false` for nothing, a text, or several.
    pub(crate) stored: Option<Stored>,
    /// Fields of the first line.
    #[serde(default)]
    pub(crate) fields: BTreeMap<String, String>,
    /// Labels of the first stored line; an empty value means that the label is absent.
    #[serde(default)]
    pub(crate) series: BTreeMap<String, String>,
    /// The tenant of the first stored line.
    pub(crate) tenant: Option<String>,
    /// The numbers in the histograms with these names, in any order; an empty list means none.
    #[serde(default)]
    pub(crate) numbers: BTreeMap<String, Vec<f64>>,
    /// The sums of the counts of these names.
    #[serde(default)]
    pub(crate) counts: BTreeMap<String, f64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Lines {
    One(String),
    More(Vec<String>),
}

impl Default for Lines {
    fn default() -> Self {
        Self::More(Vec::new())
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Stored {
    Any(bool),
    One(String),
    More(Vec<String>),
}
