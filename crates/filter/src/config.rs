//! Filters as people write them: `[[filter]]` tables of TOML (docs/filters.md), read and compiled.
//!
//! Invariants: a file is taken whole or not at all; a key that is not known is an error with its line.
//! Limits: [`FILE_BYTES_MAX`], [`FILTERS_MAX`], [`RULES_MAX`] entries of a list.

use std::collections::{BTreeMap, HashSet};
use std::sync::Mutex;

use ogive_model::{METRIC_NAME, Tenant};
use ogive_search::Query;
use ogive_text::mistake::Mistake;
use regex::Regex;
use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor, value};

use crate::case::Case;
use crate::mask::Mask;
use crate::measure::{Kind, Measure, Unit};
use crate::parse::{Format, Parser, compile};
use crate::tally::Tally;
use crate::template::Template;

/// 1 MiB: hundreds of filters with their cases.
pub const FILE_BYTES_MAX: usize = 1 << 20;

/// 256 filters: each line is checked by every one that selects its series.
pub const FILTERS_MAX: usize = 256;

/// 64 formats, masks, labels, numbers or counts of a filter.
const RULES_MAX: usize = 64;

/// 1,000 series for a number or a count by default: a route and a status of a large site.
const SERIES_USUAL: usize = 1_000;

/// 100,000 series of a number or a count at most: 3 MB of hashes.
const SERIES_MAX: usize = 100_000;

/// The prefix of the server's own metrics.
pub(crate) const OWN_PREFIX: &str = "ogive_";

/// A file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tables {
    #[serde(default)]
    filter: Vec<toml::Spanned<Raw>>,
    #[serde(default)]
    case: Vec<toml::Spanned<Case>>,
}

/// A filter as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Raw {
    name: String,
    #[serde(rename = "where")]
    wanted: String,
    join: Option<String>,
    #[serde(default)]
    mask: Vec<String>,
    #[serde(default, deserialize_with = "one_or_more")]
    parse: Vec<Format>,
    #[serde(default)]
    patterns: BTreeMap<String, String>,
    drop: Option<Drop>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    tenant: Option<String>,
    line: Option<String>,
    #[serde(default = "yes")]
    store: bool,
    #[serde(default)]
    last: bool,
    #[serde(default)]
    number: Vec<RawNumber>,
    #[serde(default)]
    count: Vec<RawCount>,
}

/// `true`, or a condition for lines to drop.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Drop {
    All(bool),
    Lines(String),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RawNumber {
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
struct RawCount {
    name: String,
    #[serde(default)]
    labels: RawLabels,
    #[serde(default = "series_usual")]
    series_max: usize,
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

const fn yes() -> bool {
    true
}

const fn series_usual() -> usize {
    SERIES_USUAL
}

/// One format, or a list of which the first that matches is used.
fn one_or_more<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Format>, D::Error> {
    struct Formats;
    impl<'de> Visitor<'de> for Formats {
        type Value = Vec<Format>;

        fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            out.write_str("a format such as \"json\" or { grok = \"...\" }, or a list of them")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
            Format::deserialize(value::StrDeserializer::new(text)).map(|format| vec![format])
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
            Format::deserialize(value::MapAccessDeserializer::new(map)).map(|format| vec![format])
        }

        fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
            Vec::deserialize(value::SeqAccessDeserializer::new(list))
        }
    }
    from.deserialize_any(Formats)
}

/// Which of its lines a filter drops.
pub(crate) enum DropRule {
    None,
    All,
    Lines(Query),
}

/// A filter, ready to be used.
pub struct Filter {
    pub(crate) name: String,
    pub(crate) wanted: Query,
    pub(crate) join: Option<Regex>,
    pub(crate) masks: Vec<Mask>,
    pub(crate) parsers: Vec<Parser>,
    pub(crate) drop: DropRule,
    pub(crate) labels: Vec<(String, Template)>,
    pub(crate) tenant: Option<Tenant>,
    pub(crate) line: Option<Template>,
    pub(crate) store: bool,
    pub(crate) last: bool,
    pub(crate) measures: Vec<Measure>,
    pub(crate) tally: Tally,
}

