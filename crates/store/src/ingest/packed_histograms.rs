//! Histograms of full parts in the head, compressed: the other fields of a cell as columns, its bins as one column a
//! bin.
//!
//! Invariants: every bit is restored, bins with a count of zero included. These bytes are never written to a disk, so
//! their format may change: it is lighter than that of a block, which takes several times as long.
//! Format: runs of rows of one shape, each its length, the shape, the columns, then the negative and the positive bins.
//! For each bin that a row of the run has: its distance from the previous one, which rows have it (all, some by one bit
//! a row, few by their numbers), the least count, and the counts above it in bits; the bits of all bins in one stream.
//! Limits: rows as in [`super::packed`].

use ogive_hist::{Bins, Count, Histogram};
use ogive_model::HistogramValue;

use crate::bytes::{Broken, Cursor, put_bytes, put_signed, put_varint};
use crate::codec::bits::BitWriter;
use crate::codec::histograms::{Shape, float, integer, reset_code, reset_of, sum_of_bins};
use crate::codec::union::Union;
use crate::ingest::packed::{COUNT_MAX, get_integers, get_values, put_integers, put_values};

/// Codes of a width: 0 to 64 bits, three times.
const WIDTHS: u8 = 65;
// Three forms of each width have a byte.
const _: () = assert!(3 * WIDTHS as usize <= 1 << u8::BITS);
/// Each row of a run has the bin.
const ALL: u8 = 0;
/// One bit a row says so.
const SOME: u8 = 1;
/// The rows that do are numbered.
const FEW: u8 = 2;
/// Bits of a row's number.
const NUMBER_BITS: u32 = 8;
const _: () = assert!(COUNT_MAX <= 1 << NUMBER_BITS);

/// How a count is written.
trait Coded: Count {
    /// Whether all of the counts can be written as `integers`, not as their bits.
    fn are_integers(all: impl Iterator<Item = Self>) -> bool;
    fn code(self, integers: bool) -> u64;
    fn from_code(code: u64, integers: bool) -> Self;
}

impl Coded for u64 {
    fn are_integers(_: impl Iterator<Item = Self>) -> bool {
        true
    }
    fn code(self, _: bool) -> u64 {
        self
    }
    fn from_code(code: u64, _: bool) -> Self {
        code
    }
}

impl Coded for f64 {
    fn are_integers(mut all: impl Iterator<Item = Self>) -> bool {
        all.all(|count| (count as u64 as f64).to_bits() == count.to_bits())
    }
    fn code(self, integers: bool) -> u64 {
        if integers { self as u64 } else { self.to_bits() }
    }
    fn from_code(code: u64, integers: bool) -> Self {
        if integers { code as Self } else { Self::from_bits(code) }
    }
}

/// Appends the values of a part's rows.
pub(crate) fn put(out: &mut Vec<u8>, values: &[&HistogramValue]) {
    let mut left = values;
    while let Some(first) = left.first() {
        let shape = Shape::from_value(first);
        let (run, rest) = left.split_at(left.iter().take_while(|value| shape.fits(value)).count());
        assert!(!run.is_empty(), "a histogram has its own shape");
        put_varint(out, run.len() as u64);
        shape.put(out);
        match first {
            HistogramValue::Integer(_) => put_run(out, &run.iter().map(|value| integer(value)).collect::<Vec<_>>()),
            HistogramValue::Float(_) => put_run(out, &run.iter().map(|value| float(value)).collect::<Vec<_>>()),
        }
        left = rest;
    }
}

/// Reads what [`put`] wrote of `count` rows.
pub(crate) fn get(mut cursor: Cursor<'_>, count: usize) -> Vec<HistogramValue> {
    let mut values = Vec::with_capacity(count);
    while values.len() < count {
        get_values_of_run(&mut cursor, &mut values).expect("as it was packed");
    }
    assert!(values.len() == count && cursor.is_empty(), "{} rows of {count}", values.len());
    values
}

fn get_values_of_run(cursor: &mut Cursor<'_>, values: &mut Vec<HistogramValue>) -> Result<(), Broken> {
    let count = cursor.count(COUNT_MAX, "rows")?;
    assert!(count > 0, "a run has a row");
    let shape = Shape::get(cursor)?;
    if shape.is_float() {
        values.extend(get_run(cursor, &shape, count)?.into_iter().map(HistogramValue::Float));
    } else {
        values.extend(get_run(cursor, &shape, count)?.into_iter().map(HistogramValue::Integer));
    }
    Ok(())
}

