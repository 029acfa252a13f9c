//! Entries that are stored at once.

use ogive_protocol::Gather;
use ogive_protocol::fluent::entry::{Entry, feed};
use ogive_protocol::lines::Fault;

/// 5,000 entries are stored at once: an fsync costs each a microsecond.
pub(super) const PIECE_ENTRIES: usize = 5_000;

/// 4 MiB of entries, received or stored, whichever are more: 64 connections hold a quarter of a gigabyte, and with one
/// more entry and the labels of each they are far from the 32 MiB of a batch.
pub(super) const PIECE_BYTES: usize = 4 << 20;

/// See the module.
#[derive(Default)]
pub(super) struct Piece {
    pub(super) gather: Gather,
    /// Those of its entries, in their order.
    fingerprints: Vec<u8>,
    entries: usize,
    untimed: usize,
    bytes: usize,
    /// Of its message; two pieces of one message may have the same entries.
    number: u32,
}

impl Piece {
    /// Adds an entry of a message with this tag, which arrived at `now_ns`.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub(super) fn add(&mut self, tag: &str, entry: Entry<'_>, now_ns: i64) -> Result<(), Fault> {
        self.entries += 1;
        let taken = feed(tag, entry, now_ns, &mut self.gather)?;
        self.fingerprints.extend_from_slice(&taken.fingerprint.to_le_bytes());
        self.untimed += usize::from(!taken.is_timed);
        self.bytes += taken.bytes;
        Ok(())
    }

    pub(super) fn is_full(&self) -> bool {
        self.entries >= PIECE_ENTRIES || self.bytes >= PIECE_BYTES
    }

    /// Whether each of its entries has a time of its own.
    pub(super) fn is_timed(&self) -> bool {
        self.untimed == 0
    }

    /// What it is known by when the message with this chunk is sent again.
    pub(super) fn identity(&self, chunk: &[u8]) -> Vec<u8> {
        [&self.number.to_le_bytes()[..], &self.fingerprints, chunk].concat()
    }

    /// What is in it; the next begins.
    pub(super) fn take(&mut self) -> Self {
        let next = Self { number: self.number.wrapping_add(1), ..Self::default() };
        std::mem::replace(self, next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY: Entry<'_> = Entry::Fields(b"\x01\x80");

    #[test]
    fn a_piece_is_full_with_so_many_entries_whether_they_are_good_or_not() {
        let mut piece = Piece::default();
        for at in 1..=PIECE_ENTRIES {
            let entry = if at % 2 == 0 { Entry::TooLong } else { ENTRY };
            assert_eq!(piece.add("t", entry, 1).is_ok(), at % 2 == 1);
            assert_eq!(piece.is_full(), at == PIECE_ENTRIES);
        }
        assert_eq!((piece.take().gather.len(), piece.gather.len()), (PIECE_ENTRIES / 2, 0));
    }

    #[test]
    fn pieces_of_one_message_differ_also_where_their_entries_are_equal() {
        let mut piece = Piece::default();
        let mut identity = |chunk: &[u8]| {
            piece.add("t", ENTRY, 1).unwrap();
            let taken = piece.take();
            assert!(taken.is_timed());
            taken.identity(chunk)
        };
        assert_ne!(identity(b"c"), identity(b"c"));
        let of = |chunk: &[u8], entry: Entry<'_>| {
            let mut piece = Piece::default();
            piece.add("t", entry, 1).unwrap();
            piece.identity(chunk)
        };
        assert_eq!(of(b"c", ENTRY), of(b"c", ENTRY));
        assert_ne!(of(b"c", ENTRY), of(b"d", ENTRY));
        assert_ne!(of(b"c", ENTRY), of(b"c", Entry::Fields(b"\x02\x80")));
        let mut other = Piece::default();
        other.add("u", ENTRY, 1).unwrap();
        assert_ne!(of(b"c", ENTRY), other.identity(b"c"), "it has another tag");
        piece.add("t", Entry::Fields(b"\xc0\x80"), 1).unwrap();
        assert!(!piece.is_timed(), "a nil is no time");
    }
}
