//! The samples that a selector read from the store.

use std::fmt::Write;
use std::sync::Arc;

use ogive_hist::CounterReset;
use ogive_model::{Charge, HistogramValue, SeriesData};

use super::histogram::{Hist, detect_reset, is_stale_histogram, to_float};
use super::joined::JoinedSeries;
use super::memory::histogram_size;
use crate::ast::VectorSelector;

/// Series with their samples in a window, shared by all nodes that read the same data.
pub(crate) type Fetched = Arc<FetchedSeries>;

/// What was read, and its charge.
pub(crate) struct FetchedSeries {
    pub(crate) series: Vec<JoinedSeries>,
    pub(crate) held: Charge,
}

/// A text that is equal exactly when the matchers are.
pub(crate) fn matchers_key(selector: &VectorSelector) -> String {
    let mut key = String::new();
    for matcher in &selector.matchers {
        let _ = write!(key, " {:?}{:?}{:?}", matcher.name, matcher.op, matcher.value);
    }
    key
}

/// Compares each histogram of a series with the one before it, where the sender has not stated how they relate.
pub(crate) fn hint_resets(series: &mut SeriesData) {
    let mut previous: Option<Hist> = None;
    for value in &mut series.histograms.values {
        if is_stale_histogram(value) {
            previous = None;
            continue;
        }
        let mut current = to_float(value);
        if let (CounterReset::Unknown, Some(previous)) = (current.reset, &previous) {
            let reset = detect_reset(&current, previous);
            current.reset = if reset { CounterReset::Reset } else { CounterReset::NotReset };
            *value = HistogramValue::Float(current.clone());
        }
        // The comparison with the next one uses only the counts.
        previous = Some(current);
    }
}

/// Samples that a series counts as, for limits.
pub(crate) fn size(series: &SeriesData) -> usize {
    series.floats.times.len() + series.histograms.values.iter().map(value_size).sum::<usize>()
}

/// Samples that a histogram or a float counts as, for limits.
pub(crate) fn value_size(value: &HistogramValue) -> usize {
    match value {
        HistogramValue::Integer(histogram) => 8 + histogram.positive.len() + histogram.negative.len(),
        HistogramValue::Float(histogram) => histogram_size(histogram),
    }
}
