//! A column of histograms of one scheme and one count type.
//!
//! Invariants: every field is restored bit for bit, except bins with a count of zero, which carry no information and
//! are left out. All values of a column share a [`Shape`].
//! Format: docs/formats/block.md, "Histograms".

use std::ops::Range;
use std::sync::Arc;

use ogive_hist::{Bins, Count, CounterReset, Histogram, Scheme};
use ogive_model::{BinColumns, BinStretch, HistogramValue};

use crate::bytes::{Broken, Cursor, put_signed, put_varint};
use crate::codec::matrix::{self, Matrix};
use crate::codec::union::Union;
use crate::codec::{counts, floats, integers};

/// 256 cells: four minutes of 1 s cells; larger chunks save under 3 % and make each read of a minute dearer.
pub(crate) const CHUNK_CELLS_MAX: usize = 256;
/// 2 Mi counts, 16 MiB decoded: 256 cells of 8,192 bins. One cell alone may hold more.
pub(crate) const CHUNK_COUNTS_MAX: usize = 2 << 20;
/// 4 Mi bins of each sign in one histogram, 48 MiB decoded: both signs of the default scheme have 46,080.
pub(crate) const BINS_MAX: usize = 4 << 20;
/// 64 Ki bounds: what one may write by hand is a thousand times less.
const BOUNDS_MAX: usize = 1 << 16;
// What a sender's histogram may have, a chunk can hold.
const _: () = assert!(ogive_model::wire::BINS_MAX <= BINS_MAX);

/// What all histograms of a chunk have in common.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    float: bool,
    scheme: Scheme,
}

impl Shape {
    pub(crate) fn from_value(value: &HistogramValue) -> Self {
        match value {
            HistogramValue::Integer(histogram) => Self { float: false, scheme: histogram.scheme.clone() },
            HistogramValue::Float(histogram) => Self { float: true, scheme: histogram.scheme.clone() },
        }
    }

    pub(crate) fn fits(&self, value: &HistogramValue) -> bool {
        match value {
            HistogramValue::Integer(histogram) => !self.float && same_scheme(&self.scheme, &histogram.scheme),
            HistogramValue::Float(histogram) => self.float && same_scheme(&self.scheme, &histogram.scheme),
        }
    }

    /// Whether the counts are floats.
    pub(crate) const fn is_float(&self) -> bool {
        self.float
    }

    /// The rule of the bins.
    pub(crate) const fn scheme(&self) -> &Scheme {
        &self.scheme
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.float));
        match &self.scheme {
            Scheme::LogLinear10 => out.push(LOG_LINEAR_10),
            Scheme::Exp2 { scale } => out.extend_from_slice(&[EXP_2, scale.cast_unsigned()]),
            Scheme::Custom { bounds } => {
                out.push(CUSTOM);
                put_varint(out, bounds.len() as u64);
                floats::put(out, bounds);
            }
            Scheme::LogLinear2 { grouping, shift, unit } => {
                out.extend_from_slice(&[LOG_LINEAR_2, *grouping, *shift]);
                out.extend_from_slice(&unit.to_le_bytes());
            }
            Scheme::Gamma { gamma, offset } => {
                out.push(GAMMA);
                out.extend_from_slice(&gamma.to_le_bytes());
                out.extend_from_slice(&offset.to_le_bytes());
            }
        }
    }

    pub(crate) fn get(cursor: &mut Cursor<'_>) -> Result<Self, Broken> {
        let float = match cursor.byte()? {
            0 => false,
            1 => true,
            tag => return Err(cursor.broken(format!("{tag} is no count type"))),
        };
        let scheme = match cursor.byte()? {
            LOG_LINEAR_10 => Scheme::LogLinear10,
            EXP_2 => Scheme::Exp2 { scale: cursor.byte()?.cast_signed() },
            CUSTOM => {
                let count = cursor.count(BOUNDS_MAX, "bounds")?;
                Scheme::Custom { bounds: floats::get(cursor, count)?.into() }
            }
            LOG_LINEAR_2 => {
                Scheme::LogLinear2 { grouping: cursor.byte()?, shift: cursor.byte()?, unit: parameter(cursor)? }
            }
            GAMMA => Scheme::Gamma { gamma: parameter(cursor)?, offset: parameter(cursor)? },
            tag => return Err(cursor.broken(format!("{tag} is no scheme"))),
        };
        Ok(Self { float, scheme })
    }
}

