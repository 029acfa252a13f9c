//! Results of PostgreSQL's simple queries: descriptions of columns, and rows in their text form.
//!
//! Format: PostgreSQL's documentation, "Message Formats": RowDescription and DataRow of protocol 3.0.
//! Failure: a message that ends early, or goes on behind its end, is an error.

use crate::rows::{Column, ColumnKind, Row, Table};
use crate::run::{Failure, Reason};

/// The answer to one statement, as its messages come.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    table: Option<Table>,
    failure: Option<Failure>,
}

impl Answer {
    /// The server refused the statement, and will say that it is ready for another.
    pub(crate) fn fail(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
    }

    /// The next message of the server.
    pub(crate) fn take(&mut self, kind: u8, body: &[u8]) -> Result<(), Failure> {
        match kind {
            b'T' if self.table.is_some() => {
                return Err(Failure::new(Reason::Content, "sql has more than one result; write one statement"));
            }
            b'T' => self.table = Some(Table::new(columns(body).ok_or_else(strange)?)?),
            b'D' => {
                let row = row(body).ok_or_else(strange)?;
                self.table.as_mut().ok_or_else(strange)?.add(row)?;
            }
            // What comes behind these is no row, or is waited for by the server.
            b'G' | b'H' | b'W' => return Err(Failure::new(Reason::Content, "COPY has no rows; write a SELECT")),
            // Notices, settings, and the ends of statements.
            _ => {}
        }
        Ok(())
    }

    /// The server is ready for another statement.
    pub(crate) fn end(self) -> Result<Table, Failure> {
        match (self.failure, self.table) {
            (Some(failure), _) => Err(failure),
            (None, Some(table)) => Ok(table),
            (None, None) => Err(Failure::new(Reason::Content, "sql has no result; write a SELECT")),
        }
    }
}

fn strange() -> Failure {
    Failure::new(Reason::Protocol, "the result is none of PostgreSQL's protocol")
}

fn columns(body: &[u8]) -> Option<Vec<Column>> {
    let (count, mut rest) = body.split_first_chunk::<2>()?;
    let mut out = Vec::new();
    for _ in 0..u16::from_be_bytes(*count) {
        let name = rest.get(..rest.iter().position(|byte| *byte == 0)?)?;
        // The zero, its table (4), its place there (2), its type (4), and how that is written (8).
        let (fields, behind) = rest.get(name.len()..)?.split_first_chunk::<19>()?;
        let kind = kind(u32::from_be_bytes([fields[7], fields[8], fields[9], fields[10]]));
        out.push(Column { name: String::from_utf8_lossy(name).into_owned(), kind });
        rest = behind;
    }
    rest.is_empty().then_some(out)
}

/// What a type holds, by its number in pg_type; those that are not built in have numbers from 16,384.
fn kind(number: u32) -> ColumnKind {
    match number {
        16 => ColumnKind::Truth,
        // int8, int2, int4, float4, float8, numeric.
        20 | 21 | 23 | 700 | 701 | 1700 => ColumnKind::Number,
        // char, name, text, cidr, unknown, inet, bpchar, varchar, uuid.
        18 | 19 | 25 | 650 | 705 | 869 | 1042 | 1043 | 2950 => ColumnKind::Text,
        _ => ColumnKind::Other,
    }
}

fn row(body: &[u8]) -> Option<Row> {
    let (count, mut rest) = body.split_first_chunk::<2>()?;
    let mut out = Row::new();
    for _ in 0..u16::from_be_bytes(*count) {
        let (length, behind) = rest.split_first_chunk::<4>()?;
        rest = behind;
        let length = i32::from_be_bytes(*length);
        if length == -1 {
            out.push(None);
            continue;
        }
        let (field, behind) = rest.split_at_checked(usize::try_from(length).ok()?)?;
        out.push(Some(String::from_utf8_lossy(field).into_owned()));
        rest = behind;
    }
    rest.is_empty().then_some(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A description of columns by their names and types.
    fn description(columns: &[(&str, u32)]) -> Vec<u8> {
        let mut out = (columns.len() as u16).to_be_bytes().to_vec();
        for (name, kind) in columns {
            out.extend([name.as_bytes(), &[0; 7], &kind.to_be_bytes(), &[0; 8]].concat());
        }
        out
    }

    const ROW: &[u8] = b"\0\x03\0\0\0\x04shop\0\0\0\x0212\xff\xff\xff\xff";

    fn answer(messages: &[(u8, &[u8])]) -> Result<Table, Failure> {
        let mut answer = Answer::default();
        for (kind, body) in messages {
            answer.take(*kind, body)?;
        }
        answer.end()
    }

    #[test]
    fn columns_and_rows_are_read() {
        let columns = description(&[("datname", 19), ("size", 20), ("stats_reset", 1184)]);
        let table = answer(&[(b'N', b"x"), (b'T', &columns), (b'D', ROW), (b'C', b"SELECT 1\0")]).unwrap();
        let column = |name: &str, kind| Column { name: name.into(), kind };
        let expected = [
            column("datname", ColumnKind::Text),
            column("size", ColumnKind::Number),
            column("stats_reset", ColumnKind::Other),
        ];
        let mut wanted = Table::new(expected.into()).unwrap();
        wanted.add(vec![Some("shop".into()), Some("12".into()), None]).unwrap();
        assert_eq!(table, wanted);
    }

    #[test]
    fn what_is_no_result_is_reported() {
        let columns = description(&[("n", 20)]);
        for (messages, reason) in [
            (&[][..], Reason::Content),
            (&[(b'C', &b"SET\0"[..])][..], Reason::Content),
            (&[(b'G', &b"\0\0\0"[..])][..], Reason::Content),
            (&[(b'T', &columns[..]), (b'T', &columns[..])][..], Reason::Content),
            (&[(b'D', ROW)][..], Reason::Protocol),
            (&[(b'T', &columns[..]), (b'D', ROW)][..], Reason::Protocol),
            (&[(b'T', &columns[1..])][..], Reason::Protocol),
            (&[(b'T', &columns[..]), (b'D', &b"\0\x01\0\0\0\x02x"[..])][..], Reason::Protocol),
            (&[(b'T', &columns[..]), (b'D', &b"\0\x01\xff\xff\xff\xfe"[..])][..], Reason::Protocol),
        ] {
            assert_eq!(answer(messages).unwrap_err().reason, reason, "{messages:?}");
        }
        let mut answer = Answer::default();
        answer.fail(Failure::new(Reason::Status, "first"));
        answer.fail(Failure::new(Reason::Status, "second"));
        assert_eq!(answer.end(), Err(Failure::new(Reason::Status, "first")));
    }

    #[test]
    fn every_cut_of_a_message_is_an_error() {
        let columns = description(&[("datname", 19), ("size", 20)]);
        for end in 0..columns.len() {
            assert_eq!(super::columns(&columns[..end]), None, "{end}");
        }
        for end in 0..ROW.len() {
            assert_eq!(row(&ROW[..end]), None, "{end}");
        }
        assert_eq!(row(&[ROW, b"x"].concat()), None);
    }

    proptest! {
        #[test]
        fn anything_may_come(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = (columns(&bytes), row(&bytes));
        }
    }
}
