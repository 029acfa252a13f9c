//! The counts of a chunk of histograms: one column a bin, one row a cell.
//!
//! Counts of one bin are Poisson-like around a slowly moving mean, so coding them well requires their magnitude. Bins
//! with similar totals are placed next to each other and coded together, which gives the entropy coder a distribution
//! to learn from and pays for its header once. A query of an instant needs few of the rows, so more than [`PAGE_ROWS`]
//! are written in pages of that many.
//! Invariants: every column has as many rows as any other, and is in one group.
//! Format: the class of every column (integers), then the columns group by group (integers). A group is a run of
//! columns in the order of (class, position) that ends with its class once it has [`GROUP_COLUMNS_MIN`]. With pages,
//! [`PAGED`] precedes the classes and a group is a column in pages (`pages.rs`), each with some rows of every column
//! of the group.

use std::ops::Range;

use crate::bytes::{Broken, Cursor};
use crate::codec::integers;
use crate::codec::latents::Latents;
use crate::codec::pages::{self, Pages};

/// 8 columns of 256 cells are 2,048 values: the header of some 30 bytes is then 0.1 bit a value.
const GROUP_COLUMNS_MIN: usize = 8;
/// Classes are half octaves of the total.
const CLASS_MAX: i64 = 128;

/// 32 rows of the smallest group are 256 values, as many as `pco` decodes at a time.
const PAGE_ROWS: usize = 32;
/// No coding of integers has this tag, so that what begins with it has pages.
const PAGED: u8 = 4;
const _: () = assert!(PAGED > integers::TAG_MAX);

/// Appends columns of `rows` values each, column after column in `values`.
pub(crate) fn put(out: &mut Vec<u8>, values: &[i64], rows: usize) {
    assert!(rows > 0, "a matrix without rows");
    assert_eq!(values.len() % rows, 0, "{} values are whole columns of {rows}", values.len());
    if values.is_empty() || rows <= PAGE_ROWS {
        return put_whole(out, values, rows);
    }
    out.push(PAGED);
    let classes: Vec<i64> = values.chunks_exact(rows).map(class).collect();
    integers::put(out, &classes);
    let (mut group_values, mut lengths) = (Vec::new(), Vec::new());
    for group in groups(&classes) {
        group_values.clear();
        lengths.clear();
        for page in pages_of(rows, PAGE_ROWS) {
            for column in &group {
                group_values.extend_from_slice(&values[column * rows..][page.clone()]);
            }
            lengths.push(group.len() * page.len());
        }
        pages::put(out, &group_values, &lengths);
    }
}

/// The rows of each page.
fn pages_of(rows: usize, page_rows: usize) -> impl Iterator<Item = Range<usize>> {
    (0..rows).step_by(page_rows).map(move |start| start..rows.min(start + page_rows))
}

/// As [`put`], each group whole.
fn put_whole(out: &mut Vec<u8>, values: &[i64], rows: usize) {
    let classes: Vec<i64> = values.chunks_exact(rows).map(class).collect();
    integers::put(out, &classes);
    let mut group_values = Vec::new();
    for group in groups(&classes) {
        group_values.clear();
        for column in group {
            group_values.extend_from_slice(&values[column * rows..][..rows]);
        }
        integers::put_counts(out, &group_values);
    }
}

/// Columns of numbers, each at its own distance from the first.
pub(crate) struct Matrix<T> {
    values: Vec<T>,
    stride: usize,
}

impl<T: Copy + Default> Matrix<T> {
    /// So many columns of `rows` numbers, all of them zero.
    pub(crate) fn new(columns: usize, rows: usize) -> Self {
        let stride = stride(rows);
        Self { values: vec![T::default(); columns * stride], stride }
    }

    /// The places of a column, to be filled.
    pub(crate) fn column_mut(&mut self, column: usize) -> &mut [T] {
        &mut self.values[column * self.stride..][..self.stride]
    }

    /// The numbers of all columns, and how far the columns are from each other.
    pub(crate) fn into_parts(self) -> (Vec<T>, usize) {
        (self.values, self.stride)
    }

    /// The numbers of a row, one a column.
    pub(crate) fn row(&self, row: usize) -> impl Iterator<Item = T> + '_ {
        debug_assert!(row < self.stride, "row {row} of columns of {} rows with their padding", self.stride);
        self.values.get(row..).unwrap_or_default().iter().step_by(self.stride).copied()
    }
}

/// 64 rows of 8 bytes are 8 lines of a cache.
const ROWS_PADDED_MIN: usize = 64;

/// How far columns of `rows` numbers of 8 bytes are from each other: an odd number of lines of a cache, so that the
/// numbers of a row, which are read together, are not all in the same few of its sets.
fn stride(rows: usize) -> usize {
    if rows < ROWS_PADDED_MIN { rows.max(1) } else { (rows.div_ceil(8) | 1) * 8 }
}