/// A parameter of a scheme, little-endian.
fn parameter(cursor: &mut Cursor<'_>) -> Result<f64, Broken> {
    Ok(f64::from_le_bytes(cursor.take(8)?.try_into().expect("eight bytes were taken")))
}

const LOG_LINEAR_10: u8 = 0;
const EXP_2: u8 = 1;
const CUSTOM: u8 = 2;
const LOG_LINEAR_2: u8 = 3;
const GAMMA: u8 = 4;

fn same_scheme(a: &Scheme, b: &Scheme) -> bool {
    match (a, b) {
        (Scheme::Custom { bounds: a }, Scheme::Custom { bounds: b }) => {
            Arc::ptr_eq(a, b) || a.iter().map(|bound| bound.to_bits()).eq(b.iter().map(|bound| bound.to_bits()))
        }
        (a, b) => a == b,
    }
}

/// How counts of a type are written.
trait StoredCount: Count + Default {
    /// What a matrix is written of.
    type Stored: Copy + Default;
    fn put_column(out: &mut Vec<u8>, values: &[Self]);
    fn get_column(cursor: &mut Cursor<'_>, count: usize) -> Result<Vec<Self>, Broken>;
    fn stored(self) -> Self::Stored;
    /// Column after column of `rows` values.
    fn put_matrix(out: &mut Vec<u8>, values: &[Self::Stored], rows: usize);
    /// The rows of `wanted` of `rows`.
    fn get_matrix(
        cursor: &mut Cursor<'_>,
        columns: usize,
        rows: usize,
        wanted: Range<usize>,
    ) -> Result<Matrix<Self>, Broken>;
    fn same(self, other: Self) -> bool;
}

impl StoredCount for u64 {
    type Stored = i64;
    fn put_column(out: &mut Vec<u8>, values: &[Self]) {
        integers::put(out, &values.iter().map(|value| value.cast_signed()).collect::<Vec<_>>());
    }
    fn get_column(cursor: &mut Cursor<'_>, count: usize) -> Result<Vec<Self>, Broken> {
        Ok(integers::get(cursor, count)?.into_iter().map(i64::cast_unsigned).collect())
    }
    fn stored(self) -> i64 {
        self.cast_signed()
    }
    fn put_matrix(out: &mut Vec<u8>, values: &[i64], rows: usize) {
        matrix::put(out, values, rows);
    }
    fn get_matrix(
        cursor: &mut Cursor<'_>,
        columns: usize,
        rows: usize,
        wanted: Range<usize>,
    ) -> Result<Matrix<Self>, Broken> {
        matrix::get(cursor, columns, rows, wanted, i64::cast_unsigned, |_, _| ())
    }
    fn same(self, other: Self) -> bool {
        self == other
    }
}

impl StoredCount for f64 {
    type Stored = Self;
    fn put_column(out: &mut Vec<u8>, values: &[Self]) {
        floats::put(out, values);
    }
    fn get_column(cursor: &mut Cursor<'_>, count: usize) -> Result<Vec<Self>, Broken> {
        floats::get(cursor, count)
    }
    fn stored(self) -> Self {
        self
    }
    fn put_matrix(out: &mut Vec<u8>, values: &[Self], rows: usize) {
        assert_eq!(values.len() % rows, 0, "{} values are whole columns of {rows}", values.len());
        values.chunks_exact(rows).for_each(|column| floats::put(out, column));
    }
    fn get_matrix(
        cursor: &mut Cursor<'_>,
        columns: usize,
        rows: usize,
        wanted: Range<usize>,
    ) -> Result<Matrix<Self>, Broken> {
        let mut matrix = Matrix::new(columns, wanted.len());
        for column in 0..columns {
            let values = floats::get(cursor, rows)?;
            matrix.column_mut(column)[..wanted.len()].copy_from_slice(&values[wanted.clone()]);
        }
        Ok(matrix)
    }
    fn same(self, other: Self) -> bool {
        self.to_bits() == other.to_bits()
    }
}

/// Appends histograms of `shape`.
pub(crate) fn put(out: &mut Vec<u8>, shape: &Shape, values: &[HistogramValue]) {
    assert!(!values.is_empty(), "a chunk has a histogram");
    debug_assert!(values.iter().all(|value| shape.fits(value)), "histograms of a chunk have its scheme and count type");
    shape.put(out);
    if shape.float {
        put_typed(out, &values.iter().map(float).collect::<Vec<_>>());
    } else {
        put_typed(out, &values.iter().map(integer).collect::<Vec<_>>());
    }
}

pub(crate) fn float(value: &HistogramValue) -> &Histogram<f64> {
    let HistogramValue::Float(histogram) = value else { panic!("an integer histogram in a chunk of float ones") };
    histogram
}

pub(crate) fn integer(value: &HistogramValue) -> &Histogram<u64> {
    let HistogramValue::Integer(histogram) = value else { panic!("a float histogram in a chunk of integer ones") };
    histogram
}

/// Reads `count` histograms and gives those of `wanted`.
pub(crate) fn get(cursor: &mut Cursor<'_>, count: usize, wanted: Range<usize>) -> Result<Vec<HistogramValue>, Broken> {
    assert!(wanted.start <= wanted.end && wanted.end <= count, "histograms {wanted:?} of {count}");
    let shape = Shape::get(cursor)?;
    Ok(if shape.float {
        get_typed(cursor, &shape.scheme, count, wanted)?.into_iter().map(HistogramValue::Float).collect()
    } else {
        get_typed(cursor, &shape.scheme, count, wanted)?.into_iter().map(HistogramValue::Integer).collect()
    })
}

fn put_typed<C: StoredCount>(out: &mut Vec<u8>, values: &[&Histogram<C>]) {
    let column = |field: fn(&Histogram<C>) -> C| values.iter().map(|value| field(value)).collect::<Vec<C>>();
    integers::put(out, &values.iter().map(|value| reset_code(value.reset)).collect::<Vec<_>>());
    floats::put(out, &values.iter().map(|value| value.zero_threshold).collect::<Vec<_>>());
    C::put_column(out, &column(|value| value.zero));
    C::put_column(out, &column(|value| value.nan));
    put_optional(out, values.iter().map(|value| value.sum));
    put_optional(out, values.iter().map(|value| value.min));
    put_optional(out, values.iter().map(|value| value.max));
    let added = values.iter().all(|value| value.count.same(sum_of_bins(value)));
    out.push(u8::from(added));
    if !added {
        C::put_column(out, &column(|value| value.count));
    }
    put_bins(out, &values.iter().map(|value| &value.negative).collect::<Vec<_>>());
    put_bins(out, &values.iter().map(|value| &value.positive).collect::<Vec<_>>());
}

fn get_typed<C: StoredCount>(
    cursor: &mut Cursor<'_>,
    scheme: &Scheme,
    count: usize,
    wanted: Range<usize>,
) -> Result<Vec<Histogram<C>>, Broken> {
    let heads = Heads::<C>::get(cursor, count)?;
    let negative = get_bins(cursor, count, wanted.clone())?;
    let positive = get_bins(cursor, count, wanted.clone())?;
    debug_assert_eq!(negative.len(), wanted.len(), "each histogram has its negative bins");
    debug_assert_eq!(positive.len(), wanted.len(), "each histogram has its positive bins");
    let mut values = Vec::with_capacity(wanted.len());
    for ((at, negative), positive) in wanted.zip(negative).zip(positive) {
        let mut value = Histogram { negative, positive, ..heads.head(cursor, scheme, at)? };
        value.count = heads.counts.as_ref().map_or_else(|| sum_of_bins(&value), |counts| counts[at]);
        values.push(value);
    }
    Ok(values)
}

/// What histograms are beside their bins.
struct Heads<C> {
    resets: Vec<i64>,
    thresholds: Vec<f64>,
    zeros: Vec<C>,
    nans: Vec<C>,
    sums: Vec<Option<f64>>,
    mins: Vec<Option<f64>>,
    maxs: Vec<Option<f64>>,
    /// None where each is what the bins add up to.
    counts: Option<Vec<C>>,
}

impl<C: StoredCount> Heads<C> {
    fn get(cursor: &mut Cursor<'_>, count: usize) -> Result<Self, Broken> {
        let resets = integers::get(cursor, count)?;
        let thresholds = floats::get(cursor, count)?;
        let (zeros, nans) = (C::get_column(cursor, count)?, C::get_column(cursor, count)?);
        let sums = get_optional(cursor, count)?;
        let (mins, maxs) = (get_optional(cursor, count)?, get_optional(cursor, count)?);
        let counts = match cursor.byte()? {
            0 => Some(C::get_column(cursor, count)?),
            1 => None,
            tag => return Err(cursor.broken(format!("{tag} does not say whether counts are written"))),
        };
        Ok(Self { resets, thresholds, zeros, nans, sums, mins, maxs, counts })
    }

