//! From bytes to a histogram, trusting nothing in them.

use std::io::Read;

use base64::Engine;

use super::{COMPRESSED, DOUBLES, GROUPINGS, PLAIN, PLAIN_BYTES_MAX, WORD_SIZE_MASK};
use crate::loglinear2::Grid;
use crate::{Bins, Error, Histogram, Scheme};

/// Decodes any of the forms. `unit` is the value of one recorded unit: 1e-9 for nanoseconds in seconds; a
/// histogram of doubles multiplies it by its own ratio.
///
/// # Errors
/// [`Error::Truncated`] and [`Error::Hdr`]; [`Error::Parameter`] for a unit outside 1e-100..=1e100.
pub fn decode(bytes: &[u8], unit: f64) -> Result<Histogram, Error> {
    let mut input = Input { bytes, at: 0 };
    let mut cookie = input.number("the cookie")?;
    let is_doubles = DOUBLES.contains(&cookie);
    if is_doubles {
        let _digits: u32 = input.number("the digits of a histogram of doubles")?;
        input.take(8, "the range of a histogram of doubles")?;
        cookie = input.number("the cookie")?;
    }
    if COMPRESSED.contains(&(cookie & !WORD_SIZE_MASK)) {
        let length: u32 = input.number("the length")?;
        let plain = inflate(input.take(length as usize, "the compressed form")?, input.at)?;
        let mut input = Input { bytes: &plain, at: 0 };
        let cookie = input.number("the cookie")?;
        return decode_plain(cookie, &mut input, unit, is_doubles);
    }
    decode_plain(cookie, &mut input, unit, is_doubles)
}

/// Decodes the base64 of any of the forms.
///
/// # Errors
/// [`Error::Base64`], and those of [`decode`].
pub fn decode_base64(text: &str, unit: f64) -> Result<Histogram, Error> {
    let bytes = base64::engine::general_purpose::STANDARD.decode(text.trim()).map_err(|error| match error {
        base64::DecodeError::InvalidByte(offset, byte) | base64::DecodeError::InvalidLastSymbol(offset, byte) => {
            Error::Base64 { offset, byte }
        }
        _ => Error::Base64 { offset: text.len(), byte: 0 },
    })?;
    decode(&bytes, unit)
}

fn inflate(compressed: &[u8], offset: usize) -> Result<Vec<u8>, Error> {
    let mut plain = Vec::new();
    let mut decoder = flate2::read::ZlibDecoder::new(compressed).take(PLAIN_BYTES_MAX + 1);
    match decoder.read_to_end(&mut plain) {
        Ok(length) if length as u64 > PLAIN_BYTES_MAX => {
            Err(Error::Hdr { offset, reason: "the compressed form unfolds to more than 16 MiB" })
        }
        Ok(_) => Ok(plain),
        Err(_) => Err(Error::Hdr { offset, reason: "the compressed form is not zlib" }),
    }
}

/// The fields before the counts.
struct Header {
    scheme: Scheme,
    grid: Grid,
    /// Bytes of counts, `None` for all remaining ones.
    payload: Option<usize>,
    /// Bytes of a count, `None` for variable length.
    word: Option<usize>,
}

fn decode_plain(cookie: u32, input: &mut Input<'_>, unit: f64, is_doubles: bool) -> Result<Histogram, Error> {
    let header = header(cookie, input, unit, is_doubles)?;
    let length = header.payload.unwrap_or(input.bytes.len() - input.at);
    let (start, payload) = (input.at, input.take(length, "the counts")?);
    let mut counts = Input { bytes: &input.bytes[..start + payload.len()], at: start };
    let mut bins = Bins::new();
    let mut histogram = Histogram::new(header.scheme);
    let mut index = 0_u64;
    let last = header.grid.index_max() as u64;
    while counts.at < counts.bytes.len() {
        let offset = counts.at;
        let count = match header.word {
            None => counts.varint()?,
            Some(word) => counts.word(word)?,
        };
        if count < 0 {
            if header.word.is_some() {
                return Err(Error::Hdr { offset, reason: "a count is below zero" });
            }
            index = index.saturating_add(count.unsigned_abs());
            continue;
        }
        if count > 0 {
            if index > last {
                return Err(Error::Hdr { offset, reason: "there are more counts than the scheme has bins" });
            }
            match index {
                0 => histogram.zero = count.unsigned_abs(),
                _ => bins.push(index as i32, count.unsigned_abs()),
            }
        }
        index = index.saturating_add(1);
    }
    histogram.positive = bins;
    histogram.recount();
    Ok(histogram)
}

