//! HPACK (RFC 7541), decoded for the few headers that an observer wants.
//!
//! Invariants: the dynamic table follows the peer's as long as each of its header blocks is given, in order. After a
//! missed block ([`Decoder::forget`]) the entries before it are unknown, yet those that follow are again at their true
//! indexes: an index counts from the newest. So a lost block costs the names of the streams that lean on older entries
//! ([`Outcome::unresolved`]), never a wrong name.
//!
//! Limits: a block is at most what the caller holds; a value is kept to 512 octets, and values that nobody wants not at
//! all, so that a block of one-octet references to a large entry (an HPACK bomb) expands to nothing. The dynamic table
//! is at most 64 KiB; a peer that goes beyond is refused.

mod huffman;
mod table;

use table::{CAPACITY_MAX, Dynamic, Entry, STATIC, VALUE_KEPT};

pub(crate) use table::Field;

/// Why a header block cannot be decoded. The dynamic table cannot be followed after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HpackError {
    /// The block ends inside a field.
    Truncated,
    /// An integer above 2^28, or one of more than five octets.
    Integer,
    /// An index of 0, or one beyond both tables.
    Index,
    /// A Huffman string that breaks the rules.
    Huffman,
    /// A table larger than is followed, or a change of size after a field.
    TableSize,
}

/// Properties of a decoded block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Outcome {
    /// Fields that leaned on entries from before a missed block: any of the wanted ones may have been among them.
    pub(crate) unresolved: u32,
}

/// The decoder of one direction of a connection.
#[derive(Debug)]
pub(crate) struct Decoder {
    table: Dynamic,
    /// Whether there are entries that this decoder has not seen.
    partial: bool,
}

impl Decoder {
    /// A decoder for a connection seen from its beginning.
    pub(crate) fn new() -> Self {
        Self { table: Dynamic::new(), partial: false }
    }

    /// Drops the state: a block was missed, or the connection is seen from its middle.
    pub(crate) fn forget(&mut self) {
        self.table = Dynamic::new();
        // The peer's table may be larger, and evicting later than the peer does no harm: it never refers to evicted
        // entries.
        self.table.resize(CAPACITY_MAX);
        self.partial = true;
    }

    /// Decodes a complete header block, and passes each wanted field to `sink`.
    ///
    /// # Errors
    /// An invalid block. Then call [`Decoder::forget`].
    pub(crate) fn decode(&mut self, block: &[u8], sink: &mut impl FnMut(Field, &[u8])) -> Result<Outcome, HpackError> {
        let mut reader = Reader { bytes: block };
        let mut outcome = Outcome::default();
        let mut any = false;
        while let Some(&head) = reader.bytes.first() {
            match head {
                0x80.. => {
                    let index = reader.integer(7)?;
                    if !self.indexed(index, sink)? {
                        outcome.unresolved += 1;
                    }
                }
                0x20..=0x3f if any => return Err(HpackError::TableSize),
                0x20..=0x3f => {
                    let capacity = reader.integer(5)?;
                    if capacity > CAPACITY_MAX {
                        return Err(HpackError::TableSize);
                    }
                    // A partial table stays at the maximum: entries from before the loss are not counted in it.
                    if !self.partial {
                        self.table.resize(capacity);
                    }
                    continue;
                }
                _ => {
                    let insert = head >= 0x40;
                    let index = reader.integer(if insert { 6 } else { 4 })?;
                    let (entry, resolved) = self.literal(index, &mut reader)?;
                    outcome.unresolved += u32::from(!resolved);
                    if entry.field != Field::Other {
                        sink(entry.field, &entry.value);
                    }
                    if insert {
                        self.table.insert(entry);
                    }
                }
            }
            any = true;
        }
        Ok(outcome)
    }

    /// Passes on the field at `index`, and returns whether it is known.
    fn indexed(&self, index: usize, sink: &mut impl FnMut(Field, &[u8])) -> Result<bool, HpackError> {
        if let Some((field, _, value)) = table::static_entry(index) {
            if field != Field::Other {
                sink(field, value);
            }
            return Ok(true);
        }
        let Some(entry) = index.checked_sub(STATIC + 1).and_then(|at| self.table.get(at)) else {
            return if index > STATIC && self.partial { Ok(false) } else { Err(HpackError::Index) };
        };
        if entry.field != Field::Other {
            sink(entry.field, &entry.value);
        }
        Ok(true)
    }

    /// Reads a literal whose name is at `index` (0: in the block), and whether its name is known.
    fn literal(&self, index: usize, reader: &mut Reader<'_>) -> Result<(Entry, bool), HpackError> {
        let (field, name_length, resolved) = match index {
            0 => {
                let mut name = Vec::new();
                let length = reader.string(VALUE_KEPT, &mut name)?;
                (Field::from_name(&name), length, true)
            }
            _ => match table::static_entry(index) {
                Some((field, length, _)) => (field, length, true),
                None => match self.table.get(index.checked_sub(STATIC + 1).ok_or(HpackError::Index)?) {
                    Some(entry) => (entry.field, entry.name_length, true),
                    None if self.partial => (Field::Other, 0, false),
                    None => return Err(HpackError::Index),
                },
            },
        };
        let mut value = Vec::new();
        let kept = if field == Field::Other { 0 } else { VALUE_KEPT };
        let value_length = reader.string(kept, &mut value)?;
        Ok((Entry { field, name_length, value: value.into_boxed_slice(), value_length }, resolved))
    }
}

/// The rest of a block.
struct Reader<'a> {
    bytes: &'a [u8],
}

