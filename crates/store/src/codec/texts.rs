//! A column of texts: compressed together with zstd when that is smaller; as lines when none has a line feed, or as
//! columns of their fields where that is smaller still, otherwise with their lengths in front. Large columns begin with
//! the filter of their words.

use ogive_model::Words;

use crate::bytes::{Broken, Cursor, put_bytes, put_varint};
use crate::codec::dictionary::{Dictionary, Packer};
use crate::codec::{columns, filter, integers};

/// Lines through zstd. Anything else at this place is the coding of the lengths, 0 to 3.
const LINES: u8 = 16;
const _: () = assert!(LINES > integers::TAG_MAX);
/// The same, with the block's dictionary.
const LINES_DICTIONARY: u8 = 17;
/// A filter, and then one of the others: up to version 6.
const FILTER: u8 = 18;
/// A filter with a checksum of its own, so that it can be believed without the rest of the chunk.
const FILTER_CHECKED: u8 = 20;
/// Of a filter's checksum.
const CHECKSUM_BYTES: usize = 4;
/// Lines as columns.
const COLUMNS: u8 = 19;
const RAW: u8 = 0;
const ZSTD: u8 = 1;
const ZSTD_DICTIONARY: u8 = 2;

/// 1 MiB of texts in a chunk: as columns log lines take a tenth less than in 256 KiB; one is read in some milliseconds.
pub(crate) const CHUNK_BYTES_MAX: usize = 1024 * 1024;
/// 16 KiB: fewer lines have too little in common for columns.
const COLUMNS_BYTES_MIN: usize = 16 * 1024;
/// 16 MiB: one text may be larger than a chunk should be, and none is larger than a batch.
pub(crate) const TEXT_BYTES_MAX: usize = 16 * 1024 * 1024;
const _: () = assert!(columns::BYTES_MAX == CHUNK_BYTES_MAX + TEXT_BYTES_MAX);
// What a sender's text may have, a chunk can hold.
const _: () = assert!(ogive_model::wire::TEXT_SAMPLE_BYTES_MAX <= TEXT_BYTES_MAX);
/// Below this zstd has nothing to find.
const ZSTD_BYTES_MIN: usize = 64;
/// With a dictionary it has: a status line of a dozen bytes that every series has.
const DICTIONARY_BYTES_MIN: usize = 12;

/// Appends `values`.
pub(crate) fn put(out: &mut Vec<u8>, values: &[String], packer: &mut Packer) {
    if let Some(filter) = filter::build(values) {
        assert!(filter.len() <= filter::BYTES_MAX, "a reader takes no filter of {} bytes", filter.len());
        out.push(FILTER_CHECKED);
        put_bytes(out, &filter);
        out.extend_from_slice(&crc32c::crc32c(&filter).to_le_bytes());
    }
    if !values.iter().any(|value| value.contains('\n')) {
        let lines = values.join("\n");
        assert!(lines.len() <= CHUNK_BYTES_MAX + TEXT_BYTES_MAX, "a reader takes no {} bytes of lines", lines.len());
        let packed = packed(&lines, packer);
        let columns = (lines.len() >= COLUMNS_BYTES_MIN).then(|| columns::encode(values, packer)).flatten();
        let shortest = packed.as_ref().map_or(lines.len(), Vec::len);
        if let Some(columns) = columns.filter(|columns| columns.len() < shortest) {
            out.push(COLUMNS);
            return out.extend(columns);
        }
        if let Some(packed) = packed {
            out.push(if packer.has_dictionary() { LINES_DICTIONARY } else { LINES });
            put_varint(out, lines.len() as u64);
            put_bytes(out, &packed);
            return;
        }
    }
    let lengths: Vec<i64> = values.iter().map(|value| value.len() as i64).collect();
    integers::put(out, &lengths);
    let raw = values.concat();
    assert!(raw.len() <= CHUNK_BYTES_MAX + TEXT_BYTES_MAX, "a reader takes no {} bytes of texts", raw.len());
    match packed(&raw, packer) {
        Some(packed) => {
            out.push(if packer.has_dictionary() { ZSTD_DICTIONARY } else { ZSTD });
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
fn packed(text: &str, packer: &mut Packer) -> Option<Vec<u8>> {
    let least = if packer.has_dictionary() { DICTIONARY_BYTES_MIN } else { ZSTD_BYTES_MIN };
    let packed = (text.len() >= least).then(|| packer.pack(text.as_bytes()))??;
    (packed.len() < text.len()).then_some(packed)
}

/// Whether the texts may match that are asked for these words: false only when their filter says that they lack some.
pub(crate) fn may_match(mut cursor: Cursor<'_>, words: &Words) -> Result<bool, Broken> {
    let filter = filter_of(&mut cursor)?;
    Ok(filter.is_none_or(|filter| words.may_match(&|word| filter::may_have(filter, word))))
}

fn filter_of<'a>(cursor: &mut Cursor<'a>) -> Result<Option<&'a [u8]>, Broken> {
    let tag = match cursor.peek() {
        Some(tag @ (FILTER | FILTER_CHECKED)) => tag,
        _ => return Ok(None),
    };
    cursor.byte()?;
    let filter = cursor.length_and_bytes()?;
    if tag == FILTER_CHECKED && cursor.u32()? != crc32c::crc32c(filter) {
        return Err(cursor.broken("the checksum of a filter does not fit it"));
    }
    Ok(Some(filter))
}

/// What the first bytes of a chunk say of its filter.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Beginning {
    /// The texts cannot match.
    RuledOut,
    /// They may, or nothing can be believed without the checksum of the whole.
    MayMatch,
    /// The length is in so many more bytes.
    Short(usize),
}

