//! Texts of full parts in the head, compressed: their lengths, and all bytes one after the other through zstd.
//!
//! Invariants: every text is restored. These bytes are never written to a disk, so their format may change: it is
//! lighter than that of a block, which looks for the fields of a line.
//! Limits: rows as in [`super::packed`]. A thread that packs keeps zstd's tables, some 600 KiB.

use std::cell::RefCell;

use zstd::bulk::{Compressor, Decompressor};

use crate::bytes::{Cursor, put_bytes, put_varint};
use crate::ingest::packed::{get_integers, put_integers};

/// The lines of a service take a fifth at a few microseconds a KiB; the next levels take twice the time for a tenth
/// less.
const LEVEL: i32 = 1;

thread_local! {
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> = RefCell::new(Compressor::new(LEVEL).ok());
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = RefCell::new(Decompressor::new().ok());
}

/// Appends texts, of which there is one at least; false when zstd has no memory for its tables, and `out` is of no use
/// then.
pub(crate) fn put<'a>(out: &mut Vec<u8>, texts: impl Iterator<Item = &'a str>) -> bool {
    let texts: Vec<&str> = texts.collect();
    let lengths: Vec<i64> = texts.iter().map(|text| text.len() as i64).collect();
    put_integers(out, &lengths);
    let bytes = texts.concat().into_bytes();
    put_varint(out, bytes.len() as u64);
    COMPRESSOR.with_borrow_mut(|compressor| {
        let packed = compressor.as_mut().and_then(|compressor| compressor.compress(&bytes).ok());
        packed.is_some_and(|packed| {
            put_bytes(out, &packed);
            true
        })
    })
}

/// As many texts as [`put`] appended.
pub(crate) fn get(mut cursor: Cursor<'_>, count: usize) -> Vec<String> {
    const PACKED: &str = "as it was packed";
    let lengths = get_integers(&mut cursor, count).expect(PACKED);
    let length = usize::try_from(cursor.varint().expect(PACKED)).expect(PACKED);
    let packed = cursor.length_and_bytes().expect(PACKED);
    assert!(cursor.is_empty(), "bytes are left over");
    let bytes = DECOMPRESSOR.with_borrow_mut(|decompressor| match decompressor {
        Some(decompressor) => decompressor.decompress(packed, length),
        None => zstd::bulk::decompress(packed, length),
    });
    let text = String::from_utf8(bytes.expect(PACKED)).expect(PACKED);
    let mut rest = text.as_str();
    let texts = lengths.into_iter().map(|length| {
        let (text, behind) = rest.split_at(usize::try_from(length).expect(PACKED));
        rest = behind;
        text.to_owned()
    });
    texts.collect()
}