impl Reader<'_> {
    fn octet(&mut self) -> Result<u8, HpackError> {
        let (&first, rest) = self.bytes.split_first().ok_or(HpackError::Truncated)?;
        self.bytes = rest;
        Ok(first)
    }

    /// An integer with a prefix of `bits` (section 5.1).
    fn integer(&mut self, bits: u32) -> Result<usize, HpackError> {
        let mask = (1_usize << bits) - 1;
        let mut value = usize::from(self.octet()?) & mask;
        if value < mask {
            return Ok(value);
        }
        for shift in [0, 7, 14, 21] {
            let octet = self.octet()?;
            value += usize::from(octet & 0x7f) << shift;
            if octet < 0x80 {
                return Ok(value);
            }
        }
        Err(HpackError::Integer)
    }

    /// A string, whose first `limit` octets go to `out`; returns its length.
    fn string(&mut self, limit: usize, out: &mut Vec<u8>) -> Result<usize, HpackError> {
        let packed = *self.bytes.first().ok_or(HpackError::Truncated)? & 0x80 != 0;
        let length = self.integer(7)?;
        let (string, rest) = self.bytes.split_at_checked(length).ok_or(HpackError::Truncated)?;
        self.bytes = rest;
        if packed {
            return huffman::decode(string, limit, out).map_err(|huffman::BadHuffman| HpackError::Huffman);
        }
        out.extend_from_slice(&string[..length.min(limit)]);
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<(Field, String)>, HpackError> {
        let mut out = Vec::new();
        let outcome = decoder
            .decode(block, &mut |field, value| out.push((field, String::from_utf8_lossy(value).into_owned())))?;
        out.extend((0..outcome.unresolved).map(|_| (Field::Other, "?".to_owned())));
        Ok(out)
    }

    /// `:method: GET`, `:scheme: http`, `:path: /a/b` (inserted), `x: y` (inserted).
    const FIRST: &[u8] = b"\x82\x86\x44\x04/a/b\x40\x01x\x01y";

    #[test]
    fn fields_come_from_the_static_table_the_block_and_the_dynamic_table() {
        let mut decoder = Decoder::new();
        let expected = vec![(Field::Method, "GET".to_owned()), (Field::Path, "/a/b".to_owned())];
        assert_eq!(fields(&mut decoder, FIRST).unwrap(), expected);
        assert_eq!(decoder.table.size(), 5 + 4 + 32 + 1 + 1 + 32);
        assert_eq!(fields(&mut decoder, b"\x82\xbf\xbe").unwrap(), expected, "both are in the table now");
        assert_eq!(fields(&mut decoder, b"\xc0"), Err(HpackError::Index));
    }

    #[test]
    fn the_example_of_the_standard_with_eviction_decodes() {
        // Appendix C.6: responses with Huffman strings and a table of 256 octets.
        let mut decoder = Decoder::new();
        let block = b"\x3f\xe1\x01\x48\x82\x64\x02\x58\x85\xae\xc3\x77\x1a\x4b\x61\x96\xd0\x7a\xbe\x94\x10\x54\xd4\x44\
            \xa8\x20\x05\x95\x04\x0b\x81\x66\xe0\x82\xa6\x2d\x1b\xff\x6e\x91\x9d\x29\xad\x17\x18\x63\xc7\x8f\x0b\x97\
            \xc8\xe9\xae\x82\xae\x43\xd3";
        assert_eq!(fields(&mut decoder, block).unwrap(), [(Field::Status, "302".to_owned())]);
        assert_eq!(decoder.table.size(), 222);
        assert_eq!(
            fields(&mut decoder, b"\x48\x83\x64\x0e\xff\xc1\xc0\xbf").unwrap(),
            [(Field::Status, "307".to_owned())],
            "302 is evicted"
        );
        assert_eq!(decoder.table.size(), 222);
    }

    #[test]
    fn after_a_missed_block_old_entries_are_unknown_and_new_ones_right() {
        let mut decoder = Decoder::new();
        fields(&mut decoder, FIRST).unwrap();
        decoder.forget();
        assert_eq!(
            fields(&mut decoder, b"\x82\xbf").unwrap(),
            [(Field::Method, "GET".to_owned()), (Field::Other, "?".to_owned())]
        );
        fields(&mut decoder, b"\x44\x02/n").unwrap();
        assert_eq!(
            fields(&mut decoder, b"\xbe\xbf").unwrap(),
            [(Field::Path, "/n".to_owned()), (Field::Other, "?".to_owned())]
        );
    }

    #[test]
    fn a_bomb_keeps_nothing_that_is_not_wanted() {
        let mut decoder = Decoder::new();
        let mut block = b"\x40\x01x\x7f\x80\x1e".to_vec();
        block.extend([b'v'; 127 + 0xf00]);
        block.extend([0xbe; 60_000]);
        assert_eq!(fields(&mut decoder, &block).unwrap(), []);
        assert_eq!(decoder.table.get(0).unwrap().value.len(), 0);
    }

    #[test]
    fn broken_blocks_are_refused() {
        for (block, error) in [
            (&b"\x80"[..], HpackError::Index),
            (b"\xff\xff\xff\xff\xff\xff", HpackError::Integer),
            (b"\x44\x04/a", HpackError::Truncated),
            (b"\x44", HpackError::Truncated),
            (b"\x44\x81\x00", HpackError::Huffman),
            (b"\x82\x20", HpackError::TableSize),
            (b"\x3f\xe2\xff\x7f", HpackError::TableSize),
        ] {
            assert_eq!(fields(&mut Decoder::new(), block), Err(error), "{block:02x?}");
        }
    }
}
