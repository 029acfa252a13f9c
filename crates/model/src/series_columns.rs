//! A series of histograms of one layout, as columns: the counts of each bin one behind the other, and each histogram
//! without its bins.
//!
//! A query that needs no histogram but sums or differences of many reads these without making one of each sample.
//! Invariants: all samples are histograms with integer counts, one scheme and one zero threshold, and none is a
//! staleness marker.
//! Limits: columns that are made of rows span at most [`SPAN_MAX`] indexes and hold at most [`COUNTS_MAX`] counts.

use ogive_hist::{Bins, Histogram};

use crate::{HistogramValue, STALE, SeriesData};

/// 8,192 indexes, a table of 32 KiB: 90 decades of the default scheme.
const SPAN_MAX: i64 = 8192;
/// 8 Mi counts, 64 MiB: two hours of 1 s cells in 1,165 bins. What has more rows is in blocks, in chunks of few.
const COUNTS_MAX: usize = 8 << 20;

/// The counts of consecutive histograms in the bins of one sign, column after column.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BinColumns {
    /// Ascending.
    indexes: Vec<i32>,
    counts: Vec<u64>,
    rows: usize,
    stride: usize,
}

impl BinColumns {
    /// A column for each of `indexes`, which ascend: the first `rows` of each `stride` counts.
    ///
    /// # Panics
    /// When `counts` are not so many, or the indexes do not ascend.
    #[must_use]
    pub fn new(indexes: Vec<i32>, counts: Vec<u64>, rows: usize, stride: usize) -> Self {
        assert!(rows <= stride || indexes.is_empty(), "columns of {rows} rows, each {stride} from the next");
        assert_eq!(indexes.len() * stride, counts.len(), "{} columns, each {stride} from the next", indexes.len());
        assert!(indexes.is_sorted_by(|one, next| one < next), "indexes do not ascend: {indexes:?}");
        Self { indexes, counts, rows, stride }
    }

    /// The bins that a histogram may have, ascending.
    #[must_use]
    pub fn indexes(&self) -> &[i32] {
        &self.indexes
    }

    /// The counts of bin number `at` of the indexes, one a histogram.
    #[must_use]
    pub fn column(&self, at: usize) -> &[u64] {
        &self.counts[at * self.stride..][..self.rows]
    }

    /// The bins of a histogram that hold something.
    fn row(&self, row: usize) -> Bins<u64> {
        let counts = (0..self.indexes.len()).map(|at| self.counts[at * self.stride + row]);
        self.indexes.iter().copied().zip(counts).filter(|(_, count)| *count != 0).collect()
    }

    /// Takes bins out of histograms of `rows`; none when they span too much or would take too much.
    fn from_rows<'b>(rows: impl ExactSizeIterator<Item = &'b Bins<u64>> + Clone) -> Option<Self> {
        let ends = rows.clone().filter_map(|bins| Some((*bins.indexes().first()?, *bins.indexes().last()?)));
        let Some((least, greatest)) = ends.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))) else {
            return Some(Self { rows: rows.len(), ..Self::default() });
        };
        let span = i64::from(greatest) - i64::from(least) + 1;
        if span > SPAN_MAX {
            return None;
        }
        let place = |index: i32| usize::try_from(i64::from(index) - i64::from(least)).expect("at or above the least");
        let mut columns = vec![u32::MAX; usize::try_from(span).expect("a short span")];
        for bins in rows.clone() {
            bins.indexes().iter().for_each(|index| columns[place(*index)] = 0);
        }
        let mut indexes = Vec::new();
        for (distance, column) in (0..).zip(&mut columns).filter(|(_, column)| **column == 0) {
            *column = u32::try_from(indexes.len()).expect("a short span");
            indexes.push(least + distance);
        }
        let stride = rows.len();
        if indexes.len().saturating_mul(stride) > COUNTS_MAX {
            return None;
        }
        let mut counts = vec![0; indexes.len() * stride];
        for (row, bins) in rows.enumerate() {
            bins.iter().for_each(|(index, count)| counts[columns[place(index)] as usize * stride + row] = count);
        }
        Some(Self { indexes, counts, rows: stride, stride })
    }

    fn memory_bytes(&self) -> usize {
        std::mem::size_of_val(&*self.indexes) + std::mem::size_of_val(&*self.counts)
    }

    /// How many counts are not zero.
    fn filled(&self) -> usize {
        self.counts.iter().filter(|count| **count != 0).count()
    }
}

/// Consecutive histograms of a series.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BinStretch {
    /// How many.
    pub rows: usize,
    /// Their bins below zero.
    pub negative: BinColumns,
    /// Their bins above zero.
    pub positive: BinColumns,
}

impl BinStretch {
    /// Bytes of the columns: they hold zeros too, so that these may be many more than those of the bins.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.negative.memory_bytes() + self.positive.memory_bytes()
    }
}

/// A series whose bins are columns.
#[derive(Clone, Debug, PartialEq)]
pub struct SeriesColumns {
    /// The series; its histograms have no bins.
    pub series: SeriesData,
    /// The bins of all its histograms, in their order.
    pub stretches: Vec<BinStretch>,
    /// How many bins of all histograms hold something.
    pub bins: usize,
}

