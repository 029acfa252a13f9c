//! Lines as columns: each line is split into fields, lines with equally many fields form a group, and the n-th fields
//! of a group are compressed together. What lines have in common is then stored once a chunk, and similar values are
//! compressed side by side: access logs and JSON lines take a fifth to a quarter less than as text.
//!
//! Format: docs/formats/block.md, "Columns".
//! Invariants: lines are restored byte for byte.
//! Limits: [`FIELDS_MAX`], [`GROUPS_MAX`], and the limit on all texts of a chunk for everything that is decompressed.

use std::collections::HashMap;

use crate::bytes::{Broken, Cursor, put_bytes, put_varint};
use crate::codec::dictionary::Packer;

/// 128 fields of a line: three times what a long one has; others are kept whole.
const FIELDS_MAX: usize = 128;
/// 32 groups of at least a fiftieth of the lines each: there cannot be more than 50.
const GROUPS_MAX: usize = 32;
const GROUP_SHARE: usize = 50;
/// Below this a column is not worth its frame.
const LINES_MIN: usize = 64;
/// Lines of no group.
const WHOLE: u8 = 0xff;
const _: () = assert!(GROUPS_MAX <= WHOLE as usize);

/// The field is the same everywhere.
const SAME: u8 = 0;
/// The fields, with a line feed between.
const PLAIN: u8 = 1;
/// The distinct fields, and a byte of each for which it is.
const NUMBERED: u8 = 2;
/// As [`NUMBERED`] with two bytes: first the lower ones, then the higher ones.
const NUMBERED_WIDE: u8 = 3;
/// The most distinct fields of a byte.
const NARROW_MAX: usize = 256;

/// How the bytes of a column are kept.
const RAW: u8 = 0;
const ZSTD: u8 = 1;
/// 17 MiB: everything that a chunk can hold.
pub(crate) const BYTES_MAX: usize = 17 << 20;

/// Lines, none of which has a line feed, as columns; `None` where that is of no use.
pub(crate) fn encode(lines: &[String], packer: &mut Packer) -> Option<Vec<u8>> {
    debug_assert!(lines.iter().all(|line| !line.contains('\n')), "a line has no line feed");
    let cut: Vec<Vec<&str>> = lines.iter().map(|line| fields(line)).collect();
    let mut counts: HashMap<usize, usize> = HashMap::new();
    cut.iter().for_each(|fields| *counts.entry(fields.len()).or_default() += 1);
    let least = LINES_MIN.max(lines.len() / GROUP_SHARE);
    let is_group = |&(fields, count): &(usize, usize)| count >= least && (1..=FIELDS_MAX).contains(&fields);
    let mut groups: Vec<(usize, usize)> = counts.into_iter().filter(is_group).collect();
    groups.sort_unstable_by_key(|(fields, count)| (std::cmp::Reverse(*count), *fields));
    groups.truncate(GROUPS_MAX);
    if groups.is_empty() {
        return None;
    }
    let group_of = |fields: &Vec<&str>| {
        groups.iter().position(|(length, _)| *length == fields.len()).map_or(WHOLE, |group| group as u8)
    };
    let of: Vec<u8> = cut.iter().map(group_of).collect();
    let mut out = Vec::new();
    put_varint(&mut out, groups.len() as u64);
    groups.iter().for_each(|(fields, _)| put_varint(&mut out, *fields as u64));
    put_stream(&mut out, &of, packer);
    for (group, (length, _)) in groups.iter().enumerate() {
        let rows: Vec<&Vec<&str>> =
            cut.iter().zip(&of).filter(|(_, of)| usize::from(**of) == group).map(|(fields, _)| fields).collect();
        for at in 0..*length {
            let column: Vec<&str> = rows.iter().map(|fields| fields[at]).collect();
            put_column(&mut out, &column, packer);
        }
    }
    let whole: Vec<&str> =
        lines.iter().zip(&of).filter(|(_, of)| **of == WHOLE).map(|(line, _)| line.as_str()).collect();
    put_stream(&mut out, whole.join("\n").as_bytes(), packer);
    Some(out)
}

