//! What an evaluated expression gives, as histograms over time: those that it has, or those that its numbers by `le`
//! make.

use std::collections::BTreeMap;

use ogive_model::Labels;
use ogive_query::value::Series;

use super::classic_buckets::{Bound, histogram};
use super::merged::Merged;
use super::shape::BOUND;

/// One series of histograms.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) labels: Labels,
    pub(super) points: Vec<(i64, Merged)>,
}

/// The rows of a matrix; None when it contains numbers that are not buckets.
pub(super) fn from_matrix(matrix: Vec<Series>) -> Option<Vec<Row>> {
    let empty = matrix.is_empty();
    let (with, without): (Vec<Series>, Vec<Series>) = matrix.into_iter().partition(|row| !row.histograms.is_empty());
    if !with.is_empty() || empty {
        return Some(with.into_iter().map(row).collect());
    }
    let rows = of_buckets(without);
    (!rows.is_empty()).then_some(rows)
}

fn row(series: Series) -> Row {
    let points = series.histograms.into_iter().map(|(time, value)| (time, Merged::Float((*value).clone()))).collect();
    Row { labels: series.labels, points }
}

/// Histograms of cumulative counts by `le`, such as `sum by (le) (rate(x_bucket[5m]))`.
fn of_buckets(matrix: Vec<Series>) -> Vec<Row> {
    let mut rows: BTreeMap<Labels, BTreeMap<i64, BTreeMap<Bound, f64>>> = BTreeMap::new();
    for series in matrix {
        let Some(bound) = Bound::from_labels(&series.labels) else { continue };
        let times = rows.entry(series.labels.with(BOUND, "")).or_default();
        for (time, value) in series.floats.into_iter().filter(|point| point.1.is_finite()) {
            times.entry(time).or_default().insert(bound, value);
        }
    }
    let points = |times: BTreeMap<i64, BTreeMap<Bound, f64>>| -> Vec<(i64, Merged)> {
        times.into_iter().filter_map(|(time, counts)| Some((time, histogram(&counts)?))).collect()
    };
    let rows = rows.into_iter().map(|(labels, times)| Row { labels, points: points(times) });
    rows.filter(|row| !row.points.is_empty()).collect()
}
