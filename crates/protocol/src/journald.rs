//! The journal export format of systemd, as `systemd-journal-upload` and `journalctl -o export` write it.
//!
//! Format: <https://systemd.io/JOURNAL_EXPORT_FORMATS>: an entry is lines `NAME=value`, or a line `NAME`, the length of
//! the value (u64, little-endian), the value and a line end; an empty line ends it. What is stored: a series `log` with
//! the labels `job` (`SYSLOG_IDENTIFIER`, else `_SYSTEMD_UNIT`, else `_COMM`), `instance` (`_HOSTNAME`), `facility` and
//! `severity` (`SYSLOG_FACILITY` and `PRIORITY`); the text is `MESSAGE`, or where there are other fields a record as
//! docs/formats/log.md has it.
//! Invariants: an entry is a sample or one [`Fault`]. A journal numbers its entries: the numbers in `__CURSOR` say
//! which one it is.
//! Limits: [`ENTRY_BYTES_MAX`] and [`FIELDS_MAX`] of an entry are held; the rest of a longer one is read past.

use std::borrow::Cow;

use ogive_model::SourceId;

use crate::Gather;
use crate::event::{Origin, Record, SEVERITIES};
use crate::lines::Fault;
use crate::otlp::quoted;
use crate::syslog::FACILITIES;

/// 2 MiB: a text of the greatest length with as much beside it.
pub const ENTRY_BYTES_MAX: usize = 2 << 20;

/// Fields of an entry; journald itself takes 1,024.
pub const FIELDS_MAX: usize = 1_024;

/// 256 bytes of a name; journald itself takes 64.
const NAME_BYTES_MAX: usize = 256;

/// Fields that are labels, or that say again what others say.
const NOT_ATTRIBUTES: [&str; 8] = [
    "MESSAGE",
    "PRIORITY",
    "SYSLOG_FACILITY",
    "SYSLOG_IDENTIFIER",
    "_HOSTNAME",
    "_SOURCE_REALTIME_TIMESTAMP",
    "SYSLOG_TIMESTAMP",
    "SYSLOG_RAW",
];

/// One entry of a journal.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Names and values, as they came.
    fields: Vec<(String, Vec<u8>)>,
}

/// Which entry of which journal it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryIdentity {
    /// The identity of the journal's numbers.
    pub source: SourceId,
    /// The entry's number.
    pub sequence: u64,
}

/// Where the reader is.
#[derive(Debug, Default)]
enum Place {
    /// In a line.
    #[default]
    Line,
    /// In the length of a value.
    Length(String, Vec<u8>),
    /// In a value, of which so many bytes are to come.
    Value(String, Vec<u8>, u64),
    /// At the line end behind a value.
    End,
}

/// Reads entries from bytes as they come.
#[derive(Debug, Default)]
pub struct Entries {
    place: Place,
    line: Vec<u8>,
    entry: Entry,
    bytes: usize,
    fault: Option<Fault>,
    has_begun: bool,
}

