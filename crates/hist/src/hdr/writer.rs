//! From a histogram to bytes: the V2 form.

use std::io::Write;

use base64::Engine;

use super::{COMPRESSED, GROUPINGS, PLAIN};
use crate::{Error, Histogram, Scheme};

/// The word size in V2, which has no meaning.
const WORD_SIZE: u32 = 0x10;

/// The uncompressed V2 form. Values are in recorded units: the value of a unit is not part of the form.
///
/// # Errors
/// [`Error::NotHdr`] when the form cannot represent the histogram.
pub fn encode(histogram: &Histogram) -> Result<Vec<u8>, Error> {
    let Scheme::LogLinear2 { grouping, shift, .. } = &histogram.scheme else {
        return Err(Error::NotHdr("only scheme log-linear-2 has its bins"));
    };
    let Some(digits) = GROUPINGS.iter().position(|known| known == grouping) else {
        return Err(Error::NotHdr("its bins are those of 0 to 5 significant digits, groupings 0, 4, 7, 10, 14, 17"));
    };
    if histogram.negative.total() > 0 || histogram.nan > 0 {
        return Err(Error::NotHdr("it holds nothing below zero and nothing that is not a number"));
    }
    let mut payload = Vec::new();
    let mut next = 0_u32;
    let first = (histogram.zero > 0).then_some((0, histogram.zero));
    for (index, count) in first.into_iter().chain(histogram.positive.iter()).filter(|(_, count)| *count > 0) {
        let index = u32::try_from(index).expect("bins of log-linear-2 begin at 0");
        match i64::from(index - next) {
            0 => {}
            // A single zero is as short as a run of one, and is what HdrHistogram writes.
            1 => put_varint(&mut payload, 0),
            zeros => put_varint(&mut payload, -zeros),
        }
        let Ok(count) = i64::try_from(count) else {
            return Err(Error::NotHdr("its counts are below 2^63"));
        };
        put_varint(&mut payload, count);
        next = index + 1;
    }
    let last = next.saturating_sub(1) as i32;
    let grid = crate::loglinear2::Grid { grouping: *grouping, shift: *shift, unit: 1.0 };
    let (begin, width) = grid.units(last);
    if begin >= i64::MAX as f64 {
        return Err(Error::NotHdr("its values are below 2^63 units"));
    }
    // The float saturates just where the integer ends.
    let highest = ((begin + width) as i64).saturating_sub(1).max(2 << shift);
    let mut bytes = Vec::with_capacity(40 + payload.len());
    bytes.extend_from_slice(&(PLAIN[0] | WORD_SIZE).to_be_bytes());
    bytes.extend_from_slice(&length(&payload)?);
    bytes.extend_from_slice(&0_u32.to_be_bytes());
    bytes.extend_from_slice(&(digits as u32).to_be_bytes());
    bytes.extend_from_slice(&(1_i64 << shift).to_be_bytes());
    bytes.extend_from_slice(&highest.to_be_bytes());
    bytes.extend_from_slice(&1.0_f64.to_be_bytes());
    bytes.extend_from_slice(&payload);
    Ok(bytes)
}

/// The compressed V2 form.
///
/// # Errors
/// Those of [`encode`].
pub fn encode_compressed(histogram: &Histogram) -> Result<Vec<u8>, Error> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    let written = encoder.write_all(&encode(histogram)?).and_then(|()| encoder.finish());
    let compressed = written.expect("writing to memory does not fail");
    let mut bytes = (COMPRESSED[0] | WORD_SIZE).to_be_bytes().to_vec();
    bytes.extend_from_slice(&length(&compressed)?);
    bytes.extend_from_slice(&compressed);
    Ok(bytes)
}

/// The base64 of the compressed form, as in interval logs.
///
/// # Errors
/// Those of [`encode`].
pub fn encode_base64(histogram: &Histogram) -> Result<String, Error> {
    Ok(base64::engine::general_purpose::STANDARD.encode(encode_compressed(histogram)?))
}

fn length(bytes: &[u8]) -> Result<[u8; 4], Error> {
    let length = i32::try_from(bytes.len()).map_err(|_| Error::NotHdr("its payload is below 2 GiB"))?;
    Ok(length.to_be_bytes())
}

/// A zig-zag LEB128 number of at most nine bytes, the ninth with eight bits.
fn put_varint(out: &mut Vec<u8>, number: i64) {
    let mut value = ((number << 1) ^ (number >> 63)).cast_unsigned();
    for _ in 0..8 {
        if value < 0x80 {
            out.push(value as u8);
            return;
        }
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
