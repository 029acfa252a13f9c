//! Mistakes in TOML files: a line, a sentence, and what was probably meant.
//!
//! Invariants: a line is that of the key or value itself, found in the parsed file and not by searching for a word.

use std::fmt;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::near::{did_you_mean, nearest};

/// Something wrong in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    line: usize,
    message: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "line {}: {}", self.line, self.message)
    }
}

impl Mistake {
    /// At the byte `at` of `text`.
    #[must_use]
    pub fn at(text: &str, at: usize, message: String) -> Self {
        Self { line: line(text, at), message }
    }

    /// At the key or element of `text` that `path` leads to, or the last existing one on the way to it.
    #[must_use]
    pub fn at_path(text: &str, path: &[Step<'_>], message: String) -> Self {
        Self::at(text, offset(text, path), message)
    }

    /// The parser's message, with a suggestion of what was probably meant.
    #[must_use]
    pub fn from_toml(text: &str, error: &toml::de::Error) -> Self {
        let message = error.message();
        let mut quoted = message.split('`').skip(1).step_by(2);
        let meant = match (message.starts_with("unknown field"), quoted.next()) {
            (true, Some(found)) => nearest(quoted, found),
            _ => None,
        };
        Self::at(text, error.span().map_or(0, |span| span.start), format!("{message}{}", did_you_mean(meant)))
    }

    /// Where it is, from 1.
    #[must_use]
    pub fn line(&self) -> usize {
        self.line
    }
}

/// The line of the byte `at`, from 1.
#[must_use]
pub fn line(text: &str, at: usize) -> usize {
    text.as_bytes()[..at.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
}

/// One step into a TOML file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// The key of a table; `_` and `-` are the same.
    Key(&'a str),
    /// An element of a list, from 0.
    Index(usize),
}

/// The byte at which the key or element begins that `path` leads to; if it is missing, the last existing one on the way
/// to it.
#[must_use]
pub fn offset(text: &str, path: &[Step<'_>]) -> usize {
    let Ok(table) = DeTable::parse(text) else { return 0 };
    let (first, rest) = match path {
        [Step::Key(key), rest @ ..] => (entry(table.get_ref(), key), rest),
        _ => (None, path),
    };
    let Some((mut at, mut value)) = first else { return 0 };
    for step in rest {
        let next = match (value.get_ref(), step) {
            (DeValue::Table(table), Step::Key(key)) => entry(table, key),
            (DeValue::Array(all), Step::Index(index)) => all.get(*index).map(|element| (element.span().start, element)),
            _ => None,
        };
        let Some(next) = next else { break };
        (at, value) = next;
    }
    at
}

/// The entry of a table with the place of its key.
fn entry<'t, 'i>(table: &'t DeTable<'i>, key: &str) -> Option<(usize, &'t Spanned<DeValue<'i>>)> {
    let is_same = |found: &str| found.replace('_', "-") == key.replace('_', "-");
    let (key, value) = table.iter().find(|(found, _)| is_same(found.get_ref()))?;
    Some((key.span().start, value))
}

/// The text of the file at `path`, as `read` reads it, of at most `bytes_max` bytes.
///
/// # Errors
/// A sentence when the file cannot be read, is too large or not UTF-8.
pub fn file_text(read: fn(&Path) -> std::io::Result<Vec<u8>>, path: &Path, bytes_max: usize) -> Result<String, String> {
    let bytes = read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    if bytes.len() > bytes_max {
        return Err(format!("{} has more than {bytes_max} bytes", path.display()));
    }
    String::from_utf8(bytes).map_err(|_| format!("{} is not UTF-8", path.display()))
}

/// Every key of a valid TOML text with its value, by name. A table in a list is identified by its `name`, if it has
/// one.
#[must_use]
pub fn flat(text: &str) -> Vec<(String, String)> {
    fn put(name: String, value: &toml::Value, out: &mut Vec<(String, String)>) {
        match value {
            toml::Value::Table(table) => table.iter().for_each(|(key, value)| put(format!("{name}.{key}"), value, out)),
            toml::Value::Array(all) if all.iter().any(toml::Value::is_table) => {
                for (at, value) in all.iter().enumerate() {
                    let own = value.get("name").and_then(toml::Value::as_str);
                    put(format!("{name}.{}", own.map_or_else(|| at.to_string(), str::to_owned)), value, out);
                }
            }
            other => out.push((name, scalar_text(other))),
        }
    }
    let mut out = Vec::new();
    let table: toml::Table = toml::from_str(text).unwrap_or_default();
    table.iter().for_each(|(key, value)| put(key.clone(), value, &mut out));
    out.sort();
    out
}

/// A value other than a table, as written in a file.
fn scalar_text(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => format!("{text:?}"),
        toml::Value::Integer(number) => number.to_string(),
        toml::Value::Float(number) => number.to_string(),
        toml::Value::Boolean(is_on) => is_on.to_string(),
        toml::Value::Datetime(time) => time.to_string(),
        toml::Value::Array(all) => format!("[{}]", all.iter().map(scalar_text).collect::<Vec<_>>().join(", ")),
        toml::Value::Table(_) => "{..}".into(),
    }
}

#[cfg(test)]
mod tests {
    use Step::{Index, Key};

    use super::*;

    const TEXT: &str =
        "# name\nother = 'name'\n[spool]\nbytes_max = 1\n\n[[x]]\nname = 'a'\n[[x]]\nname = 'a'\nall = [\n'b',\n'c']\n";

    /// The line of a mistake was that of the first place where its word stood, in a comment or another table.
    #[test]
    fn a_mistake_is_where_its_key_is() {
        for (path, expected) in [
            (&[Key("spool"), Key("bytes-max")][..], 4),
            (&[Key("x"), Index(1), Key("name")], 9),
            (&[Key("x"), Index(1), Key("all"), Index(1)], 12),
            (&[Key("x"), Index(1), Key("missing")], 8),
            (&[Key("missing")], 1),
            (&[Index(0)], 1),
            (&[], 1),
        ] {
            assert_eq!(Mistake::at_path(TEXT, path, String::new()).line(), expected, "{path:?}");
        }
        assert_eq!(offset("= broken", &[Key("x")]), 0);
    }

    #[test]
    fn a_slip_of_a_known_key_is_named() {
        #[derive(Debug, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct File {
            #[expect(dead_code, reason = "it is only read")]
            listen: Option<String>,
        }
        let said = |text: &str| {
            Mistake::from_toml(text, &toml::from_str::<File>(text).expect_err("there is no such key")).to_string()
        };
        assert!(said("\nlistne = 'x'").starts_with("line 2: unknown field `listne`"), "{}", said("\nlistne = 'x'"));
    }

    #[test]
    fn every_key_is_flat() {
        let flat = flat(TEXT);
        assert!(flat.contains(&("spool.bytes_max".into(), "1".into())), "{flat:?}");
        assert!(flat.contains(&("x.a.all".into(), "[\"b\", \"c\"]".into())), "{flat:?}");
    }
}
