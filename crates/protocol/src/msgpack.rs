//! MessagePack, read in place: the heads of values, and where each value of a stream ends.
//!
//! Invariants: nothing is allocated by a length or a count that a sender claims; each byte of a stream is looked at
//! once, whatever the pieces in which it arrives.
//! Limits: [`DEPTH_MAX`] lists and maps inside each other; a [`Splitter`] keeps as much of a value as it was made for.

use std::ops::Range;

use rmp::{Marker, encode};

use crate::lines::Fault;

/// 128 lists and maps inside each other, as deep as `serde_json` reads what other shippers send.
pub(crate) const DEPTH_MAX: usize = 128;

/// 64 KiB of memory that a [`Splitter`] keeps for the next value.
const KEPT_BYTES: usize = 64 << 10;

/// Why bytes are not MessagePack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MsgpackError {
    /// A byte with which no value begins.
    Reserved,
    /// Lists and maps deeper than [`DEPTH_MAX`].
    Depth,
    /// The bytes end inside a value.
    Cut,
}

impl From<MsgpackError> for Fault {
    fn from(_: MsgpackError) -> Self {
        Self::Fields
    }
}

/// The head of a value: all of a number, the length of what follows for the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Token {
    Nil,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    /// Bytes of a text, which need not be UTF-8.
    Text(usize),
    Binary(usize),
    /// The byte of the type and the bytes behind it.
    Extension(usize),
    /// Values of a list.
    List(usize),
    /// Pairs of a map.
    Map(usize),
}

impl Token {
    /// Bytes behind the head.
    fn content(self) -> usize {
        match self {
            Self::Text(length) | Self::Binary(length) | Self::Extension(length) => length,
            _ => 0,
        }
    }

    /// Values behind the head.
    fn values(self) -> usize {
        match self {
            Self::List(count) => count,
            Self::Map(count) => count.saturating_mul(2),
            _ => 0,
        }
    }
}

struct Head {
    bytes: usize,
    token: Token,
}

/// The head with which `bytes` begin, when all of it is there.
fn head(bytes: &[u8]) -> Result<Option<Head>, MsgpackError> {
    let Some((first, rest)) = bytes.split_first() else { return Ok(None) };
    let marker = Marker::from_u8(*first);
    // Bytes of the number behind the marker.
    let width = match marker {
        Marker::U8 | Marker::I8 | Marker::Str8 | Marker::Bin8 | Marker::Ext8 => 1,
        Marker::U16 | Marker::I16 | Marker::Str16 | Marker::Bin16 | Marker::Ext16 => 2,
        Marker::Array16 | Marker::Map16 => 2,
        Marker::U32 | Marker::I32 | Marker::F32 | Marker::Str32 | Marker::Bin32 | Marker::Ext32 => 4,
        Marker::Array32 | Marker::Map32 => 4,
        Marker::U64 | Marker::I64 | Marker::F64 => 8,
        _ => 0,
    };
    let Some(number) = rest.get(..width) else { return Ok(None) };
    let number = number.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    Ok(Some(Head { bytes: 1 + width, token: token(marker, number)? }))
}

/// What a marker and the number behind it mean.
fn token(marker: Marker, number: u64) -> Result<Token, MsgpackError> {
    // Lengths have 32 bits at most.
    let length = number as usize;
    Ok(match marker {
        Marker::Reserved => return Err(MsgpackError::Reserved),
        Marker::Null => Token::Nil,
        Marker::True => Token::Bool(true),
        Marker::False => Token::Bool(false),
        Marker::FixPos(small) => Token::Unsigned(small.into()),
        Marker::U8 | Marker::U16 | Marker::U32 | Marker::U64 => Token::Unsigned(number),
        Marker::FixNeg(small) => Token::Signed(small.into()),
        Marker::I8 => Token::Signed((number as i8).into()),
        Marker::I16 => Token::Signed((number as i16).into()),
        Marker::I32 => Token::Signed((number as i32).into()),
        Marker::I64 => Token::Signed(number as i64),
        Marker::F32 => Token::Float(f32::from_bits(number as u32).into()),
        Marker::F64 => Token::Float(f64::from_bits(number)),
        Marker::FixStr(small) => Token::Text(small.into()),
        Marker::Str8 | Marker::Str16 | Marker::Str32 => Token::Text(length),
        Marker::Bin8 | Marker::Bin16 | Marker::Bin32 => Token::Binary(length),
        Marker::FixExt1 => Token::Extension(2),
        Marker::FixExt2 => Token::Extension(3),
        Marker::FixExt4 => Token::Extension(5),
        Marker::FixExt8 => Token::Extension(9),
        Marker::FixExt16 => Token::Extension(17),
        Marker::Ext8 | Marker::Ext16 | Marker::Ext32 => Token::Extension(1 + length),
        Marker::FixArray(small) => Token::List(small.into()),
        Marker::Array16 | Marker::Array32 => Token::List(length),
        Marker::FixMap(small) => Token::Map(small.into()),
        Marker::Map16 | Marker::Map32 => Token::Map(length),
    })
}

