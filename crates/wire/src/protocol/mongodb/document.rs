//! As much of BSON as names a command and says how it went.

use crate::protocol::framed::le32;

/// Elements of a document that are inspected: the relevant ones are among the first.
const ELEMENTS: usize = 64;

/// How a command went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    /// It did, as far as is in view.
    Ok,
    /// Some of its writes did not.
    WriteErrors,
    /// It did not; 0 when the code is not in view.
    Error(i64),
}

/// A document, which may be cut.
#[derive(Debug, Clone, Copy)]
pub(super) struct Document<'a> {
    elements: &'a [u8],
}

/// An element: its type, its name and its value, which may be cut.
type Element<'a> = (u8, &'a [u8], &'a [u8]);

impl<'a> Document<'a> {
    /// The document at the start of `bytes`.
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Self> {
        if le32(bytes, 0)? < 5 {
            return None;
        }
        Some(Self { elements: &bytes[4..] })
    }

    /// The command, which is the first element's name, and the collection, which is its value.
    pub(super) fn command(&self) -> Option<(&'a str, &'a str)> {
        let (kind, name, value) = self.elements().next()?;
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte == b'$';
        let name = std::str::from_utf8(name).ok().filter(|name| (1..=64).contains(&name.len()))?;
        if !name.bytes().all(|byte| is_name(&byte)) {
            return None;
        }
        let collection = if kind == 2 { value.get(4..).and_then(|text| text.strip_suffix(&[0])) } else { None };
        let collection = collection.and_then(|text| std::str::from_utf8(text).ok()).filter(|text| text.len() <= 255);
        Some((name, collection.unwrap_or_default()))
    }

    /// The result of the command to which this document responds.
    pub(super) fn status(&self) -> Status {
        let (mut is_error, mut code) = (false, 0);
        for (kind, name, value) in self.elements() {
            match name {
                b"ok" => is_error = number(kind, value) == Some(0),
                b"code" => code = number(kind, value).unwrap_or(0),
                b"writeErrors" => return Status::WriteErrors,
                _ => {}
            }
        }
        if is_error { Status::Error(code) } else { Status::Ok }
    }

    fn elements(&self) -> impl Iterator<Item = Element<'a>> {
        let mut rest = self.elements;
        std::iter::from_fn(move || {
            let (element, next) = element(rest)?;
            rest = next;
            Some(element)
        })
        .take(ELEMENTS)
    }
}

/// The element at the start of `bytes`, and the rest.
fn element(bytes: &[u8]) -> Option<(Element<'_>, &[u8])> {
    let (&kind, rest) = bytes.split_first()?;
    let end = rest.iter().position(|byte| *byte == 0)?;
    let (name, value) = (&rest[..end], &rest[end + 1..]);
    let length = |extra: u32| usize::try_from(le32(value, 0)?.checked_add(extra)?).ok();
    let size = match kind {
        1 | 9 | 17 | 18 => 8,
        2 | 13 | 14 => length(4)?,
        3 | 4 => length(0)?.max(5),
        5 => length(5)?,
        6 | 10 | 255 | 127 => 0,
        7 => 12,
        8 => 1,
        16 => 4,
        19 => 16,
        _ => return None,
    };
    let (value, next) = value.split_at_checked(size)?;
    Some(((kind, name, value), next))
}

/// A number as an integer.
fn number(kind: u8, value: &[u8]) -> Option<i64> {
    match kind {
        #[allow(clippy::cast_possible_truncation, reason = "codes and 0 or 1 are whole numbers")]
        1 => Some(f64::from_le_bytes(value.try_into().ok()?) as i64),
        8 => Some(i64::from(*value.first()?)),
        16 => Some(i32::from_le_bytes(value.try_into().ok()?).into()),
        18 => Some(i64::from_le_bytes(value.try_into().ok()?)),
        _ => None,
    }
}
