//! A column of integers in memory, each in as few bytes as their range needs.
//!
//! Limits: 1, 2, 4 or 8 bytes an integer, none where all are the same.

use std::ops::Range;

/// See the module.
#[derive(Debug)]
pub(crate) struct NarrowColumn {
    /// The least.
    base: i64,
    offsets: Offsets,
}

/// How far each is above the base.
#[derive(Debug)]
enum Offsets {
    Zero,
    U8(Box<[u8]>),
    U16(Box<[u16]>),
    U32(Box<[u32]>),
    U64(Box<[u64]>),
}

impl NarrowColumn {
    /// The column of `values`.
    pub(crate) fn new(values: impl Iterator<Item = i64> + Clone) -> Self {
        let base = values.clone().min().unwrap_or(0);
        let greatest = values.clone().max().unwrap_or(0);
        // Two integers may be further apart than the greatest of them.
        let offsets = values.map(|value| value.wrapping_sub(base).cast_unsigned());
        let offsets = match greatest.wrapping_sub(base).cast_unsigned() {
            0 => Offsets::Zero,
            1..0x100 => Offsets::U8(offsets.map(|offset| offset as u8).collect()),
            0x100..0x1_0000 => Offsets::U16(offsets.map(|offset| offset as u16).collect()),
            0x1_0000..0x1_0000_0000 => Offsets::U32(offsets.map(|offset| offset as u32).collect()),
            _ => Offsets::U64(offsets.collect()),
        };
        Self { base, offsets }
    }

    /// Writes the integers of `rows` to `to`, as `of` makes them.
    ///
    /// # Panics
    /// When there are not so many rows, or `to` has another length.
    pub(crate) fn read<T: Copy>(&self, rows: Range<usize>, to: &mut [T], of: impl Fn(i64) -> T) {
        assert_eq!(rows.len(), to.len(), "each of the rows {rows:?} has its place");
        match &self.offsets {
            Offsets::Zero => to.fill(of(self.base)),
            Offsets::U8(offsets) => add(self.base, &offsets[rows], to, of),
            Offsets::U16(offsets) => add(self.base, &offsets[rows], to, of),
            Offsets::U32(offsets) => add(self.base, &offsets[rows], to, of),
            Offsets::U64(offsets) => add(self.base, &offsets[rows], to, of),
        }
    }

    /// Bytes of the offsets.
    pub(crate) fn heap_bytes(&self) -> usize {
        match &self.offsets {
            Offsets::Zero => 0,
            Offsets::U8(offsets) => size_of_val(&**offsets),
            Offsets::U16(offsets) => size_of_val(&**offsets),
            Offsets::U32(offsets) => size_of_val(&**offsets),
            Offsets::U64(offsets) => size_of_val(&**offsets),
        }
    }
}

fn add<N: Copy + Into<u64>, T>(base: i64, offsets: &[N], to: &mut [T], of: impl Fn(i64) -> T) {
    for (to, offset) in to.iter_mut().zip(offsets) {
        *to = of(base.wrapping_add((*offset).into().cast_signed()));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_rows_of_integers_come_back(
            base in any::<i64>(), bits in 0..64_u32, offsets in prop::collection::vec(any::<u64>(), 0..50),
            ends in (0..50_usize, 0..50_usize),
        ) {
            let values: Vec<i64> = offsets.iter().map(|offset| base.wrapping_add((offset >> bits) as i64)).collect();
            let rows = ends.0.min(ends.1).min(values.len())..ends.0.max(ends.1).min(values.len());
            let column = NarrowColumn::new(values.iter().copied());
            let mut read = vec![0; rows.len()];
            column.read(rows.clone(), &mut read, |value| value);
            prop_assert_eq!(read, &values[rows]);
        }
    }

    #[test]
    fn integers_take_the_bytes_of_their_range() {
        let bytes = |values: &[i64]| NarrowColumn::new(values.iter().copied()).heap_bytes();
        assert_eq!(bytes(&[]), 0);
        assert_eq!(bytes(&[7, 7]), 0);
        assert_eq!(bytes(&[-1, 254]), 2);
        assert_eq!(bytes(&[-1, 255]), 4);
        assert_eq!(bytes(&[1 << 40, (1 << 40) + 0xffff]), 4);
        assert_eq!(bytes(&[0, 0x1_0000]), 8);
        assert_eq!(bytes(&[0, 0xffff_ffff]), 8);
        assert_eq!(bytes(&[i64::MIN, i64::MAX]), 16);
    }
}