/// Reads values that are all there, one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'m>(&'m [u8]);

impl<'m> Reader<'m> {
    pub(crate) fn new(bytes: &'m [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What was not read.
    pub(crate) fn rest(&self) -> &'m [u8] {
        self.0
    }

    /// The head of the next value; what is behind the head comes next.
    pub(crate) fn token(&mut self) -> Result<Token, MsgpackError> {
        let head = head(self.0)?.ok_or(MsgpackError::Cut)?;
        self.0 = &self.0[head.bytes..];
        Ok(head.token)
    }

    /// So many bytes, which a head announced.
    pub(crate) fn bytes(&mut self, length: usize) -> Result<&'m [u8], MsgpackError> {
        let (bytes, after) = self.0.split_at_checked(length).ok_or(MsgpackError::Cut)?;
        self.0 = after;
        Ok(bytes)
    }

    /// The bytes of the next value with its head and all that is in it.
    pub(crate) fn value(&mut self) -> Result<&'m [u8], MsgpackError> {
        let progress = Scan::default().advance(self.0)?;
        if !progress.is_complete {
            return Err(MsgpackError::Cut);
        }
        self.bytes(progress.read)
    }

    /// The bytes of the next value if it is a text or binary data; none, and the value is read, if it is another.
    pub(crate) fn text(&mut self) -> Result<Option<&'m [u8]>, MsgpackError> {
        text(self.value()?)
    }
}

/// The bytes of a whole value if it is a text or binary data.
pub(crate) fn text(value: &[u8]) -> Result<Option<&[u8]>, MsgpackError> {
    let mut reader = Reader::new(value);
    match reader.token()? {
        Token::Text(length) | Token::Binary(length) => reader.bytes(length).map(Some),
        _ => Ok(None),
    }
}

/// How far a [`Scan`] came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Progress {
    /// Bytes that it is done with; the others begin a head, and are to be given again with those that follow.
    read: usize,
    /// Whether the value ends with them.
    is_complete: bool,
}

/// Looks for the end of one value after the other.
#[derive(Debug, Default)]
struct Scan {
    /// Values to come, on each level of the value that is looked at.
    open: Vec<usize>,
    /// Bytes to come of a text, binary data or an extension.
    skip: usize,
}

impl Scan {
    fn advance(&mut self, bytes: &[u8]) -> Result<Progress, MsgpackError> {
        if self.open.is_empty() {
            self.open.push(1);
        }
        let mut read = 0;
        loop {
            let skipped = self.skip.min(bytes.len() - read);
            self.skip -= skipped;
            read += skipped;
            if self.skip > 0 {
                return Ok(Progress { read, is_complete: false });
            }
            while self.open.last() == Some(&0) {
                self.open.pop();
            }
            let Some(left) = self.open.last_mut() else { return Ok(Progress { read, is_complete: true }) };
            let Some(head) = head(&bytes[read..])? else { return Ok(Progress { read, is_complete: false }) };
            *left -= 1;
            read += head.bytes;
            self.skip = head.token.content();
            let values = head.token.values();
            if values > 0 {
                // One level is that of the value itself.
                if self.open.len() > DEPTH_MAX {
                    return Err(MsgpackError::Depth);
                }
                self.open.push(values);
            }
        }
    }
}

/// A value that a [`Splitter`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FramedValue {
    /// Where it is; see [`Splitter::slice`].
    Value(Range<usize>),
    /// It had more bytes than the limit, and is skipped.
    TooLong,
}

/// Divides a stream into values.
#[derive(Debug)]
pub(crate) struct Splitter {
    bytes: Vec<u8>,
    /// Where the value begins whose end is looked for.
    from: usize,
    /// Up to where its end was looked for.
    scanned: usize,
    scan: Scan,
    /// Bytes that are kept of a value.
    limit: usize,
    is_skipping: bool,
}

