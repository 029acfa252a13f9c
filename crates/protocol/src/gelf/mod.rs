//! GELF, Graylog's extended log format: JSON messages, compressed and in chunks over UDP, separated by zero bytes over
//! TCP.
//!
//! Stored format: a series `log` with the labels `job` (the facility, or one of [`JOB_FIELDS`]), `instance` (the host)
//! and `severity`; the text is the message, or, if there are other fields, a record as described in
//! docs/formats/log.md.
//! Invariants: a message is a sample or one [`Fault`]; an accepted message is stored completely except for its version.
//! Limits: [`MESSAGE_BYTES_MAX`], and in [`chunks`] the messages with missing chunks.

pub mod chunks;
pub mod stream;

use std::fmt::Write as _;

use serde_json::Value;

use crate::Gather;
use crate::event::{Origin, Record, SEVERITIES};
use crate::lines::{Fault, broken_seconds_ns};
use crate::members::members;

/// 1 MiB, as long as a stored text may be. Over UDP 128 chunks of usual size hold 177 KiB, compressed.
pub const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// Fields that name the program when there is no facility, the first that is there.
pub const JOB_FIELDS: [&str; 4] = ["_facility", "_service", "_app", "_container_name"];

/// Takes one message, decompressed, which arrived at `now_ns`.
///
/// # Errors
/// The rule that it breaks.
pub fn feed(bytes: &[u8], now_ns: i64, gather: &mut Gather) -> Result<(), Fault> {
    if bytes.len() > MESSAGE_BYTES_MAX {
        return Err(Fault::TooLong);
    }
    let members = members(bytes)?;
    let message = Message::from_members(&members)?;
    let time_ns = message.time.map_or(Ok(now_ns), seconds)?;
    message.origin().push(time_ns, message.text(&members), gather)
}

/// A time in seconds with decimals, as a number or a text of one.
fn seconds(value: &Value) -> Result<i64, Fault> {
    let number = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    number.ok_or(Fault::Time).and_then(broken_seconds_ns)
}

/// The fields that the format names; each is the last of its name.
#[derive(Default)]
struct Message<'m> {
    host: Option<&'m str>,
    short: Option<&'m str>,
    full: Option<&'m str>,
    facility: Option<&'m str>,
    /// The first of [`JOB_FIELDS`].
    job: Option<&'m str>,
    level: Option<u8>,
    time: Option<&'m Value>,
}

impl<'m> Message<'m> {
    fn from_members(members: &'m [(String, Value)]) -> Result<Self, Fault> {
        let mut found = Self::default();
        for (name, value) in members {
            match (name.as_str(), value) {
                ("host", Value::String(text)) => found.host = Some(text),
                ("short_message", Value::String(text)) => found.short = Some(text),
                ("full_message", Value::String(text)) => found.full = Some(text),
                ("facility", Value::String(text)) => found.facility = Some(text),
                ("timestamp", value) if !value.is_null() => found.time = Some(value),
                ("level", value) => found.level = level(value),
                _ => {}
            }
        }
        if found.host.is_none_or(str::is_empty) || found.short.is_none() {
            return Err(Fault::Fields);
        }
        let named = |name: &&str| members.iter().find(|(member, _)| member == name);
        found.job = JOB_FIELDS.iter().filter_map(named).find_map(|(_, value)| value.as_str());
        Ok(found)
    }

    fn origin(&self) -> Origin<'m> {
        let severity = self.level.map_or("", |level| SEVERITIES[usize::from(level)]);
        let job = self.facility.filter(|facility| !facility.is_empty()).or(self.job).unwrap_or_default();
        Origin { job, host: self.host.unwrap_or_default(), facility: "", severity }
    }

    /// The full message when it begins with the short one.
    fn body(&self) -> &'m str {
        let short = self.short.unwrap_or_default();
        self.full.filter(|full| full.starts_with(short)).unwrap_or(short)
    }

    /// The line that is stored.
    fn text(&self, members: &'m [(String, Value)]) -> String {
        let body = self.body();
        let is_other = |(name, value): &(&str, &Value)| match *name {
            "version" | "host" | "short_message" | "timestamp" => false,
            "facility" => !value.is_string(),
            "level" => self.level.is_none(),
            "full_message" => value.as_str().is_none_or(|full| full != body),
            _ => true,
        };
        let mut record = Record::new(body);
        for (name, value) in members.iter().map(|(name, value)| (name.as_str(), value)).filter(is_other) {
            write!(record.attribute(name.strip_prefix('_').unwrap_or(name)), "{value}").expect("writes to memory");
        }
        record.into_text()
    }
}

/// A severity, as a number or a text of one.
fn level(value: &Value) -> Option<u8> {
    let number = match value {
        Value::String(text) => text.parse().ok(),
        value => value.as_u64(),
    };
    number.and_then(|number| u8::try_from(number).ok()).filter(|level| usize::from(*level) < SEVERITIES.len())
}

#[cfg(test)]
mod tests;