fn put_run<C: Coded>(out: &mut Vec<u8>, rows: &[&Histogram<C>]) {
    let integers = rows.iter().all(|row| {
        let bins = row.negative.counts().iter().chain(row.positive.counts()).copied();
        C::are_integers([row.zero, row.nan, row.count].into_iter().chain(bins))
    });
    out.push(u8::from(integers));
    put_integers(out, &rows.iter().map(|row| reset_code(row.reset)).collect::<Vec<_>>());
    put_values(out, &rows.iter().map(|row| row.zero_threshold).collect::<Vec<_>>());
    let column = |count: fn(&Histogram<C>) -> C| -> Vec<i64> {
        rows.iter().map(|row| count(row).code(integers).cast_signed()).collect()
    };
    put_integers(out, &column(|row| row.zero));
    put_integers(out, &column(|row| row.nan));
    put_optional(out, &rows.iter().map(|row| row.sum).collect::<Vec<_>>());
    put_optional(out, &rows.iter().map(|row| row.min).collect::<Vec<_>>());
    put_optional(out, &rows.iter().map(|row| row.max).collect::<Vec<_>>());
    // Which payload a sum of NaNs has is up to the processor.
    let is_sum = |row: &&Histogram<C>| row.count.code(integers) == sum_of_bins(row).code(integers);
    let added = rows.iter().all(|row| is_sum(row) && !row.count.to_f64().is_nan());
    out.push(u8::from(added));
    if !added {
        put_integers(out, &column(|row| row.count));
    }
    put_bins(out, &rows.iter().map(|row| &row.negative).collect::<Vec<_>>(), integers);
    put_bins(out, &rows.iter().map(|row| &row.positive).collect::<Vec<_>>(), integers);
}

fn get_run<C: Coded>(cursor: &mut Cursor<'_>, shape: &Shape, count: usize) -> Result<Vec<Histogram<C>>, Broken> {
    let integers = cursor.byte()? == 1;
    let of_code = |code: i64| C::from_code(code.cast_unsigned(), integers);
    let resets = get_integers(cursor, count)?;
    let thresholds = get_values(cursor, count)?;
    let (zeros, nans) = (get_integers(cursor, count)?, get_integers(cursor, count)?);
    let sums = get_optional(cursor, count)?;
    let (mins, maxs) = (get_optional(cursor, count)?, get_optional(cursor, count)?);
    let counts = if cursor.byte()? == 1 { None } else { Some(get_integers(cursor, count)?) };
    let (negatives, positives) = (get_bins(cursor, count, integers)?, get_bins(cursor, count, integers)?);
    let mut rows = Vec::with_capacity(count);
    for (at, (negative, positive)) in negatives.into_iter().zip(positives).enumerate() {
        let mut row = Histogram {
            scheme: shape.scheme().clone(),
            zero_threshold: thresholds[at],
            zero: of_code(zeros[at]),
            nan: of_code(nans[at]),
            negative,
            positive,
            count: C::ZERO,
            sum: sums[at],
            min: mins[at],
            max: maxs[at],
            reset: reset_of(resets[at]).expect("as it was packed"),
        };
        row.count = counts.as_ref().map_or_else(|| sum_of_bins(&row), |counts| of_code(counts[at]));
        rows.push(row);
    }
    assert_eq!(rows.len(), count, "each row of a run has its bins");
    Ok(rows)
}

/// Which rows have a value, then the values that are there.
fn put_optional(out: &mut Vec<u8>, values: &[Option<f64>]) {
    let there: Vec<f64> = values.iter().copied().flatten().collect();
    put_integers(out, &values.iter().map(|value| i64::from(value.is_some())).collect::<Vec<_>>());
    if !there.is_empty() {
        put_values(out, &there);
    }
}

fn get_optional(cursor: &mut Cursor<'_>, count: usize) -> Result<Vec<Option<f64>>, Broken> {
    let present = get_integers(cursor, count)?;
    let there = present.iter().filter(|present| **present == 1).count();
    let values = if there == 0 { Vec::new() } else { get_values(cursor, there)? };
    let mut values = values.into_iter();
    Ok(present.into_iter().map(|present| if present == 1 { values.next() } else { None }).collect())
}

/// The bins of a run turned: of each index that a row has the rows and their counts, next to each other.
struct Turned {
    height: usize,
    /// Where the entries of an index end.
    ends: Vec<usize>,
    rows: Vec<u8>,
    counts: Vec<u64>,
}

