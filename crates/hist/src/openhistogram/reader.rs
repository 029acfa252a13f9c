//! The tolerant reader.

use crate::openhistogram::BINS_MAX;
use crate::{Bins, DecimalBin, Error, Histogram};

/// What a reader changed to make its input canonical. All zero for canonical bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Repairs {
    /// Bins with a `val` that the format does not have; they and their samples are dropped.
    pub invalid_bins: usize,
    /// Samples in those bins, up to 2^64-1.
    pub invalid_samples: u64,
    /// Bins that count nothing; dropped.
    pub empty_bins: usize,
    /// Zero bins with an exponent; counted into the zero bin.
    pub odd_zero_bins: usize,
    /// Repeated bins; their counts are added.
    pub duplicate_bins: usize,
    /// Bins below the one before them; put in order.
    pub unsorted_bins: usize,
    /// Counts in more bytes than they need.
    pub wide_counts: usize,
    /// Bins declared but not there (the input ends cleanly before them).
    pub missing_bins: usize,
    /// Bytes after the last declared bin; ignored.
    pub trailing_bytes: usize,
    /// Base64 without its padding, or with white space in it.
    pub loose_base64: bool,
}

impl Repairs {
    /// True when the input was canonical.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// Reads the byte form, canonical or not.
///
/// # Errors
/// [`Error::Truncated`] inside a field, [`Error::CountWidth`] above 7, [`Error::TooManyBins`] above [`BINS_MAX`].
pub fn decode(bytes: &[u8]) -> Result<(Histogram, Repairs), Error> {
    let Some(&[high, low]) = bytes.first_chunk::<2>() else {
        return Err(Error::Truncated { field: "the number of bins", offset: 0, length: bytes.len() });
    };
    let declared = usize::from(u16::from_be_bytes([high, low]));
    if declared > BINS_MAX {
        return Err(Error::TooManyBins { found: declared, limit: BINS_MAX });
    }
    let mut state = Reading::new();
    let mut offset = 2;
    for read in 0..declared {
        if offset == bytes.len() {
            state.repairs.missing_bins = declared - read;
            break;
        }
        let (bin, count, length) = read_bin(bytes, offset)?;
        state.take(bin, count, length);
        offset += length;
    }
    state.repairs.trailing_bytes = bytes.len() - offset;
    Ok(state.finish())
}

/// Decodes the base64 form. White space and missing padding are accepted; leftover bytes are not, because they indicate
/// a truncated text.
///
/// # Errors
/// [`Error::Base64`] for another character, an impossible length or bytes after the last bin; and those of [`decode`].
pub fn decode_base64(text: &str) -> Result<(Histogram, Repairs), Error> {
    let (bytes, loose) = base64_bytes(text)?;
    let (histogram, mut repairs) = decode(&bytes)?;
    if repairs.trailing_bytes > 0 {
        return Err(Error::Trailing { offset: bytes.len() - repairs.trailing_bytes, bytes: repairs.trailing_bytes });
    }
    repairs.loose_base64 = loose;
    Ok((histogram, repairs))
}

/// One bin at `offset`: the bin, its count and its length in bytes.
fn read_bin(bytes: &[u8], offset: usize) -> Result<(DecimalBin, u64, usize), Error> {
    let truncated = |field| Error::Truncated { field, offset, length: bytes.len() };
    let Some(&[val, exp, width]) = bytes[offset..].first_chunk::<3>() else {
        return Err(truncated("a bin"));
    };
    if width > 7 {
        return Err(Error::CountWidth { offset, width });
    }
    let length = 4 + usize::from(width);
    let Some(bytes) = bytes.get(offset + 3..offset + length) else {
        return Err(truncated("a count"));
    };
    let mut count = [0; 8];
    count[..bytes.len()].copy_from_slice(bytes);
    Ok((DecimalBin { val: val as i8, exp: exp as i8 }, u64::from_le_bytes(count), length))
}

/// The histogram while it is built, and the repairs.
struct Reading {
    histogram: Histogram,
    negative: Vec<(i32, u64)>,
    positive: Vec<(i32, u64)>,
    repairs: Repairs,
    /// Sort key of the bin before: sign class and index in real-axis order.
    last: (i8, i32),
}

impl Reading {
    fn new() -> Self {
        Self {
            histogram: Histogram::log_linear(),
            negative: Vec::new(),
            positive: Vec::new(),
            repairs: Repairs::default(),
            last: (i8::MIN, 0),
        }
    }

