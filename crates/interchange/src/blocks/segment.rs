//! Segments of chunks.
//!
//! Format: `85BD40DD`, version 1 (u8), three zeros; then chunks, each its length (varint), encoding (u8), bytes, and
//! CRC32C of encoding and bytes (big-endian).

use super::reader::{ReadAt, Reader};

/// 4 MiB: more than 120 histograms with all bins that remote write accepts.
pub const CHUNK_BYTES_MAX: u64 = 4 << 20;

const MAGIC: u32 = 0x85BD_40DD;
const HEADER_BYTES: u64 = 8;

/// Encoding and bytes of the chunk at `place`; otherwise what is wrong with it.
///
/// # Errors
/// A sentence.
pub fn chunk(segments: &[&dyn ReadAt], place: u64) -> Result<(u8, Vec<u8>), String> {
    let (number, at) = ((place >> 32) as usize, place & 0xffff_ffff);
    let file = *segments.get(number).ok_or_else(|| format!("segment {:06} is missing", number + 1))?;
    let read = |from: u64, length: u64| -> Result<Vec<u8>, String> {
        if from < HEADER_BYTES && from > 0 || from.saturating_add(length) > file.bytes() {
            return Err(format!("byte {from} lies outside of segment {:06}", number + 1));
        }
        let mut out = vec![0; length as usize];
        file.read_at(from, &mut out).map_err(|error| error.to_string())?;
        Ok(out)
    };
    let header = read(0, HEADER_BYTES)?;
    if Reader(&header).u32() != Ok(MAGIC) || header[4] != 1 {
        return Err(format!("segment {:06} does not begin as one of Prometheus' does", number + 1));
    }
    if at < HEADER_BYTES {
        return Err(format!("byte {at} lies outside of segment {:06}", number + 1));
    }
    let head = read(at, 10.min(file.bytes().saturating_sub(at)))?;
    let mut reader = Reader(&head);
    let length = reader.varint().map_err(|_| "the length of the chunk is cut".to_owned())?;
    if length > CHUNK_BYTES_MAX {
        return Err(format!("the chunk says that it has {length} bytes, above {CHUNK_BYTES_MAX}"));
    }
    let from = at + (head.len() - reader.0.len()) as u64;
    let mut body = read(from, length + 5)?;
    let checksum = u32::from_be_bytes(body[length as usize + 1..].try_into().expect("four bytes"));
    body.truncate(length as usize + 1);
    if crc32c::crc32c(&body) != checksum {
        return Err("the checksum of the chunk is wrong".into());
    }
    let encoding = body.remove(0);
    Ok((encoding, body))
}