/// Cuts a line: what stands in quotes or brackets, blanks, and what lies between.
fn fields(line: &str) -> Vec<&str> {
    let (mut out, mut rest) = (Vec::new(), line);
    // Where one is not closed, none behind it is.
    let (mut quotes, mut brackets) = (true, true);
    while let Some(first) = rest.bytes().next() {
        let closed = |sign: char| rest[1..].find(sign).map(|at| at + 2);
        let is_blank = |c: char| c == ' ' || c == '\t';
        let length = match first {
            b'"' if quotes => closed('"').unwrap_or_else(|| {
                quotes = false;
                1
            }),
            b'[' if brackets => closed(']').unwrap_or_else(|| {
                brackets = false;
                1
            }),
            b'"' | b'[' => 1,
            b' ' | b'\t' => rest.find(|c| !is_blank(c)).unwrap_or(rest.len()),
            _ => rest.find(|c| is_blank(c) || c == '"' || c == '[').unwrap_or(rest.len()),
        };
        let (field, behind) = rest.split_at(length);
        out.push(field);
        rest = behind;
        if out.len() > FIELDS_MAX {
            break;
        }
    }
    debug_assert_eq!(out.concat().len() + rest.len(), line.len(), "the fields of a line are all of it");
    out
}

/// Appends a column in the shortest form.
fn put_column(out: &mut Vec<u8>, column: &[&str], packer: &mut Packer) {
    let mut numbers: HashMap<&str, u16> = HashMap::new();
    let mut distinct: Vec<&str> = Vec::new();
    let mut of = Vec::with_capacity(column.len());
    for field in column {
        let number = *numbers.entry(field).or_insert_with(|| {
            distinct.push(field);
            // A chunk has below 2^16 lines.
            (distinct.len() - 1) as u16
        });
        of.push(number);
    }
    assert!(!column.is_empty(), "a column has a field");
    assert!(distinct.len() <= 1 << 16, "{} distinct fields have numbers of two bytes", distinct.len());
    if distinct.len() == 1 {
        out.push(SAME);
        return put_bytes(out, distinct[0].as_bytes());
    }
    let mut plain = vec![PLAIN];
    put_stream(&mut plain, column.join("\n").as_bytes(), packer);
    if distinct.len() * 2 > column.len() {
        return out.extend(plain);
    }
    let is_narrow = distinct.len() <= NARROW_MAX;
    let mut numbered = vec![if is_narrow { NUMBERED } else { NUMBERED_WIDE }];
    put_varint(&mut numbered, distinct.len() as u64);
    put_stream(&mut numbered, distinct.join("\n").as_bytes(), packer);
    put_stream(&mut numbered, &of.iter().map(|number| *number as u8).collect::<Vec<_>>(), packer);
    if !is_narrow {
        put_stream(&mut numbered, &of.iter().map(|number| (number >> 8) as u8).collect::<Vec<_>>(), packer);
    }
    out.extend(if numbered.len() < plain.len() { numbered } else { plain });
}

fn put_stream(out: &mut Vec<u8>, bytes: &[u8], packer: &mut Packer) {
    match packer.pack_alone(bytes).filter(|packed| packed.len() < bytes.len()) {
        Some(packed) => {
            out.push(ZSTD);
            put_varint(out, bytes.len() as u64);
            put_bytes(out, &packed);
        }
        None => {
            out.push(RAW);
            put_bytes(out, bytes);
        }
    }
}

/// Texts with a line feed between, as they were unpacked.
struct Joined {
    text: String,
    /// Where each ends.
    ends: Vec<usize>,
}

impl Joined {
    fn get(&self, at: usize) -> &str {
        let start = if at == 0 { 0 } else { self.ends[at - 1] + 1 };
        &self.text[start..self.ends[at]]
    }
}

/// A column as it was read.
enum Column {
    Same(String),
    Plain(Joined),
    Numbered(Joined, Vec<u16>),
}

impl Column {
    fn field(&self, row: usize) -> &str {
        match self {
            Self::Same(field) => field,
            Self::Plain(fields) => fields.get(row),
            Self::Numbered(distinct, of) => distinct.get(usize::from(of[row])),
        }
    }
}

/// Reads bytes of columns, of which all together unpack to `left` at most.
struct Reader<'c, 'a> {
    cursor: &'c mut Cursor<'a>,
    left: usize,
}

impl Reader<'_, '_> {
    fn stream(&mut self) -> Result<Vec<u8>, Broken> {
        let tag = self.cursor.byte()?;
        let bytes = match tag {
            RAW => self.cursor.length_and_bytes()?.to_vec(),
            ZSTD => {
                let length = self.cursor.count(self.left, "bytes of a column")?;
                let packed = self.cursor.length_and_bytes()?;
                zstd::bulk::decompress(packed, length).map_err(|error| self.cursor.broken(error.to_string()))?
            }
            tag => return Err(self.cursor.broken(format!("{tag} is no coding of a column's bytes"))),
        };
        match self.left.checked_sub(bytes.len()) {
            Some(left) => self.left = left,
            None => return Err(self.cursor.broken("columns of more bytes than a chunk can have")),
        }
        Ok(bytes)
    }

