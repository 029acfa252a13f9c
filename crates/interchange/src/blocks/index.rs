//! The index of a block: symbols, and of each series its labels and where its chunks are.
//!
//! Format: big-endian. `BAAAD700`, version 2 (u8), then sections; their places stand in the last 52 bytes: symbols,
//! series, label indices, their offsets, postings, their offsets, each u64, and CRC32C of these. Postings are not
//! needed: all series are read.

use std::io;

use super::reader::{ReadAt, Reader, Truncated};
use crate::Error;

/// 512 MiB: the texts of some ten million series.
pub const SYMBOLS_BYTES_MAX: u64 = 512 << 20;
/// 4 MiB: the labels and chunks of one series.
const ENTRY_BYTES_MAX: u64 = 4 << 20;

const MAGIC: u32 = 0xBAAA_D700;
const TOC_BYTES: u64 = 52;
/// Entries of series are aligned to it.
const ALIGNMENT: u64 = 16;

/// A series.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// By which tombstones name it: its place in units of 16 bytes.
    pub reference: u64,
    /// Names and values.
    pub labels: Vec<(String, String)>,
    /// Where its samples are.
    pub chunks: Vec<ChunkPlace>,
}

/// A chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkPlace {
    /// Time of its first sample.
    pub first_ms: i64,
    /// Time of its last sample.
    pub last_ms: i64,
    /// The number of the segment, from 0, in the upper 32 bits, and the place in it.
    pub place: u64,
}

/// The part of an index that is kept in memory.
pub struct Index {
    symbols: Vec<u8>,
    /// The start of each symbol, at its length.
    starts: Vec<u32>,
    series: (u64, u64),
}

fn unreadable(what: &str) -> Error {
    Error::Unreadable(format!("index: {what}"))
}

impl From<Truncated> for Error {
    fn from(_: Truncated) -> Self {
        unreadable("it ends too early, or a number is too long")
    }
}

fn part(file: &dyn ReadAt, from: u64, length: u64) -> Result<Vec<u8>, Error> {
    let fits = from.checked_add(length).is_some_and(|end| end <= file.bytes());
    if !fits {
        return Err(unreadable("a section lies beyond its end"));
    }
    let length = usize::try_from(length).map_err(|_| unreadable("a section is too large"))?;
    let mut out = vec![0; length];
    file.read_at(from, &mut out)?;
    Ok(out)
}

impl Index {
    /// Reads the symbols, and where the series are.
    ///
    /// # Errors
    /// [`Error::Unreadable`], and the file's.
    pub fn open(file: &dyn ReadAt) -> Result<Self, Error> {
        let length = file.bytes();
        if length < 5 + TOC_BYTES {
            return Err(unreadable("it is shorter than any index"));
        }
        let head = part(file, 0, 5)?;
        if Reader(&head).u32()? != MAGIC {
            return Err(unreadable("it does not begin as an index of Prometheus does"));
        }
        if head[4] != 2 {
            return Err(unreadable(&format!("version {} is not known; Prometheus 2.1 and newer write 2", head[4])));
        }
        let toc = part(file, length - TOC_BYTES, TOC_BYTES)?;
        let mut reader = Reader(&toc);
        let mut places = [0_u64; 6];
        for place in &mut places {
            *place = reader.u64()?;
        }
        if reader.u32()? != crc32c::crc32c(&toc[..48]) {
            return Err(unreadable("the checksum of its table of contents is wrong"));
        }
        let [symbols, series, rest @ ..] = places;
        let end = rest.into_iter().filter(|place| *place > series).min().unwrap_or(length - TOC_BYTES);
        if series > end || end > length {
            return Err(unreadable("its sections lie beyond its end"));
        }
        let (symbols, starts) = read_symbols(file, symbols)?;
        Ok(Self { symbols, starts, series: (series, end) })
    }

    fn symbol(&self, number: u64) -> Result<&str, String> {
        let start = usize::try_from(number).ok().and_then(|at| self.starts.get(at));
        let start = *start.ok_or_else(|| format!("symbol {number} of {}", self.starts.len()))? as usize;
        let mut reader = Reader(&self.symbols[start..]);
        let text = reader.varint().and_then(|length| reader.take(usize::try_from(length).map_err(|_| Truncated)?));
        let text = text.map_err(|_| "a symbol is cut".to_owned())?;
        std::str::from_utf8(text).map_err(|_| "a symbol is not UTF-8".to_owned())
    }