impl Entries {
    /// Whether an entry has begun and not ended.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.has_begun
    }

    /// Bytes that are kept of an entry that is not complete.
    #[must_use]
    pub fn held(&self) -> usize {
        let value = if let Place::Value(_, value, _) = &self.place { value.len() } else { 0 };
        self.bytes + self.line.len() + value
    }

    /// The next entry, or what is wrong with it; none when `bytes`, of which those read are removed, end before it
    /// does.
    pub fn next(&mut self, bytes: &mut &[u8]) -> Option<Result<Entry, Fault>> {
        while !bytes.is_empty() {
            match std::mem::take(&mut self.place) {
                Place::Line => {
                    if self.read_line(bytes) && self.take_line() {
                        self.has_begun = false;
                        self.bytes = 0;
                        let entry = std::mem::take(&mut self.entry);
                        return Some(self.fault.take().map_or(Ok(entry), Err));
                    }
                }
                Place::Length(name, mut length) => {
                    take(bytes, &mut length, 8);
                    self.place = match <[u8; 8]>::try_from(&length[..]) {
                        Ok(length) => Place::Value(name, Vec::new(), u64::from_le_bytes(length)),
                        Err(_) => Place::Length(name, length),
                    };
                }
                Place::Value(name, mut value, left) => {
                    let room = self.room(name.len() + value.len());
                    let piece = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    value.extend_from_slice(&bytes[..piece.min(room)]);
                    if piece > room {
                        self.fault.get_or_insert(Fault::TooLong);
                    }
                    *bytes = &bytes[piece..];
                    let left = left - piece as u64;
                    self.place = if left > 0 {
                        Place::Value(name, value, left)
                    } else {
                        self.add(name, value);
                        Place::End
                    };
                }
                Place::End => {
                    if bytes[0] != b'\n' {
                        self.fault.get_or_insert(Fault::Fields);
                    }
                    *bytes = &bytes[1..];
                }
            }
        }
        None
    }

    /// Bytes that the entry may have beside those of its fields and `more`.
    fn room(&self, more: usize) -> usize {
        ENTRY_BYTES_MAX.saturating_sub(self.bytes + more)
    }

    /// Reads up to the end of a line; whether that came.
    fn read_line(&mut self, bytes: &mut &[u8]) -> bool {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let piece = &bytes[..end.unwrap_or(bytes.len())];
        let room = self.room(self.line.len());
        if piece.len() > room {
            self.fault.get_or_insert(Fault::TooLong);
        }
        self.has_begun |= !piece.is_empty();
        self.line.extend_from_slice(&piece[..piece.len().min(room)]);
        *bytes = &bytes[(piece.len() + usize::from(end.is_some()))..];
        end.is_some()
    }

    /// Takes a line that is complete; whether the entry is, too.
    fn take_line(&mut self) -> bool {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            return self.has_begun;
        }
        match line.iter().position(|byte| *byte == b'=') {
            Some(at) => {
                let name = self.name(&line[..at]);
                self.add(name, line[at + 1..].to_vec());
            }
            None => self.place = Place::Length(self.name(&line), Vec::new()),
        }
        false
    }

    fn name(&mut self, bytes: &[u8]) -> String {
        match std::str::from_utf8(bytes) {
            Ok(name) if !name.is_empty() && name.len() <= NAME_BYTES_MAX => return name.to_owned(),
            Ok(_) => self.fault.get_or_insert(Fault::Name),
            Err(_) => self.fault.get_or_insert(Fault::NotUtf8),
        };
        String::new()
    }

    fn add(&mut self, name: String, value: Vec<u8>) {
        if self.entry.fields.len() >= FIELDS_MAX {
            self.fault.get_or_insert(Fault::Fields);
        }
        if self.fault.is_none() {
            self.bytes += name.len() + value.len();
            self.entry.fields.push((name, value));
        }
    }
}

/// Moves bytes until `into` has `length`.
fn take(bytes: &mut &[u8], into: &mut Vec<u8>, length: usize) {
    let (piece, rest) = bytes.split_at((length - into.len()).min(bytes.len()));
    into.extend_from_slice(piece);
    *bytes = rest;
}

