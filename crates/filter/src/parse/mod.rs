//! Lines into fields: the formats that a filter can name.
//!
//! Invariants: a parser that does not fit leaves no field behind; expressions are linear in the line (the `regex`
//! crate).
//! Limits: [`LINE_BYTES_MAX`] of a line, those of [`Fields`], [`expression::EXPRESSION_BYTES_MAX`] of an expression.

mod access;
mod container;
mod csv;
mod expression;
mod grok;
mod klog;
mod nginx_error;
mod pairs;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

use ogive_search::each_field;
use regex::Regex;
use serde::Deserialize;

use crate::fields::Fields;
pub(crate) use container::{Piece, PieceShape};
use csv::Csv;
pub(crate) use expression::compile;
use pairs::Pairs;

/// 256 KiB: longer lines are dumps, and stay unchanged.
pub const LINE_BYTES_MAX: usize = 256 << 10;

/// A format as a filter names it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Format {
    /// Members of an object; nested ones with dots.
    Json,
    /// `name=value` pairs.
    Logfmt,
    /// Access logs of nginx and Apache: common, combined, with a virtual host before and more behind.
    Access,
    /// The error log of nginx.
    NginxError,
    /// Container runtimes: CRI, and Docker's json-file.
    Container,
    /// Kubernetes' own programs.
    Klog,
    /// Columns with a separator, quoted as RFC 4180 has it.
    Csv(Csv),
    /// Pairs with other separators than those of logfmt.
    KeyValue(Pairs),
    /// A grok pattern.
    Grok(String),
    /// An expression whose named groups are the fields.
    Regex(String),
}

/// A format, ready to read lines.
#[derive(Debug)]
pub(crate) enum Parser {
    Json,
    Logfmt,
    Access,
    NginxError,
    Container,
    Klog,
    Csv(Csv),
    Pairs(Pairs),
    Expression(Expression),
}

/// An expression, and the field for each of its groups.
#[derive(Debug)]
pub(crate) struct Expression {
    regex: Regex,
    fields: Vec<Option<String>>,
}

impl Parser {
    /// The parser of `format`; grok may use `patterns` in addition to the built-in ones.
    pub(crate) fn new(format: Format, patterns: &BTreeMap<String, String>) -> Result<Self, String> {
        Ok(match format {
            Format::Json => Self::Json,
            Format::Logfmt => Self::Logfmt,
            Format::Access => Self::Access,
            Format::NginxError => Self::NginxError,
            Format::Container => Self::Container,
            Format::Klog => Self::Klog,
            Format::Csv(csv) => Self::Csv(csv.checked()?),
            Format::KeyValue(pairs) => Self::Pairs(pairs.checked()?),
            Format::Grok(pattern) => {
                let (expression, names) = grok::expand(&pattern, patterns)?;
                Self::expression(&expression, &names)?
            }
            Format::Regex(expression) => Self::expression(&expression, &[])?,
        })
    }

    fn expression(expression: &str, names: &[String]) -> Result<Self, String> {
        let regex = compile(expression)?;
        let named = |group: &str| match group.strip_prefix(grok::GROUP).map(str::parse::<usize>) {
            Some(Ok(at)) if at < names.len() => names[at].clone(),
            _ => group.to_owned(),
        };
        let fields: Vec<_> = regex.capture_names().map(|group| group.map(named)).collect();
        if fields.iter().all(Option::is_none) {
            return Err("the expression names no field: write (?<name>...) or %{PATTERN:name}".into());
        }
        Ok(Self::Expression(Expression { regex, fields }))
    }

    /// Adds the fields of `line`; false, and nothing added, when it is not of this format.
    pub(crate) fn read(&self, line: &str, fields: &mut Fields) -> bool {
        let before = fields.len();
        let message = if matches!(self, Self::Json) { Cow::Borrowed(line) } else { message(line) };
        let fits = match self {
            Self::Json => line.trim_start().starts_with('{') && each(line, fields, before),
            Self::Logfmt => each(&message, fields, before),
            Self::Access => access::read(&message, fields).is_some(),
            Self::NginxError => nginx_error::read(&message, fields).is_some(),
            Self::Container => container::read(&message, fields),
            Self::Klog => klog::read(&message, fields).is_some(),
            Self::Csv(csv) => csv.read(&message, fields),
            Self::Pairs(pairs) => pairs.read(&message, fields),
            Self::Expression(expression) => expression.read(&message, fields),
        };
        if !fits {
            fields.truncate(before);
        }
        fits
    }
}

/// The original message: for an OpenTelemetry record, which is stored as JSON with its body first, the body.
fn message(line: &str) -> Cow<'_, str> {
    if !line.starts_with("{\"body\":\"") {
        return Cow::Borrowed(line);
    }
    let mut body = None;
    each_field(line, &mut |_, value| {
        body = Some(value.to_owned());
        ControlFlow::Break(())
    });
    body.map_or(Cow::Borrowed(line), Cow::Owned)
}

