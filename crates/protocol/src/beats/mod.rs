//! Events of Beats and Logstash's forwarders (lumberjack, versions 1 and 2).
//!
//! Format of what is stored: a series `log` with the labels `job` (the first of [`JOB_FIELDS`]), `instance` (the first
//! of [`HOST_FIELDS`]) and `severity` (from `log.level` or `level`); the text is `message` (or `line`), or, where there
//! are other fields, a record as docs/formats/log.md has it.
//! Invariants: an event is a sample or one [`Fault`]; nothing of an event that was taken is left out but its time and
//! host.
//! Limits: [`EVENT_BYTES_MAX`], and in [`frames`] those of a stream.

pub mod frames;

use std::fmt::Write as _;

use ogive_text::calendar::rfc3339_ns;
use serde_json::Value;
use twox_hash::{XxHash3_64, XxHash3_128};

use crate::Gather;
use crate::event::{Origin, Record, severity};
use crate::lines::Fault;
use crate::members::members;

/// 1 MiB, as long as a stored text may be.
pub const EVENT_BYTES_MAX: usize = 1 << 20;

/// Fields that name the program, the first that is there.
pub const JOB_FIELDS: [&str; 5] = ["service.name", "container.name", "event.module", "type", "@metadata.beat"];

/// Fields that name the host, the first that is there.
pub const HOST_FIELDS: [&str; 5] = ["host.name", "host", "hostname", "agent.name", "beat.hostname"];

/// What an event says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content<'f> {
    /// A JSON object.
    Json(&'f [u8]),
    /// Keys and values of version 1, each behind its length.
    Pairs(&'f [u8]),
    /// More than [`EVENT_BYTES_MAX`], which are skipped.
    TooLong,
}

impl Content<'_> {
    /// Bytes that are there.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Json(bytes) | Self::Pairs(bytes) => bytes.len(),
            Self::TooLong => 0,
        }
    }

    /// Whether none are there.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What an event that was taken is known again by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventIdentity {
    /// Whether it has a time of its own.
    pub is_timed: bool,
    /// A hash of its fields, in whatever order they come: Beats has none.
    pub fingerprint: u128,
}

/// Takes one event, which arrived at `now_ns`.
///
/// # Errors
/// The rule that it breaks.
pub fn feed(content: Content<'_>, now_ns: i64, gather: &mut Gather) -> Result<EventIdentity, Fault> {
    let fields = match content {
        Content::Json(json) => members(json)?,
        Content::Pairs(bytes) => pairs(bytes)?,
        Content::TooLong => return Err(Fault::TooLong),
    };
    let event = Event { fields: &fields };
    let time = event.text("@timestamp");
    let time_ns = time.map_or(Ok(now_ns), |text| rfc3339_ns(text).ok_or(Fault::Time))?;
    let (line, fingerprint) = event.line();
    event.origin().push(time_ns, line, gather)?;
    Ok(EventIdentity { is_timed: time.is_some(), fingerprint })
}

/// The number at a place, when it is there.
fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk::<4>().map(|bytes| u32::from_be_bytes(*bytes))
}

/// The fields of version 1, whose lengths were checked with the frame.
fn pairs(mut bytes: &[u8]) -> Result<Vec<(String, Value)>, Fault> {
    let mut text = || -> Result<Option<String>, Fault> {
        if bytes.is_empty() {
            return Ok(None);
        }
        let length = number(bytes, 0).ok_or(Fault::Fields)? as usize;
        let (text, after) = bytes[4..].split_at_checked(length).ok_or(Fault::Fields)?;
        bytes = after;
        std::str::from_utf8(text).map(|text| Some(text.to_owned())).map_err(|_| Fault::NotUtf8)
    };
    let mut fields = Vec::new();
    while let Some(name) = text()? {
        fields.push((name, Value::String(text()?.ok_or(Fault::Fields)?)));
    }
    Ok(fields)
}

struct Event<'e> {
    fields: &'e [(String, Value)],
}

impl<'e> Event<'e> {
    /// A text by its name or, where a dot is in it, as a member of an object.
    fn text(&self, name: &str) -> Option<&'e str> {
        let find = |name: &str| self.fields.iter().find(|(field, _)| field == name).map(|(_, value)| value);
        let nested = || name.split_once('.').and_then(|(object, member)| find(object)?.get(member));
        find(name).or_else(nested)?.as_str().filter(|text| !text.is_empty())
    }

    fn first(&self, names: &[&str]) -> &'e str {
        names.iter().find_map(|name| self.text(name)).unwrap_or_default()
    }

    fn origin(&self) -> Origin<'e> {
        let severity = severity(self.first(&["log.level", "level"]));
        Origin { job: self.first(&JOB_FIELDS), host: self.first(&HOST_FIELDS), facility: "", severity }
    }

    /// The line that is stored, and the hash of the fields.
    fn line(&self) -> (String, u128) {
        let name = ["message", "line"].into_iter().find(|name| self.text(name).is_some());
        let mut record = Record::new(name.and_then(|name| self.text(name)).unwrap_or_default());
        let body = name.and_then(|name| self.fields.iter().position(|(field, _)| field == name));
        let mut fingerprint = 0_u128;
        for (at, (field, value)) in self.fields.iter().enumerate() {
            // What is stored apart from the attributes.
            let apart = value.as_str().filter(|text| match field.as_str() {
                "@timestamp" => self.text("@timestamp") == Some(*text),
                "host" => *text == self.first(&HOST_FIELDS),
                _ => Some(at) == body,
            });
            let value = match apart {
                Some(text) => text,
                None => {
                    let out = record.attribute(field);
                    let from = out.len();
                    write!(out, "{value}").expect("writes to memory");
                    &out[from..]
                }
            };
            // A sum, so that the order does not matter.
            let seed = XxHash3_64::oneshot(field.as_bytes());
            fingerprint = fingerprint.wrapping_add(XxHash3_128::oneshot_with_seed(seed, value.as_bytes()));
        }
        (record.into_text(), fingerprint)
    }
}

#[cfg(test)]
mod tests;
