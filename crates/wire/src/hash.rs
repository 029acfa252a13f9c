//! A fast hash for keys that strangers choose: two multiplications a word, seeded per table.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Makes hashers with one secret seed.
#[derive(Debug, Clone)]
pub(crate) struct Seeded(u64);

impl Default for Seeded {
    fn default() -> Self {
        Self(RandomState::new().hash_one(0_u8) | 1)
    }
}

impl BuildHasher for Seeded {
    type Hasher = Fold;

    fn build_hasher(&self) -> Fold {
        Fold(self.0)
    }
}

/// Folds each word into 64 bits by a widening multiplication.
#[derive(Debug)]
pub(crate) struct Fold(u64);

impl Fold {
    fn add(&mut self, word: u64) {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        let wide = u128::from(self.0 ^ word).wrapping_mul(u128::from(ODD));
        #[allow(clippy::cast_possible_truncation, reason = "both halves are used")]
        let folded = (wide as u64) ^ ((wide >> 64) as u64);
        self.0 = folded.rotate_left(23);
    }
}

impl Hasher for Fold {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.add(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.add(u64::from(value));
    }

    fn write_u16(&mut self, value: u16) {
        self.add(u64::from(value));
    }

    fn write_u32(&mut self, value: u32) {
        self.add(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.add(value);
    }

    fn write_usize(&mut self, value: usize) {
        self.add(value as u64);
    }
}
