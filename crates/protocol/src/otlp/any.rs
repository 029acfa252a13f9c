//! Values of attributes and bodies: `opentelemetry.proto.common.v1.AnyValue`, decoded in place.
//!
//! Limits: [`DEPTH_MAX`] nested lists and maps; deeper ones are an error of the item that contains them.

use std::borrow::Cow;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ogive_model::float;

use crate::Error;
use crate::protobuf::{Field, Fields};

/// 32 lists and maps inside each other: what people nest is below ten, and each costs a call's stack.
pub(super) const DEPTH_MAX: usize = 32;

/// A value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Any<'a> {
    Nothing,
    Text(&'a str),
    Bool(bool),
    Integer(i64),
    Double(f64),
    List(&'a [u8]),
    Map(&'a [u8]),
    Bytes(&'a [u8]),
}

/// Name and value of an attribute: a `KeyValue`.
pub(super) fn key_value(message: &[u8]) -> Result<(&str, Any<'_>), Error> {
    let (mut key, mut value) = ("", Any::Nothing);
    for field in Fields::new(message) {
        match field? {
            (1, field) => key = field.text("an attribute's name is not UTF-8 text")?,
            (2, field) => value = Any::read(field.bytes("an attribute's value is not a message")?)?,
            _ => {}
        }
    }
    Ok((key, value))
}

/// The messages of field `number` of `message`.
pub(super) fn messages<'a>(
    message: &'a [u8],
    number: u32,
    what: &'static str,
) -> impl Iterator<Item = Result<&'a [u8], Error>> + Clone + use<'a> {
    Fields::new(message).filter_map(move |field| match field {
        Ok((found, value)) if found == number => Some(value.bytes(what)),
        Ok(_) => None,
        Err(error) => Some(Err(error)),
    })
}

impl<'a> Any<'a> {
    /// The last member that is there, as protobuf wants it of a choice.
    pub(super) fn read(message: &'a [u8]) -> Result<Self, Error> {
        let mut value = Self::Nothing;
        for field in Fields::new(message) {
            value = match field? {
                (1, field) => Self::Text(field.text("a text value is not UTF-8")?),
                (2, field) => Self::Bool(field.varint("a truth value is not a number")? != 0),
                (3, field) => Self::Integer(field.varint("an integer value is not a number")?.cast_signed()),
                (4, field) => Self::Double(field.double("a double value is not a double")?),
                (5, field) => Self::List(field.bytes("a list is not a message")?),
                (6, field) => Self::Map(field.bytes("a map is not a message")?),
                (7, Field::Bytes(bytes)) => Self::Bytes(bytes),
                _ => value,
            };
        }
        Ok(value)
    }

    /// As a label's value: texts as they are, numbers in decimals, bytes in base64, lists and maps as JSON.
    pub(super) fn label(self) -> Result<Cow<'a, str>, Error> {
        Ok(match self {
            Self::Nothing => Cow::Borrowed(""),
            Self::Text(text) => Cow::Borrowed(text),
            Self::Bool(truth) => Cow::Borrowed(if truth { "true" } else { "false" }),
            Self::Integer(number) => Cow::Owned(number.to_string()),
            Self::Double(number) => Cow::Owned(decimal(number)),
            Self::Bytes(bytes) => Cow::Owned(STANDARD.encode(bytes)),
            Self::List(_) | Self::Map(_) => {
                let mut out = String::new();
                self.json(&mut out, 0)?;
                Cow::Owned(out)
            }
        })
    }

    /// Appends it as JSON. What JSON has no number for is a text.
    pub(super) fn json(self, out: &mut String, depth: usize) -> Result<(), Error> {
        if depth > DEPTH_MAX {
            return Err(Error::Malformed {
                what: "lists and maps are nested more than 32 deep; send flatter attributes",
            });
        }
        match self {
            Self::Nothing => out.push_str("null"),
            Self::Text(text) => quoted(out, text),
            Self::Bool(truth) => out.push_str(if truth { "true" } else { "false" }),
            Self::Integer(number) => write!(out, "{number}").expect("writes to memory"),
            Self::Double(number) if number.is_finite() => out.push_str(&decimal(number)),
            Self::Double(number) => quoted(out, &decimal(number)),
            Self::Bytes(bytes) => quoted(out, &STANDARD.encode(bytes)),
            Self::List(message) => {
                out.push('[');
                for (at, value) in messages(message, 1, "a list's value is not a message").enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    Any::read(value?)?.json(out, depth + 1)?;
                }
                out.push(']');
            }
            Self::Map(message) => map_json(out, message, 1, depth)?,
        }
        Ok(())
    }
}

