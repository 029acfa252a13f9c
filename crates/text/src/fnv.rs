//! FNV-1a in 64 bits: the same number for the same text on every machine and in every version.
//!
//! Nothing secret may depend on it: whoever chooses the text chooses the number.

/// The hash of some bytes.
#[must_use]
pub fn fnv1a(bytes: impl IntoIterator<Item = u8>) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Servers of different versions must agree.
    #[test]
    fn the_hash_stays_what_it_is() {
        assert_eq!((fnv1a([]), fnv1a("a".bytes())), (0xcbf2_9ce4_8422_2325, 0xaf63_dc4c_8601_ec8c));
    }
}
