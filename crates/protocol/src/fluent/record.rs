//! Records of the Forward protocol: the pairs of a map, in order, and values as JSON.
//!
//! Format: a text is a text, binary data a text or, where it is not UTF-8, base64; an extension is its type and its
//! bytes in base64; a number that JSON has not is a text.
//! Limits: [`PAIRS_MAX`] pairs of a record, [`NESTED_MAX`] lists and maps inside each other.

use std::borrow::Cow;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::lines::Fault;
use crate::members::MEMBERS_MAX;
use crate::msgpack::{Reader, Token, text};
use crate::otlp::{decimal, quoted};

/// As many as members of a JSON object: records of Kubernetes have 30.
const PAIRS_MAX: usize = MEMBERS_MAX;

/// 32 lists and maps inside each other, as of every stored record.
const NESTED_MAX: usize = 32;

/// A name and a value of a record.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pair<'r> {
    pub(super) name: Cow<'r, str>,
    /// With its head.
    pub(super) value: &'r [u8],
}

impl<'r> Pair<'r> {
    /// The value where it is a text that is not empty.
    pub(super) fn text(&self) -> Option<&'r str> {
        let bytes = text(self.value).ok().flatten()?;
        std::str::from_utf8(bytes).ok().filter(|text| !text.is_empty())
    }
}

/// The pairs of the map that comes next.
pub(super) fn pairs<'r>(reader: &mut Reader<'r>) -> Result<Vec<Pair<'r>>, Fault> {
    let count = match reader.token()? {
        Token::Map(count) if count <= PAIRS_MAX => count,
        _ => return Err(Fault::Fields),
    };
    let mut pairs = Vec::new();
    for _ in 0..count {
        pairs.push(Pair { name: name(reader)?, value: reader.value()? });
    }
    Ok(pairs)
}

/// The key that comes next: a text, or the JSON of a plain value.
fn name<'r>(reader: &mut Reader<'r>) -> Result<Cow<'r, str>, Fault> {
    let value = reader.value()?;
    if let Some(bytes) = text(value)? {
        return std::str::from_utf8(bytes).map(Cow::Borrowed).map_err(|_| Fault::NotUtf8);
    }
    if matches!(Reader::new(value).token()?, Token::List(_) | Token::Map(_) | Token::Extension(_)) {
        return Err(Fault::Fields);
    }
    let mut name = String::new();
    json(&mut Reader::new(value), 0, &mut name)?;
    // Numbers without a JSON form are quoted already.
    Ok(Cow::Owned(name.trim_matches('"').to_owned()))
}

/// Appends the value that comes next.
pub(super) fn json(reader: &mut Reader<'_>, depth: usize, out: &mut String) -> Result<(), Fault> {
    if depth > NESTED_MAX {
        return Err(Fault::Fields);
    }
    match reader.token()? {
        Token::Nil => out.push_str("null"),
        Token::Bool(truth) => out.push_str(if truth { "true" } else { "false" }),
        Token::Unsigned(number) => write!(out, "{number}").expect("writes to memory"),
        Token::Signed(number) => write!(out, "{number}").expect("writes to memory"),
        Token::Float(number) if number.is_finite() => out.push_str(&decimal(number)),
        Token::Float(number) => quoted(out, &decimal(number)),
        Token::Text(length) => {
            let text = std::str::from_utf8(reader.bytes(length)?).map_err(|_| Fault::NotUtf8)?;
            quoted(out, text);
        }
        Token::Binary(length) => {
            let bytes = reader.bytes(length)?;
            match std::str::from_utf8(bytes) {
                Ok(text) => quoted(out, text),
                Err(_) => quoted(out, &STANDARD.encode(bytes)),
            }
        }
        Token::Extension(length) => {
            let (kind, data) = reader.bytes(length)?.split_first().ok_or(Fault::Fields)?;
            let kind = i8::from_be_bytes([*kind]);
            write!(out, "{{\"type\":{kind},\"data\":\"{}\"}}", STANDARD.encode(data)).expect("writes to memory");
        }
        Token::List(count) => list(reader, count, depth, out)?,
        Token::Map(count) => map(reader, count, depth, out)?,
    }
    Ok(())
}

fn list(reader: &mut Reader<'_>, count: usize, depth: usize, out: &mut String) -> Result<(), Fault> {
    out.push('[');
    for at in 0..count {
        if at > 0 {
            out.push(',');
        }
        json(reader, depth + 1, out)?;
    }
    out.push(']');
    Ok(())
}

fn map(reader: &mut Reader<'_>, count: usize, depth: usize, out: &mut String) -> Result<(), Fault> {
    out.push('{');
    for at in 0..count {
        if at > 0 {
            out.push(',');
        }
        quoted(out, &name(reader)?);
        out.push(':');
        json(reader, depth + 1, out)?;
    }
    out.push('}');
    Ok(())
}