/// Appends the attributes in field `number` of `message` as a JSON object.
pub(super) fn map_json(out: &mut String, message: &[u8], number: u32, depth: usize) -> Result<(), Error> {
    out.push('{');
    for (at, pair) in messages(message, number, "an attribute is not a message").enumerate() {
        if at > 0 {
            out.push(',');
        }
        let (key, value) = key_value(pair?)?;
        quoted(out, key);
        out.push(':');
        value.json(out, depth + 1)?;
    }
    out.push('}');
    Ok(())
}

/// As people and Prometheus write it: with an exponent where plain digits would be many.
pub(crate) fn decimal(number: f64) -> String {
    match number.abs() {
        0.0 => "0".into(),
        size if !size.is_finite() || (1e-6..1e21).contains(&size) => float::plain(number),
        _ => format!("{number:e}"),
    }
}

/// Appends `text` as a JSON string.
pub(crate) fn quoted(out: &mut String, text: &str) {
    out.push('"');
    let mut plain_from = 0;
    for (at, byte) in text.bytes().enumerate().filter(|(_, byte)| matches!(byte, b'"' | b'\\' | 0..=0x1f)) {
        out.push_str(&text[plain_from..at]);
        plain_from = at + 1;
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            _ => write!(out, "\\u{byte:04x}").expect("writes to memory"),
        }
    }
    out.push_str(&text[plain_from..]);
    out.push('"');
}

/// Appends bytes as hexadecimal digits.
pub(super) fn hex(out: &mut String, bytes: &[u8]) {
    for byte in bytes {
        write!(out, "{byte:02x}").expect("writes to memory");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protobuf::write;

    fn text(value: &str) -> Vec<u8> {
        let mut out = Vec::new();
        write::bytes(&mut out, 1, value.as_bytes());
        out
    }

    /// A list around `inner`.
    fn list(inner: &[u8]) -> Vec<u8> {
        let (mut values, mut out) = (Vec::new(), Vec::new());
        write::bytes(&mut values, 1, inner);
        write::bytes(&mut out, 5, &values);
        out
    }

    #[test]
    fn values_become_label_values_and_json() {
        let numbers = [(Any::Double(1.0), "1"), (Any::Double(0.25), "0.25"), (Any::Double(1e300), "1e300")];
        let odd = [(Any::Double(f64::INFINITY), "+Inf"), (Any::Double(f64::NAN), "NaN"), (Any::Double(-0.0), "0")];
        let others =
            [(Any::Integer(-7), "-7"), (Any::Bool(true), "true"), (Any::Bytes(b"hi!"), "aGkh"), (Any::Nothing, "")];
        for (value, expected) in numbers.into_iter().chain(odd).chain(others) {
            assert_eq!(value.label().unwrap(), expected, "{value:?}");
        }
        let mut out = String::new();
        Any::Double(f64::NAN).json(&mut out, 0).unwrap();
        assert_eq!(out, "\"NaN\"");
        let nested = list(&text("a\"\n\u{1}ß"));
        assert_eq!(Any::read(&nested).unwrap().label().unwrap(), "[\"a\\\"\\n\\u0001ß\"]");
    }

    #[test]
    fn nesting_ends_at_its_limit() {
        let nested = |depth: usize| (0..depth).fold(text("x"), |inner, _| list(&inner));
        assert!(Any::read(&nested(DEPTH_MAX)).unwrap().label().is_ok());
        let error = nested(DEPTH_MAX + 1);
        assert!(matches!(Any::read(&error).unwrap().label(), Err(Error::Malformed { .. })));
        // A deep one costs what one as deep as the limit does.
        assert!(Any::read(&nested(5_000)).unwrap().label().is_err());
    }
}
