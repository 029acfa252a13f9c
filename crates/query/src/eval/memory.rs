//! Charges what a query holds besides its rows to its budget before it is allocated.

use std::ops::Deref;
use std::sync::Arc;

use ogive_model::{BinStretch, Charge, HistogramValue, Memory, SeriesColumns, SeriesData};

use super::histogram::Hist;
use crate::Error;
use crate::value::Point;

/// Bytes that limits count for a sample and for a bin: a time and a value.
pub(crate) const SAMPLE_BYTES: usize = 16;

/// One number for each instant.
#[derive(Debug)]
pub(crate) struct Numbers {
    values: Vec<f64>,
    _held: Charge,
}

impl Numbers {
    /// `count` numbers or fewer.
    pub(crate) fn new(memory: &Arc<Memory>, count: usize, values: impl Iterator<Item = f64>) -> Result<Self, Error> {
        let held = memory.charge(count.saturating_mul(size_of::<f64>()))?;
        let mut all = Vec::with_capacity(count);
        all.extend(values.take(count));
        Ok(Self { values: all, _held: held })
    }

    /// The same number at each of `count` instants.
    pub(crate) fn constant(memory: &Arc<Memory>, count: usize, value: f64) -> Result<Self, Error> {
        Self::new(memory, count, std::iter::repeat_n(value, count))
    }
}

impl Deref for Numbers {
    type Target = [f64];

    fn deref(&self) -> &[f64] {
        &self.values
    }
}

/// Bytes of a series with its samples.
#[must_use]
pub fn series_bytes(series: &SeriesData) -> usize {
    let starts = series.floats.starts.len() + series.histograms.starts.len();
    let aggregates = std::mem::size_of_val(&*series.floats.aggregates);
    let bins = |value: &HistogramValue| match value {
        HistogramValue::Integer(histogram) => 8 + histogram.positive.len() + histogram.negative.len(),
        HistogramValue::Float(histogram) => histogram_size(histogram),
    };
    let histograms: usize = series.histograms.values.iter().map(bins).sum();
    let texts: usize = series.texts.values.iter().map(|text| size_of::<(i64, String)>() + text.len()).sum();
    size_of::<SeriesData>()
        + series.labels.memory_bytes()
        + SAMPLE_BYTES * (series.floats.times.len() + histograms)
        + size_of::<i64>() * starts
        + aggregates
        + texts
}

/// Bytes of bins that are columns.
pub(crate) fn columns_bytes(found: &SeriesColumns) -> usize {
    found.stretches.iter().map(BinStretch::memory_bytes).sum()
}

/// Samples that a point counts as.
pub(crate) fn point_size(point: &Point) -> usize {
    match point {
        Point::Float(_) => 1,
        Point::Histogram(histogram) => histogram_size(histogram),
    }
}

/// Samples that a histogram counts as: a float takes 16 bytes, so do a bin and (8 times) the fixed part.
pub(crate) fn histogram_size(histogram: &Hist) -> usize {
    8 + histogram.positive.len() + histogram.negative.len()
}