impl Splitter {
    pub(crate) fn new(limit: usize) -> Self {
        Self { bytes: Vec::new(), from: 0, scanned: 0, scan: Scan::default(), limit, is_skipping: false }
    }

    /// Takes the next bytes of the stream. What was found before is gone.
    pub(crate) fn add(&mut self, piece: &[u8]) {
        self.compact();
        self.bytes.extend_from_slice(piece);
    }

    /// Frees the memory of large values that were found, which are gone then.
    pub(crate) fn forget(&mut self) {
        // Small ones go together, when more is added.
        if self.from > KEPT_BYTES {
            self.compact();
        }
    }

    fn compact(&mut self) {
        if self.bytes.capacity() > KEPT_BYTES && self.from > self.bytes.len() / 2 {
            self.bytes = self.bytes.split_off(self.from);
        } else {
            self.bytes.drain(..self.from);
        }
        self.scanned -= self.from;
        self.from = 0;
    }

    /// The next value; none before more bytes are added.
    pub(crate) fn find(&mut self) -> Result<Option<FramedValue>, MsgpackError> {
        let progress = self.scan.advance(&self.bytes[self.scanned..])?;
        self.scanned += progress.read;
        if progress.is_complete {
            let range = self.from..self.scanned;
            self.from = self.scanned;
            let is_too_long = std::mem::take(&mut self.is_skipping) || range.len() > self.limit;
            return Ok(Some(if is_too_long { FramedValue::TooLong } else { FramedValue::Value(range) }));
        }
        // What is there of the value and what it is known to have.
        if self.is_skipping || self.held() + self.scan.skip > self.limit {
            self.is_skipping = true;
            self.from = self.scanned;
        }
        Ok(None)
    }

    /// The bytes of a value that was found.
    pub(crate) fn slice(&self, range: Range<usize>) -> &[u8] {
        &self.bytes[range]
    }

    /// Bytes that are kept of values that were not found yet.
    pub(crate) fn held(&self) -> usize {
        self.bytes.len() - self.from
    }

    /// Whether it is in a value that is too long.
    pub(crate) fn is_skipping(&self) -> bool {
        self.is_skipping
    }

    /// Whether a value has begun that is not complete.
    pub(crate) fn is_cut(&self) -> bool {
        self.held() > 0 || self.is_skipping
    }
}

