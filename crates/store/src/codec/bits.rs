//! Bits one after the other, in each byte from the least significant one on.
//!
//! Invariants: behind the end there are zeros, so that reading cannot fail; a reader compares the place reached with
//! the length at the end.

/// Bits that a word is sure to hold.
pub(crate) const WORD_BITS: u32 = 56;
/// Zeros behind a page, so that a word can be read at its last bit without asking where it ends.
const PADDING: usize = 16;

/// Reads bits.
pub(crate) struct Bits<'a> {
    bytes: &'a [u8],
    /// The next bit.
    pub(crate) at: usize,
}

/// Reads `bytes` from a copy of them in `room`, with zeros behind.
pub(crate) fn padded<'a>(bytes: &[u8], room: &'a mut Vec<u8>) -> Bits<'a> {
    room.clear();
    room.extend_from_slice(bytes);
    room.resize(bytes.len() + PADDING, 0);
    Bits::new(room)
}

pub(crate) const fn low_bits(count: u32) -> u64 {
    (1 << count) - 1
}

impl<'a> Bits<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// The next [`WORD_BITS`] or more.
    #[inline]
    pub(crate) fn word(&self) -> u64 {
        let byte = self.at / 8;
        let word = match self.bytes.get(byte..byte + 8) {
            Some(word) => u64::from_le_bytes(word.try_into().expect("eight bytes")),
            None => self.last_word(byte),
        };
        word >> (self.at % 8)
    }

    #[cold]
    fn last_word(&self, byte: usize) -> u64 {
        let rest = self.bytes.get(byte..).unwrap_or_default();
        rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
    }

    /// Takes up to 64 bits.
    #[inline]
    pub(crate) fn read(&mut self, count: u32) -> u64 {
        if count > WORD_BITS {
            let low = self.take(32);
            return low | self.take(count - 32) << 32;
        }
        self.take(count)
    }

    #[inline]
    fn take(&mut self, count: u32) -> u64 {
        let value = self.word() & low_bits(count);
        self.at += count as usize;
        value
    }

    /// Goes to the next whole byte; false when it skips something or is behind `length` bytes.
    pub(crate) fn finish_byte(&mut self, length: usize) -> bool {
        let skipped = self.at.next_multiple_of(8) - self.at;
        self.take(skipped as u32) == 0 && self.at <= 8 * length
    }
}

/// Writes bits, a word at a time.
pub(crate) struct BitWriter<'o> {
    /// Where full words go, behind what is there. Borrowed: a writer that owned them took a tenth longer.
    out: &'o mut Vec<u8>,
    pending: u64,
    /// Bits of `pending`, fewer than 64.
    filled: u32,
}

impl<'o> BitWriter<'o> {
    /// Appends to `out`; nothing is complete before [`BitWriter::finish`].
    pub(crate) const fn new(out: &'o mut Vec<u8>) -> Self {
        Self { out, pending: 0, filled: 0 }
    }

    /// Appends the lowest `count` bits of `value`, which has no others; up to 64.
    #[inline]
    pub(crate) fn put(&mut self, value: u64, count: u32) {
        debug_assert!(count <= u64::BITS, "a value of {count} bits");
        debug_assert!(count == u64::BITS || value <= low_bits(count), "{value} in {count} bits");
        self.pending |= value << self.filled;
        self.filled += count;
        if self.filled >= u64::BITS {
            self.out.extend_from_slice(&self.pending.to_le_bytes());
            self.filled -= u64::BITS;
            self.pending = if self.filled == 0 { 0 } else { value >> (count - self.filled) };
        }
    }

    /// Appends what is left, the last byte filled with zeros.
    pub(crate) fn finish(self) {
        self.out.extend_from_slice(&self.pending.to_le_bytes()[..self.filled.div_ceil(8) as usize]);
    }
}
