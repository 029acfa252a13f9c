//! Numbers and words extracted from a response by a regular expression or a JSON path.
//!
//! Format: a number becomes a gauge with the name given in the table, or a counter where that says so. A named group
//! of an expression, and the position of a value where a path matches several (`path`), become labels.
//! Limits: [`TABLES_MAX`] tables per check, [`VALUES_MAX`] numbers per run.
//! Failure: a value that is missing or not a number fails the run; what the other tables find is still reported.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::BTreeMap;

use ogive_model::{Labels, METRIC_NAME};
use regex::Regex;
use serde_json::Value;

use super::json_path::{JsonPath, Node};
use super::raw::ExtractTable;
use super::run::{Failure, Reason, Run, cut};
use super::target::OWN_LABELS;

/// 100 tables: a page of numbers, each with its name.
const TABLES_MAX: usize = 100;
/// 1,000 numbers, as many as a script may report.
const VALUES_MAX: usize = 1_000;
/// 256 bytes of a word that a sentence shows.
const SHOWN_BYTES_MAX: usize = 256;

/// What is looked for.
#[derive(Clone, Debug)]
pub(super) struct Extract {
    name: String,
    unit: String,
    /// It only grows, apart from restarts.
    is_counter: bool,
    labels: Vec<(String, String)>,
    from: Source,
}

/// Where it stands.
#[derive(Clone, Debug)]
pub(super) enum Source {
    Regex(Regex),
    Json(JsonPath),
}

impl Source {
    /// Of the two keys one.
    pub(super) fn new(regex: Option<String>, json: Option<String>) -> Result<Self, String> {
        match (regex, json) {
            (Some(text), None) => {
                let regex = Regex::new(&text).map_err(|error| format!("regex: {error}"))?;
                if regex.captures_len() < 2 {
                    return Err(format!("regex {text:?} has no group: write what is wanted between ( and )"));
                }
                Ok(Self::Regex(regex))
            }
            (None, Some(text)) => {
                JsonPath::parse(&text).map(Self::Json).map_err(|sentence| format!("json: {sentence}"))
            }
            _ => Err("give either regex or json".into()),
        }
    }

    /// How it is shown.
    pub(super) fn as_str(&self) -> &str {
        match self {
            Self::Regex(regex) => regex.as_str(),
            Self::Json(path) => path.as_str(),
        }
    }
}

/// The group of an expression that is the value: the one named so, or the first without a name.
fn value_group(regex: &Regex) -> usize {
    let names: Vec<Option<&str>> = regex.capture_names().collect();
    let named = names.iter().position(|name| *name == Some("value"));
    named.or_else(|| names.iter().skip(1).position(Option::is_none).map(|at| at + 1)).unwrap_or(1)
}

/// The groups that are labels.
fn label_groups(regex: &Regex) -> Vec<&str> {
    let value = value_group(regex);
    regex.capture_names().enumerate().filter(|(at, _)| *at != value).filter_map(|(_, name)| name).collect()
}

impl Extract {
    /// What `[[check.extract]]` tables say.
    pub(super) fn all(tables: Option<Vec<ExtractTable>>) -> Result<Vec<Self>, String> {
        let tables = tables.unwrap_or_default();
        if tables.len() > TABLES_MAX {
            return Err(format!("there are {} [[check.extract]] tables, above {TABLES_MAX}", tables.len()));
        }
        tables.into_iter().map(Self::from_table).collect()
    }

    fn from_table(table: ExtractTable) -> Result<Self, String> {
        let ExtractTable { name, regex, json, unit, counter, labels } = table;
        let of = |sentence: String| format!("extract {name:?}: {sentence}");
        if name.is_empty() || name.starts_with("ogive_") {
            return Err(of("give it a name, and none that begins with ogive_: those are the server's own".into()));
        }
        let from = Source::new(regex, json).map_err(of)?;
        let found = match &from {
            Source::Regex(regex) => label_groups(regex),
            Source::Json(_) => vec!["path"],
        };
        let mut names = labels.keys().map(String::as_str).chain(found.iter().copied());
        if let Some(own) = names.find(|name| OWN_LABELS.contains(name)) {
            return Err(of(format!("the label {own} is the check's own")));
        }
        let pairs = labels.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let pairs = pairs.chain(found.iter().map(|name| (*name, "x"))).chain([(METRIC_NAME, name.as_str())]);
        Labels::new(pairs).map_err(|error| of(error.to_string()))?;
        Ok(Self { name, unit, is_counter: counter, labels: labels.into_iter().collect(), from })
    }

