//! Intermediate values: instants, and rows with one cell for each.

use std::collections::HashMap;

use ogive_model::{Labels, METRIC_NAME};

use crate::value::Point;
use crate::{Error, eval::histogram::Hist};

/// What one instant of one row holds.
pub(crate) type Cell = Option<Point>;

/// Evenly spaced instants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grid {
    /// The first, milliseconds.
    pub(crate) start: i64,
    /// Milliseconds between two.
    pub(crate) step: i64,
    /// How many.
    pub(crate) count: usize,
}

impl Grid {
    /// `start`, `start + step`, .. up to and including `end`.
    pub(crate) fn new(start: i64, end: i64, step: i64) -> Self {
        let count = if end < start { 0 } else { (i128::from(end) - i128::from(start)) / i128::from(step) + 1 };
        Self { start, step, count: usize::try_from(count).unwrap_or(usize::MAX) }
    }

    /// One instant.
    pub(crate) const fn single(time: i64) -> Self {
        Self { start: time, step: 1, count: 1 }
    }

    /// The instant of `index`.
    pub(crate) fn time(&self, index: usize) -> i64 {
        self.start + self.step * i64::try_from(index).expect("a grid has fewer instants than i64 counts")
    }

    /// The last instant; the first of an empty grid.
    pub(crate) fn end(&self) -> i64 {
        self.time(self.count.saturating_sub(1))
    }

    /// All instants.
    pub(crate) fn times(self) -> impl Iterator<Item = i64> {
        (0..self.count).map(move |index| self.time(index))
    }
}

/// One series of an intermediate value.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// Labels.
    pub(crate) labels: Labels,
    /// The name goes when the query ends: an operator took its meaning away.
    pub(crate) drop_name: bool,
    /// One an instant.
    pub(crate) cells: Vec<Cell>,
}

impl Row {
    /// Number of cells that hold something; a histogram counts as one sample for each bin and one for itself.
    pub(crate) fn samples(&self) -> usize {
        self.cells.iter().flatten().map(point_size).sum()
    }

    /// Whether no cell holds anything.
    pub(crate) fn is_blank(&self) -> bool {
        self.cells.iter().all(Option::is_none)
    }
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

/// What a node evaluates to.
#[derive(Debug)]
pub(crate) enum Output {
    /// One number an instant.
    Scalar(Vec<f64>),
    /// Rows.
    Vector(Vec<Row>),
    /// A text.
    Text(String),
}

/// Labels that describe a metric rather than a series: its name, type and unit.
const METADATA: [&str; 3] = [METRIC_NAME, "__type__", "__unit__"];

/// The labels without the metric's name, type and unit.
pub(crate) fn without_metadata(labels: &Labels) -> Labels {
    if METADATA.iter().all(|name| labels.get(name).is_empty()) {
        return labels.clone();
    }
    labels.filtered(|name| !METADATA.contains(&name))
}

/// Message for series that became indistinguishable.
pub(crate) const SAME_LABELSET: &str = "vector cannot contain metrics with the same labelset";

/// Joins rows of equal labels whose cells do not overlap.
pub(crate) fn merged(rows: Vec<Row>) -> Result<Vec<Row>, Error> {
    let mut at: HashMap<Labels, usize> = HashMap::with_capacity(rows.len());
    let mut out: Vec<Row> = Vec::with_capacity(rows.len());
    for row in rows {
        let Some(&index) = at.get(&row.labels) else {
            at.insert(row.labels.clone(), out.len());
            out.push(row);
            continue;
        };
        for (cell, other) in out[index].cells.iter_mut().zip(row.cells) {
            match (&cell, other) {
                (_, None) => {}
                (None, other) => *cell = other,
                (Some(_), Some(_)) => return Err(Error::evaluate(SAME_LABELSET)),
            }
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_includes_its_end() {
        assert_eq!(Grid::new(0, 30, 10).times().collect::<Vec<_>>(), [0, 10, 20, 30]);
        assert_eq!(Grid::new(-5, 4, 5).times().collect::<Vec<_>>(), [-5, 0]);
        assert_eq!(Grid::new(1, 0, 5).count, 0);
    }

    #[test]
    fn rows_merge_unless_they_overlap() {
        let row = |cells: &[Option<f64>]| Row {
            labels: Labels::empty(),
            drop_name: false,
            cells: cells.iter().map(|cell| cell.map(Point::Float)).collect(),
        };
        let out = merged(vec![row(&[Some(1.0), None]), row(&[None, Some(2.0)])]).unwrap();
        assert_eq!(out.len(), 1);
        assert_eq!(out[0].cells, [Some(Point::Float(1.0)), Some(Point::Float(2.0))]);
        assert!(merged(vec![row(&[Some(1.0), None]), row(&[Some(1.0), None])]).is_err());
    }
}