/// The first member of a line in JSON that has one of these names, or is an attribute that has one.
pub(crate) fn member(line: &str, names: &[String]) -> Option<String> {
    if line.len() > LINE_BYTES_MAX || !line.starts_with('{') {
        return None;
    }
    let mut found = None;
    each_field(line, &mut |member, value| {
        let attribute = member.strip_prefix("attributes.");
        if names.iter().any(|name| name == member || attribute == Some(name.as_str())) {
            found = Some(value.to_owned());
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    found
}

/// The fields of JSON and logfmt; false when there are none.
fn each(line: &str, fields: &mut Fields, before: usize) -> bool {
    each_field(line, &mut |name, value| {
        fields.push(name, value);
        ControlFlow::Continue(())
    });
    fields.len() > before
}

impl Expression {
    fn read(&self, line: &str, fields: &mut Fields) -> bool {
        let mut places = self.regex.capture_locations();
        if self.regex.captures_read(&mut places, line).is_none() {
            return false;
        }
        for (at, name) in self.fields.iter().enumerate() {
            if let (Some(name), Some((begin, end))) = (name, places.get(at))
                && begin < end
            {
                fields.push(name, &line[begin..end]);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::expression::EXPRESSION_BYTES_MAX;
    use super::*;

    fn read(format: Format, line: &str) -> Option<Vec<(String, String)>> {
        let parser = Parser::new(format, &BTreeMap::from([("PAIR".into(), "%{WORD:key}:%{INT:number}".into())]));
        let mut fields = Fields::default();
        fields.push("before", "");
        let fits = parser.unwrap().read(line, &mut fields);
        assert!(fits || fields.len() == 1, "{line} leaves fields behind");
        fits.then(|| fields.iter().skip(1).map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    fn check(format: Format, line: &str, expected: &[(&str, &str)]) {
        let found = read(format, line).unwrap_or_else(|| panic!("{line} does not fit"));
        let found: Vec<_> = found.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(found, expected, "{line}");
    }

    #[test]
    fn objects_and_pairs_are_fields() {
        check(Format::Json, r#"{"a":1,"b":{"c":"x"}}"#, &[("a", "1"), ("b.c", "x")]);
        check(
            Format::Logfmt,
            r#"level=info took=5ms msg="it is""#,
            &[("level", "info"), ("took", "5ms"), ("msg", "it is")],
        );
        check(Format::Logfmt, r#"{"body":"a=1 b=2","attributes":{"z":3}}"#, &[("a", "1"), ("b", "2")]);
        for line in ["", "words", "a=1"] {
            assert_eq!(read(Format::Json, line), None);
        }
        assert_eq!(read(Format::Logfmt, "no pairs"), None);
    }

    #[test]
    fn expressions_name_their_fields() {
        check(Format::Regex(r"took (?<ms>\d+) ms( by (?<who>\w+))?".into()), "it took 12 ms", &[("ms", "12")]);
        assert_eq!(read(Format::Regex("(?<a>x)".into()), "y"), None);
        let grok = |pattern: &str| Format::Grok(pattern.into());
        check(
            grok("%{IP:client.ip} %{WORD:verb} %{NUMBER:took:float} (?<rest>.*)%{PAIR}"),
            "::1 GET 1.5 all a:7",
            &[("client.ip", "::1"), ("verb", "GET"), ("took", "1.5"), ("rest", "all "), ("key", "a"), ("number", "7")],
        );
    }

    #[test]
    fn expressions_that_cannot_be_used_say_why() {
        let error = |format| Parser::new(format, &BTreeMap::new()).unwrap_err();
        assert!(error(Format::Regex("(".into())).contains("unclosed group"));
        assert!(error(Format::Regex("abc".into())).contains("names no field"));
        assert!(error(Format::Regex(r"(?<a>\w{900}{900})".into())).contains("size limit"));
        assert!(error(Format::Regex(format!("(?<a>{})", "x".repeat(EXPRESSION_BYTES_MAX)))).contains("at most"));
        assert!(error(Format::Grok("%{NOSUCH:a}".into())).contains("NOSUCH"));
    }

    /// Expressions on which engines with backtracking take hours end at once.
    #[test]
    fn expressions_are_linear_in_the_line() {
        let line = "a".repeat(100_000) + "!";
        for expression in ["(?<x>(a+)+)$", "(?<x>(a|aa)+)$", "(?<x>(.*)(.*)(.*)(.*)[^!]{3})$"] {
            let _ = read(Format::Regex(expression.into()), &line);
        }
    }
}
