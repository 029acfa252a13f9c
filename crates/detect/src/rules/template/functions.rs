//! The functions of templates.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use regex::RegexBuilder;

use super::compare::{equal, index, length, ordered, slice};
use super::humanize::{
    humanize, humanize_1024, humanize_duration, humanize_percentage, humanize_timestamp, number, to_duration, to_time,
};
use super::printf::sprintf;
use super::site::Site;
use super::value::Value;
use crate::rules::duration::parse_signed_ms;

/// Compiled size of a pattern: 1 MiB, as selectors allow.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// Every function, with the minimum and maximum number of arguments.
const FUNCTIONS: &[(&str, usize, usize)] = &[
    ("and", 1, usize::MAX),
    ("args", 0, usize::MAX),
    ("eq", 1, usize::MAX),
    ("externalURL", 0, 0),
    ("first", 1, 1),
    ("ge", 2, 2),
    ("graphLink", 1, 1),
    ("gt", 2, 2),
    ("html", 0, usize::MAX),
    ("humanize", 1, 1),
    ("humanize1024", 1, 1),
    ("humanizeDuration", 1, 1),
    ("humanizePercentage", 1, 1),
    ("humanizeTimestamp", 1, 1),
    ("index", 1, usize::MAX),
    ("js", 0, usize::MAX),
    ("label", 2, 2),
    ("le", 2, 2),
    ("len", 1, 1),
    ("lt", 2, 2),
    ("match", 2, 2),
    ("ne", 2, 2),
    ("not", 1, 1),
    ("now", 0, 0),
    ("or", 1, usize::MAX),
    ("parseDuration", 1, 1),
    ("pathPrefix", 0, 0),
    ("print", 0, usize::MAX),
    ("printf", 1, usize::MAX),
    ("println", 0, usize::MAX),
    ("query", 1, 1),
    ("reReplaceAll", 3, 3),
    ("safeHtml", 1, 1),
    ("slice", 1, 3),
    ("sortByLabel", 2, 2),
    ("stripDomain", 1, 1),
    ("stripPort", 1, 1),
    ("strvalue", 1, 1),
    ("tableLink", 1, 1),
    ("title", 1, 1),
    ("toDuration", 1, 1),
    ("toLower", 1, 1),
    ("toTime", 1, 1),
    ("toUpper", 1, 1),
    ("urlQueryEscape", 1, 1),
    ("urlquery", 0, usize::MAX),
    ("value", 1, 1),
];

fn find(name: &str) -> Option<&'static (&'static str, usize, usize)> {
    FUNCTIONS.iter().find(|(function, ..)| *function == name)
}

/// Whether there is such a function.
pub(crate) fn exists(name: &str) -> bool {
    find(name).is_some()
}

/// Checks how many arguments a function is given.
pub(crate) fn check_count(name: &str, count: usize) -> Result<(), String> {
    let (_, least, most) = find(name).expect("the parser knows all functions");
    if (*least..=*most).contains(&count) {
        return Ok(());
    }
    let want = if least == most { least.to_string() } else { format!("at least {least}") };
    Err(format!("wrong number of args for {name}: want {want} got {count}"))
}