/// Writes values to memory.
#[derive(Debug, Default)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn list(mut self, count: u32) -> Self {
        encode::write_array_len(&mut self.0, count).expect("writes to memory");
        self
    }

    pub(crate) fn map(mut self, count: u32) -> Self {
        encode::write_map_len(&mut self.0, count).expect("writes to memory");
        self
    }

    pub(crate) fn text(mut self, text: &str) -> Self {
        encode::write_str(&mut self.0, text).expect("writes to memory");
        self
    }

    pub(crate) fn binary(mut self, bytes: &[u8]) -> Self {
        encode::write_bin(&mut self.0, bytes).expect("writes to memory");
        self
    }

    pub(crate) fn bool(mut self, truth: bool) -> Self {
        encode::write_bool(&mut self.0, truth).expect("writes to memory");
        self
    }

    /// A value that is written already.
    pub(crate) fn value(mut self, value: &[u8]) -> Self {
        self.0.extend_from_slice(value);
        self
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values of a stream that arrives in pieces of `size`: their bytes, none for one that is too long, and how it
    /// ended.
    fn split(stream: &[u8], size: usize, limit: usize) -> (Vec<Option<Vec<u8>>>, Result<bool, MsgpackError>) {
        let (mut splitter, mut values) = (Splitter::new(limit), Vec::new());
        for piece in stream.chunks(size) {
            splitter.add(piece);
            loop {
                match splitter.find() {
                    Ok(Some(FramedValue::Value(range))) => values.push(Some(splitter.slice(range).to_vec())),
                    Ok(Some(FramedValue::TooLong)) => values.push(None),
                    Ok(None) => break,
                    Err(error) => return (values, Err(error)),
                }
            }
            assert!(splitter.held() <= limit + size, "{}", splitter.held());
        }
        (values, Ok(splitter.is_cut()))
    }

    fn samples() -> Vec<Vec<u8>> {
        let nested = Writer::default().list(2).map(1).text("k").value(&[0xc0]).text("x");
        let mut numbers = Vec::new();
        for number in [0_i64, -1, 127, -128, 40_000, -40_000, 1 << 40, i64::MIN] {
            encode::write_sint(&mut numbers, number).unwrap();
        }
        vec![
            nested.into_bytes(),
            Writer::default().list(8).value(&numbers).into_bytes(),
            vec![0xd7, 0, 1, 2, 3, 4, 5, 6, 7, 8],
            vec![0xc7, 0, 5],
            vec![0x90],
            vec![0x80],
            Writer::default().binary(&[7; 300]).into_bytes(),
            Writer::default().text(&"y".repeat(70_000)).into_bytes(),
            vec![0xcb, 0x3f, 0xf8, 0, 0, 0, 0, 0, 0],
        ]
    }

    #[test]
    fn values_are_whole_wherever_segments_end() {
        let samples = samples();
        let stream = samples.concat();
        let expected: Vec<_> = samples.iter().cloned().map(Some).collect();
        for size in [1, 2, 3, 7, 1_000, stream.len()] {
            assert_eq!(split(&stream, size, 1 << 20), (expected.clone(), Ok(false)), "{size}");
        }
        for end in (0..400).chain([70_000]) {
            let (values, ended) = split(&stream[..end], 5, 1 << 20);
            assert_eq!(values, expected[..values.len()], "{end}");
            let found: usize = values.iter().flatten().map(Vec::len).sum();
            assert_eq!(ended, Ok(found < end), "{end}");
        }
    }

    #[test]
    fn a_value_that_is_too_long_is_skipped_and_the_next_is_found() {
        let stream = [vec![1], Writer::default().text(&"y".repeat(100)).into_bytes(), vec![0x92, 3, 4]].concat();
        let (first, last) = (Some(vec![1]), Some(vec![0x92, 3, 4]));
        for size in 1..=stream.len() {
            let expected = [first.clone(), Some(stream[1..103].to_vec()), last.clone()];
            assert_eq!(split(&stream, size, 102).0, expected, "{size}");
            assert_eq!(split(&stream, size, 101), (vec![first.clone(), None, last.clone()], Ok(false)), "{size}");
        }
        // Four billion bytes that are announced take no memory.
        let lie = [&[0xdb_u8, 0xff, 0xff, 0xff, 0xff][..], &[b'z'; 50_000]].concat();
        assert_eq!(split(&lie, 1_000, 101), (vec![], Ok(true)));
    }

    #[test]
    fn what_is_no_value_is_an_error() {
        assert_eq!(split(&[0xc1], 1, 10).1, Err(MsgpackError::Reserved));
        let deep = |depth: usize| [vec![0x91; depth], vec![0xc0]].concat();
        assert_eq!(split(&deep(DEPTH_MAX), 1, 1_000), (vec![Some(deep(DEPTH_MAX))], Ok(false)));
        assert_eq!(split(&deep(DEPTH_MAX + 1), 1, 1_000).1, Err(MsgpackError::Depth));
        for cut in [&[][..], &[0xcd, 1], &[0xa2, b'x'], &[0x92, 1], &[0xdd, 0xff, 0xff, 0xff, 0xff]] {
            assert_eq!(Reader::new(cut).value(), Err(MsgpackError::Cut), "{cut:?}");
        }
    }

    #[test]
    fn heads_are_read_as_they_are_written() {
        let mut bytes = Vec::new();
        for number in [i64::MIN, -40_000, -129, -128, -33, -32, -1] {
            encode::write_sint(&mut bytes, number).unwrap();
            assert_eq!(Reader::new(&bytes).token(), Ok(Token::Signed(number)));
            bytes.clear();
        }
        for number in [0, 127, 128, 255, 256, 65_535, 65_536, 1 << 32, u64::MAX] {
            encode::write_uint(&mut bytes, number).unwrap();
            assert_eq!(Reader::new(&bytes).token(), Ok(Token::Unsigned(number)));
            bytes.clear();
        }
        encode::write_f64(&mut bytes, -1.5).unwrap();
        encode::write_f32(&mut bytes, 0.25).unwrap();
        let mut reader = Reader::new(&bytes);
        assert_eq!([reader.token(), reader.token()], [Ok(Token::Float(-1.5)), Ok(Token::Float(0.25))]);
        assert!(reader.is_empty());
        for length in [0, 31, 32, 255, 256, 65_535, 65_536] {
            let text = "x".repeat(length);
            let written = Writer::default().text(&text).binary(text.as_bytes()).into_bytes();
            let mut reader = Reader::new(&written);
            let expected = Ok(Some(text.as_bytes()));
            assert_eq!((reader.text(), reader.text(), reader.is_empty()), (expected, expected, true), "{length}");
        }
    }
}
