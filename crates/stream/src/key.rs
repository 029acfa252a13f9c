//! A series' name as a number: the hash of the bytes that a sender names it with.

use std::hash::Hasher;

use twox_hash::XxHash3_128;

/// 128-bit xxh3 of the parts that name a series. Two names of one number are as unlikely as two series of one identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key(pub(crate) u128);

impl Key {
    /// The key of one part; `salt` distinguishes uses of the same bytes.
    #[must_use]
    pub fn new(salt: u64, part: &[u8]) -> Self {
        Self(XxHash3_128::oneshot_with_seed(salt, part))
    }

    /// The key of the previous parts and one more.
    #[must_use]
    pub fn and(self, part: &[u8]) -> Self {
        let part = XxHash3_128::oneshot_with_seed(self.0 as u64, part);
        Self(self.0.rotate_left(43).wrapping_add(part))
    }
}

/// A hasher that takes the low half of a key, which is a hash already.
#[derive(Default)]
pub(crate) struct Low(u64);

impl Hasher for Low {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        // Keys are numbers; this is for completeness.
        self.0 = bytes.iter().fold(self.0, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
    }

    fn write_u128(&mut self, key: u128) {
        self.0 = key as u64;
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}