    /// The histogram of a row without its bins and its count.
    fn head(&self, cursor: &Cursor<'_>, scheme: &Scheme, at: usize) -> Result<Histogram<C>, Broken> {
        let reset = self.resets[at];
        Ok(Histogram {
            scheme: scheme.clone(),
            zero_threshold: self.thresholds[at],
            zero: self.zeros[at],
            nan: self.nans[at],
            negative: Bins::new(),
            positive: Bins::new(),
            count: C::ZERO,
            sum: self.sums[at],
            min: self.mins[at],
            max: self.maxs[at],
            reset: reset_of(reset).ok_or_else(|| cursor.broken(format!("{reset} is no reset hint")))?,
        })
    }
}

/// Histograms whose bins stay columns.
pub(crate) struct HistogramColumns {
    /// Without bins.
    pub(crate) heads: Vec<HistogramValue>,
    pub(crate) stretch: BinStretch,
    /// How many bins hold something.
    pub(crate) bins: usize,
}

/// As [`get`]; None when the counts are floats or too large to be added without care.
pub(crate) fn get_columns(
    cursor: &mut Cursor<'_>,
    count: usize,
    wanted: Range<usize>,
) -> Result<Option<HistogramColumns>, Broken> {
    assert!(wanted.start <= wanted.end && wanted.end <= count, "histograms {wanted:?} of {count}");
    let shape = Shape::get(cursor)?;
    if shape.float {
        return Ok(None);
    }
    let heads = Heads::<u64>::get(cursor, count)?;
    let mut tally = Tally::new(wanted.clone().map(|at| heads.zeros[at].saturating_add(heads.nans[at])).collect());
    let negative = get_bin_columns(cursor, count, wanted.clone(), &mut tally)?;
    let positive = get_bin_columns(cursor, count, wanted.clone(), &mut tally)?;
    let bins = tally.filled;
    let Some(totals) = tally.into_totals(negative.indexes().len() + positive.indexes().len()) else { return Ok(None) };
    let mut values = Vec::with_capacity(wanted.len());
    for (at, total) in wanted.clone().zip(totals) {
        let count = heads.counts.as_ref().map_or(total, |counts| counts[at]);
        values.push(HistogramValue::Integer(Histogram { count, ..heads.head(cursor, &shape.scheme, at)? }));
    }
    let stretch = BinStretch { rows: wanted.len(), negative, positive };
    Ok(Some(HistogramColumns { heads: values, stretch, bins }))
}

fn get_bin_columns(
    cursor: &mut Cursor<'_>,
    rows: usize,
    wanted: Range<usize>,
    tally: &mut Tally,
) -> Result<BinColumns, Broken> {
    let length = wanted.len();
    let union = get_union(cursor, rows)?;
    if union.is_empty() {
        return Ok(BinColumns::new(union, Vec::new(), length, 0));
    }
    let see = |first: usize, counts: &[u64]| tally.add(first, counts);
    let matrix = matrix::get(cursor, union.len(), rows, wanted, i64::cast_unsigned, see)?;
    let (counts, stride) = matrix.into_parts();
    Ok(BinColumns::new(union, counts, length, stride))
}

/// What the counts of columns come to.
struct Tally {
    /// Of each row.
    totals: Vec<u64>,
    largest: u64,
    /// How many counts are not zero.
    filled: usize,
}

impl Tally {
    const fn new(totals: Vec<u64>) -> Self {
        Self { totals, largest: 0, filled: 0 }
    }