    /// Passes each series, or its error, to `each`.
    ///
    /// # Errors
    /// Those of `each` and of the file; [`Error::Unreadable`] when the rest cannot be found.
    pub fn each(
        &self,
        file: &dyn ReadAt,
        each: &mut dyn FnMut(Result<Entry, String>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (mut at, end) = self.series;
        let mut ahead = Ahead { from: 0, bytes: Vec::new() };
        loop {
            at = at.next_multiple_of(ALIGNMENT);
            if at >= end {
                return Ok(());
            }
            let head = ahead.get(file, at, 10.min(end - at), end)?;
            let mut reader = Reader(head);
            let length = reader.varint()?;
            if length == 0 {
                // There are zeros between series; an entry has at least labels.
                at += 1;
                continue;
            }
            let head = (10.min(end - at) as usize - reader.0.len()) as u64;
            if length > ENTRY_BYTES_MAX || at + head + length + 4 > end {
                return Err(unreadable("a series is longer than its section, or than 4 MiB"));
            }
            let entry = ahead.get(file, at, head + length + 4, end)?;
            let (body, checksum) = entry[head as usize..].split_at(length as usize);
            let expected = u32::from_be_bytes(checksum.try_into().expect("four bytes"));
            let read = if crc32c::crc32c(body) == expected {
                self.entry(at / ALIGNMENT, body)
            } else {
                Err("the checksum of the series is wrong".to_owned())
            };
            each(read)?;
            at += head + length + 4;
        }
    }

    fn entry(&self, reference: u64, body: &[u8]) -> Result<Entry, String> {
        let cut = |_: Truncated| "the series is cut".to_owned();
        let mut reader = Reader(body);
        let mut out = Entry { reference, ..Entry::default() };
        for _ in 0..reader.varint().map_err(cut)? {
            let (name, value) = (reader.varint().map_err(cut)?, reader.varint().map_err(cut)?);
            out.labels.push((self.symbol(name)?.to_owned(), self.symbol(value)?.to_owned()));
        }
        let mut chunk = ChunkPlace { first_ms: 0, last_ms: 0, place: 0 };
        for at in 0..reader.varint().map_err(cut)? {
            let first = if at == 0 { reader.signed() } else { reader.varint().map(|more| more as i64) };
            chunk.first_ms = chunk.last_ms.wrapping_add(first.map_err(cut)?);
            chunk.last_ms = chunk.first_ms.wrapping_add(reader.varint().map_err(cut)? as i64);
            let place = if at == 0 { reader.varint() } else { reader.signed().map(|more| more as u64) };
            chunk.place = chunk.place.wrapping_add(place.map_err(cut)?);
            out.chunks.push(chunk);
        }
        Ok(out)
    }
}

fn read_symbols(file: &dyn ReadAt, place: u64) -> Result<(Vec<u8>, Vec<u32>), Error> {
    let length = u64::from(Reader(&part(file, place, 4)?).u32()?);
    if length > SYMBOLS_BYTES_MAX {
        return Err(unreadable(&format!("its symbols take {length} bytes, above {SYMBOLS_BYTES_MAX}")));
    }
    let mut symbols = part(file, place.saturating_add(4), length + 4)?;
    let expected = Reader(&symbols[length as usize..]).u32()?;
    symbols.truncate(length as usize);
    if crc32c::crc32c(&symbols) != expected {
        return Err(unreadable("the checksum of its symbols is wrong"));
    }
    let mut reader = Reader(&symbols);
    let count = reader.u32()?;
    let mut starts = Vec::new();
    for _ in 0..count {
        starts.push((symbols.len() - reader.0.len()) as u32);
        let length = reader.varint()?;
        reader.take(usize::try_from(length).map_err(|_| Truncated)?)?;
    }
    Ok((symbols, starts))
}

/// A part of the file that is in memory.
struct Ahead {
    from: u64,
    bytes: Vec<u8>,
}

/// 256 KiB at a time.
const AHEAD_BYTES: u64 = 256 << 10;

impl Ahead {
    /// `length` bytes from `at` on, which end before `end`.
    fn get(&mut self, file: &dyn ReadAt, at: u64, length: u64, end: u64) -> Result<&[u8], Error> {
        let is_here = at >= self.from && at + length <= self.from + self.bytes.len() as u64;
        if !is_here {
            let wanted = length.max(AHEAD_BYTES).min(end - at);
            self.bytes.resize(usize::try_from(wanted).map_err(|_| Truncated)?, 0);
            self.from = at;
            file.read_at(at, &mut self.bytes).map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => unreadable("it ends too early"),
                _ => error.into(),
            })?;
        }
        let from = (at - self.from) as usize;
        Ok(&self.bytes[from..from + length as usize])
    }
}
