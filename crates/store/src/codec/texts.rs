//! A column of texts: all of them together through zstd when that is smaller; as lines when none has a line feed, else with
//! their lengths in front.

use crate::bytes::{Broken, Cursor, put_bytes, put_varint};
use crate::codec::integers;

/// Lines through zstd. Anything else at this place is the coding of the lengths, 0 to 3.
const LINES: u8 = 16;
const RAW: u8 = 0;
const ZSTD: u8 = 1;

/// 256 KiB of texts in a chunk: log lines take 4 % less than in 64 KiB, and one is read in a third of a millisecond.
pub(crate) const CHUNK_BYTES_MAX: usize = 256 * 1024;
/// 16 MiB: one text may be larger than a chunk should be, and none is larger than a batch.
pub(crate) const TEXT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Below this zstd has nothing to find.
const ZSTD_BYTES_MIN: usize = 64;
/// Level 9: log lines take a fifth less than at the library's own default of 3, so that a chunk with its times and lengths
/// stays below the plain file at that level; it is read as fast.
const ZSTD_LEVEL: i32 = 9;

/// Appends `values`.
pub(crate) fn put(out: &mut Vec<u8>, values: &[String]) {
    if !values.iter().any(|value| value.contains('\n')) {
        let lines = values.join("\n");
        if let Some(packed) = packed(&lines) {
            out.push(LINES);
            put_varint(out, lines.len() as u64);
            put_bytes(out, &packed);
            return;
        }
    }
    let lengths: Vec<i64> = values.iter().map(|value| value.len() as i64).collect();
    integers::put(out, &lengths);
    let raw = values.concat();
    match packed(&raw) {
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

/// `text` through zstd, when that is smaller.
fn packed(text: &str) -> Option<Vec<u8>> {
    let packed = (text.len() >= ZSTD_BYTES_MIN).then(|| zstd::bulk::compress(text.as_bytes(), ZSTD_LEVEL).ok())??;
    (packed.len() < text.len()).then_some(packed)
}

/// Reads `count` texts.
pub(crate) fn get(cursor: &mut Cursor<'_>, count: usize) -> Result<Vec<String>, Broken> {
    if cursor.peek() == Some(LINES) {
        cursor.byte()?;
        let lines = unpacked(cursor)?;
        let values: Vec<String> = lines.split('\n').take(count + 1).map(str::to_owned).collect();
        return if values.len() == count {
            Ok(values)
        } else {
            Err(cursor.broken(format!("not {count} lines of text")))
        };
    }
    let lengths = integers::get(cursor, count)?;
    let raw = match cursor.byte()? {
        RAW => text(cursor.length_and_bytes()?.to_vec(), cursor)?,
        ZSTD => unpacked(cursor)?,
        tag => return Err(cursor.broken(format!("{tag} is no coding of texts"))),
    };
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

/// What `packed` made, with its length in front.
fn unpacked(cursor: &mut Cursor<'_>) -> Result<String, Broken> {
    let length = cursor.count(CHUNK_BYTES_MAX + TEXT_BYTES_MAX, "bytes of text")?;
    let packed = cursor.length_and_bytes()?;
    let raw = zstd::bulk::decompress(packed, length).map_err(|error| cursor.broken(error.to_string()))?;
    text(raw, cursor)
}

fn text(bytes: Vec<u8>, cursor: &Cursor<'_>) -> Result<String, Broken> {
    String::from_utf8(bytes).map_err(|error| cursor.broken(error.to_string()))
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
    fn line_feeds_and_empty_texts_come_back() {
        let lines = |count: usize| (0..count).map(|i| if i % 3 == 0 { String::new() } else { "a line".repeat(i) });
        check(&lines(20).collect::<Vec<_>>());
        check(&lines(20).chain(["two\nlines".to_owned()]).collect::<Vec<_>>());
        check(&vec![String::new(); 200]);
        check(&vec!["\n".to_owned(); 200]);
    }

    #[test]
    fn another_number_of_lines_is_an_error() {
        let mut out = Vec::new();
        put(&mut out, &vec!["the same line again and again".to_owned(); 10]);
        assert_eq!(out[0], LINES);
        for count in [0, 9, 11] {
            assert!(get(&mut Cursor::new(&out), count).is_err(), "{count}");
        }
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
