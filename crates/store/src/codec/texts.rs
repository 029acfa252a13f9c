//! A column of texts: their lengths, then all of them together through zstd when that is smaller.

use crate::bytes::{Broken, Cursor, put_bytes, put_varint};
use crate::codec::integers;

const RAW: u8 = 0;
const ZSTD: u8 = 1;

/// 64 KiB of texts in a chunk: enough for zstd to learn, little enough to read for one line.
pub(crate) const CHUNK_BYTES_MAX: usize = 64 * 1024;
/// 16 MiB: one text may be larger than a chunk should be, and none is larger than a batch.
pub(crate) const TEXT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Below this zstd has nothing to find.
const ZSTD_BYTES_MIN: usize = 64;
/// Level 3 is the library's own default: 5 % larger than level 9 at a quarter of its time.
const ZSTD_LEVEL: i32 = 3;

/// Appends `values`.
pub(crate) fn put(out: &mut Vec<u8>, values: &[String]) {
    let lengths: Vec<i64> = values.iter().map(|value| value.len() as i64).collect();
    integers::put(out, &lengths);
    let raw = values.concat();
    let packed = (raw.len() >= ZSTD_BYTES_MIN).then(|| zstd::bulk::compress(raw.as_bytes(), ZSTD_LEVEL).ok()).flatten();
    match packed.filter(|packed| packed.len() < raw.len()) {
        Some(packed) => {
            out.push(ZSTD);
            put_varint(out, raw.len() as u64);
            put_bytes(out, &packed);
        }
        None => {
            out.push(RAW);
            put_bytes(out, raw.as_bytes());
        }
    }
}

/// Reads `count` texts.
pub(crate) fn get(cursor: &mut Cursor<'_>, count: usize) -> Result<Vec<String>, Broken> {
    let lengths = integers::get(cursor, count)?;
    let raw = match cursor.byte()? {
        RAW => cursor.length_and_bytes()?.to_vec(),
        ZSTD => {
            let length = cursor.count(CHUNK_BYTES_MAX + TEXT_BYTES_MAX, "bytes of text")?;
            let packed = cursor.length_and_bytes()?;
            zstd::bulk::decompress(packed, length).map_err(|error| cursor.broken(error.to_string()))?
        }
        tag => return Err(cursor.broken(format!("{tag} is no coding of texts"))),
    };
    let raw = String::from_utf8(raw).map_err(|error| cursor.broken(error.to_string()))?;
    let mut rest = raw.as_str();
    let mut values = Vec::with_capacity(count);
    for length in lengths {
        let split = usize::try_from(length).ok().and_then(|length| rest.split_at_checked(length));
        let Some((value, after)) = split else {
            return Err(cursor.broken(format!("a text of {length} bytes where {} are left", rest.len())));
        };
        values.push(value.to_owned());
        rest = after;
    }
    if rest.is_empty() { Ok(values) } else { Err(cursor.broken(format!("{} bytes follow the last text", rest.len()))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(values: &[String]) -> usize {
        let mut out = Vec::new();
        put(&mut out, values);
        let mut cursor = Cursor::new(&out);
        assert_eq!(get(&mut cursor, values.len()).unwrap(), values);
        assert!(cursor.is_empty());
        for cut in 0..out.len() {
            assert!(get(&mut Cursor::new(&out[..cut]), values.len()).is_err(), "cut at {cut}");
        }
        out.len()
    }

    #[test]
    fn texts_come_back_and_repetition_is_cheap() {
        check(&["".into(), "ä".into(), "\0".into(), "x".repeat(10)]);
        let lines: Vec<String> = (0..300).map(|i| format!("GET /login 200 {i} ms")).collect();
        assert!(check(&lines) * 4 < lines.iter().map(String::len).sum());
    }

    #[test]
    fn texts_that_are_longer_than_their_lengths_are_an_error() {
        let mut out = Vec::new();
        integers::put(&mut out, &[1, 1]);
        out.push(RAW);
        put_bytes(&mut out, b"abc");
        assert!(get(&mut Cursor::new(&out), 2).is_err());
    }

    #[test]
    fn lengths_that_split_a_character_are_an_error() {
        let mut out = Vec::new();
        integers::put(&mut out, &[1, 1]);
        out.push(RAW);
        put_bytes(&mut out, "ä".as_bytes());
        assert!(get(&mut Cursor::new(&out), 2).is_err());
    }
}