fn header(cookie: u32, input: &mut Input<'_>, unit: f64, is_doubles: bool) -> Result<Header, Error> {
    let version = PLAIN.iter().position(|plain| *plain == cookie & !WORD_SIZE_MASK);
    let Some(version) = version else {
        return Err(Error::Hdr { offset: input.at - 4, reason: "the first bytes are not those of an HdrHistogram" });
    };
    let payload = match version {
        2 => None,
        _ => {
            let length: u32 = input.number("the payload's length")?;
            let _offset: u32 = input.number("the index offset")?;
            Some(length as usize)
        }
    };
    let digits: u32 = input.number("the digits")?;
    let offset = input.at;
    let least = u64::from_be_bytes(input.array("the least value")?);
    input.take(if version == 2 { 16 } else { 8 }, "the highest value")?;
    let ratio = if version == 2 { 1.0 } else { f64::from_be_bytes(input.array("the ratio")?) };
    // Of integers it has no meaning, and hdr-histogram-js writes an integer there.
    let ratio = if is_doubles { ratio } else { 1.0 };
    let Some(grouping) = GROUPINGS.get(digits as usize) else {
        return Err(Error::Hdr { offset: offset - 4, reason: "there are more than five significant digits" });
    };
    if !(1..1 << 41).contains(&least) {
        return Err(Error::Hdr { offset, reason: "the least discernible value is outside 1..2^41" });
    }
    let word = match (version, (cookie & WORD_SIZE_MASK) >> 4) {
        (0, _) => None,
        (_, word @ (2 | 4 | 8)) => Some(word as usize),
        _ => return Err(Error::Hdr { offset: 0, reason: "the word size is not 2, 4 or 8" }),
    };
    let (grouping, shift, unit) = (*grouping, least.ilog2() as u8, unit * ratio);
    let scheme = Scheme::log_linear2(grouping, shift, unit)?;
    Ok(Header { scheme, grid: Grid { grouping, shift, unit }, payload, word })
}

/// Bytes not yet read.
struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Input<'a> {
    fn take(&mut self, length: usize, field: &'static str) -> Result<&'a [u8], Error> {
        let truncated = Error::Truncated { field, offset: self.at, length: self.bytes.len() };
        let taken = self.bytes[self.at..].get(..length).ok_or(truncated)?;
        self.at += length;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], Error> {
        Ok(self.take(N, field)?.try_into().expect("N bytes were taken"))
    }

    fn number(&mut self, field: &'static str) -> Result<u32, Error> {
        Ok(u32::from_be_bytes(self.array(field)?))
    }

    fn word(&mut self, size: usize) -> Result<i64, Error> {
        Ok(match size {
            2 => i64::from(i16::from_be_bytes(self.array("a count")?)),
            4 => i64::from(i32::from_be_bytes(self.array("a count")?)),
            _ => i64::from_be_bytes(self.array("a count")?),
        })
    }

    /// A zig-zag LEB128 number of at most nine bytes, the ninth with eight bits.
    fn varint(&mut self) -> Result<i64, Error> {
        let mut value = 0_u64;
        for shift in (0..=56).step_by(7) {
            let [byte] = self.array("a count")?;
            if shift == 56 {
                value |= u64::from(byte) << 56;
                break;
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }
}
