//! The snappy block format of remote write bodies.
//!
//! Format: github.com/google/snappy, `format_description.txt`; decoded by the `snap` crate.
//! Limits: the length that a block declares is checked before memory is allocated for it.

use crate::Error;

/// What a block may at most unfold to for each of its bytes: a copy of two bytes makes at most 64.
const RATIO_MAX: u64 = 64;

/// The bytes of `packed`, at most `limit` of them.
///
/// # Errors
/// [`Error::TooLarge`] when the block declares more than `limit`, [`Error::Snappy`] when it is none.
pub fn unpack(packed: &[u8], limit: usize) -> Result<Vec<u8>, Error> {
    let declared = declared(packed)?;
    if declared > limit as u64 {
        return Err(Error::TooLarge { what: "the unpacked body's bytes", found: declared, limit: limit as u64 });
    }
    if declared > RATIO_MAX * packed.len() as u64 {
        return Err(Error::Snappy(format!("{} bytes cannot unfold to {declared}", packed.len())));
    }
    let mut bytes = vec![0; declared as usize];
    let length = snap::raw::Decoder::new().decompress(packed, &mut bytes).map_err(|e| Error::Snappy(e.to_string()))?;
    bytes.truncate(length);
    Ok(bytes)
}

/// `bytes` as a block.
///
/// # Errors
/// [`Error::Snappy`] above 4 GiB.
pub fn pack(bytes: &[u8]) -> Result<Vec<u8>, Error> {
    snap::raw::Encoder::new().compress_vec(bytes).map_err(|error| Error::Snappy(error.to_string()))
}

/// The length that a block says it unfolds to.
///
/// # Errors
/// [`Error::Snappy`] when there is none.
pub fn declared(packed: &[u8]) -> Result<u64, Error> {
    match snap::raw::decompress_len(packed) {
        Ok(length) => Ok(length as u64),
        Err(error) => Err(Error::Snappy(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pack(bytes: &[u8]) -> Vec<u8> {
        super::pack(bytes).unwrap()
    }

    #[test]
    fn a_block_comes_back_up_to_the_limit() {
        let bytes = b"latency ".repeat(1000);
        assert_eq!(unpack(&pack(&bytes), bytes.len()).unwrap(), bytes);
        assert!(matches!(
            unpack(&pack(&bytes), bytes.len() - 1),
            Err(Error::TooLarge { found: 8000, limit: 7999, .. })
        ));
        assert_eq!(unpack(&pack(b""), 0).unwrap(), b"");
    }

    #[test]
    fn lies_about_the_length_take_no_memory() {
        // Declares 4 GiB - 1, then 16 MiB with nothing behind it, then less than there is.
        assert!(matches!(unpack(&[0xff, 0xff, 0xff, 0xff, 0x0f, 0x00], 32 << 20), Err(Error::TooLarge { .. })));
        assert!(matches!(unpack(&[0x80, 0x80, 0x80, 0x08, 0x00], 32 << 20), Err(Error::Snappy(_))));
        assert!(matches!(unpack(&[0x01, 0x08, b'a', b'b', b'c'], 32 << 20), Err(Error::Snappy(_))));
        assert!(matches!(unpack(&[], 32 << 20), Err(Error::Snappy(_))));
        assert!(matches!(unpack(&[0xff; 11], 32 << 20), Err(Error::Snappy(_))));
    }
}
