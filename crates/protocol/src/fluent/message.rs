//! Messages of a stream of the Forward protocol, and the entries in each.
//!
//! Invariants: the same bytes give the same entries in the same order. Compressed entries are decompressed as they are
//! asked for.
//! Limits: [`MESSAGE_BYTES_MAX`] of a message, [`EXPANDED_BYTES_MAX`] of its compressed entries, [`ENTRIES_MAX`]
//! entries, [`CHUNK_BYTES_MAX`] of the name that acknowledges it.

use std::io::Read;

use flate2::read::MultiGzDecoder;

use super::entry::{ENTRY_BYTES_MAX, Entry};
use super::error::MessageError;
use crate::msgpack::{FramedValue, Reader, Splitter, Token, Writer, text};

/// 32 MiB, as the body of a request: Fluent Bit's chunks have 2 MiB, Fluentd's in memory 8 MiB.
pub const MESSAGE_BYTES_MAX: usize = 32 << 20;

/// 256 MiB, eight times a message: log lines expand that much. They are never held at once.
pub const EXPANDED_BYTES_MAX: usize = 256 << 20;

/// A million entries of a message, each of some bytes: more are no log lines.
pub const ENTRIES_MAX: usize = 1 << 20;

/// 256 bytes; clients send a UUID in base64, or 32 digits.
pub const CHUNK_BYTES_MAX: usize = 256;

/// 1,024 entries of an option; two or three are usual.
const OPTIONS_MAX: usize = 1_024;

/// What is decompressed at once.
const PIECE_BYTES: usize = 16 << 10;

/// The messages of one stream.
#[derive(Debug)]
pub struct Messages {
    splitter: Splitter,
}

impl Default for Messages {
    fn default() -> Self {
        Self { splitter: Splitter::new(MESSAGE_BYTES_MAX) }
    }
}

impl Messages {
    /// The bytes of the next message of what arrived before and `bytes`, which are all taken when there is none.
    ///
    /// # Errors
    /// Why the stream makes no sense from here on: it is not to be read further.
    pub fn next(&mut self, bytes: &mut &[u8]) -> Result<Option<&[u8]>, MessageError> {
        loop {
            match self.splitter.find()? {
                Some(FramedValue::Value(range)) => return Ok(Some(self.splitter.slice(range))),
                Some(FramedValue::TooLong) => return Err(MessageError::TooLarge),
                None if self.splitter.is_skipping() => return Err(MessageError::TooLarge),
                None if bytes.is_empty() => return Ok(None),
                None => self.splitter.add(std::mem::take(bytes)),
            }
        }
    }

    /// Frees what a message took that is done with.
    pub fn forget(&mut self) {
        self.splitter.forget();
    }

    /// Bytes that are kept of messages to come.
    #[must_use]
    pub fn held(&self) -> usize {
        self.splitter.held()
    }

    /// Whether a message has begun that is not complete.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.splitter.is_cut()
    }
}

/// One message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'m> {
    tag: &'m str,
    body: Body<'m>,
    options: Options<'m>,
}

/// Where the entries are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Body<'m> {
    /// A time and a record.
    Single(&'m [u8]),
    /// Entries behind each other.
    Entries(&'m [u8]),
}

/// What is said beside the entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Options<'m> {
    /// As it was written.
    chunk: Option<&'m [u8]>,
    is_gzip: bool,
    /// Metrics or traces of Fluent Bit.
    is_other_signal: bool,
}

impl<'m> Message<'m> {
    /// Reads a message of [`Messages`]; none where a client only shows that it lives.
    ///
    /// # Errors
    /// Why the stream makes no sense from here on.
    pub fn read(bytes: &'m [u8]) -> Result<Option<Self>, MessageError> {
        // The message is whole: what it lacks are values.
        Self::parts(bytes).map_err(|error| if error == MessageError::Cut { MessageError::Form } else { error })
    }

    fn parts(bytes: &'m [u8]) -> Result<Option<Self>, MessageError> {
        let mut reader = Reader::new(bytes);
        let count = match reader.token()? {
            Token::Nil => return Ok(None),
            Token::List(count) => count,
            _ => return Err(MessageError::Form),
        };
        let tag = reader.text()?.and_then(|tag| std::str::from_utf8(tag).ok()).ok_or(MessageError::Form)?;
        let (from, mut second) = (reader, reader);
        let (body, values) = match second.token()? {
            Token::List(_) => {
                let list = reader.value()?;
                // What the list itself has before its values.
                let head = list.len() - (second.rest().len() - reader.rest().len());
                (Body::Entries(&list[head..]), 2)
            }
            Token::Text(_) | Token::Binary(_) => (Body::Entries(reader.text()?.unwrap_or_default()), 2),
            _ => {
                reader.value()?;
                reader.value()?;
                let length = from.rest().len() - reader.rest().len();
                (Body::Single(&from.rest()[..length]), 3)
            }
        };
        let options = match count.checked_sub(values) {
            Some(0) => Options::default(),
            Some(1) => Options::read(&mut reader)?,
            _ => return Err(MessageError::Form),
        };
        if !reader.is_empty() {
            return Err(MessageError::Form);
        }
        Ok(Some(Self { tag, body, options }))
    }

