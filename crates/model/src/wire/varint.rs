//! Variable-length integers (LEB128) and the zig-zag form of signed ones.

/// Appends `value`, seven bits a byte, least significant first.
pub(super) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value as u8) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Takes a value from the front of `bytes`; `None` when they end inside it or it exceeds 64 bits.
#[inline]
pub(super) fn take(bytes: &mut &[u8]) -> Option<u64> {
    // Distances of bins and most counts have one byte, or two.
    match **bytes {
        [first @ 0..=0x7f, ref rest @ ..] => {
            *bytes = rest;
            Some(u64::from(first))
        }
        [first, second @ 0..=0x7f, ref rest @ ..] => {
            *bytes = rest;
            Some(u64::from(first & 0x7f) | u64::from(second) << 7)
        }
        _ => take_long(bytes),
    }
}

fn take_long(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        let part = u64::from(first & 0x7f);
        if shift == 63 && part > 1 {
            return None;
        }
        value |= part << shift;
        if first & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Small magnitudes of either sign become small numbers.
pub(super) const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Inverse of [`zigzag`].
pub(super) const fn unzigzag(value: u64) -> i64 {
    ((value >> 1) as i64) ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_put_is_taken(value: u64, signed: i64) {
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            put(&mut bytes, zigzag(signed));
            let mut rest = &bytes[..];
            prop_assert_eq!(take(&mut rest), Some(value));
            prop_assert_eq!(take(&mut rest).map(unzigzag), Some(signed));
            prop_assert!(rest.is_empty());
        }
    }

    #[test]
    fn cut_and_overlong_forms_are_refused() {
        assert_eq!(take(&mut &[0x80][..]), None);
        assert_eq!(take(&mut &[][..]), None);
        assert_eq!(take(&mut &[0xff; 10][..]), None);
        let mut largest = vec![0xff; 9];
        largest.push(1);
        assert_eq!(take(&mut &largest[..]), Some(u64::MAX));
    }
}
