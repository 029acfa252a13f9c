//! InfluxDB's line protocol: `measurement,tag=value field=1.5,other=3i 1700000000000000000`.
//!
//! Format: docs.influxdata.com/influxdb/v2/reference/syntax/line-protocol. Spaces and commas (in tags and field names
//! also `=`) are escaped with a backslash; a quoted text may contain anything, including line feeds, with `\"` and `\\`
//! escaped.
//! Invariants: a line is accepted as a whole or not at all; one that breaks a rule is one [`Fault`] with its number,
//! and the next line is read.
//! Limits: those of [`Gather`](crate::Gather), and of the body that the caller read.

mod read;
mod split;

use std::borrow::Cow;

use crate::lines::{self, Fault};
use split::until;

pub use read::{DecodedBody, Options, read};
pub use split::{Numbered, numbered};

/// In what the times of a request are given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// `ns`, `n`, or nothing.
    #[default]
    Nanoseconds,
    /// `us`, `u`, `µ`.
    Microseconds,
    /// `ms`.
    Milliseconds,
    /// `s`.
    Seconds,
    /// `m`, of version 1.
    Minutes,
    /// `h`, of version 1.
    Hours,
}

impl Precision {
    /// The precision that a request names.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "" | "n" | "ns" => Self::Nanoseconds,
            "u" | "us" | "µ" | "µs" => Self::Microseconds,
            "ms" => Self::Milliseconds,
            "s" => Self::Seconds,
            "m" => Self::Minutes,
            "h" => Self::Hours,
            _ => return None,
        })
    }

    const fn ns(self) -> i64 {
        match self {
            Self::Nanoseconds => 1,
            Self::Microseconds => 1_000,
            Self::Milliseconds => 1_000_000,
            Self::Seconds => 1_000_000_000,
            Self::Minutes => 60_000_000_000,
            Self::Hours => 3_600_000_000_000,
        }
    }
}

/// A field's value.
#[derive(Clone, Debug, PartialEq)]
pub enum Field<'a> {
    /// A float, an integer, or 1 and 0 for true and false.
    Number(f64),
    /// A string.
    Text(Cow<'a, str>),
}

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub struct Line<'a> {
    /// Measurement and tags as they lie.
    pub series: &'a str,
    /// Its name.
    pub measurement: Cow<'a, str>,
    /// Its tags, in the order given.
    pub tags: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    /// Its fields: the name as it lies, and the value.
    pub fields: Vec<(&'a str, Field<'a>)>,
    /// In the precision of the request, if the sender says.
    pub time: Option<i64>,
}

impl Line<'_> {
    fn has_text(&self) -> bool {
        self.fields.iter().any(|(_, field)| matches!(field, Field::Text(_)))
    }
}

/// Reads one line, as [`numbered`] finds it.
///
/// # Errors
/// The rule that it breaks.
pub fn line(line: &[u8]) -> Result<Line<'_>, Fault> {
    let text = std::str::from_utf8(line).map_err(|_| Fault::NotUtf8)?;
    let (series, rest) = until(text, b" ");
    let (name, mut tags_left) = until(series, b",");
    if name.is_empty() {
        return Err(Fault::Name);
    }
    let mut tags = Vec::new();
    while let Some(rest) = tags_left {
        let (tag, after) = until(rest, b",");
        let (key, value) = until(tag, b"=");
        let value = value.filter(|value| !value.is_empty() && !key.is_empty()).ok_or(Fault::Tags)?;
        tags.push((unescaped(key, b",= "), unescaped(value, b",= ")));
        tags_left = after;
    }
    let (fields, rest) = fields(rest.ok_or(Fault::Fields)?.trim_start_matches(' '))?;
    let time = match rest.trim_matches(' ') {
        "" => None,
        time => Some(time.parse().map_err(|_| Fault::Time)?),
    };
    Ok(Line { series, measurement: unescaped(name, b", "), tags, fields, time })
}

/// The fields at the beginning of `text`, and what follows them.
#[allow(clippy::type_complexity, reason = "fields and rest: a type for them would be used here alone")]
fn fields(text: &str) -> Result<(Vec<(&str, Field<'_>)>, &str), Fault> {
    let (mut fields, mut rest) = (Vec::new(), text);
    loop {
        let (key, after) = until(rest, b"=");
        if key.is_empty() || until(key, b", ").1.is_some() {
            return Err(Fault::Fields);
        }
        let after = after.ok_or(Fault::Fields)?;
        let (field, left) = match after.strip_prefix('"') {
            Some(quoted) => string(quoted)?,
            None => {
                let end = after.find([',', ' ']).unwrap_or(after.len());
                (plain(&after[..end])?, &after[end..])
            }
        };
        fields.push((key, field));
        match left.as_bytes() {
            [b',', ..] => rest = &left[1..],
            [b' ', ..] | [] => return Ok((fields, left)),
            _ => return Err(Fault::Value),
        }
    }
}

/// The text up to the closing quote, and what follows.
fn string(text: &str) -> Result<(Field<'_>, &str), Fault> {
    let end = split::quote_end(text.as_bytes()).ok_or(Fault::Value)?;
    Ok((Field::Text(unescaped(&text[..end], b"\"\\")), &text[end + 1..]))
}

fn plain(text: &str) -> Result<Field<'_>, Fault> {
    let number = match text {
        "t" | "T" | "true" | "True" | "TRUE" => 1.0,
        "f" | "F" | "false" | "False" | "FALSE" => 0.0,
        _ => match (text.strip_suffix('i'), text.strip_suffix('u')) {
            (Some(digits), _) => digits.parse::<i64>().map_err(|_| Fault::Value)? as f64,
            (_, Some(digits)) => digits.parse::<u64>().map_err(|_| Fault::Value)? as f64,
            _ => lines::number(text, 0)?,
        },
    };
    Ok(Field::Number(number))
}

/// `text` without the backslashes before the characters of `escaped`.
fn unescaped<'a>(text: &'a str, escaped: &[u8]) -> Cow<'a, str> {
    let bytes = text.as_bytes();
    let is_escape = |at: usize| bytes[at] == b'\\' && bytes.get(at + 1).is_some_and(|next| escaped.contains(next));
    if !(0..bytes.len()).any(is_escape) {
        return Cow::Borrowed(text);
    }
    let (mut out, mut from, mut at) = (String::with_capacity(text.len()), 0, 0);
    while at < bytes.len() {
        if is_escape(at) {
            out.push_str(&text[from..at]);
            // The character behind it stands for itself.
            (from, at) = (at + 1, at + 2);
        } else {
            at += 1;
        }
    }
    out.push_str(&text[from..]);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests;