impl Entry {
    /// The first value of a name.
    fn get(&self, name: &str) -> Option<Cow<'_, str>> {
        self.values(name).next()
    }

    fn values<'e>(&'e self, name: &str) -> impl Iterator<Item = Cow<'e, str>> {
        self.fields.iter().filter(move |(known, _)| known == name).map(|(_, value)| String::from_utf8_lossy(value))
    }

    fn name_at<'n>(&self, names: &'n [&'n str], number: &str) -> &'n str {
        let number = self.get(number).and_then(|text| text.parse::<usize>().ok());
        number.and_then(|number| names.get(number)).copied().unwrap_or_default()
    }

    /// Which entry it is, as its cursor says.
    ///
    /// # Errors
    /// [`Fault::Name`] without a cursor that says so.
    pub fn identity(&self) -> Result<EntryIdentity, Fault> {
        let cursor = self.get("__CURSOR").ok_or(Fault::Name)?;
        let part = |name: &str| cursor.split(';').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
        let source = part("s").and_then(|text| u128::from_str_radix(text, 16).ok());
        let sequence = part("i").and_then(|text| u64::from_str_radix(text, 16).ok());
        let (source, sequence) = source.zip(sequence).ok_or(Fault::Name)?;
        Ok(EntryIdentity { source: SourceId(source), sequence })
    }

    /// Adds it to `gather` as a text.
    ///
    /// # Errors
    /// The rule that it breaks: [`Fault::Time`] without a time, [`Fault::Fields`] without a field that is stored.
    pub fn feed(&self, gather: &mut Gather) -> Result<(), Fault> {
        let time = self.get("__REALTIME_TIMESTAMP").and_then(|text| text.parse::<i64>().ok());
        let time_ns = time.and_then(|us| us.checked_mul(1_000)).ok_or(Fault::Time)?;
        let job = ["SYSLOG_IDENTIFIER", "_SYSTEMD_UNIT", "_COMM"].into_iter().find_map(|name| self.get(name));
        let host = self.get("_HOSTNAME").unwrap_or_default();
        let origin = Origin {
            job: job.as_deref().unwrap_or_default(),
            host: &host,
            facility: self.name_at(&FACILITIES, "SYSLOG_FACILITY"),
            severity: self.name_at(&SEVERITIES, "PRIORITY"),
        };
        origin.push(time_ns, self.text()?, gather)
    }

    fn text(&self) -> Result<String, Fault> {
        let message = self.get("MESSAGE").unwrap_or_default();
        let mut record = Record::new(&message);
        let is_attribute = |name: &str| !name.starts_with("__") && !NOT_ATTRIBUTES.contains(&name);
        let mut has_any = !message.is_empty();
        for (at, (name, _)) in self.fields.iter().enumerate().filter(|(_, (name, _))| is_attribute(name)) {
            if self.fields[..at].iter().any(|(before, _)| before == name) {
                continue;
            }
            has_any = true;
            let values: Vec<Cow<'_, str>> = self.values(name).collect();
            let out = record.attribute(name);
            match &values[..] {
                [value] => quoted(out, value),
                several => list(out, several),
            }
        }
        if has_any { Ok(record.into_text()) } else { Err(Fault::Fields) }
    }
}

