//! Rule files: groups of recording and alerting rules.
//!
//! Failure: a file is refused as a whole, with every error that it has.

use std::collections::{BTreeMap, BTreeSet};

use ogive_model::Ms;
use serde::Deserialize;
use serde_saphyr::Spanned;

use super::duration::parse_ms;
use super::extension::Extension;
use super::template::Template;
use super::yaml::{FileError, first_document};

/// Variables of every template of a rule.
pub(crate) const VARIABLES: [&str; 4] = ["$labels", "$externalLabels", "$externalURL", "$value"];

/// Most rules of one file. Ten times as many as the largest public files have.
pub const RULES_MAX: usize = 100_000;

/// A file that was checked.
#[derive(Clone, Debug, Default)]
pub struct RuleFile {
    /// In the order of the file; names are unique.
    pub groups: Vec<GroupSpec>,
}

/// A group as its file has it.
#[derive(Clone, Debug)]
pub struct GroupSpec {
    /// Unique in its file.
    pub name: String,
    /// Between evaluations; the default of the configuration when it is missing.
    pub interval: Option<Ms>,
    /// How far before the time of an evaluation its queries are evaluated.
    pub query_offset: Option<Ms>,
    /// Most series of a recording rule and alerts of an alerting rule; 0 is no limit.
    pub limit: usize,
    /// In order of evaluation.
    pub rules: Vec<RuleSpec>,
}

/// Whether a rule stores or alerts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleKind {
    /// Stores the result of its expression under its name.
    Record,
    /// Alerts for each element of its expression's result.
    Alert,
}