    /// The numbers that are there, each with its labels.
    fn numbers(&self, answer: &Answer<'_>) -> Result<Vec<Labelled>, Failure> {
        let wrong = |sentence: String| Failure::new(Reason::Content, format!("extract {:?}: {sentence}", self.name));
        let mut out = Vec::new();
        match &self.from {
            Source::Regex(regex) => {
                let (group, groups) = (value_group(regex), label_groups(regex));
                // Without labels a second number would be of the same series.
                let count = if groups.is_empty() { 1 } else { VALUES_MAX + 1 };
                for found in regex.captures_iter(answer.text()).take(count) {
                    let Some(word) = found.get(group) else { continue };
                    let label = |name: &&str| {
                        ((*name).to_owned(), found.name(name).map_or("", |part| part.as_str()).to_owned())
                    };
                    out.push((groups.iter().map(label).collect(), number(word.as_str()).map_err(wrong)?));
                }
            }
            Source::Json(path) => {
                for Node { location, value } in path.find(answer.json().map_err(wrong)?).map_err(wrong)? {
                    let value = match value {
                        Value::Bool(is_it) => f64::from(u8::from(*is_it)),
                        Value::String(word) => number(word).map_err(wrong)?,
                        other => {
                            other.as_f64().ok_or_else(|| wrong(format!("what stands at {location} is no number")))?
                        }
                    };
                    let labels = if path.is_single() { Vec::new() } else { vec![("path".to_owned(), location)] };
                    out.push((labels, value));
                }
            }
        }
        if out.is_empty() {
            return Err(wrong(format!("nothing in the answer is at {:?}", self.from.as_str())));
        }
        Ok(out)
    }
}

/// A number with the labels that the answer gives it.
type Labelled = (Vec<(String, String)>, f64);

/// A number as people and programs write it; neither infinite nor none.
fn number(word: &str) -> Result<f64, String> {
    let found = word.trim().parse().ok().filter(|value: &f64| value.is_finite());
    found.ok_or_else(|| format!("{:?} is no number", cut(word, SHOWN_BYTES_MAX)))
}

/// An answer: its text and what that is as JSON, whichever of them came, and the other when somebody first asks.
pub(super) struct Answer<'a> {
    text: OnceCell<Cow<'a, str>>,
    json: OnceCell<Result<Cow<'a, Value>, String>>,
}

impl<'a> Answer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text: OnceCell::from(Cow::Borrowed(text)), json: OnceCell::new() }
    }

    /// An answer that did not come as a text.
    pub(super) fn from_json(json: &'a Value) -> Self {
        Self { text: OnceCell::new(), json: OnceCell::from(Ok(Cow::Borrowed(json))) }
    }

    fn text(&self) -> &str {
        let write = || self.json.get().and_then(|json| json.as_ref().ok()).map(ToString::to_string).unwrap_or_default();
        self.text.get_or_init(|| Cow::Owned(write()))
    }

    fn json(&self) -> Result<&Value, String> {
        let wrong = |error| format!("the answer is no JSON: {error}");
        let read = || serde_json::from_str(self.text()).map(Cow::Owned).map_err(wrong);
        self.json.get_or_init(read).as_deref().map_err(Clone::clone)
    }

    /// The first word at a place.
    pub(super) fn word(&self, from: &Source) -> Result<String, String> {
        let found = match from {
            Source::Regex(regex) => {
                let found = regex.captures(self.text());
                found.and_then(|found| Some(found.get(value_group(regex))?.as_str().to_owned()))
            }
            Source::Json(path) => path.find(self.json()?)?.into_iter().next().map(|node| match node.value {
                Value::String(word) => word.clone(),
                other => other.to_string(),
            }),
        };
        found.ok_or_else(|| format!("nothing in the answer is at {:?}", from.as_str()))
    }
}

