//! Rules for numbers, counts and sessions as people write them.
//!
//! Limits: [`RULES_MAX`] entries of a list, [`SERIES_MAX`] series of a rule, [`OPEN_MAX`] sessions and
//! [`TIMEOUT_MS_MAX`] of one for sessions.

use std::collections::{BTreeMap, HashSet};
use std::sync::Mutex;
use std::time::Duration;

use ogive_model::{METRIC_NAME, Ns};
use ogive_search::Query;
use ogive_text::duration;
use serde::Deserialize;

use crate::measure::{Kind, Measure, Unit};
use crate::session::{Session, SessionParts};
use crate::template::Template;

/// 64 formats, masks, labels, numbers or counts of a filter.
pub(crate) const RULES_MAX: usize = 64;

/// 1,000 series for a number or a count by default: a route and a status of a large site.
const SERIES_USUAL: usize = 1_000;

/// 100,000 series of a number or a count at most: 3 MB of hashes.
const SERIES_MAX: usize = 100_000;

/// 10,000 open sessions by default: 1,000 requests a second that take 10 s, and 5 MB.
const OPEN_USUAL: usize = 10_000;

/// 100,000 open sessions at most: 50 MB.
const OPEN_MAX: usize = 100_000;

/// 10 minutes by default: as long as a slow job.
const TIMEOUT_MS_USUAL: u64 = 600_000;

/// A week: as long as the longest jobs.
const TIMEOUT_MS_MAX: u64 = 7 * 86_400_000;

/// The prefix of the server's own metrics.
pub(crate) const OWN_PREFIX: &str = "ogive_";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct RawNumber {
    name: String,
    field: String,
    #[serde(default)]
    unit: String,
    #[serde(default)]
    labels: RawLabels,
    #[serde(default = "yes")]
    exemplars: bool,
    #[serde(default = "series_usual")]
    series_max: usize,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct RawCount {
    name: String,
    #[serde(default)]
    labels: RawLabels,
    #[serde(default = "series_usual")]
    series_max: usize,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct RawSession {
    name: String,
    id: String,
    begin: String,
    end: String,
    #[serde(default)]
    labels: RawLabels,
    #[serde(default = "yes")]
    exemplars: bool,
    #[serde(default = "series_usual")]
    series_max: usize,
    #[serde(default = "open_usual")]
    open_max: usize,
    timeout: Option<String>,
}

/// Names of fields, or labels with their templates.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum RawLabels {
    Fields(Vec<String>),
    Templates(BTreeMap<String, String>),
}

impl Default for RawLabels {
    fn default() -> Self {
        Self::Fields(Vec::new())
    }
}

pub(crate) const fn yes() -> bool {
    true
}

const fn series_usual() -> usize {
    SERIES_USUAL
}

const fn open_usual() -> usize {
    OPEN_USUAL
}

/// Letters, digits, `_` and, but for labels, `:`.
pub(crate) fn is_name(name: &str, also: char) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == also;
    name.len() <= 200
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.is_empty()
        && name.chars().all(is_part)
}

fn metric(name: &str) -> Result<(), String> {
    match is_name(name, ':') && !name.starts_with(OWN_PREFIX) {
        true => Ok(()),
        false => {
            Err(format!("{name:?} is no name of a metric: letters, digits and _, and not ogive_ at its beginning"))
        }
    }
}

fn label(name: &str) -> Result<(), String> {
    match is_name(name, '_') && name != METRIC_NAME {
        true => Ok(()),
        false => Err(format!("{name:?} is no name of a label: letters, digits and _")),
    }
}

/// Labels with their templates.
pub(crate) fn templates(labels: BTreeMap<String, String>) -> Result<Vec<(String, Template)>, String> {
    labels.into_iter().map(|(name, text)| label(&name).and_then(|()| Ok((name, Template::parse(&text)?)))).collect()
}

impl RawLabels {
    fn templates(self) -> Result<Vec<(String, Template)>, String> {
        match self {
            Self::Templates(labels) => templates(labels),
            // A field's name may contain dots, a label's cannot.
            Self::Fields(fields) => fields
                .into_iter()
                .map(|field| {
                    let name: String = field.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
                    label(&name).map(|()| (name, Template::field(&field)))
                })
                .collect(),
        }
    }
}

fn measure(name: String, kind: Kind, labels: RawLabels, series_max: usize) -> Result<Measure, String> {
    metric(&name)?;
    let labels = labels.templates().map_err(|error| format!("{name:?}: {error}"))?;
    let names: HashSet<_> = labels.iter().map(|(name, _)| name).collect();
    if names.len() < labels.len() || labels.len() > RULES_MAX {
        return Err(format!("{name:?} has a label twice, or more than {RULES_MAX}"));
    }
    if !(1..=SERIES_MAX).contains(&series_max) {
        return Err(format!("{name:?}: series-max is 1 to {SERIES_MAX}"));
    }
    Ok(Measure { id: 0, name, kind, labels, series_max, seen: Mutex::default() })
}

impl RawNumber {
    /// The rule.
    pub(crate) fn measure(self) -> Result<Measure, String> {
        let unit = Unit::parse(&self.unit).map_err(|error| format!("{:?}: {error}", self.name))?;
        let kind = Kind::Number { field: self.field, unit, has_exemplars: self.exemplars };
        measure(self.name, kind, self.labels, self.series_max)
    }
}

impl RawCount {
    /// The rule.
    pub(crate) fn measure(self) -> Result<Measure, String> {
        measure(self.name, Kind::Count, self.labels, self.series_max)
    }
}

impl RawSession {
    /// The rule.
    pub(crate) fn session(self) -> Result<Session, String> {
        let Self { name, id, begin, end, labels, exemplars, series_max, open_max, timeout } = self;
        let place = |what: &str, error: &dyn std::fmt::Display| format!("{name:?}: {what}: {error}");
        let query = |what: &str, text: &str| Query::parse(text).map_err(|error| place(what, &error));
        let (begin, end) = (query("begin", &begin)?, query("end", &end)?);
        if id.is_empty() || begin.is_empty() || end.is_empty() {
            return Err(format!("{name:?} needs the name of a field as its id, and conditions for begin and end"));
        }
        let timeout = timeout.as_deref().map(duration::parse_ms).transpose();
        let timeout_ms = timeout.map_err(|error| place("timeout", &error))?.unwrap_or(TIMEOUT_MS_USUAL);
        if !(1..=TIMEOUT_MS_MAX).contains(&timeout_ms) || !(1..=OPEN_MAX).contains(&open_max) {
            return Err(format!("{name:?}: timeout is 1ms to 7d, open-max 1 to {OPEN_MAX}"));
        }
        let timeout = Ns::from(Duration::from_millis(timeout_ms));
        // The unit of a duration is known; no field is read.
        let kind = Kind::Number { field: String::new(), unit: Unit::parse("s")?, has_exemplars: exemplars };
        let measure = measure(name, kind, labels, series_max)?;
        Ok(Session::new(SessionParts { measure, id, begin, end, open_max, timeout }))
    }
}
