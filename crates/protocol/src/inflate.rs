//! Bounded decompression of messages in zlib's and gzip's format.
//!
//! Limits: no more than the caller's limit is ever decompressed, whatever the compressed bytes expand to.

use std::borrow::Cow;
use std::io::Read;

use flate2::read::{MultiGzDecoder, ZlibDecoder};

use crate::lines::Fault;

/// What a zlib stream with the usual window begins with; with the next byte it is a multiple of 31 (RFC 1950, 2.2).
const ZLIB: u8 = 0x78;

/// What a gzip member begins with.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The message that `bytes` holds: decompressed when it begins as zlib or gzip does, unchanged otherwise.
///
/// # Errors
/// [`Fault::TooLong`] when it expands to more than `limit` bytes, [`Fault::Compression`] when it is cut or damaged.
pub fn inflate(bytes: &[u8], limit: usize) -> Result<Cow<'_, [u8]>, Fault> {
    match bytes {
        [ZLIB, flags, ..] if u16::from_be_bytes([ZLIB, *flags]).is_multiple_of(31) => {
            read(ZlibDecoder::new(bytes), limit).map(Cow::Owned)
        }
        [first, second, ..] if [*first, *second] == GZIP => read(MultiGzDecoder::new(bytes), limit).map(Cow::Owned),
        _ if bytes.len() > limit => Err(Fault::TooLong),
        _ => Ok(Cow::Borrowed(bytes)),
    }
}

fn read(decoder: impl Read, limit: usize) -> Result<Vec<u8>, Fault> {
    let mut out = Vec::new();
    // One byte more, to distinguish a message of exactly the limit from a longer one.
    decoder.take(limit as u64 + 1).read_to_end(&mut out).map_err(|_| Fault::Compression)?;
    if out.len() > limit { Err(Fault::TooLong) } else { Ok(out) }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::{GzEncoder, ZlibEncoder};

    use super::*;

    pub(crate) fn zlib(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn messages_are_decompressed_up_to_the_limit() {
        for message in [&b""[..], b"{\"host\":\"a\"}", &[b'x'; 1_000]] {
            for packed in [message.to_vec(), zlib(message), gzip(message)] {
                assert_eq!(inflate(&packed, 1_000).as_deref(), Ok(message));
            }
        }
        for packed in [zlib(&[b'x'; 1_001]), gzip(&[b'x'; 1_001]), zlib(&vec![0; 50 << 20]), vec![b'x'; 1_001]] {
            assert_eq!(inflate(&packed, 1_000), Err(Fault::TooLong));
        }
    }

    #[test]
    fn cut_and_damaged_messages_are_faults() {
        let message: Vec<u8> = (0..200).collect();
        for packed in [zlib(&message), gzip(&message)] {
            for end in 3..packed.len() {
                assert!(inflate(&packed[..end], 1_000).is_err(), "cut at {end}");
            }
            crate::mutations::mutations(&packed, 5_000, 4, b"", |bytes| {
                if let Ok(out) = inflate(bytes, 1_000) {
                    assert!(out.len() <= 1_000);
                }
            });
        }
    }
}