    /// Files one bin.
    fn take(&mut self, bin: DecimalBin, count: u64, length: usize) {
        if count == 0 {
            self.repairs.empty_bins += 1;
            return;
        }
        if !bin.is_valid() {
            self.repairs.invalid_bins += 1;
            self.repairs.invalid_samples = self.repairs.invalid_samples.saturating_add(count);
            return;
        }
        // The width code is one below the bytes used; a count whose top byte is zero had room to spare.
        let needed = 4 + (u64::BITS - count.leading_zeros()).div_ceil(8) as usize - 1;
        self.repairs.wide_counts += usize::from(length > needed);
        let key = match bin.index() {
            Some(index) if bin.val > 0 => {
                self.positive.push((index, count));
                (2, index)
            }
            Some(index) => {
                self.negative.push((index, count));
                (0, -index)
            }
            None if bin == DecimalBin::NAN => (-1, 0),
            None => (1, 0),
        };
        if key.0 == -1 {
            self.repairs.duplicate_bins += usize::from(self.histogram.nan > 0);
            self.histogram.nan = self.histogram.nan.saturating_add(count);
        } else if key.0 == 1 {
            self.repairs.odd_zero_bins += usize::from(bin.exp != 0);
            self.repairs.duplicate_bins += usize::from(self.histogram.zero > 0);
            self.histogram.zero = self.histogram.zero.saturating_add(count);
        }
        self.repairs.unsorted_bins += usize::from(key < self.last);
        self.last = key;
    }

    fn finish(mut self) -> (Histogram, Repairs) {
        let read = self.negative.len() + self.positive.len();
        self.negative.reverse();
        self.histogram.negative = into_bins(self.negative);
        self.histogram.positive = into_bins(self.positive);
        self.repairs.duplicate_bins += read - self.histogram.negative.len() - self.histogram.positive.len();
        self.histogram.recount();
        (self.histogram, self.repairs)
    }
}

/// Bins from pairs that usually ascend already.
fn into_bins(pairs: Vec<(i32, u64)>) -> Bins<u64> {
    pairs.into_iter().collect()
}

/// The bytes of a base64 text, and whether it was loose.
fn base64_bytes(text: &str) -> Result<(Vec<u8>, bool), Error> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 3);
    let (mut loose, mut padding, mut held, mut bits) = (false, 0, 0_u32, 0);
    for (offset, byte) in text.bytes().enumerate() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b' ' | b'\t' | b'\n' | b'\r' => {
                loose = true;
                continue;
            }
            b'=' if padding < 2 && bits > 0 => {
                padding += 1;
                continue;
            }
            _ => return Err(Error::Base64 { offset, byte }),
        };
        if padding > 0 {
            return Err(Error::Base64 { offset, byte });
        }
        held = (held << 6 | u32::from(value)) & 0xffff;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((held >> bits) as u8);
        }
    }
    // 1 to 3 characters over a multiple of four leave 6, 4 or 2 bits; a single character contains no byte.
    if bits == 6 {
        return Err(Error::Base64 { offset: text.len(), byte: 0 });
    }
    let needed = match bits {
        4 => 2,
        2 => 1,
        _ => 0,
    };
    if padding > needed {
        return Err(Error::Base64 { offset: text.len() - 1, byte: b'=' });
    }
    Ok((bytes, loose || padding < needed))
}