/// A rule as its file has it.
#[derive(Clone, Debug)]
pub struct RuleSpec {
    /// Its kind.
    pub kind: RuleKind,
    /// Name of the series or of the alert.
    pub name: String,
    /// The expression in canonical form.
    pub expr: String,
    /// How long an alert is pending before it fires: `for` in a file.
    pub hold: Ms,
    /// How long an alert fires on without its element.
    pub keep_firing_for: Ms,
    /// Added labels, including those of the group; templates in alerting rules.
    pub labels: BTreeMap<String, String>,
    /// Texts of its alerts, as templates.
    pub annotations: BTreeMap<String, String>,
    /// Extensions beyond Prometheus in its annotations.
    pub extension: Option<Box<Extension>>,
    /// Line of the file on which it begins, from 1.
    pub line: u64,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    #[serde(default)]
    groups: Option<Vec<Spanned<RawGroup>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawGroup {
    #[serde(default)]
    name: Option<Spanned<String>>,
    #[serde(default)]
    interval: Option<Spanned<String>>,
    #[serde(default)]
    query_offset: Option<Spanned<String>>,
    #[serde(default)]
    limit: Option<Spanned<i64>>,
    #[serde(default)]
    labels: Option<Spanned<Texts>>,
    #[serde(default)]
    rules: Option<Vec<Spanned<RawRule>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRule {
    #[serde(default)]
    record: Option<Spanned<String>>,
    #[serde(default)]
    alert: Option<Spanned<String>>,
    #[serde(default)]
    expr: Option<Spanned<String>>,
    #[serde(default, rename = "for")]
    hold: Option<Spanned<String>>,
    #[serde(default)]
    keep_firing_for: Option<Spanned<String>>,
    #[serde(default)]
    labels: Option<Spanned<Texts>>,
    #[serde(default)]
    annotations: Option<Spanned<Texts>>,
}

type Texts = BTreeMap<String, Option<String>>;

fn texts(raw: Option<&Spanned<Texts>>) -> BTreeMap<String, String> {
    let pairs = raw.iter().flat_map(|raw| &raw.value);
    pairs.map(|(name, value)| (name.clone(), value.clone().unwrap_or_default())).collect()
}

impl RuleFile {
    /// Parses a file and checks every group, expression and template in it.
    ///
    /// # Errors
    /// All mistakes.
    pub fn parse(text: &str) -> Result<Self, Vec<FileError>> {
        let raw: RawFile = first_document(text).map_err(|error| vec![error])?;
        let raw = raw.groups.unwrap_or_default();
        let rules: usize = raw.iter().map(|group| group.value.rules.as_ref().map_or(0, Vec::len)).sum();
        let mut reader = Reader { errors: Vec::new(), place: (0, 0), what: String::new() };
        if rules > RULES_MAX {
            reader.fail(format!("{rules} rules are more than {RULES_MAX}"));
            return Err(reader.errors);
        }
        let mut names = BTreeSet::new();
        let mut groups = Vec::with_capacity(raw.len());
        for group in raw {
            reader.place = (group.referenced.line(), group.referenced.column());
            let group = reader.group(group.value);
            if !group.name.is_empty() && !names.insert(group.name.clone()) {
                reader.fail(format!("groupname: {:?} is repeated in the same file", group.name));
            }
            groups.push(group);
        }
        if reader.errors.is_empty() { Ok(Self { groups }) } else { Err(reader.errors) }
    }

    /// The number of rules.
    #[must_use]
    pub fn rules_count(&self) -> usize {
        self.groups.iter().map(|group| group.rules.len()).sum()
    }
}

/// Collects errors while a file is parsed.
struct Reader {
    errors: Vec<FileError>,
    /// Line and column of the current position.
    place: (u64, u64),
    /// Group and rule in front of messages.
    what: String,
}

impl Reader {
    fn fail(&mut self, message: impl AsRef<str>) {
        let (line, column) = self.place;
        self.errors.push(FileError { line, column, message: format!("{}{}", self.what, message.as_ref()) });
    }

    fn fail_at<T>(&mut self, at: &Spanned<T>, message: impl AsRef<str>) {
        let outer = std::mem::replace(&mut self.place, (at.referenced.line(), at.referenced.column()));
        self.fail(message);
        self.place = outer;
    }

    fn duration(&mut self, raw: Option<&Spanned<String>>) -> Option<Ms> {
        let raw = raw.filter(|raw| !raw.value.is_empty())?;
        match parse_ms(&raw.value) {
            Ok(ms) => Some(Ms(ms)),
            Err(error) => {
                self.fail_at(raw, error);
                None
            }
        }
    }

    fn group(&mut self, raw: RawGroup) -> GroupSpec {
        self.what = String::new();
        let name = raw.name.map(|name| name.value).unwrap_or_default();
        if name.is_empty() {
            self.fail("Groupname must not be empty");
        }
        self.what = format!("group {name:?}, ");
        let interval = self.duration(raw.interval.as_ref()).filter(|interval| *interval > Ms::ZERO);
        let query_offset = self.duration(raw.query_offset.as_ref());
        let limit = raw.limit.map_or(0, |limit| usize::try_from(limit.value).unwrap_or(0));
        let labels = texts(raw.labels.as_ref());
        self.labels(&labels, raw.labels.as_ref());
        let mut rules = Vec::new();
        for (at, rule) in raw.rules.unwrap_or_default().into_iter().enumerate() {
            let title = rule.value.record.as_ref().or(rule.value.alert.as_ref());
            let title = title.map_or("", |title| &title.value);
            self.what = format!("group {name:?}, rule {}, {title:?}: ", at + 1);
            self.place = (rule.referenced.line(), rule.referenced.column());
            rules.extend(self.rule(rule.value, &labels));
        }
        self.what = String::new();
        GroupSpec { name, interval, query_offset, limit, rules }
    }

    fn labels(&mut self, labels: &BTreeMap<String, String>, raw: Option<&Spanned<Texts>>) {
        let Some(raw) = raw else { return };
        for name in labels.keys().filter(|name| name.is_empty() || *name == "__name__") {
            self.fail_at(raw, format!("invalid label name: {name}"));
        }
    }

    fn rule(&mut self, raw: RawRule, group_labels: &BTreeMap<String, String>) -> Option<RuleSpec> {
        let named = |name: Option<Spanned<String>>| name.filter(|name| !name.value.is_empty());
        let (kind, name) = match (named(raw.record), named(raw.alert)) {
            (Some(_), Some(_)) => {
                self.fail("only one of 'record' and 'alert' must be set");
                return None;
            }
            (None, None) => {
                self.fail("one of 'record' or 'alert' must be set");
                return None;
            }
            (Some(name), None) => (RuleKind::Record, name),
            (None, Some(name)) => (RuleKind::Alert, name),
        };
        let line = self.place.0;
        let hold = self.duration(raw.hold.as_ref()).unwrap_or(Ms::ZERO);
        let keep_firing_for = self.duration(raw.keep_firing_for.as_ref()).unwrap_or(Ms::ZERO);
        let own = texts(raw.labels.as_ref());
        self.labels(&own, raw.labels.as_ref());
        let mut labels = group_labels.clone();
        labels.extend(own);
        let annotations = texts(raw.annotations.as_ref());
        if kind == RuleKind::Record {
            for (key, set) in [
                ("annotations", !annotations.is_empty()),
                ("for", hold != Ms::ZERO),
                ("keep_firing_for", keep_firing_for != Ms::ZERO),
            ] {
                if set {
                    self.fail(format!("invalid field '{key}' in recording rule"));
                }
            }
            if name.value.contains(['{', '}']) {
                self.fail_at(&name, format!("invalid recording rule name: {}", name.value));
            }
        } else {
            self.templates(&name.value, &labels, raw.labels.as_ref());
            self.templates(&name.value, &annotations, raw.annotations.as_ref());
        }
        let expr = self.expression(raw.expr.filter(|expr| !expr.value.trim().is_empty()))?;
        let extension = Extension::parse(&annotations, &expr).unwrap_or_else(|(annotation, why)| {
            let message = format!("annotation {annotation:?}: {why}");
            match raw.annotations.as_ref() {
                Some(raw) => self.fail_at(raw, message),
                None => self.fail(message),
            }
            None
        });
        Some(RuleSpec { kind, name: name.value, expr, hold, keep_firing_for, labels, annotations, extension, line })
    }

    fn templates(&mut self, alert: &str, texts: &BTreeMap<String, String>, raw: Option<&Spanned<Texts>>) {
        for (name, text) in texts {
            if let Err(error) = Template::parse(&format!("__alert_{alert}"), text, &VARIABLES) {
                let message = format!("{name:?}: {error}");
                match raw {
                    Some(raw) => self.fail_at(raw, message),
                    None => self.fail(message),
                }
            }
        }
    }

    fn expression(&mut self, raw: Option<Spanned<String>>) -> Option<String> {
        let Some(raw) = raw else {
            self.fail("field 'expr' must be set in rule");
            return None;
        };
        match ogive_query::parse(&raw.value) {
            Ok(expr) => Some(expr.to_string()),
            Err(error) => {
                self.fail_at(&raw, format!("could not parse expression: {error}"));
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(text: &str) -> Vec<String> {
        RuleFile::parse(text).expect_err("the file is bad").iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_file_is_read() {
        let text = "groups:\n- name: a\n  interval: 30s\n  query_offset: 1m\n  limit: 5\n  labels: {team: x, sev: 1}\n  rules:\n  - record: a:b\n    expr: sum(b)\n    labels: {sev: 2}\n  - alert: C\n    expr: up == 0\n    for: 5m\n    keep_firing_for: 1h\n    annotations: {text: '{{ $value }}'}\n---\ngroups: 3\n";
        let file = RuleFile::parse(text).unwrap();
        let group = &file.groups[0];
        assert_eq!((group.interval, group.query_offset, group.limit), (Some(Ms(30_000)), Some(Ms(60_000)), 5));
        assert_eq!(group.rules[0].labels["sev"], "2");
        assert_eq!(group.rules[1].labels["sev"], "1");
        assert_eq!(
            (group.rules[1].hold, group.rules[1].keep_firing_for, group.rules[1].line),
            (Ms(300_000), Ms(3_600_000), 11)
        );
    }

    #[test]
    fn a_bad_file_is_refused_with_its_places() {
        let check = |text: &str, expected: &str| {
            let found = errors(text);
            assert!(found.iter().any(|error| error.contains(expected)), "{expected:?} is not in {found:?}");
        };
        check("groups:\n- name: a\n  foo: 1\n", "3:3: unknown key foo");
        check("groups:\n- name: a\n- name: a\n", "3:3: groupname: \"a\" is repeated");
        check("groups:\n- rules: []\n", "Groupname must not be empty");
        check(
            "groups:\n- name: a\n  rules:\n  - expr: up\n",
            "4:5: group \"a\", rule 1, \"\": one of 'record' or 'alert'",
        );
        check(
            "groups:\n- name: a\n  rules:\n  - alert: X\n    expr: up ==\n",
            "5:11: group \"a\", rule 1, \"X\": could not parse expression: 1:6",
        );
        check("groups:\n- name: a\n  rules:\n  - alert: X\n    expr: up\n    for: 5\n", "6:10");
        check(
            "groups:\n- name: a\n  rules:\n  - record: X\n    expr: up\n    for: 5m\n",
            "invalid field 'for' in recording rule",
        );
        check("groups:\n- name: a\n  rules:\n  - record: X\n    alert: Y\n    expr: up\n", "only one of");
        check(
            "groups:\n- name: a\n  rules:\n  - alert: X\n    expr: up\n    annotations: {t: '{{ foo }}'}\n",
            "function \"foo\" not defined",
        );
        check(
            "groups:\n- name: a\n  rules:\n  - alert: X\n    expr: up\n    labels: {__name__: b}\n",
            "invalid label name",
        );
        check("groups: [", "1:");
        assert!(RuleFile::parse("").unwrap().groups.is_empty());
        assert!(RuleFile::parse("groups:\n").unwrap().groups.is_empty());
    }
}