impl std::fmt::Debug for Filter {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "the filter {:?} where {}", self.name, self.wanted)
    }
}

/// The filters of a file, and the cases that they are tried with.
#[derive(Debug)]
pub struct File {
    /// In their order.
    pub filters: Vec<Filter>,
    /// Each with its line number.
    pub cases: Vec<(usize, Case)>,
}

/// The tables in a file with other contents.
#[derive(Deserialize)]
struct EmbeddedFilters {
    #[serde(default)]
    filter: Vec<toml::Spanned<Raw>>,
}

impl File {
    /// The filters in a file that also has other tables and keys.
    ///
    /// # Errors
    /// As [`File::parse`].
    pub fn parse_among(text: &str) -> Result<Vec<Filter>, String> {
        let tables: EmbeddedFilters =
            toml::from_str(text).map_err(|error| Mistake::from_toml(text, &error).to_string())?;
        filters(text, tables.filter)
    }

    /// Reads the tables.
    ///
    /// # Errors
    /// A sentence with the line of the mistake.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > FILE_BYTES_MAX {
            return Err(format!("the file has more than {FILE_BYTES_MAX} bytes"));
        }
        let tables: Tables = toml::from_str(text).map_err(|error| Mistake::from_toml(text, &error).to_string())?;
        let line = |at: usize| ogive_text::mistake::line(text, at);
        Ok(Self {
            filters: filters(text, tables.filter)?,
            cases: tables.case.into_iter().map(|case| (line(case.span().start), case.into_inner())).collect(),
        })
    }
}

fn filters(text: &str, raw: Vec<toml::Spanned<Raw>>) -> Result<Vec<Filter>, String> {
    if raw.len() > FILTERS_MAX {
        return Err(format!("there are more than {FILTERS_MAX} filters"));
    }
    let filter = |raw: toml::Spanned<Raw>| {
        let at = raw.span().start;
        Filter::try_from(raw.into_inner()).map_err(|sentence| Mistake::at(text, at, sentence).to_string())
    };
    raw.into_iter().map(filter).collect()
}