/// A name that has several values.
fn list(out: &mut String, values: &[Cow<'_, str>]) {
    for (at, value) in values.iter().enumerate() {
        out.push(if at == 0 { '[' } else { ',' });
        quoted(out, value);
    }
    out.push(']');
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &[u8] = b"__CURSOR=s=0b;i=1f;b=0;m=1;t=2;x=3\n__REALTIME_TIMESTAMP=1700000000000001\nPRIORITY=3\nSYSLOG_FACILITY=3\n\
        _HOSTNAME=web-1\nSYSLOG_IDENTIFIER=nginx\n_PID=12\nTAG=a\nTAG=b\nMESSAGE\n\x0c\0\0\0\0\0\0\0two\nlines\"=\xff\n\n";

    fn all(bytes: &[u8], piece: usize) -> (Vec<Result<Entry, Fault>>, bool) {
        let (mut entries, mut out) = (Entries::default(), Vec::new());
        for mut piece in bytes.chunks(piece) {
            while let Some(entry) = entries.next(&mut piece) {
                out.push(entry);
            }
            assert!(entries.line.len() <= ENTRY_BYTES_MAX && entries.bytes <= ENTRY_BYTES_MAX);
        }
        (out, entries.is_cut())
    }

    #[test]
    fn an_entry_is_a_text_whatever_pieces_it_comes_in() {
        let twice = [ONE, b"\n", ONE].concat();
        let (whole, is_cut) = all(&twice, twice.len());
        assert_eq!((whole.len(), is_cut), (2, false));
        for piece in 1..40 {
            assert_eq!(all(&twice, piece), (all(&twice, twice.len()).0, false), "{piece}");
        }
        let entry = whole[0].as_ref().unwrap();
        assert_eq!(entry.identity(), Ok(EntryIdentity { source: SourceId(11), sequence: 31 }));
        let mut gather = Gather::default();
        entry.feed(&mut gather).unwrap();
        let batch = gather.take(SourceId(1), 1, &ogive_model::Tenant::default());
        let labels = batch.series[0].as_ref().unwrap().labels.to_string();
        assert_eq!(labels, r#"log{facility="daemon", instance="web-1", job="nginx", severity="error"}"#);
        let sample = batch.samples[0].as_ref().unwrap();
        assert_eq!(sample.time_ns, 1_700_000_000_000_001_000);
        let ogive_model::Value::Text(text) = &sample.value else { panic!("{sample:?}") };
        assert_eq!(
            text,
            "{\"body\":\"two\\nlines\\\"=\u{fffd}\",\"attributes\":{\"_PID\":\"12\",\"TAG\":[\"a\",\"b\"]}}"
        );
    }

    #[test]
    fn what_breaks_a_rule_is_a_fault_and_the_next_entry_is_read() {
        let long = [b"MESSAGE=".to_vec(), vec![b'x'; ENTRY_BYTES_MAX + 1], b"\n\n".to_vec()].concat();
        let length = (ENTRY_BYTES_MAX as u64 + 5).to_le_bytes();
        let long_value = [&b"A\n"[..], &length, &vec![b'x'; ENTRY_BYTES_MAX + 5], b"\n\n"].concat();
        let many = [b"A=1\n".repeat(FIELDS_MAX + 1), b"\n".to_vec()].concat();
        let cases = [
            (long, Fault::TooLong),
            (long_value, Fault::TooLong),
            (many, Fault::Fields),
            (b"=1\n\n".to_vec(), Fault::Name),
            ([vec![b'N'; 300], b"=1\n\n".to_vec()].concat(), Fault::Name),
            (b"\xff=1\n\n".to_vec(), Fault::NotUtf8),
            (b"A\n\x01\0\0\0\0\0\0\0xy\n\n".to_vec(), Fault::Fields),
        ];
        for (bytes, fault) in cases {
            let (found, is_cut) = all(&[&bytes[..], ONE].concat(), 4_096);
            assert!(matches!(&found[..], [Err(found), Ok(_)] if *found == fault), "{fault:?}: {:?}", found.len());
            assert!(!is_cut);
        }
        for end in 1..ONE.len() {
            assert!(all(&ONE[..end], 16).1, "{end}");
        }
        let none = |text: &[u8]| all(text, 99).0.remove(0).unwrap();
        assert_eq!(none(b"MESSAGE=a\n\n").identity(), Err(Fault::Name));
        assert_eq!(none(b"__CURSOR=s=x;i=1\n\n").identity(), Err(Fault::Name));
        let feed = |text: &[u8]| none(text).feed(&mut Gather::default());
        assert_eq!(feed(b"MESSAGE=a\n\n"), Err(Fault::Time));
        assert_eq!(feed(b"__REALTIME_TIMESTAMP=9223372036854775807\nMESSAGE=a\n\n"), Err(Fault::Time));
        assert_eq!(feed(b"__REALTIME_TIMESTAMP=1\n\n"), Err(Fault::Fields));
    }

    #[test]
    fn changed_bytes_never_break_it() {
        crate::mutations::mutations(ONE, 4_000, 5, b"=\n\0", |bytes| {
            for entry in all(bytes, 7).0.into_iter().flatten() {
                let _ = entry.identity();
                let _ = entry.feed(&mut Gather::default());
            }
        });
    }
}