impl Turned {
    fn new<C: Coded>(rows: &[&Bins<C>], union: &Union, integers: bool) -> Self {
        assert!(rows.len() <= COUNT_MAX, "numbers of {} rows have a byte each", rows.len());
        let mut ends = vec![0; union.indexes().len()];
        for bins in rows {
            bins.indexes().iter().for_each(|index| ends[union.column(*index)] += 1);
        }
        let mut total = 0;
        for end in &mut ends {
            // Where it begins, until its entries have moved it to where it ends.
            (*end, total) = (total, total + *end);
        }
        let mut turned = Self { height: rows.len(), ends, rows: vec![0; total], counts: vec![0; total] };
        for (row, bins) in rows.iter().enumerate() {
            for (index, count) in bins.iter() {
                let next = &mut turned.ends[union.column(index)];
                turned.rows[*next] = row as u8;
                turned.counts[*next] = count.code(integers);
                *next += 1;
            }
        }
        debug_assert_eq!(turned.ends.last().copied().unwrap_or(0), total, "each bin of each row is turned");
        turned
    }

    fn put(&self, out: &mut Vec<u8>, bits: &mut BitWriter<'_>, indexes: &[i32]) {
        let (mut begin, mut last) = (0, 0);
        for (index, end) in indexes.iter().zip(&self.ends) {
            put_signed(out, i64::from(*index) - last);
            last = i64::from(*index);
            put_column(out, bits, self.height, &self.rows[begin..*end], &self.counts[begin..*end]);
            begin = *end;
        }
        debug_assert_eq!(begin, self.rows.len(), "each row of each bin is written");
    }
}

/// A matrix of the counts is for runs that fill a quarter of it at least: it takes up to 32 bytes a bin, [`Turned`] 9.
const FULL_RATIO: usize = 4;

/// The bins of a run that has most of them in most of its rows, turned: column after column of all rows. The rows of
/// one series mostly have the bins of the row before, so where each goes is found out once.
struct Full {
    height: usize,
    /// Of each column a bit for each row that has it.
    held: Vec<[u64; COUNT_MAX / 64]>,
    /// 0 where a row has none.
    counts: Vec<u64>,
}

impl Full {
    fn new<C: Coded>(rows: &[&Bins<C>], union: &Union, integers: bool) -> Self {
        let height = rows.len();
        assert!(height <= COUNT_MAX, "numbers of {height} rows have a byte each");
        let columns = union.indexes().len();
        let mut full = Self { height, held: vec![[0; COUNT_MAX / 64]; columns], counts: vec![0; columns * height] };
        let (mut columns, mut before): (Vec<usize>, &[i32]) = (Vec::new(), &[]);
        for (row, bins) in rows.iter().enumerate() {
            if bins.indexes() != before {
                before = bins.indexes();
                columns.clear();
                columns.extend(before.iter().map(|index| union.column(*index)));
            }
            let (word, bit) = (row / 64, 1 << (row % 64));
            for (column, count) in columns.iter().zip(bins.counts()) {
                full.held[*column][word] |= bit;
                full.counts[column * height + row] = count.code(integers);
            }
        }
        full
    }

    fn put(&self, out: &mut Vec<u8>, bits: &mut BitWriter<'_>, indexes: &[i32]) {
        let (mut rows, mut counts) = ([0_u8; COUNT_MAX], [0_u64; COUNT_MAX]);
        let mut last = 0;
        for ((index, held), column) in indexes.iter().zip(&self.held).zip(self.counts.chunks_exact(self.height)) {
            put_signed(out, i64::from(*index) - last);
            last = i64::from(*index);
            let count: u32 = held.iter().map(|word| word.count_ones()).sum();
            if count as usize == self.height {
                put_column(out, bits, self.height, &NUMBERS[..self.height], column);
                continue;
            }
            let mut filled = 0;
            for (word, at) in held.iter().zip((0_usize..).step_by(64)) {
                let mut left = *word;
                while left != 0 {
                    let row = at + left.trailing_zeros() as usize;
                    (rows[filled], counts[filled]) = (row as u8, column[row]);
                    filled += 1;
                    left &= left - 1;
                }
            }
            put_column(out, bits, self.height, &rows[..filled], &counts[..filled]);
        }
    }
}