/// The result of a function. `and` and `or` are handled by the caller, because they evaluate no more arguments than
/// they need.
pub(crate) fn call(name: &str, arguments: &[Value], site: &Site<'_>) -> Result<Value, String> {
    let float = |at: usize| number(&arguments[at]);
    let text = |at: usize| text_of(&arguments[at]);
    Ok(match name {
        "eq" => Value::Bool(any_equal(arguments)?),
        "ne" => Value::Bool(!equal(&arguments[0], &arguments[1])?),
        "lt" | "le" | "gt" | "ge" => Value::Bool(ordered(name, &arguments[0], &arguments[1])?),
        "not" => Value::Bool(!arguments[0].is_true()),
        "len" => Value::Int(i64::try_from(length(&arguments[0])?).unwrap_or(i64::MAX)),
        "index" => arguments[1..].iter().try_fold(arguments[0].clone(), |value, key| index(&value, key))?,
        "slice" => slice(&arguments[0], &arguments[1..])?,
        "print" | "html" | "js" | "urlquery" | "println" => Value::text(&printed(name, arguments)),
        "printf" => Value::text(&sprintf(&text(0)?, &arguments[1..])),
        "args" => {
            let named = arguments.iter().enumerate().map(|(at, value)| (format!("arg{at}"), value.clone()));
            Value::Map(Arc::new(named.collect::<BTreeMap<_, _>>()))
        }
        "humanize" => Value::text(&humanize(float(0)?)),
        "humanize1024" => Value::text(&humanize_1024(float(0)?)),
        "humanizeDuration" => Value::text(&humanize_duration(float(0)?)),
        "humanizePercentage" => Value::text(&humanize_percentage(float(0)?)),
        "humanizeTimestamp" => Value::text(&humanize_timestamp(float(0)?)?),
        "toTime" => Value::Time(to_time(float(0)?)?),
        "toDuration" => Value::Duration(to_duration(float(0)?)?),
        "parseDuration" => Value::Float(parse_signed_ms(&text(0)?)? as f64 / 1000.0),
        "now" => Value::Float(site.time.0 as f64 / 1000.0),
        "externalURL" => Value::text(site.external_url),
        "pathPrefix" => Value::text(path_of(site.external_url)),
        "query" | "first" | "label" | "value" | "strvalue" | "sortByLabel" => over_samples(name, arguments, site)?,
        "match" => Value::Bool(pattern(&text(0)?)?.is_match(&text(1)?)),
        "reReplaceAll" => {
            let (replacement, subject) = (text(1)?, text(2)?);
            Value::text(&pattern(&text(0)?)?.replace_all(&subject, replacement.as_ref()))
        }
        _ => Value::text(&of_text(name, &text(0)?)),
    })
}

/// Functions from a text to a text.
fn of_text(name: &str, text: &str) -> String {
    match name {
        "toUpper" => text.to_uppercase(),
        "toLower" => text.to_lowercase(),
        "title" => title(text),
        "safeHtml" => text.to_owned(),
        "stripPort" => host_port(text).map_or_else(|| text.to_owned(), |(host, _)| host.to_owned()),
        "stripDomain" => strip_domain(text),
        "graphLink" => format!("/graph?g0.expr={}&g0.tab=0", query_escape(text)),
        "tableLink" => format!("/graph?g0.expr={}&g0.tab=1", query_escape(text)),
        "urlQueryEscape" => query_escape(text),
        other => unreachable!("{other} is in the table and has no code"),
    }
}

/// Functions over the result of a query.
fn over_samples(name: &str, arguments: &[Value], site: &Site<'_>) -> Result<Value, String> {
    Ok(match name {
        "query" => {
            let found = site.queries.query(&text_of(&arguments[0])?, site.time)?;
            Value::List(Arc::new(found.iter().map(|(labels, value)| Value::sample(labels, *value)).collect()))
        }
        "first" => match &arguments[0] {
            Value::List(list) => list.first().cloned().ok_or("first() called on vector with no elements")?,
            other => return Err(wrong("template.queryResult", other)),
        },
        "value" => sample_field(&arguments[0], "Value")?,
        "strvalue" => index(&sample_field(&arguments[0], "Labels")?, &Value::text("__value__"))?,
        "label" => index(&sample_field(&arguments[1], "Labels")?, &Value::Text(text_of(&arguments[0])?))?,
        _ => {
            let Value::List(list) = &arguments[1] else { return Err(wrong("template.queryResult", &arguments[1])) };
            let key = Value::Text(text_of(&arguments[0])?);
            let mut keyed = Vec::with_capacity(list.len());
            for sample in list.iter() {
                keyed.push((index(&sample_field(sample, "Labels")?, &key)?.print(), sample.clone()));
            }
            keyed.sort_by(|a, b| a.0.cmp(&b.0));
            Value::List(Arc::new(keyed.into_iter().map(|(_, sample)| sample).collect()))
        }
    })
}

fn sample_field(value: &Value, name: &str) -> Result<Value, String> {
    match value {
        Value::Structure(structure) => structure.field(name).cloned().ok_or_else(|| wrong("*template.sample", value)),
        other => Err(wrong("*template.sample", other)),
    }
}

fn wrong(expected: &str, found: &Value) -> String {
    format!("wrong type for value; expected {expected}; got {}", found.type_name())
}

