//! All histograms of a chunk in memory, to be read again: bins as columns, in few bytes.
//!
//! Invariant: what [`KeptHistograms::append`] appends is, bit for bit and with the same padding, what
//! [`Chunk::columns`](super::chunk::Chunk::columns) does.

use std::ops::Range;

use ogive_hist::{Bins, CounterReset, Histogram, Scheme};
use ogive_model::{BinColumns, BinStretch, HistogramValue, SeriesColumns, TimeRange};

use crate::bytes::Broken;
use crate::codec::chunk::{AllColumns, Chunk, extend_starts, rows_inside};
use crate::codec::matrix::Matrix;
use crate::codec::narrow::NarrowColumn;

/// See the module.
#[derive(Debug)]
pub(crate) struct KeptHistograms {
    times: Box<[i64]>,
    /// One a time, or none.
    starts: Box<[i64]>,
    /// Of all of them.
    scheme: Scheme,
    heads: Box<[Head]>,
    negative: KeptBins,
    positive: KeptBins,
    /// How many bins hold something in the rows before each, and in all.
    filled: Box<[u32]>,
}

/// What a histogram is beside its scheme and its bins.
#[derive(Debug)]
struct Head {
    zero_threshold: f64,
    zero: u64,
    nan: u64,
    count: u64,
    sum: Option<f64>,
    min: Option<f64>,
    max: Option<f64>,
    reset: CounterReset,
}

#[derive(Debug)]
struct KeptBins {
    indexes: Box<[i32]>,
    /// One an index.
    columns: Box<[NarrowColumn]>,
}

impl KeptHistograms {
    /// Reads the histograms of a chunk; None when their bins cannot be had as columns.
    pub(crate) fn read(bytes: &[u8]) -> Result<Option<Self>, Broken> {
        let read = Chunk::open(bytes)?.all_columns()?;
        Ok(read.and_then(Self::new))
    }

    fn new(AllColumns { times, starts, found }: AllColumns) -> Option<Self> {
        let rows = times.len();
        let scheme = found.heads.iter().find_map(integer)?.scheme.clone();
        let heads: Box<[Head]> = found.heads.iter().filter_map(integer).map(Head::new).collect();
        assert_eq!(heads.len(), rows, "columns are of integers alone");
        let BinStretch { negative, positive, .. } = &found.stretch;
        let mut filled = vec![0; rows + 1];
        for columns in [negative, positive] {
            for column in 0..columns.indexes().len() {
                let counts = columns.column(column).iter();
                filled[1..].iter_mut().zip(counts).for_each(|(filled, count)| *filled += u32::from(*count != 0));
            }
        }
        (0..rows).for_each(|row| filled[row + 1] += filled[row]);
        assert_eq!(filled[rows] as usize, found.bins, "each bin that holds something is counted");
        Some(Self {
            times: times.into(),
            starts: starts.into(),
            scheme,
            heads,
            negative: KeptBins::new(negative),
            positive: KeptBins::new(positive),
            filled: filled.into(),
        })
    }

    /// Appends the histograms inside `range`, with their bins as another stretch, if there are any; returns how many.
    pub(crate) fn append(&self, range: TimeRange, columns: &mut SeriesColumns) -> usize {
        let rows = rows_inside(&self.times, range);
        if rows.is_empty() {
            return 0;
        }
        let column = &mut columns.series.histograms;
        extend_starts(&mut column.starts, column.times.len(), &self.starts, rows.clone());
        column.times.extend_from_slice(&self.times[rows.clone()]);
        column.values.extend(self.heads[rows.clone()].iter().map(|head| head.histogram(&self.scheme)));
        let (negative, positive) = (self.negative.rows(rows.clone()), self.positive.rows(rows.clone()));
        columns.stretches.push(BinStretch { rows: rows.len(), negative, positive });
        columns.bins += (self.filled[rows.end] - self.filled[rows.start]) as usize;
        debug_assert_eq!(column.times.len(), column.values.len(), "each time has its histogram");
        rows.len()
    }

    /// Bytes beside those of the type itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        let times = size_of_val(&*self.times) + size_of_val(&*self.starts);
        let rows = size_of_val(&*self.heads) + size_of_val(&*self.filled);
        let bounds = if let Scheme::Custom { bounds } = &self.scheme { size_of_val(&**bounds) } else { 0 };
        times + rows + bounds + self.negative.heap_bytes() + self.positive.heap_bytes()
    }
}

impl Head {
    const fn new(histogram: &Histogram) -> Self {
        let Histogram { zero_threshold, zero, nan, count, sum, min, max, reset, .. } = *histogram;
        Self { zero_threshold, zero, nan, count, sum, min, max, reset }
    }

    /// The histogram without its bins.
    fn histogram(&self, scheme: &Scheme) -> HistogramValue {
        let Self { zero_threshold, zero, nan, count, sum, min, max, reset } = *self;
        let (scheme, negative, positive) = (scheme.clone(), Bins::new(), Bins::new());
        HistogramValue::Integer(Histogram {
            scheme,
            zero_threshold,
            zero,
            nan,
            negative,
            positive,
            count,
            sum,
            min,
            max,
            reset,
        })
    }
}

impl KeptBins {
    fn new(bins: &BinColumns) -> Self {
        let column = |at| NarrowColumn::new(bins.column(at).iter().map(|count| count.cast_signed()));
        Self { indexes: bins.indexes().into(), columns: (0..bins.indexes().len()).map(column).collect() }
    }

    fn rows(&self, rows: Range<usize>) -> BinColumns {
        if self.columns.is_empty() {
            return BinColumns::new(Vec::new(), Vec::new(), rows.len(), 0);
        }
        let mut matrix = Matrix::new(self.columns.len(), rows.len());
        for (at, column) in self.columns.iter().enumerate() {
            column.read(rows.clone(), &mut matrix.column_mut(at)[..rows.len()], i64::cast_unsigned);
        }
        let (counts, stride) = matrix.into_parts();
        BinColumns::new(self.indexes.to_vec(), counts, rows.len(), stride)
    }

    fn heap_bytes(&self) -> usize {
        let columns = self.columns.iter().map(NarrowColumn::heap_bytes).sum::<usize>();
        size_of_val(&*self.indexes) + size_of_val(&*self.columns) + columns
    }
}

const fn integer(value: &HistogramValue) -> Option<&Histogram> {
    match value {
        HistogramValue::Integer(histogram) => Some(histogram),
        HistogramValue::Float(_) => None,
    }
}