/// The numbers of all rows that there may be.
const NUMBERS: [u8; COUNT_MAX] = {
    let mut numbers = [0; COUNT_MAX];
    let mut at = 0;
    while at < COUNT_MAX {
        numbers[at] = at as u8;
        at += 1;
    }
    numbers
};

fn put_bins<C: Coded>(out: &mut Vec<u8>, rows: &[&Bins<C>], integers: bool) {
    let total: usize = rows.iter().map(|bins| bins.len()).sum();
    let union = Union::new(rows);
    let indexes = union.indexes();
    put_varint(out, indexes.len() as u64);
    let mut packed = Vec::with_capacity(2 * total);
    let mut bits = BitWriter::new(&mut packed);
    if indexes.len() * rows.len() <= FULL_RATIO * total {
        Full::new(rows, &union, integers).put(out, &mut bits, indexes);
    } else {
        Turned::new(rows, &union, integers).put(out, &mut bits, indexes);
    }
    bits.finish();
    put_bytes(out, &packed);
}

/// One bin: which of `height` rows have it, and how often.
fn put_column(out: &mut Vec<u8>, bits: &mut BitWriter<'_>, height: usize, rows: &[u8], counts: &[u64]) {
    assert!(!rows.is_empty() && rows.len() == counts.len(), "{} rows and {} counts", rows.len(), counts.len());
    debug_assert!(rows.is_sorted_by(|one, next| one < next), "rows of a bin ascend: {rows:?}");
    let (mut least, mut greatest) = (u64::MAX, 0);
    for count in counts {
        (least, greatest) = (least.min(*count), greatest.max(*count));
    }
    let width = 64 - (greatest - least).leading_zeros();
    let form = match rows.len() {
        all if all == height => ALL,
        held if held * NUMBER_BITS as usize + NUMBER_BITS as usize > height => SOME,
        _ => FEW,
    };
    out.push(form * WIDTHS + width as u8);
    put_varint(out, least);
    match form {
        ALL => {}
        SOME => {
            let mut held = [0_u64; COUNT_MAX / 64];
            rows.iter().for_each(|row| held[usize::from(*row) / 64] |= 1 << (row % 64));
            for (word, at) in held.iter().zip((0..height).step_by(64)) {
                bits.put(*word, (height - at).min(64) as u32);
            }
        }
        _ => {
            out.push(rows.len() as u8);
            rows.iter().for_each(|row| bits.put(u64::from(*row), NUMBER_BITS));
        }
    }
    if width > 0 {
        counts.iter().for_each(|count| bits.put(count - least, width));
    }
}

fn get_bins<C: Coded>(cursor: &mut Cursor<'_>, height: usize, integers: bool) -> Result<Vec<Bins<C>>, Broken> {
    let columns = cursor.count(usize::MAX, "bins")?;
    let mut heads = Vec::with_capacity(columns);
    let mut index = 0;
    for _ in 0..columns {
        index += cursor.signed()?;
        let (code, least) = (cursor.byte()?, cursor.varint()?);
        let held = if code / WIDTHS == FEW { usize::from(cursor.byte()?) } else { 0 };
        heads.push((index as i32, code / WIDTHS, u32::from(code % WIDTHS), least, held));
    }
    let mut bits = BitReader { bytes: cursor.length_and_bytes()?, pending: 0, filled: 0 };
    let (mut rows, mut counts, mut ends) = (Vec::new(), Vec::new(), Vec::with_capacity(columns));
    for (_, form, width, least, held) in &heads {
        let begin = rows.len();
        match *form {
            ALL => rows.extend(0..=(height - 1) as u8),
            SOME => {
                for at in (0..height).step_by(64) {
                    let mut held = bits.take((height - at).min(64) as u32);
                    while held != 0 {
                        rows.push((at + held.trailing_zeros() as usize) as u8);
                        held &= held - 1;
                    }
                }
            }
            _ => rows.extend((0..*held).map(|_| bits.take(NUMBER_BITS) as u8)),
        }
        counts.extend((begin..rows.len()).map(|_| least + bits.take(*width)));
        ends.push(rows.len());
    }
    debug_assert!(bits.bytes.is_empty(), "{} bytes are left over", bits.bytes.len());
    let mut lengths = [0_usize; COUNT_MAX];
    rows.iter().for_each(|row| lengths[usize::from(*row)] += 1);
    let room = |length: &usize| (Vec::with_capacity(*length), Vec::with_capacity(*length));
    let mut turned: Vec<(Vec<i32>, Vec<C>)> = lengths[..height].iter().map(room).collect();
    let mut begin = 0;
    for ((index, ..), end) in heads.iter().zip(ends) {
        for (row, count) in rows[begin..end].iter().zip(&counts[begin..end]) {
            let (indexes, counts) = &mut turned[usize::from(*row)];
            indexes.push(*index);
            counts.push(C::from_code(*count, integers));
        }
        begin = end;
    }
    Ok(turned.into_iter().map(|(indexes, counts)| Bins::from_columns(indexes, counts)).collect())
}