    /// Adds counts of the rows from `first` on.
    fn add(&mut self, first: usize, counts: &[u64]) {
        let (mut filled, mut largest) = (0_u64, 0);
        for (total, count) in self.totals[first..].iter_mut().zip(counts) {
            *total = total.wrapping_add(*count);
            filled += u64::from(*count != 0);
            largest |= *count;
        }
        self.filled += filled as usize;
        self.largest |= largest;
    }

    /// The totals; None when `columns` counts may have wrapped around.
    fn into_totals(self, columns: usize) -> Option<Vec<u64>> {
        let most = self.largest.checked_mul(columns as u64)?;
        let is_small = most < TOTAL_MAX && self.totals.iter().all(|total| *total < TOTAL_MAX);
        is_small.then_some(self.totals)
    }
}

/// 2^62: a total of other counts and one of those of bins, each below it, add up without wrapping around.
const TOTAL_MAX: u64 = 1 << 62;

/// The count that needs no writing: zero bin, NaN, negative bins, positive bins, added in this order.
pub(crate) fn sum_of_bins<C: Count>(value: &Histogram<C>) -> C {
    let bins = value.negative.counts().iter().chain(value.positive.counts());
    bins.filter(|count| **count != C::ZERO).fold(value.zero.plus(value.nan), |sum, count| sum.plus(*count))
}

pub(crate) const fn reset_code(reset: CounterReset) -> i64 {
    match reset {
        CounterReset::Unknown => 0,
        CounterReset::Reset => 1,
        CounterReset::NotReset => 2,
        CounterReset::Gauge => 3,
    }
}

pub(crate) const fn reset_of(code: i64) -> Option<CounterReset> {
    match code {
        0 => Some(CounterReset::Unknown),
        1 => Some(CounterReset::Reset),
        2 => Some(CounterReset::NotReset),
        3 => Some(CounterReset::Gauge),
        _ => None,
    }
}

/// Which rows have a value, then the values that are there.
fn put_optional(out: &mut Vec<u8>, values: impl Iterator<Item = Option<f64>> + Clone) {
    integers::put(out, &values.clone().map(|value| i64::from(value.is_some())).collect::<Vec<_>>());
    floats::put_with(out, &values.flatten().collect::<Vec<_>>(), counts::NEAR);
}

fn get_optional(cursor: &mut Cursor<'_>, count: usize) -> Result<Vec<Option<f64>>, Broken> {
    let present = integers::get(cursor, count)?;
    let mut values = floats::get(cursor, present.iter().filter(|present| **present == 1).count())?.into_iter();
    Ok(present.into_iter().map(|present| if present == 1 { values.next() } else { None }).collect())
}

/// The union of the indexes that hold something, then a matrix of counts.
fn put_bins<C: StoredCount>(out: &mut Vec<u8>, rows: &[&Bins<C>]) {
    if rows.iter().any(|bins| bins.counts().contains(&C::ZERO)) {
        let held = |bins: &&Bins<C>| bins.iter().filter(|(_, count)| *count != C::ZERO).collect();
        let rows: Vec<Bins<C>> = rows.iter().map(held).collect();
        return put_held_bins(out, &rows.iter().collect::<Vec<_>>());
    }
    put_held_bins(out, rows);
}

/// As [`put_bins`], of rows whose bins all hold something.
fn put_held_bins<C: StoredCount>(out: &mut Vec<u8>, rows: &[&Bins<C>]) {
    let union = Union::new(rows);
    let indexes = union.indexes();
    assert!(indexes.len() <= BINS_MAX, "a reader takes no {} bins", indexes.len());
    assert!(
        rows.len() == 1 || indexes.len() * rows.len() <= CHUNK_COUNTS_MAX,
        "a reader takes no {} bins in {} cells",
        indexes.len(),
        rows.len()
    );
    put_varint(out, indexes.len() as u64);
    if indexes.is_empty() {
        return;
    }
    put_signed(out, i64::from(indexes[0]));
    let steps: Vec<i64> = indexes.windows(2).map(|pair| i64::from(pair[1]) - i64::from(pair[0])).collect();
    integers::put(out, &steps);
    let mut values = vec![C::Stored::default(); indexes.len() * rows.len()];
    let (mut columns, mut before): (Vec<usize>, &[i32]) = (Vec::new(), &[]);
    for (row, bins) in rows.iter().enumerate() {
        // The rows of one series often have the bins of the row before.
        if bins.indexes() != before {
            before = bins.indexes();
            columns.clear();
            columns.extend(before.iter().map(|index| union.column(*index)));
        }
        for (column, count) in columns.iter().zip(bins.counts()) {
            values[column * rows.len() + row] = count.stored();
        }
    }
    C::put_matrix(out, &values, rows.len());
}

fn get_bins<C: StoredCount>(
    cursor: &mut Cursor<'_>,
    rows: usize,
    wanted: Range<usize>,
) -> Result<Vec<Bins<C>>, Broken> {
    let length = wanted.len();
    let union = get_union(cursor, rows)?;
    if union.is_empty() {
        return Ok(vec![Bins::new(); length]);
    }
    let matrix = C::get_matrix(cursor, union.len(), rows, wanted)?;
    Ok(rows_of(&union, &matrix, length))
}

/// The indexes of the columns.
fn get_union(cursor: &mut Cursor<'_>, rows: usize) -> Result<Vec<i32>, Broken> {
    let columns = cursor.count(BINS_MAX, "bins")?;
    if columns == 0 {
        return Ok(Vec::new());
    }
    if rows > 1 && columns.saturating_mul(rows) > CHUNK_COUNTS_MAX {
        return Err(cursor.broken(format!("{columns} bins in {rows} cells")));
    }
    let mut index = cursor.signed()?;
    let steps = integers::get(cursor, columns - 1)?;
    let mut union = Vec::with_capacity(columns);
    for step in std::iter::once(0).chain(steps) {
        index = index.saturating_add(step);
        let bin = i32::try_from(index).map_err(|_| cursor.broken(format!("a bin {index}")))?;
        if union.last().is_some_and(|last| *last >= bin) {
            return Err(cursor.broken(format!("bin {bin} does not ascend")));
        }
        union.push(bin);
    }
    Ok(union)
}

/// The bins of each row that hold something, from a matrix of one column a bin.
///
/// Most counts of a rare bin are zero and no branch predictor knows which: so a count is always written, and only
/// one that is not zero moves the row on. There is one place more than a row can hold for that.
fn rows_of<C: Count>(union: &[i32], matrix: &Matrix<C>, rows: usize) -> Vec<Bins<C>> {
    let (mut indexes, mut counts) = (vec![0; union.len() + 1], vec![C::ZERO; union.len() + 1]);
    let row = |row: usize| {
        let mut held = 0;
        for (bin, count) in union.iter().zip(matrix.row(row)) {
            indexes[held] = *bin;
            counts[held] = count;
            held += usize::from(count != C::ZERO);
        }
        Bins::from_columns(indexes[..held].to_vec(), counts[..held].to_vec())
    };
    (0..rows).map(row).collect()
}

/// How many of the first of `values` go into one chunk: as many as share the first one's shape, up to the
/// limits, and at least one.
pub(crate) fn fitting(values: &[HistogramValue]) -> usize {
    let shape = Shape::from_value(&values[0]);
    let cells = values.iter().take(CHUNK_CELLS_MAX).take_while(|value| shape.fits(value)).count();
    // An upper bound that needs no set: the indexes between the least and the greatest.
    let mut spans = [(i32::MAX, i32::MIN); 2];
    for (at, value) in values[..cells].iter().enumerate() {
        for (span, indexes) in spans.iter_mut().zip(indexes(value)) {
            if let (Some(first), Some(last)) = (indexes.first(), indexes.last()) {
                *span = (span.0.min(*first), span.1.max(*last));
            }
        }
        let bins: i64 = spans.iter().map(|(first, last)| (i64::from(*last) - i64::from(*first) + 1).max(0)).sum();
        if at > 0 && bins.saturating_mul(at as i64 + 1) > CHUNK_COUNTS_MAX as i64 {
            return at;
        }
    }
    cells
}

fn indexes(value: &HistogramValue) -> [&[i32]; 2] {
    match value {
        HistogramValue::Integer(value) => [value.negative.indexes(), value.positive.indexes()],
        HistogramValue::Float(value) => [value.negative.indexes(), value.positive.indexes()],
    }
}

/// Bins of both signs.
pub(crate) fn bins_of(value: &HistogramValue) -> usize {
    indexes(value).iter().map(|indexes| indexes.len()).sum()
}

/// What a histogram costs a selection: its bins, one at least.
pub(crate) fn weight(value: &HistogramValue) -> usize {
    bins_of(value).max(1)
}
