//! Values of a fixed number of bits, eight at once: eight values end with a byte.
//!
//! Invariant: the values are those of [`bits_at`](super::integers::bits_at).

/// Values of a group.
const GROUP: usize = 8;
/// The widest values of which eight bytes hold one wherever in a byte it begins.
const WIDTH_MAX: usize = 57;

/// Appends the groups of one width.
type Unpack = fn(&[u8], usize, i64, &mut Vec<i64>) -> usize;

/// By width.
const WIDTHS: [Unpack; WIDTH_MAX] = {
    macro_rules! widths {
        ($($width:literal)*) => { [none, $(unpack::<$width>),*] };
    }
    widths!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39
        40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56)
};

/// Appends `least` plus each of the first `count` values of `width` bits in `bytes`, except for the last ones that are
/// no whole group, or all that are too wide; returns how many.
pub(super) fn groups(bytes: &[u8], width: u32, count: usize, least: i64, values: &mut Vec<i64>) -> usize {
    let Some(unpack) = WIDTHS.get(width as usize) else { return 0 };
    unpack(bytes, count / GROUP, least, values)
}

fn none(_: &[u8], _: usize, _: i64, _: &mut Vec<i64>) -> usize {
    0
}

fn unpack<const WIDTH: usize>(bytes: &[u8], groups: usize, least: i64, values: &mut Vec<i64>) -> usize {
    // The last value of a group begins in one of its bytes, and is read with the seven bytes that follow.
    let within = (bytes.len().saturating_sub(8) / WIDTH).min(groups);
    for group in 0..within {
        values.extend_from_slice(&unpack_group::<WIDTH>(&bytes[group * WIDTH..][..WIDTH + 8], least));
    }
    let mut last = [0; WIDTH_MAX + 8];
    for group in within..groups {
        last[..WIDTH].copy_from_slice(&bytes[group * WIDTH..][..WIDTH]);
        values.extend_from_slice(&unpack_group::<WIDTH>(&last[..WIDTH + 8], least));
    }
    GROUP * groups
}

#[inline]
fn unpack_group<const WIDTH: usize>(bytes: &[u8], least: i64) -> [i64; GROUP] {
    std::array::from_fn(|at| {
        let bit = at * WIDTH;
        let word: [u8; 8] = bytes[bit / 8..bit / 8 + 8].try_into().expect("eight bytes");
        let value = u64::from_le_bytes(word) >> (bit % 8) & ((1 << WIDTH) - 1);
        least.wrapping_add(value.cast_signed())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::integers::bits_at;

    #[test]
    fn groups_are_what_their_values_are_one_by_one() {
        let bytes: Vec<u8> = (0..1024_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for width in 0..=64 {
            for count in [0, 1, 7, 8, 9, 16, 17, 64, 127, 128] {
                let bytes = &bytes[..(count * width as usize).div_ceil(8)];
                let mut found = vec![5];
                let whole = groups(bytes, width, count, -3, &mut found);
                assert_eq!(whole, if (1..57).contains(&width) { count / 8 * 8 } else { 0 }, "{width} bits");
                let expected = (0..whole).map(|at| (bits_at(bytes, width, at) as i64).wrapping_add(-3));
                assert_eq!(found, std::iter::once(5).chain(expected).collect::<Vec<i64>>(), "{width} bits");
            }
        }
    }
}