/// Letters, digits, `_` and, but for labels, `:`.
fn is_name(name: &str, also: char) -> bool {
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

fn templates(labels: BTreeMap<String, String>) -> Result<Vec<(String, Template)>, String> {
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
    fn measure(self) -> Result<Measure, String> {
        let unit = Unit::parse(&self.unit).map_err(|error| format!("{:?}: {error}", self.name))?;
        let kind = Kind::Number { field: self.field, unit, has_exemplars: self.exemplars };
        measure(self.name, kind, self.labels, self.series_max)
    }
}

impl TryFrom<Raw> for Filter {
    type Error = String;

    fn try_from(raw: Raw) -> Result<Self, String> {
        let (name, patterns) = (raw.name.clone(), raw.patterns.clone());
        if !is_name(&name.replace('-', "_"), '_') {
            return Err(format!("{name:?} is no name of a filter: letters, digits, _ and -"));
        }
        let place = |what: &str, error: String| format!("the filter {name:?}: {what}: {error}");
        let lists = [raw.mask.len(), raw.parse.len(), raw.labels.len(), raw.number.len(), raw.count.len()];
        if lists.iter().any(|entries| *entries > RULES_MAX) {
            return Err(format!("the filter {name:?} has a list of more than {RULES_MAX} entries"));
        }
        let query = |what: &str, text: &str| Query::parse(text).map_err(|error| place(what, error.to_string()));
        let parsers = raw.parse.into_iter().map(|format| Parser::new(format, &patterns));
        let numbers = raw.number.into_iter().map(RawNumber::measure);
        let counts =
            raw.count.into_iter().map(|count| measure(count.name, Kind::Count, count.labels, count.series_max));
        let tenant = raw.tenant.map(|tenant| Tenant::new(&tenant).map_err(|error| place("tenant", error.to_string())));
        Ok(Self {
            wanted: query("where", &raw.wanted)?,
            join: raw.join.map(|join| compile(&join)).transpose().map_err(|error| place("join", error))?,
            masks: raw
                .mask
                .iter()
                .map(|mask| Mask::parse(mask))
                .collect::<Result<_, _>>()
                .map_err(|error| place("mask", error))?,
            parsers: parsers.collect::<Result<_, _>>().map_err(|error| place("parse", error))?,
            drop: match raw.drop {
                None | Some(Drop::All(false)) => DropRule::None,
                Some(Drop::All(true)) => DropRule::All,
                Some(Drop::Lines(text)) => DropRule::Lines(query("drop", &text)?),
            },
            labels: templates(raw.labels).map_err(|error| place("labels", error))?,
            tenant: tenant.transpose()?,
            line: raw.line.map(|line| Template::parse(&line)).transpose().map_err(|error| place("line", error))?,
            store: raw.store,
            last: raw.last,
            measures: numbers
                .chain(counts)
                .collect::<Result<_, _>>()
                .map_err(|error| place("number or count", error))?,
            tally: Tally::default(),
            name: raw.name,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_with_everything_in_it() {
        let file = File::parse(
            r#"
            [[filter]]
            name = "web"
            where = 'log{job="web"}'
            join = '^\s'
            mask = ["email", "/id=[0-9]+/"]
            parse = ["access", { grok = "%{LEVEL:level}" }]
            patterns = { LEVEL = "[A-Z]+" }
            drop = "path=/health"
            labels = { status = "{status}", host = "" }
            tenant = "web"
            line = "{message}"
            store = false
            last = true

            [[filter.number]]
            name = "request_seconds"
            field = "request_time"
            unit = "s"
            labels = ["method", "a.b"]

            [[filter.count]]
            name = "requests_total"
            labels = { class = "{status}x" }

            [[filter]]
            name = "rest"
            where = ""
            parse = { csv = { columns = ["a", "b"], separator = ";" } }
            drop = true

            [[case]]
            line = "x"
            "#,
        )
        .unwrap();
        assert_eq!((file.filters.len(), file.cases.len(), file.cases[0].0), (2, 1, 32));
        let web = &file.filters[0];
        assert_eq!((web.parsers.len(), web.masks.len(), web.measures.len(), web.store), (2, 2, 2, false));
        assert_eq!(web.measures[0].labels[1].0, "a_b");
        assert!(matches!(file.filters[1].drop, DropRule::All));
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let check = |body: &str, expected: &str| {
            let error = File::parse(&format!("[[filter]]\nname = \"a\"\nwhere = \"\"\n{body}")).unwrap_err();
            assert!(error.contains(expected), "{body}: {error}");
        };
        check("nosuch = 1", "line 4");
        check("parse = \"yaml\"", "yaml");
        check("parse = { csv = { columns = [] } }", "columns");
        check("parse = { grok = \"%{X:a}\" }", "%{X}");
        check("join = '('", "join");
        check("mask = [\"emial\"]", "email");
        check("drop = '('", "drop");
        check("tenant = 'a b'", "tenant");
        check("line = '{'", "line");
        check("labels = { __name__ = 'x' }", "no name of a label");
        check("[[filter.number]]\nname = 'a b'\nfield = 'x'", "no name of a metric");
        check("[[filter.number]]\nname = 'ogive_x'\nfield = 'x'", "no name of a metric");
        check("[[filter.number]]\nname = 'a'\nfield = 'x'\nunit = 'furlong'", "furlong");
        check("[[filter.count]]\nname = 'a'\nseries-max = 0", "series-max");
        check("[[filter.count]]\nname = 'a'\nlabels = ['x.y', 'x_y']", "twice");
        let error = File::parse("[[filter]]\nname = \"a\"").unwrap_err();
        assert!(error.contains("where"), "{error}");
        assert!(File::parse(&" ".repeat(FILE_BYTES_MAX + 1)).is_err());
        let many =
            |count: usize| (0..count).map(|at| format!("[[filter]]\nname='a{at}'\nwhere=''\n")).collect::<String>();
        assert!(File::parse(&many(FILTERS_MAX)).is_ok() && File::parse(&many(FILTERS_MAX + 1)).is_err());
    }
}
