//! An entry of the Forward protocol as the text of a sample.
//!
//! Format of what is stored: a series `log` with the labels `job` (the tag), `instance` (the first of [`HOST_FIELDS`])
//! and `severity` (from the first of [`LEVEL_FIELDS`]); the text is the first of [`BODY_FIELDS`] without the line's
//! end, or, where there are other fields, a record as docs/formats/log.md has it.
//! Invariants: an entry is a sample or one [`Fault`]; nothing of an entry that was taken is left out but its time and
//! host.
//! Limits: [`ENTRY_BYTES_MAX`] and [`TAG_BYTES_MAX`].

use twox_hash::{XxHash3_64, XxHash3_128};

use super::record::{Pair, json, pairs};
use crate::Gather;
use crate::event::{Origin, Record, severity};
use crate::lines::{Fault, broken_seconds_ns, whole_seconds_ns};
use crate::msgpack::{Reader, Token};

/// 1 MiB, as long as a stored text may be.
pub const ENTRY_BYTES_MAX: usize = 1 << 20;

/// 1 KiB: the tag of a container's file in Kubernetes has 300 bytes. It is a label of every series of a message, so
/// that the 5,000 series of a batch have 5 MiB of it.
pub const TAG_BYTES_MAX: usize = 1 << 10;

/// Fields with the line: of Docker and Fluent Bit, of syslog and loggers, of journals; the first that is there.
pub const BODY_FIELDS: [&str; 4] = ["log", "message", "msg", "MESSAGE"];

/// Fields that name the host, the first that is there.
pub const HOST_FIELDS: [&str; 5] = ["host", "hostname", "host.name", "_HOSTNAME", "sys_host"];

/// Fields with a word for the severity, the first that is there.
pub const LEVEL_FIELDS: [&str; 4] = ["level", "severity", "log.level", "levelname"];

/// The extension that is a time, with eight bytes.
const EVENT_TIME: u8 = 0;

/// A time and a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry<'e> {
    /// Behind each other.
    Fields(&'e [u8]),
    /// In a list.
    List(&'e [u8]),
    /// More than [`ENTRY_BYTES_MAX`], which are skipped.
    TooLong,
}

/// What an entry that was taken is known again by, and what it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryIdentity {
    /// Whether it has a time of its own.
    pub is_timed: bool,
    /// A hash of its tag and its bytes.
    pub fingerprint: u128,
    /// Bytes that were received or are stored, whichever are more.
    pub bytes: usize,
}

/// Takes one entry of a message with this tag, which arrived at `now_ns`.
///
/// # Errors
/// The rule that it breaks.
pub fn feed(tag: &str, entry: Entry<'_>, now_ns: i64, gather: &mut Gather) -> Result<EntryIdentity, Fault> {
    let (bytes, is_list) = match entry {
        Entry::Fields(bytes) => (bytes, false),
        Entry::List(bytes) => (bytes, true),
        Entry::TooLong => return Err(Fault::TooLong),
    };
    if bytes.len() > ENTRY_BYTES_MAX {
        return Err(Fault::TooLong);
    }
    if tag.len() > TAG_BYTES_MAX {
        return Err(Fault::Labels);
    }
    let mut reader = Reader::new(bytes);
    if is_list && reader.token()? != Token::List(2) {
        return Err(Fault::Fields);
    }
    let moment = Moment::read(&mut reader)?;
    let pairs = pairs(&mut reader)?;
    let fields = Fields { pairs: &pairs };
    let text = fields.text(moment.metadata)?;
    let identity = EntryIdentity {
        is_timed: moment.time_ns.is_some(),
        fingerprint: XxHash3_128::oneshot_with_seed(XxHash3_64::oneshot(tag.as_bytes()), bytes),
        bytes: bytes.len().max(text.len()),
    };
    fields.origin(tag).push(moment.time_ns.unwrap_or(now_ns), text, gather)?;
    Ok(identity)
}

/// What stands before a record.
#[derive(Clone, Copy)]
struct Moment<'e> {
    /// None where the sender says none, which Fluentd writes as 0.
    time_ns: Option<i64>,
    /// What Fluent Bit knows beside the record: a map.
    metadata: Option<&'e [u8]>,
}

impl<'e> Moment<'e> {
    fn read(reader: &mut Reader<'e>) -> Result<Self, Fault> {
        let mut behind = *reader;
        if behind.token()? != Token::List(2) {
            return Ok(Self { time_ns: time_ns(reader)?, metadata: None });
        }
        *reader = behind;
        let time_ns = time_ns(reader)?;
        let metadata = reader.value()?;
        let is_empty = matches!(Reader::new(metadata).token()?, Token::Map(0) | Token::Nil);
        Ok(Self { time_ns, metadata: (!is_empty).then_some(metadata) })
    }
}

/// The time that comes next.
fn time_ns(reader: &mut Reader<'_>) -> Result<Option<i64>, Fault> {
    let time_ns = match reader.token()? {
        Token::Nil => 0,
        Token::Unsigned(seconds) => whole_seconds_ns(seconds, 0)?,
        // Go's package writes the numbers above zero as signed ones, too.
        Token::Signed(seconds @ 0..) => whole_seconds_ns(seconds.unsigned_abs(), 0)?,
        Token::Float(seconds) => broken_seconds_ns(seconds)?,
        Token::Extension(length) => match *reader.bytes(length)? {
            [EVENT_TIME, a, b, c, d, e, f, g, h] => {
                whole_seconds_ns(u32::from_be_bytes([a, b, c, d]).into(), u32::from_be_bytes([e, f, g, h]))?
            }
            _ => return Err(Fault::Time),
        },
        _ => return Err(Fault::Time),
    };
    Ok(Some(time_ns).filter(|time_ns| *time_ns != 0))
}

struct Fields<'f> {
    pairs: &'f [Pair<'f>],
}

impl<'f> Fields<'f> {
    /// The place and the text of the first of these fields that is a text.
    fn first(&self, names: &[&str]) -> Option<(usize, &'f str)> {
        let find = |name: &&str| {
            let at = self.pairs.iter().position(|pair| pair.name == *name)?;
            Some((at, self.pairs[at].text()?))
        };
        names.iter().find_map(find)
    }

    fn text_of(&self, names: &[&str]) -> &'f str {
        self.first(names).map_or("", |(_, text)| text)
    }

    fn origin(&self, tag: &'f str) -> Origin<'f> {
        let severity = severity(self.text_of(&LEVEL_FIELDS));
        Origin { job: tag, host: self.text_of(&HOST_FIELDS), facility: "", severity }
    }

    /// The line that is stored.
    fn text(&self, metadata: Option<&[u8]>) -> Result<String, Fault> {
        let body = self.first(&BODY_FIELDS);
        let host = self.first(&HOST_FIELDS[..1]);
        // What is stored apart from the attributes.
        let apart = [body, host].map(|found| found.map(|(at, _)| at));
        let line = body.map_or("", |(_, text)| text.strip_suffix('\n').unwrap_or(text));
        let mut record = Record::new(line);
        for (_, pair) in self.pairs.iter().enumerate().filter(|(at, _)| !apart.contains(&Some(*at))) {
            json(&mut Reader::new(pair.value), 0, record.attribute(&pair.name))?;
        }
        if let Some(metadata) = metadata {
            json(&mut Reader::new(metadata), 0, record.attribute("metadata"))?;
        }
        Ok(record.into_text())
    }
}