/// Reports what the tables find in an answer, with `labels` of the caller.
pub(super) fn report(
    run: &mut Run,
    tables: &[Extract],
    answer: &Answer<'_>,
    labels: &[(&str, &str)],
) -> Result<(), Failure> {
    let mut failure = None;
    let mut left = VALUES_MAX;
    for table in tables {
        let numbers = match table.numbers(answer) {
            Ok(numbers) => numbers,
            Err(error) => {
                failure.get_or_insert(error);
                continue;
            }
        };
        if numbers.len() > left {
            let sentence = format!("extract {:?}: there are more than {VALUES_MAX} numbers in a run", table.name);
            return Err(Failure::new(Reason::Limit, sentence));
        }
        left -= numbers.len();
        for (found, value) in numbers {
            let all: BTreeMap<&str, &str> = found
                .iter()
                .chain(&table.labels)
                .map(|(name, value)| (name.as_str(), value.as_str()))
                .chain(labels.iter().copied())
                .collect();
            let all: Vec<(&str, &str)> = all.into_iter().collect();
            if table.is_counter {
                run.counter(&table.name, &table.unit, &all, value);
            } else {
                run.labelled(&table.name, &table.unit, &all, value);
            }
        }
    }
    failure.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn table(keys: &str) -> Result<Extract, String> {
        Extract::from_table(toml::from_str(keys).unwrap())
    }

    fn numbers(keys: &str, text: &str) -> Result<Vec<String>, String> {
        let found = table(keys).unwrap().numbers(&Answer::new(text)).map_err(|failure| failure.to_string())?;
        let shown = |(labels, value): Labelled| {
            labels.into_iter().map(|(name, label)| format!("{name}={label} ")).collect::<String>() + &value.to_string()
        };
        Ok(found.into_iter().map(shown).collect())
    }

    #[test]
    fn numbers_are_found() {
        let page = "Active connections: 3 \nserver accepts handled requests\n 16 15 40\nb: -2.5e3\n";
        let all = r#"{"q": [{"n": "a", "len": 3}, {"n": "b", "len": "4"}], "up": true}"#;
        for (keys, text, expected) in [
            ("name = 'x'\nregex = 'connections: (\\d+)'", page, &["3"][..]),
            ("name = 'x'\nregex = '\\s(\\d+) \\d+ (?<value>\\d+)'", page, &["40"]),
            ("name = 'x'\nregex = '(?m)^(?<what>\\w+): (\\S+)'", page, &["what=b -2500"]),
            ("name = 'x'\njson = '$.q[0].len'", all, &["3"]),
            ("name = 'x'\njson = '$.up'", all, &["1"]),
            ("name = 'x'\njson = '$.q[*].len'", all, &["path=$['q'][0]['len'] 3", "path=$['q'][1]['len'] 4"]),
        ] {
            assert_eq!(numbers(keys, text).unwrap(), expected, "{keys}");
        }
        for (keys, text, expected) in [
            (
                "name = 'x'\nregex = 'z(\\d+)'",
                page,
                "content: extract \"x\": nothing in the answer is at \"z(\\\\d+)\"",
            ),
            ("name = 'x'\nregex = 'Active (\\w+)'", page, "content: extract \"x\": \"connections\" is no number"),
            ("name = 'x'\nregex = '(inf)'", "inf", "content: extract \"x\": \"inf\" is no number"),
            ("name = 'x'\njson = '$.q'", all, "content: extract \"x\": what stands at $['q'] is no number"),
            ("name = 'x'\njson = '$.z'", all, "content: extract \"x\": nothing in the answer is at \"$.z\""),
            ("name = 'x'\njson = '$.z'", page, "content: extract \"x\": the answer is no JSON"),
        ] {
            let found = numbers(keys, text).unwrap_err();
            assert!(found.starts_with(expected), "{found}");
        }
    }

    #[test]
    fn counters_are_cumulative() {
        let tables = [table("name = 'x'\njson = '$.a'\ncounter = true"), table("name = 'y'\njson = '$.a'\nunit = 's'")];
        let tables = tables.map(Result::unwrap);
        let mut run = Run::begin(ogive_probe::Clock::manual(1_000, 1_700_000_000_000_000_000));
        report(&mut run, &tables, &Answer::new("{\"a\": 7}"), &[("step", "s")]).unwrap();
        let numbers = run.numbers(&Ok(()));
        assert!(numbers.contains(&"x{step=\"s\"} 7 cumulative".to_owned()), "{numbers:?}");
        assert!(numbers.contains(&"y{step=\"s\"} 7 gauge s".to_owned()), "{numbers:?}");
    }

    #[test]
    fn mistakes_are_refused() {
        for (keys, sentence) in [
            ("name = 'ogive_x'\njson = '$'", "begins with ogive_"),
            ("name = ''\njson = '$'", "give it a name"),
            ("name = 'x'", "give either regex or json"),
            ("name = 'x'\njson = '$'\nregex = '(a)'", "give either regex or json"),
            ("name = 'x'\nregex = 'a'", "has no group"),
            ("name = 'x'\nregex = '('", "regex: "),
            ("name = 'x'\nregex = '(?<check>a) (b)'", "the label check is the check's own"),
            ("name = 'x'\njson = '$.a[*]'\nlabels = {path = 'y'}", "path"),
        ] {
            let found = table(keys).unwrap_err();
            assert!(found.contains(sentence), "{found}");
        }
        let many = |count: usize| {
            let one = ExtractTable {
                name: "x".into(),
                regex: None,
                json: Some("$".into()),
                unit: String::new(),
                counter: false,
                labels: BTreeMap::new(),
            };
            Extract::all(Some(vec![one; count]))
        };
        assert_eq!(many(TABLES_MAX).unwrap().len(), TABLES_MAX);
        assert!(many(TABLES_MAX + 1).unwrap_err().contains("above 100"));
    }

    proptest! {
        #[test]
        fn any_answer_has_numbers_or_a_sentence(text in ".{0,60}") {
            for keys in ["name = 'x'\nregex = '(?<a>.)(?<value>\\d+)'", "name = 'x'\njson = '$.*'"] {
                if let Err(sentence) = numbers(keys, &text) {
                    prop_assert!(sentence.starts_with("content: "), "{}", sentence);
                }
            }
        }
    }
}