    /// Where its entries come from.
    #[must_use]
    pub fn tag(&self) -> &'m str {
        self.tag
    }

    /// What it is known by when it is sent again; none when it is not to be acknowledged.
    #[must_use]
    pub fn chunk(&self) -> Option<&'m [u8]> {
        self.options.chunk
    }

    /// The answer that it is stored, when one is wanted.
    #[must_use]
    pub fn acknowledgement(&self) -> Option<Vec<u8>> {
        self.options.chunk.map(|chunk| Writer::default().map(1).text("ack").value(chunk).into_bytes())
    }

    /// Whether it holds logs, and not metrics or traces in a form of Fluent Bit's own.
    #[must_use]
    pub fn is_log(&self) -> bool {
        !self.options.is_other_signal
    }

    /// Its entries, from the first.
    #[must_use]
    pub fn entries(&self) -> Entries<'m> {
        let source = match self.body {
            Body::Single(fields) => Source::Single(Some(fields)),
            Body::Entries(bytes) if self.options.is_gzip => Source::Compressed(Box::new(Compressed::new(bytes))),
            Body::Entries(bytes) => Source::Slice(Reader::new(bytes)),
        };
        Entries { source, count: 0 }
    }
}

impl<'m> Options<'m> {
    fn read(reader: &mut Reader<'m>) -> Result<Self, MessageError> {
        let mut options = Self::default();
        let count = match reader.token()? {
            Token::Nil => 0,
            Token::Map(count) if count <= OPTIONS_MAX => count,
            _ => return Err(MessageError::Form),
        };
        for _ in 0..count {
            let (name, value) = (reader.text()?, reader.value()?);
            match name {
                Some(b"chunk") => match text(value)? {
                    Some(chunk) if chunk.len() <= CHUNK_BYTES_MAX => options.chunk = Some(value),
                    _ => return Err(MessageError::Form),
                },
                Some(b"compressed") => match text(value)? {
                    Some(b"gzip") => options.is_gzip = true,
                    Some(b"text") => options.is_gzip = false,
                    _ => return Err(MessageError::CompressionUnknown),
                },
                Some(b"fluent_signal") => {
                    options.is_other_signal = Reader::new(value).token()? != Token::Unsigned(0);
                }
                _ => {}
            }
        }
        Ok(options)
    }
}

/// The entries of one message, in order.
#[derive(Debug)]
pub struct Entries<'m> {
    source: Source<'m>,
    count: usize,
}

#[derive(Debug)]
enum Source<'m> {
    Single(Option<&'m [u8]>),
    Slice(Reader<'m>),
    Compressed(Box<Compressed<'m>>),
}

impl Entries<'_> {
    /// The next entry; none behind the last.
    ///
    /// # Errors
    /// Why the stream makes no sense from here on; the entries before are good.
    pub fn next_entry(&mut self) -> Result<Option<Entry<'_>>, MessageError> {
        let entry = match &mut self.source {
            Source::Single(fields) => fields.take().map(Entry::Fields),
            Source::Slice(reader) if reader.is_empty() => None,
            Source::Slice(reader) => Some(Entry::List(reader.value()?)),
            Source::Compressed(compressed) => compressed.next_entry()?,
        };
        self.count += usize::from(entry.is_some());
        if self.count > ENTRIES_MAX { Err(MessageError::Entries) } else { Ok(entry) }
    }
}

/// Entries in members of gzip.
#[derive(Debug)]
struct Compressed<'m> {
    decoder: MultiGzDecoder<&'m [u8]>,
    splitter: Splitter,
    expanded: usize,
}

impl<'m> Compressed<'m> {
    fn new(bytes: &'m [u8]) -> Self {
        Self { decoder: MultiGzDecoder::new(bytes), splitter: Splitter::new(ENTRY_BYTES_MAX), expanded: 0 }
    }

    fn next_entry(&mut self) -> Result<Option<Entry<'_>>, MessageError> {
        let found = loop {
            match self.splitter.find()? {
                Some(found) => break found,
                None if self.fill()? => {}
                None if self.splitter.is_cut() => return Err(MessageError::Cut),
                None => return Ok(None),
            }
        };
        Ok(Some(match found {
            FramedValue::Value(range) => Entry::List(self.splitter.slice(range)),
            FramedValue::TooLong => Entry::TooLong,
        }))
    }

    /// Decompresses a piece; false at the end.
    fn fill(&mut self) -> Result<bool, MessageError> {
        let mut piece = [0; PIECE_BYTES];
        let length = self.decoder.read(&mut piece).map_err(|_| MessageError::Compression)?;
        self.expanded += length;
        if self.expanded > EXPANDED_BYTES_MAX {
            return Err(MessageError::Expanded);
        }
        self.splitter.add(&piece[..length]);
        Ok(length > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inflate::tests::gzip;

    #[test]
    fn compressed_entries_expand_up_to_the_limit() {
        let (entries, count) = (b"\x92\x01\x80".repeat(1_000), 1_000);
        let bytes = gzip(&entries);
        for (room, expected) in [(entries.len(), Ok(count)), (entries.len() - 1, Err(MessageError::Expanded))] {
            let mut compressed = Compressed::new(&bytes);
            compressed.expanded = EXPANDED_BYTES_MAX - room;
            let mut entries = Entries { source: Source::Compressed(Box::new(compressed)), count: 0 };
            let mut read = || -> Result<usize, MessageError> {
                while entries.next_entry()?.is_some() {}
                Ok(entries.count)
            };
            assert_eq!(read(), expected);
        }
    }

    #[test]
    fn a_message_has_up_to_so_many_entries() {
        let bytes = b"\x92\x01\x80".repeat(2);
        for (before, expected) in [(ENTRIES_MAX - 2, None), (ENTRIES_MAX - 1, Some(MessageError::Entries))] {
            let mut entries = Entries { source: Source::Slice(Reader::new(&bytes)), count: before };
            assert!(entries.next_entry().unwrap().is_some());
            assert_eq!(entries.next_entry().err(), expected);
        }
    }
}
