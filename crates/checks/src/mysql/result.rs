//! Results of text queries of MySQL and MariaDB: definitions of columns, and rows.
//!
//! Format: "Text Resultset" of MySQL's internals; a packet of 0xfe with less than 9 bytes ends columns and rows.
//! Failure: a packet that ends early, or goes on behind its end, is an error.

use mysql_common::constants::ColumnType;
use mysql_common::io::ParseBuf;
use mysql_common::packets::Column as Definition;

use crate::rows::{Column, ColumnKind, Row};

/// The character set of bytes that are no text.
const BINARY: u16 = 63;
const NULL: u8 = 0xfb;

/// How many columns there are, in the first packet.
pub(crate) fn count(packet: &[u8]) -> Option<usize> {
    let mut rest = ParseBuf(packet);
    let count = usize::try_from(rest.checked_eat_lenenc_int()?).ok()?;
    (rest.is_empty() && count > 0).then_some(count)
}

/// Whether a packet ends the columns or the rows.
pub(crate) fn is_end(packet: &[u8]) -> bool {
    packet.first() == Some(&0xfe) && packet.len() < 9
}

/// The definition of a column.
pub(crate) fn column(packet: &[u8]) -> Option<Column> {
    let definition = ParseBuf(packet).parse::<Definition>(()).ok()?;
    Some(Column { name: definition.name_str().into_owned(), kind: kind(&definition) })
}

fn kind(definition: &Definition) -> ColumnKind {
    let column_type = definition.column_type();
    if column_type.is_numeric_type() {
        return ColumnKind::Number;
    }
    match column_type {
        ColumnType::MYSQL_TYPE_VARCHAR
        | ColumnType::MYSQL_TYPE_VAR_STRING
        | ColumnType::MYSQL_TYPE_STRING
        | ColumnType::MYSQL_TYPE_ENUM
        | ColumnType::MYSQL_TYPE_SET => ColumnKind::Text,
        ColumnType::MYSQL_TYPE_TINY_BLOB
        | ColumnType::MYSQL_TYPE_MEDIUM_BLOB
        | ColumnType::MYSQL_TYPE_LONG_BLOB
        | ColumnType::MYSQL_TYPE_BLOB
            if definition.character_set() != BINARY =>
        {
            ColumnKind::Text
        }
        _ => ColumnKind::Other,
    }
}

/// The fields of a row.
pub(crate) fn row(packet: &[u8], count: usize) -> Option<Row> {
    let mut rest = ParseBuf(packet);
    let mut out = Row::new();
    for _ in 0..count {
        if rest.0.first() == Some(&NULL) {
            rest.skip(1);
            out.push(None);
        } else {
            let field = rest.checked_eat_lenenc_str()?;
            out.push(Some(String::from_utf8_lossy(field).into_owned()));
        }
    }
    rest.is_empty().then_some(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A definition of the column `n` with this type and character set.
    fn definition(column_type: u8, character_set: u8) -> Vec<u8> {
        [&b"\x03def\0\0\0\x01n\0\x0c"[..], &[character_set, 0, 0, 1, 0, 0, column_type, 0, 0, 0, 0, 0]].concat()
    }

    #[test]
    fn columns_have_their_kinds() {
        for (column_type, character_set, kind) in [
            (0x08, 63, ColumnKind::Number),
            (0xf6, 63, ColumnKind::Number),
            (0x05, 63, ColumnKind::Number),
            (0xfd, 45, ColumnKind::Text),
            (0xfe, 45, ColumnKind::Text),
            (0xfc, 45, ColumnKind::Text),
            (0xfc, 63, ColumnKind::Other),
            (0x0c, 63, ColumnKind::Other),
            (0x10, 63, ColumnKind::Other),
        ] {
            let found = column(&definition(column_type, character_set));
            assert_eq!(found, Some(Column { name: "n".into(), kind }), "{column_type}");
        }
        let whole = definition(8, 63);
        for end in 0..whole.len() {
            assert_eq!(column(&whole[..end]), None, "{end}");
        }
    }

    #[test]
    fn rows_are_read_and_every_cut_is_an_error() {
        let whole = b"\x04shop\xfb\x0212";
        assert_eq!(row(whole, 3), Some(vec![Some("shop".into()), None, Some("12".into())]));
        for end in 0..whole.len() {
            assert_eq!(row(&whole[..end], 3), None, "{end}");
        }
        assert_eq!(row(whole, 2), None);
        assert_eq!(row(b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff", 1), None, "longer than everything");
        assert_eq!((count(b"\x02"), count(b"\0"), count(b"\x02x"), count(b"")), (Some(2), None, None, None));
        assert!(is_end(b"\xfe\0\0\x02\0") && !is_end(b"\x01x") && !is_end(&[0xfe; 9]));
    }

    proptest! {
        #[test]
        fn anything_may_come(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = (count(&bytes), column(&bytes), row(&bytes, 3));
        }
    }
}
