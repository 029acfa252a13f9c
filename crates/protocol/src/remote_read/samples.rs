//! Responses that hold samples: `prometheus.ReadResponse`.

use ogive_model::{HistogramValue, Labels, SeriesData, Temporality};

use super::native::put_histogram;
use crate::protobuf::write;

/// The answer, query by query.
#[derive(Debug, Default)]
pub struct Answer {
    message: Vec<u8>,
}

impl Answer {
    /// Adds what was found for the next query: `series` by ascending labels. Texts, which Prometheus has none of, are
    /// left out.
    pub fn push(&mut self, series: &[SeriesData]) {
        let mut result = Vec::new();
        let mut at = 0;
        while at < series.len() {
            // Floats and histograms of the same labels are one series there.
            let same = series[at..].iter().take_while(|one| one.labels == series[at].labels).count();
            put_series(&mut result, &series[at..at + same]);
            at += same;
        }
        write::bytes(&mut self.message, 1, &result);
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.message
    }
}

fn put_series(result: &mut Vec<u8>, same: &[SeriesData]) {
    if same.iter().all(|series| series.floats.times.is_empty() && series.histograms.times.is_empty()) {
        return;
    }
    let mut out = Vec::new();
    put_labels(&mut out, &same[0].labels);
    let mut piece = Vec::new();
    for (time, value) in floats(same) {
        piece.clear();
        write::double(&mut piece, 1, value);
        write::number(&mut piece, 2, time as u64);
        write::bytes(&mut out, 2, &piece);
    }
    for series in same {
        let is_state = series.meta.temporality != Temporality::Cumulative;
        for (time, value) in series.histograms.times.iter().zip(&series.histograms.values) {
            piece.clear();
            match value {
                HistogramValue::Integer(histogram) => put_histogram(&mut piece, histogram, is_state),
                HistogramValue::Float(histogram) => put_histogram(&mut piece, histogram, is_state),
            }
            write::number(&mut piece, 15, *time as u64);
            write::bytes(&mut out, 4, &piece);
        }
    }
    write::bytes(result, 1, &out);
}

/// The labels of a series, ascending by name.
pub(super) fn put_labels(out: &mut Vec<u8>, labels: &Labels) {
    let mut label = Vec::new();
    for (name, value) in labels.iter() {
        label.clear();
        write::bytes(&mut label, 1, name.as_bytes());
        write::bytes(&mut label, 2, value.as_bytes());
        write::bytes(out, 1, &label);
    }
}

/// The numbers of `same` by time. States and cells may stand beside each other; a series of Prometheus has one sample a
/// time.
pub(super) fn floats(same: &[SeriesData]) -> Vec<(i64, f64)> {
    let each = |one: &SeriesData| one.floats.times.clone().into_iter().zip(one.floats.values.clone());
    let mut all: Vec<(i64, f64)> = same.iter().flat_map(each).collect();
    all.sort_by_key(|sample| sample.0);
    all.dedup_by_key(|sample| sample.0);
    all
}