/// Whether the texts that begin at `cursor`, which ends somewhere, may match `words`, by a filter with a checksum of
/// its own.
pub(crate) fn beginning(mut cursor: Cursor<'_>, words: &Words) -> Beginning {
    if cursor.byte().ok() != Some(FILTER_CHECKED) {
        return Beginning::MayMatch;
    }
    let Ok(length) = cursor.count(filter::BYTES_MAX, "bytes of a filter") else { return Beginning::MayMatch };
    let left = cursor.rest();
    if left.len() < length + CHECKSUM_BYTES {
        return Beginning::Short(length + CHECKSUM_BYTES - left.len());
    }
    let (filter, checksum) = left[..length + CHECKSUM_BYTES].split_at(length);
    let is_whole = crc32c::crc32c(filter).to_le_bytes() == checksum;
    match is_whole && !words.may_match(&|word| filter::may_have(filter, word)) {
        true => Beginning::RuledOut,
        false => Beginning::MayMatch,
    }
}

/// Reads `count` texts.
pub(crate) fn get(
    cursor: &mut Cursor<'_>,
    count: usize,
    dictionary: Option<&Dictionary>,
) -> Result<Vec<String>, Broken> {
    filter_of(cursor)?;
    if cursor.peek() == Some(COLUMNS) {
        cursor.byte()?;
        return columns::decode(cursor, count);
    }
    if let Some(tag @ (LINES | LINES_DICTIONARY)) = cursor.peek() {
        cursor.byte()?;
        let lines = unpacked(cursor, tag == LINES_DICTIONARY, dictionary)?;
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
        tag @ (ZSTD | ZSTD_DICTIONARY) => unpacked(cursor, tag == ZSTD_DICTIONARY, dictionary)?,
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
fn unpacked(cursor: &mut Cursor<'_>, tied: bool, dictionary: Option<&Dictionary>) -> Result<String, Broken> {
    let length = cursor.count(CHUNK_BYTES_MAX + TEXT_BYTES_MAX, "bytes of text")?;
    let packed = cursor.length_and_bytes()?;
    let raw = match (tied, dictionary) {
        (false, _) => zstd::bulk::decompress(packed, length),
        (true, Some(dictionary)) => dictionary.unpack(packed, length),
        (true, None) => return Err(cursor.broken("texts that need a dictionary where there is none")),
    };
    text(raw.map_err(|error| cursor.broken(error.to_string()))?, cursor)
}

fn text(bytes: Vec<u8>, cursor: &Cursor<'_>) -> Result<String, Broken> {
    String::from_utf8(bytes).map_err(|error| cursor.broken(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::dictionary::{Effort, train};

    fn quick() -> Packer {
        Packer::new(Effort::Quick)
    }

    fn check(values: &[String]) -> usize {
        check_with(values, &mut Packer::new(Effort::Hard), None);
        check_with(values, &mut quick(), None)
    }

    fn check_with(values: &[String], packer: &mut Packer, dictionary: Option<&Dictionary>) -> usize {
        let mut out = Vec::new();
        put(&mut out, values, packer);
        let mut cursor = Cursor::new(&out);
        assert_eq!(get(&mut cursor, values.len(), dictionary).unwrap(), values);
        assert!(cursor.is_empty());
        for cut in 0..out.len() {
            assert!(get(&mut Cursor::new(&out[..cut]), values.len(), dictionary).is_err(), "cut at {cut}");
        }
        out.len()
    }

    #[test]
    fn texts_come_back_through_a_dictionary_and_not_without_it() {
        let lines =
            |from: usize| (from..from + 20).map(|i| format!("worker {} took {i} ms for /orders/{}", i % 7, i * 31));
        let samples: Vec<Vec<u8>> =
            (0..50).map(|at| lines(at * 3).collect::<Vec<_>>().join("\n").into_bytes()).collect();
        let (stored, mut packer) = train(&samples, Effort::Hard).expect("it pays");
        let dictionary = Dictionary::parse(&stored).unwrap();
        let short: Vec<String> = lines(1000).collect();
        assert!(check_with(&short, &mut packer, Some(&dictionary)) * 10 < check(&short) * 9);
        for values in [vec![String::new(); 9], vec!["one\nword".into(), "worker 3 took".into()], vec!["zq".into()]] {
            check_with(&values, &mut packer, Some(&dictionary));
        }
        for values in [short, lines(9).chain(["worker 1\ntook 3 ms for".into()]).collect()] {
            let mut out = Vec::new();
            put(&mut out, &values, &mut packer);
            assert!(get(&mut Cursor::new(&out), values.len(), None).is_err());
        }
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
    fn a_filter_rules_out_as_soon_as_it_is_whole_and_never_when_it_is_damaged() {
        let lines: Vec<String> =
            (0..400).map(|at| format!("GET /orders/{} took {at} ms and was seen", at * 7919)).collect();
        let mut out = Vec::new();
        put(&mut out, &lines, &mut quick());
        assert_eq!(out[0], FILTER_CHECKED);
        let [rare, there] = ["deadlock", "orders"].map(|word| Words::Word(word.to_owned()));
        let of = |bytes: &[u8], words: &Words| beginning(Cursor::new(bytes), words);
        assert_eq!((of(&out, &rare), of(&out, &there)), (Beginning::RuledOut, Beginning::MayMatch));
        let mut cursor = Cursor::new(&out);
        filter_of(&mut cursor).unwrap();
        let end = cursor.position();
        for cut in 3..end {
            assert_eq!(of(&out[..cut], &rare), Beginning::Short(end - cut), "cut at {cut} of {end}");
        }
        assert_eq!(of(&out[..end], &rare), Beginning::RuledOut);
        for (at, bit) in (3..end).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
            let mut changed = out.clone();
            changed[at] ^= 1 << bit;
            assert_eq!(of(&changed, &rare), Beginning::MayMatch, "bit {bit} of {at}");
            assert!(get(&mut Cursor::new(&changed), lines.len(), None).is_err());
        }
    }

    #[test]
    fn another_number_of_lines_is_an_error() {
        let mut out = Vec::new();
        put(&mut out, &vec!["the same line again and again".to_owned(); 10], &mut quick());
        assert_eq!(out[0], LINES);
        for count in [0, 9, 11] {
            assert!(get(&mut Cursor::new(&out), count, None).is_err(), "{count}");
        }
    }

    #[test]
    fn texts_that_are_longer_than_their_lengths_are_an_error() {
        let mut out = Vec::new();
        integers::put(&mut out, &[1, 1]);
        out.push(RAW);
        put_bytes(&mut out, b"abc");
        assert!(get(&mut Cursor::new(&out), 2, None).is_err());
    }

    #[test]
    fn lengths_that_split_a_character_are_an_error() {
        let mut out = Vec::new();
        integers::put(&mut out, &[1, 1]);
        out.push(RAW);
        put_bytes(&mut out, "ä".as_bytes());
        assert!(get(&mut Cursor::new(&out), 2, None).is_err());
    }
}