    fn texts(&mut self, count: usize) -> Result<Joined, Broken> {
        let text = String::from_utf8(self.stream()?).map_err(|error| self.cursor.broken(error.to_string()))?;
        let feeds = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at);
        let ends: Vec<usize> = feeds.take(count).chain([text.len()]).collect();
        if ends.len() == count {
            Ok(Joined { text, ends })
        } else {
            Err(self.cursor.broken(format!("not {count} fields")))
        }
    }

    /// One byte a row.
    fn bytes(&mut self, rows: usize) -> Result<Vec<u8>, Broken> {
        let bytes = self.stream()?;
        if bytes.len() == rows { Ok(bytes) } else { Err(self.cursor.broken(format!("not a byte for {rows} rows"))) }
    }

    fn column(&mut self, rows: usize) -> Result<Column, Broken> {
        match self.cursor.byte()? {
            SAME => Ok(Column::Same(self.cursor.text()?.to_owned())),
            PLAIN => self.texts(rows).map(Column::Plain),
            tag @ (NUMBERED | NUMBERED_WIDE) => {
                let count = self.cursor.count(rows, "distinct fields")?;
                let distinct = self.texts(count)?;
                let mut of: Vec<u16> = self.bytes(rows)?.into_iter().map(u16::from).collect();
                if tag == NUMBERED_WIDE {
                    let high = self.bytes(rows)?;
                    of.iter_mut().zip(high).for_each(|(number, high)| *number |= u16::from(high) << 8);
                }
                if of.iter().any(|number| usize::from(*number) >= count) {
                    return Err(self.cursor.broken(format!("the number of a field of which there are {count}")));
                }
                Ok(Column::Numbered(distinct, of))
            }
            tag => Err(self.cursor.broken(format!("{tag} is no coding of a column"))),
        }
    }
}

/// Reads `count` lines that [`encode`] wrote.
pub(crate) fn decode(cursor: &mut Cursor<'_>, count: usize) -> Result<Vec<String>, Broken> {
    let mut reader = Reader { cursor, left: 2 * BYTES_MAX };
    let groups = reader.cursor.count(GROUPS_MAX, "groups of lines")?;
    let lengths = (0..groups).map(|_| reader.cursor.count(FIELDS_MAX, "fields")).collect::<Result<Vec<_>, _>>()?;
    let of = reader.bytes(count)?;
    if of.iter().any(|group| *group != WHOLE && usize::from(*group) >= groups) {
        return Err(reader.cursor.broken(format!("a line of a group of which there are {groups}")));
    }
    let mut columns = Vec::with_capacity(groups);
    for (group, length) in lengths.into_iter().enumerate() {
        let rows = of.iter().filter(|of| usize::from(**of) == group).count();
        columns.push((0..length).map(|_| reader.column(rows)).collect::<Result<Vec<_>, _>>()?);
    }
    let whole_count = of.iter().filter(|of| **of == WHOLE).count();
    let whole = match whole_count {
        0 => reader.stream().map(|_| Joined { text: String::new(), ends: Vec::new() })?,
        count => reader.texts(count)?,
    };
    joined(reader.cursor, &of, &columns, &whole)
}