impl SeriesColumns {
    /// Takes the bins out of the histograms of `series`.
    ///
    /// # Errors
    /// The series as it was, when it has floats too or its histograms are not of one layout.
    pub fn from_series(mut series: SeriesData) -> Result<Self, Box<SeriesData>> {
        if !series.floats.times.is_empty() || !has_one_layout(&series.histograms.values) {
            return Err(Box::new(series));
        }
        let histograms = || series.histograms.values.iter().filter_map(integer);
        let rows: Vec<&Histogram> = histograms().collect();
        let negative = BinColumns::from_rows(rows.iter().map(|row| &row.negative));
        let positive = BinColumns::from_rows(rows.iter().map(|row| &row.positive));
        let (Some(negative), Some(positive)) = (negative, positive) else { return Err(Box::new(series)) };
        let stretch = BinStretch { rows: rows.len(), negative, positive };
        for value in &mut series.histograms.values {
            if let HistogramValue::Integer(histogram) = value {
                (histogram.negative, histogram.positive) = (Bins::new(), Bins::new());
            }
        }
        let bins = stretch.negative.filled() + stretch.positive.filled();
        Ok(Self { series, stretches: vec![stretch], bins })
    }

    /// The series with the bins in its histograms.
    #[must_use]
    pub fn into_series(self) -> SeriesData {
        let Self { mut series, stretches, .. } = self;
        let mut values = series.histograms.values.iter_mut();
        for stretch in &stretches {
            for row in 0..stretch.rows {
                if let Some(HistogramValue::Integer(histogram)) = values.next() {
                    histogram.negative = stretch.negative.row(row);
                    histogram.positive = stretch.positive.row(row);
                }
            }
        }
        debug_assert!(values.next().is_none(), "each histogram has its bins");
        series
    }
}

const fn integer(value: &HistogramValue) -> Option<&Histogram> {
    match value {
        HistogramValue::Integer(histogram) => Some(histogram),
        HistogramValue::Float(_) => None,
    }
}

/// Whether all values are histograms of integers of one scheme and zero threshold, and none is a staleness marker.
#[must_use]
pub fn has_one_layout(values: &[HistogramValue]) -> bool {
    let Some(first) = values.first().and_then(integer) else { return values.is_empty() };
    !first.zero_threshold.is_nan()
        && values.iter().all(|value| {
            integer(value).is_some_and(|histogram| {
                histogram.zero_threshold.to_bits() == first.zero_threshold.to_bits()
                    && histogram.scheme == first.scheme
                    && histogram.sum.is_none_or(|sum| sum.to_bits() != STALE)
            })
        })
}

#[cfg(test)]
mod tests {
    use ogive_hist::Scheme;
    use proptest::prelude::*;

    use super::*;
    use crate::{HistogramColumn, Kind, Labels, SeriesMeta, Temporality};

    fn series(values: Vec<HistogramValue>) -> SeriesData {
        let meta =
            SeriesMeta { kind: Kind::Histogram, temporality: Temporality::Delta, unit: String::new(), width_ms: 0 };
        let times = (0..).take(values.len()).collect();
        let histograms = HistogramColumn { times, values, starts: Vec::new() };
        SeriesData { histograms, ..SeriesData::new(Labels::empty(), meta) }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn bins_come_back_from_columns(
            rows in prop::collection::vec(prop::collection::btree_map(-9..9_i32, 1..5_u64, 0..6), 0..9),
        ) {
            let value = |bins: &std::collections::BTreeMap<i32, u64>| {
                let mut one = Histogram::log_linear();
                one.positive = bins.iter().map(|(index, count)| (*index, *count)).collect();
                one.negative = bins.iter().map(|(index, count)| (-2 * *index, count + 1)).collect();
                one.recount();
                HistogramValue::Integer(one)
            };
            let source = series(rows.iter().map(value).collect());
            let columns = SeriesColumns::from_series(source.clone()).unwrap();
            prop_assert_eq!(columns.bins, rows.iter().map(|row| 2 * row.len()).sum::<usize>());
            prop_assert_eq!(columns.into_series(), source);
        }
    }

    #[test]
    fn rows_whose_columns_would_take_too_much_stay() {
        let mut full = Histogram::log_linear();
        full.positive = (0..8192).map(|index| (index, 1)).collect();
        let mut rows = vec![HistogramValue::Integer(full)];
        rows.resize(COUNTS_MAX / 8192, HistogramValue::Integer(Histogram::log_linear()));
        assert!(SeriesColumns::from_series(series(rows.clone())).is_ok(), "as many counts as may be");
        rows.push(HistogramValue::Integer(Histogram::log_linear()));
        assert!(SeriesColumns::from_series(series(rows)).is_err());
    }

    #[test]
    fn what_has_no_layout_in_common_stays() {
        let log = HistogramValue::Integer(Histogram::log_linear());
        let mut stale = Histogram::log_linear();
        stale.sum = Some(f64::from_bits(STALE));
        let mut wide = Histogram::log_linear();
        wide.positive = [(0, 1), (8192, 1)].into_iter().collect();
        for other in [
            HistogramValue::Float(Histogram::new(Scheme::LogLinear10)),
            HistogramValue::Integer(Histogram::new(Scheme::Exp2 { scale: 3 })),
            HistogramValue::Integer(Histogram { zero_threshold: 1.0, ..Histogram::log_linear() }),
            HistogramValue::Integer(stale),
            HistogramValue::Integer(wide),
        ] {
            let source = series(vec![log.clone(), other]);
            let found = SeriesColumns::from_series(source.clone()).expect_err("no layout in common");
            // A marker is not equal to itself.
            assert_eq!(format!("{found:?}"), format!("{source:?}"));
        }
    }
}