fn text_of(value: &Value) -> Result<Arc<str>, String> {
    match value {
        Value::Text(text) => Ok(Arc::clone(text)),
        other => Err(wrong("string", other)),
    }
}

fn any_equal(arguments: &[Value]) -> Result<bool, String> {
    if arguments.len() < 2 {
        return Err("missing argument for comparison".to_owned());
    }
    for other in &arguments[1..] {
        if equal(&arguments[0], other)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The concatenated arguments, with blanks as in Go, escaped according to the function.
fn printed(name: &str, arguments: &[Value]) -> String {
    if name == "println" {
        return arguments.iter().map(Value::print).collect::<Vec<_>>().join(" ") + "\n";
    }
    let mut out = String::new();
    for (at, value) in arguments.iter().enumerate() {
        // Between operands, if neither is a text.
        if at > 0 && !matches!(value, Value::Text(_)) && !matches!(arguments[at - 1], Value::Text(_)) {
            out.push(' ');
        }
        out.push_str(&value.print());
    }
    match name {
        "html" => escaped(&out, |c| match c {
            '"' => Some("&#34;"),
            '\'' => Some("&#39;"),
            '&' => Some("&amp;"),
            '<' => Some("&lt;"),
            '>' => Some("&gt;"),
            '\0' => Some("\u{fffd}"),
            _ => None,
        }),
        "js" => escaped(&out, |c| match c {
            '\\' => Some("\\\\"),
            '\'' => Some("\\'"),
            '"' => Some("\\\""),
            '<' => Some("\\u003C"),
            '>' => Some("\\u003E"),
            '&' => Some("\\u0026"),
            '=' => Some("\\u003D"),
            '\n' => Some("\\u000A"),
            '\r' => Some("\\u000D"),
            '\t' => Some("\\u0009"),
            _ => None,
        }),
        "urlquery" => query_escape(&out),
        _ => out,
    }
}

fn escaped(text: &str, escape: impl Fn(char) -> Option<&'static str>) -> String {
    text.chars().fold(String::new(), |mut out, c| {
        match escape(c) {
            Some(escape) => out.push_str(escape),
            None => out.push(c),
        }
        out
    })
}

/// Capitalises the first letters of words and leaves the others unchanged.
fn title(text: &str) -> String {
    let mut inside = false;
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let letter = c.is_alphanumeric() || c == '\'' || c == '_';
        if letter && !inside {
            out.extend(c.to_uppercase())
        } else {
            out.push(c)
        }
        inside = letter;
    }
    out
}

/// Host and port of `host:port` or `[host]:port`.
fn host_port(text: &str) -> Option<(&str, &str)> {
    if let Some(inner) = text.strip_prefix('[') {
        let (host, port) = inner.split_once("]:")?;
        return if port.contains([':', '[', ']']) || host.contains('[') { None } else { Some((host, port)) };
    }
    let (host, port) = text.rsplit_once(':')?;
    if host.contains([':', '[', ']']) || port.contains(['[', ']']) { None } else { Some((host, port)) }
}

fn strip_domain(text: &str) -> String {
    let (host, port) = host_port(text).unwrap_or((text, ""));
    if host.parse::<IpAddr>().is_ok() {
        return text.to_owned();
    }
    let host = host.split('.').next().unwrap_or(host);
    match port {
        "" => host.to_owned(),
        port if host.contains(':') => format!("[{host}]:{port}"),
        port => format!("{host}:{port}"),
    }
}

/// A text inside the query of an address.
pub(crate) fn query_escape(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(byte as char),
            b' ' => out.push('+'),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
        out
    })
}

/// The path of an address, without what precedes it.
fn path_of(url: &str) -> &str {
    let behind = url.split_once("://").map_or(url, |(_, rest)| rest);
    behind.find('/').map_or("", |at| behind[at..].split(['?', '#']).next().unwrap_or(""))
}

fn pattern(text: &str) -> Result<regex::Regex, String> {
    RegexBuilder::new(text)
        .size_limit(PATTERN_BYTES_MAX)
        .build()
        .map_err(|error| format!("error parsing regexp: {}", error.to_string().lines().last().unwrap_or("bad pattern")))
}
