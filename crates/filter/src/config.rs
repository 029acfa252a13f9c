//! Filters as people write them: `[[filter]]` tables of TOML (docs/filters.md), read and compiled.
//!
//! Invariants: a file is taken whole or not at all; a key that is not known is an error with its line.
//! Limits: [`FILE_BYTES_MAX`], [`FILTERS_MAX`], [`RULES_MAX`] entries of a list.

use std::collections::{BTreeMap, HashSet};

use ogive_model::Tenant;
use ogive_search::Query;
use ogive_text::mistake::Mistake;
use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor, value};

use crate::case::Case;
use crate::extract::Extract;
use crate::join::Join;
use crate::mask::Mask;
use crate::measure::Measure;
use crate::parse::{Format, Parser, compile};
use crate::rule::{RULES_MAX, RawCount, RawNumber, RawSession, is_name, templates, yes};
use crate::session::Session;
use crate::tally::Tally;
use crate::template::Template;

/// 1 MiB: hundreds of filters with their cases.
pub const FILE_BYTES_MAX: usize = 1 << 20;

/// 256 filters: each line is checked by every one that selects its series.
pub const FILTERS_MAX: usize = 256;

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
    join: Option<RawJoin>,
    #[serde(default)]
    mask: Vec<String>,
    #[serde(default, deserialize_with = "one_or_more")]
    parse: Vec<Format>,
    #[serde(default)]
    patterns: BTreeMap<String, String>,
    #[serde(default)]
    extract: Vec<RawExtract>,
    time: Option<String>,
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
    #[serde(default)]
    session: Vec<RawSession>,
}

/// An expression for the lines that go on, or whose pieces are joined.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum RawJoin {
    Following(String),
    Pieces { pieces: PiecesOf },
}

/// Who splits messages into pieces.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum PiecesOf {
    Container,
}

/// Fields out of a field or a label.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawExtract {
    from: Vec<String>,
    #[serde(deserialize_with = "one_or_more")]
    parse: Vec<Format>,
}

/// `true`, or a condition for lines to drop.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Drop {
    All(bool),
    Lines(String),
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
    pub(crate) join: Option<Join>,
    pub(crate) masks: Vec<Mask>,
    pub(crate) parsers: Vec<Parser>,
    pub(crate) extracts: Vec<Extract>,
    /// The field with the line's own time.
    pub(crate) time: Option<String>,
    pub(crate) drop: DropRule,
    pub(crate) labels: Vec<(String, Template)>,
    pub(crate) tenant: Option<Tenant>,
    pub(crate) line: Option<Template>,
    pub(crate) store: bool,
    pub(crate) last: bool,
    pub(crate) measures: Vec<Measure>,
    pub(crate) sessions: Vec<Session>,
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

impl RawJoin {
    fn compiled(self) -> Result<Join, String> {
        match self {
            Self::Following(expression) => compile(&expression).map(Join::Following),
            Self::Pieces { pieces: PiecesOf::Container } => Ok(Join::Pieces),
        }
    }
}

impl RawExtract {
    fn compiled(self, patterns: &BTreeMap<String, String>) -> Result<Extract, String> {
        let Self { from, parse } = self;
        if [from.len(), parse.len()].iter().any(|entries| !(1..=RULES_MAX).contains(entries)) {
            return Err(format!("from and parse have 1 to {RULES_MAX} entries"));
        }
        let parsers = parse.into_iter().map(|format| Parser::new(format, patterns));
        Ok(Extract { from, parsers: parsers.collect::<Result<_, _>>()? })
    }
}

/// The rules, each with a name of its own: their counters have it.
fn sessions(raw: Vec<RawSession>) -> Result<Vec<Session>, String> {
    let sessions: Vec<Session> = raw.into_iter().map(RawSession::session).collect::<Result<_, _>>()?;
    let mut names = HashSet::new();
    let twice = sessions.iter().map(|session| session.measure.name.clone()).find(|name| !names.insert(name.clone()));
    match twice {
        Some(name) => Err(format!("there are two sessions {name:?}")),
        None => Ok(sessions),
    }
}