/// The lines, in their order; no more bytes than a chunk can have.
fn joined(cursor: &Cursor<'_>, of: &[u8], columns: &[Vec<Column>], whole: &Joined) -> Result<Vec<String>, Broken> {
    let (mut rows, mut whole_row, mut left) = (vec![0; columns.len()], 0, BYTES_MAX);
    let mut out = Vec::with_capacity(of.len());
    for group in of {
        let line = match columns.get(usize::from(*group)) {
            None => {
                whole_row += 1;
                whole.get(whole_row - 1).to_owned()
            }
            Some(columns) => {
                let row = rows[usize::from(*group)];
                rows[usize::from(*group)] += 1;
                let length: usize = columns.iter().map(|column| column.field(row).len()).sum();
                if length > left {
                    return Err(cursor.broken("lines of more bytes than a chunk can have"));
                }
                columns.iter().map(|column| column.field(row)).collect()
            }
        };
        left = left.saturating_sub(line.len());
        out.push(line);
    }
    debug_assert_eq!(whole_row, whole.ends.len(), "each line of no group is given once");
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::dictionary::Effort;
    use proptest::prelude::*;

    fn check(lines: &[String]) -> Option<usize> {
        let out = encode(lines, &mut Packer::new(Effort::Quick))?;
        let mut cursor = Cursor::new(&out);
        assert_eq!(decode(&mut cursor, lines.len()).unwrap(), lines);
        assert!(cursor.is_empty());
        Some(out.len())
    }

    fn access(at: usize) -> String {
        let (a, b) = (at * 7919 % 1000, at * 104_729 % 100_003);
        format!(
            "10.0.{}.{} - - [23/Nov/2026:13:08:{:02} +0000] \"GET /orders/{b} HTTP/1.1\" {} {a} \"-\" \"Mozilla/5.0 ({})\" 0.{a:03}",
            a % 7,
            a % 251,
            at / 40 % 60,
            [200, 404, 500][a % 3],
            ["X11", "iPhone", "Windows NT 10.0"][a % 3]
        )
    }

    #[test]
    fn a_line_is_cut_at_blanks_quotes_and_brackets() {
        let check = |line: &str, expected: &[&str]| assert_eq!(fields(line), expected, "{line}");
        check("", &[]);
        check("a  b", &["a", "  ", "b"]);
        check("x [a b]\"c d\"e", &["x", " ", "[a b]", "\"c d\"", "e"]);
        check("{\"a\":1,\"b\":\"c d\"}", &["{", "\"a\"", ":1,", "\"b\"", ":", "\"c d\"", "}"]);
        check("\"open [ä", &["\"", "open", " ", "[", "ä"]);
        assert!(fields(&"a ".repeat(1_000)).len() > FIELDS_MAX, "too many are kept whole");
        assert!(fields(&"[".repeat(1_000_000)).len() > FIELDS_MAX);
    }

    #[test]
    fn an_access_log_takes_less_than_as_text() {
        let lines: Vec<String> = (0..4_000).map(access).collect();
        let columns = check(&lines).unwrap();
        let text = Packer::new(Effort::Quick).pack(lines.join("\n").as_bytes()).unwrap().len();
        assert!(columns * 5 < text * 4, "{columns} of {text}");
    }

    #[test]
    fn lines_of_every_shape_come_back() {
        let mut lines: Vec<String> = (0..500).map(access).collect();
        for (at, odd) in ["", " ", "\"", "one", "ä [ö", &"x ".repeat(500)].into_iter().enumerate() {
            lines.insert(at * 50, odd.to_owned());
        }
        assert!(check(&lines).is_some());
        assert!(check(&vec!["the same".to_owned(); 300]).is_some());
        assert!(check(&vec![String::new(); 300]).is_none());
        assert!(check(&lines[..20]).is_none(), "too few");
    }

    #[test]
    fn cut_and_changed_bytes_are_lines_or_an_error() {
        let lines: Vec<String> = (0..300).map(access).chain(["odd".to_owned()]).collect();
        let good = encode(&lines, &mut Packer::new(Effort::Quick)).unwrap();
        for cut in 0..good.len() {
            assert!(decode(&mut Cursor::new(&good[..cut]), lines.len()).is_err(), "cut at {cut}");
        }
        for count in [0, lines.len() - 1, lines.len() + 1] {
            assert!(decode(&mut Cursor::new(&good), count).is_err(), "{count}");
        }
        let mut changed = good.clone();
        for at in 0..good.len() {
            for bit in [0, 3, 7] {
                changed[at] ^= 1 << bit;
                let _ = decode(&mut Cursor::new(&changed), lines.len());
                changed[at] ^= 1 << bit;
            }
        }
    }

    /// A few bytes that would be gigabytes of lines.
    #[test]
    fn lines_that_unpack_to_more_than_a_chunk_are_an_error() {
        let mut packer = Packer::new(Effort::Quick);
        let mut out = Vec::new();
        put_varint(&mut out, 1);
        put_varint(&mut out, 2);
        put_stream(&mut out, &[0; 4_096], &mut packer);
        for _ in 0..2 {
            out.push(SAME);
            put_bytes(&mut out, &[b'x'; 100_000]);
        }
        put_stream(&mut out, b"", &mut packer);
        let broken = decode(&mut Cursor::new(&out), 4_096).unwrap_err();
        assert!(broken.problem.contains("more bytes"), "{broken:?}");
    }

    proptest! {
        #[test]
        fn any_lines_come_back(lines in prop::collection::vec("[a-c\" \\[\\]ä1]{0,12}", 64..200)) {
            check(&lines);
        }

        #[test]
        fn any_bytes_are_lines_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300), count in 0..100_usize) {
            let _ = decode(&mut Cursor::new(&bytes), count);
        }
    }
}