/// Reads `columns` of `rows` values and keeps the rows of `wanted`, as `of` makes them. `see` is shown each part of a
/// column that is kept, with the number of its first row among the wanted ones, while it is in the cache.
pub(crate) fn get<T: Copy + Default>(
    cursor: &mut Cursor<'_>,
    columns: usize,
    rows: usize,
    wanted: Range<usize>,
    of: impl Fn(i64) -> T,
    mut see: impl FnMut(usize, &[T]),
) -> Result<Matrix<T>, Broken> {
    assert!(wanted.end <= rows, "rows {wanted:?} of {rows}");
    let paged = columns > 0 && cursor.peek() == Some(PAGED);
    if paged {
        cursor.byte()?;
    }
    let classes = integers::get(cursor, columns)?;
    let page_rows = if paged { PAGE_ROWS } else { rows.max(1) };
    let mut matrix = Matrix::new(columns, wanted.len());
    let (mut group_values, mut latents) = (Vec::new(), Latents::default());
    for group in groups(&classes) {
        let mut pages = if paged { Some(Pages::open(cursor, &mut latents)?) } else { None };
        for page in pages_of(rows, page_rows) {
            let kept = page.start.max(wanted.start)..page.end.min(wanted.end);
            let count = group.len() * page.len();
            group_values.clear();
            match &mut pages {
                Some(Pages::Sparse(codes)) if !kept.is_empty() => {
                    let bytes = cursor.length_and_bytes()?;
                    let read = codes.each(bytes, count, &mut latents.padded, |place, value| {
                        let row = page.start + place % page.len();
                        if kept.contains(&row) {
                            let first = row - wanted.start;
                            let to = &mut matrix.column_mut(group[place / page.len()])[first..=first];
                            to[0] = of(value);
                            see(first, to);
                        }
                    });
                    read.map_err(|problem| cursor.broken(problem))?;
                    continue;
                }
                Some(_) if kept.is_empty() => Pages::skip(cursor)?,
                Some(pages) => pages.extend(cursor, count, &mut group_values, &mut latents)?,
                None => integers::extend(cursor, count, &mut group_values)?,
            }
            if kept.is_empty() {
                continue;
            }
            debug_assert_eq!(group_values.len(), count, "each column of a group has its rows of the page");
            for (from, column) in group_values.chunks_exact(page.len()).zip(&group) {
                let first = kept.start - wanted.start;
                let to = &mut matrix.column_mut(*column)[first..][..kept.len()];
                for (to, value) in to.iter_mut().zip(&from[kept.start - page.start..kept.end - page.start]) {
                    *to = of(*value);
                }
                see(first, to);
            }
        }
    }
    Ok(matrix)
}

/// Magnitude of a column in half octaves of its total.
fn class(column: &[i64]) -> i64 {
    let total = column.iter().fold(0_u64, |all, value| all.saturating_add(value.unsigned_abs()));
    let octave = i64::from(total.checked_ilog2().unwrap_or(0));
    // The upper half of an octave begins at its lower end times 1.5.
    let upper = octave > 0 && total >> (octave - 1) & 1 == 1;
    (octave * 2 + i64::from(upper)).min(CLASS_MAX)
}

/// Columns that are coded together.
fn groups(classes: &[i64]) -> Vec<Vec<usize>> {
    let mut order: Vec<(i64, usize)> = classes.iter().copied().zip(0..).collect();
    order.sort_unstable();
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut last = None;
    for (class, column) in order {
        match groups.last_mut().filter(|group| last == Some(class) || group.len() < GROUP_COLUMNS_MIN) {
            Some(group) => group.push(column),
            None => groups.push(vec![column]),
        }
        last = Some(class);
    }
    debug_assert_eq!(groups.iter().map(Vec::len).sum::<usize>(), classes.len(), "each column is in one group");
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_rows_of_a_matrix_come_back(
            rows in 1..140_usize, values in proptest::collection::vec(prop_oneof![0..5_i64, any::<i64>()], 0..800),
            ends in (0..140_usize, 0..140_usize),
        ) {
            let columns = values.len() / rows;
            let values = &values[..columns * rows];
            let wanted = ends.0.min(ends.1).min(rows)..ends.0.max(ends.1).min(rows);
            // Chunks of earlier versions hold groups whole.
            for write in [put, put_whole] {
                let mut out = Vec::new();
                write(&mut out, values, rows);
                let mut cursor = Cursor::new(&out);
                let matrix = get(&mut cursor, columns, rows, wanted.clone(), |value| value, |_, _| ()).unwrap();
                for (at, row) in wanted.clone().enumerate() {
                    let expected: Vec<i64> = values.iter().skip(row).step_by(rows).copied().collect();
                    prop_assert_eq!(matrix.row(at).collect::<Vec<_>>(), expected);
                }
                prop_assert!(cursor.is_empty());
            }
        }
    }

    #[test]
    fn groups_hold_every_column_once_and_are_not_small() {
        let classes: Vec<i64> = (0..100).map(|i| i * 7 % 23).collect();
        let groups = groups(&classes);
        let mut all: Vec<usize> = groups.concat();
        all.sort_unstable();
        assert_eq!(all, (0..100).collect::<Vec<_>>());
        assert!(groups[..groups.len() - 1].iter().all(|group| group.len() >= GROUP_COLUMNS_MIN));
    }
}