impl Raw {
    /// Entries of its longest list.
    fn entries(&self) -> usize {
        let rules = self.number.len().max(self.count.len()).max(self.session.len());
        let texts = self.mask.len().max(self.labels.len());
        rules.max(texts).max(self.parse.len()).max(self.extract.len())
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
        if raw.entries() > RULES_MAX {
            return Err(format!("the filter {name:?} has a list of more than {RULES_MAX} entries"));
        }
        let query = |what: &str, text: &str| Query::parse(text).map_err(|error| place(what, error.to_string()));
        let parsers = raw.parse.into_iter().map(|format| Parser::new(format, &patterns));
        let numbers = raw.number.into_iter().map(RawNumber::measure);
        let counts = raw.count.into_iter().map(RawCount::measure);
        let extracts = raw.extract.into_iter().map(|extract| extract.compiled(&patterns));
        let tenant = raw.tenant.map(|tenant| Tenant::new(&tenant).map_err(|error| place("tenant", error.to_string())));
        Ok(Self {
            wanted: query("where", &raw.wanted)?,
            join: raw.join.map(RawJoin::compiled).transpose().map_err(|error| place("join", error))?,
            masks: raw
                .mask
                .iter()
                .map(|mask| Mask::parse(mask))
                .collect::<Result<_, _>>()
                .map_err(|error| place("mask", error))?,
            parsers: parsers.collect::<Result<_, _>>().map_err(|error| place("parse", error))?,
            extracts: extracts.collect::<Result<_, _>>().map_err(|error| place("extract", error))?,
            time: raw.time,
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
            sessions: sessions(raw.session).map_err(|error| place("session", error))?,
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
            extract = [{ from = ["path"], parse = { regex = "^/(?<site>[^/]+)" } }]
            time = "time"
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

            [[filter.session]]
            name = "call_seconds"
            id = "call"
            begin = "called"
            end = "answered"
            labels = { site = "{begin.site}", status = "{end.status}" }
            timeout = "1m"
            open-max = 100

            [[filter]]
            name = "rest"
            where = ""
            join = { pieces = "container" }
            parse = { csv = { columns = ["a", "b"], separator = ";" } }
            drop = true

            [[case]]
            line = "x"
            "#,
        )
        .unwrap();
        assert_eq!((file.filters.len(), file.cases.len(), file.cases[0].0), (2, 1, 44));
        let web = &file.filters[0];
        assert_eq!((web.parsers.len(), web.masks.len(), web.measures.len(), web.store), (2, 2, 2, false));
        assert_eq!(web.measures[0].labels[1].0, "a_b");
        assert_eq!((web.extracts.len(), web.sessions.len(), web.time.as_deref()), (1, 1, Some("time")));
        assert!(matches!((&web.join, &file.filters[1].join), (Some(Join::Following(_)), Some(Join::Pieces))));
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
        check("join = { pieces = 'words' }", "line 4");
        check("extract = [{ from = [], parse = 'json' }]", "from and parse");
        check("extract = [{ from = ['a'], parse = 'yaml' }]", "yaml");
        let session = |more: &str| format!("[[filter.session]]\nname = 's'\nid = 'i'\nbegin = 'a'\n{more}\n");
        check(&session(""), "end");
        check(&session("end = ''"), "conditions");
        check(&session("end = '('"), "end");
        check(&session("end = 'b'\ntimeout = 'soon'"), "timeout");
        check(&session("end = 'b'\ntimeout = '8d'"), "timeout is");
        check(&session("end = 'b'\nopen-max = 100001"), "open-max");
        check(&session("end = 'b'").repeat(2), "two sessions");
        let error = File::parse("[[filter]]\nname = \"a\"").unwrap_err();
        assert!(error.contains("where"), "{error}");
        assert!(File::parse(&" ".repeat(FILE_BYTES_MAX + 1)).is_err());
        let many =
            |count: usize| (0..count).map(|at| format!("[[filter]]\nname='a{at}'\nwhere=''\n")).collect::<String>();
        assert!(File::parse(&many(FILTERS_MAX)).is_ok() && File::parse(&many(FILTERS_MAX + 1)).is_err());
    }
}