/// Inverse of [`BitWriter`].
struct BitReader<'a> {
    bytes: &'a [u8],
    pending: u128,
    filled: u32,
}

impl BitReader<'_> {
    fn take(&mut self, width: u32) -> u64 {
        debug_assert!(width <= 64, "a value of {width} bits");
        if self.filled < width {
            let (word, rest) = self.bytes.split_at(self.bytes.len().min(8));
            let mut bytes = [0; 8];
            bytes[..word.len()].copy_from_slice(word);
            self.pending |= u128::from(u64::from_le_bytes(bytes)) << self.filled;
            self.filled += 8 * word.len() as u32;
            self.bytes = rest;
            assert!(self.filled >= width, "as it was packed");
        }
        let mask = if width == 64 { u64::MAX } else { (1 << width) - 1 };
        let value = self.pending as u64 & mask;
        self.pending >>= width;
        self.filled -= width;
        value
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ingest::column::Pack;
    use crate::ingest::packed::Packed;
    use crate::testing::{any_float, any_histogram};

    /// Packs, compares what comes back in every bit, and gives the bytes a row.
    fn check(rows: &[(i64, HistogramValue)]) -> usize {
        let packed: Packed = Pack::pack(rows).unwrap();
        let back = <HistogramValue as Pack>::unpack(&packed);
        // The texts of floats distinguish -0 and NaN; of NaNs the payload is compared apart.
        assert_eq!(format!("{back:?}"), format!("{rows:?}"));
        for (back, row) in back.iter().zip(rows) {
            assert_eq!(bits(&back.1), bits(&row.1));
        }
        packed.bytes() / rows.len()
    }

    fn bits(value: &HistogramValue) -> Vec<u64> {
        fn of<C: Coded>(value: &Histogram<C>) -> Vec<u64> {
            let optional = |value: Option<f64>| value.map_or(0, f64::to_bits);
            let mut bits = vec![value.zero_threshold.to_bits(), optional(value.sum)];
            bits.extend([optional(value.min), optional(value.max)]);
            bits.extend([value.zero, value.nan, value.count].map(|count| count.code(false)));
            let bins = value.negative.iter().chain(value.positive.iter());
            bits.extend(bins.map(|(_, count)| count.code(false)));
            bits
        }
        match value {
            HistogramValue::Integer(value) => of(value),
            HistogramValue::Float(value) => of(value),
        }
    }

    /// A cell of `count` durations in whole nanoseconds.
    fn cell(seed: u64, count: u64) -> HistogramValue {
        let mut histogram = Histogram::log_linear();
        let mut sum = 0;
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        for _ in 0..count {
            state ^= state >> 12;
            state ^= state << 25;
            state ^= state >> 27;
            let uniform = (state >> 40) as f64 / (1_u64 << 24) as f64;
            let nanoseconds = (50_000.0 * (1.0 + uniform * uniform * 3.0)) as i64;
            histogram.record_int(nanoseconds, -9);
            sum += nanoseconds;
        }
        histogram.sum = Some(sum as f64 / 1e9);
        HistogramValue::Integer(histogram)
    }

    #[test]
    fn usual_cells_take_a_few_bytes_more_than_their_entropy() {
        let cells = |count| (0..64).map(|at| (at * 1000, cell(at as u64 + 1, count))).collect::<Vec<_>>();
        assert!(check(&cells(5)) < 25, "a few values each");
        assert!(check(&cells(200)) < 60, "some fifty bins each");
        assert!(check(&cells(10_000)) < 130, "many values each");
        assert!(check(&cells(0)) < 2, "nothing");
    }

    #[test]
    fn odd_cells_come_back() {
        let mut zeros = Histogram::log_linear();
        zeros.positive = [(1, 0), (5, u64::MAX), (23_000, 1)].into_iter().collect();
        zeros.negative = [(i32::MIN, 3), (i32::MAX, 0)].into_iter().collect();
        let zeros = HistogramValue::Integer(zeros);
        let mut float = Histogram::<f64>::new(ogive_hist::Scheme::Exp2 { scale: 20 });
        float.positive = [(1, -0.0), (2, 0.0), (3, f64::NAN), (4, 0.5), (6, 1e300)].into_iter().collect();
        let float = HistogramValue::Float(float);
        // The last indexes that there are, next to each other.
        let mut last = Histogram::new(ogive_hist::Scheme::Exp2 { scale: 20 });
        last.positive = [(i32::MAX - 1, 2), (i32::MAX, 1)].into_iter().collect();
        last.negative = [(i32::MIN, 3), (i32::MIN + 1, 1)].into_iter().collect();
        last.count = 7;
        check(&[(0, HistogramValue::Integer(last))]);
        let custom = HistogramValue::Integer(Histogram::new(ogive_hist::Scheme::Custom { bounds: [1.0, 2.0].into() }));
        check(&[(0, zeros.clone()), (1, float.clone()), (2, float), (2, custom), (3, zeros.clone())]);
        // As many rows as may be: late cells make parts of twice the size.
        for count in [1, 63, 64, 65, COUNT_MAX as i64] {
            check(&(0..count).map(|at| (at * 7, cell(at as u64 % 9, at as u64 % 3))).collect::<Vec<_>>());
            check(&(0..count).map(|at| (at, zeros.clone())).collect::<Vec<_>>());
        }
    }

    proptest! {
        #[test]
        fn any_cells_come_back(
            values in prop::collection::vec(any_histogram(), 1..20),
            rows in prop::collection::vec((any::<i16>(), any::<prop::sample::Index>()), 1..COUNT_MAX),
            alike in any::<bool>(),
        ) {
            let mut times: Vec<i64> = rows.iter().map(|row| i64::from(row.0)).collect();
            times.sort_unstable();
            let pick = |row: &(i16, prop::sample::Index)| row.1.get(&values).clone();
            let mut rows: Vec<_> = times.into_iter().zip(rows.iter().map(pick)).collect();
            if alike {
                let shape = Shape::from_value(&rows[0].1);
                rows.retain(|row| shape.fits(&row.1));
            }
            check(&rows);
        }

        /// Both ways of turning bins write the same bytes.
        #[test]
        fn full_bins_are_written_as_others_are(
            mut rows in prop::collection::vec(
                prop::collection::btree_map(-30..30_i32, any::<u64>(), 0..40), 1..COUNT_MAX,
            ),
            alike in 0..COUNT_MAX, shift in 0..64_u32,
        ) {
            let first = rows[0].clone();
            rows.iter_mut().take(alike).for_each(|row| row.clone_from(&first));
            let rows: Vec<Bins<u64>> = rows
                .into_iter()
                .map(|row| row.into_iter().map(|(index, count)| (index, count >> shift)).collect())
                .collect();
            let rows: Vec<&Bins<u64>> = rows.iter().collect();
            let union = Union::new(&rows);
            let indexes = union.indexes();
            let written = |put: &dyn Fn(&mut Vec<u8>, &mut BitWriter<'_>)| {
                let (mut out, mut packed) = (Vec::new(), Vec::new());
                let mut bits = BitWriter::new(&mut packed);
                put(&mut out, &mut bits);
                bits.finish();
                (out, packed)
            };
            let full = Full::new(&rows, &union, true);
            let turned = Turned::new(&rows, &union, true);
            prop_assert_eq!(
                written(&|out, bits| full.put(out, bits, indexes)),
                written(&|out, bits| turned.put(out, bits, indexes))
            );
        }

        #[test]
        fn any_float_counts_come_back(
            counts in prop::collection::vec(prop::collection::btree_map(-50..50_i32, any_float(), 0..20), 1..COUNT_MAX),
        ) {
            let cell = |bins: std::collections::BTreeMap<i32, f64>| {
                let mut histogram = Histogram::<f64>::new(ogive_hist::Scheme::Exp2 { scale: 3 });
                (histogram.zero, histogram.nan) = (bins.get(&0).copied().unwrap_or(-0.0), 1.0);
                histogram.positive = bins.into_iter().collect();
                histogram.count = sum_of_bins(&histogram);
                HistogramValue::Float(histogram)
            };
            check(&counts.into_iter().enumerate().map(|(at, bins)| (at as i64, cell(bins))).collect::<Vec<_>>());
        }
    }
}
