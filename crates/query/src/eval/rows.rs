//! Intermediate values: instants, and rows with one cell for each.

use std::collections::HashMap;
use std::sync::Arc;

use ogive_model::{Charge, Labels, METRIC_NAME, Memory};

use super::memory::{Numbers, SAMPLE_BYTES, histogram_size, point_size};
use crate::Error;
use crate::value::Point;

/// The value of one row at one instant.
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

/// One series of an intermediate value. Its memory is charged to its query.
#[derive(Debug)]
pub(crate) struct Row {
    /// Labels.
    pub(crate) labels: Labels,
    /// The name is removed when the query ends: an operator invalidated it.
    pub(crate) drop_name: bool,
    /// One for each instant.
    pub(crate) cells: Vec<Cell>,
    held: Charge,
}

/// A row, and 64 bytes for its entry in the maps in which operators look rows up.
pub(crate) const ROW_BYTES: usize = size_of::<Row>() + 64;

impl Row {
    /// With `count` cells or fewer.
    pub(crate) fn new(
        memory: &Arc<Memory>,
        labels: Labels,
        drop_name: bool,
        count: usize,
        cells: impl IntoIterator<Item = Cell>,
    ) -> Result<Self, Error> {
        let mut row = Self::reserved(memory, labels, drop_name, count)?;
        cells.into_iter().try_for_each(|cell| row.push(cell))?;
        Ok(row)
    }

    /// Without cells, and with room for `count` of them.
    pub(crate) fn reserved(memory: &Arc<Memory>, labels: Labels, drop_name: bool, count: usize) -> Result<Self, Error> {
        let cells = count.saturating_mul(size_of::<Cell>());
        let held = memory.charge(cells.saturating_add(ROW_BYTES + labels.memory_bytes()))?;
        Ok(Self { labels, drop_name, cells: Vec::with_capacity(count), held })
    }

    /// With `count` empty cells.
    pub(crate) fn blank(memory: &Arc<Memory>, labels: Labels, drop_name: bool, count: usize) -> Result<Self, Error> {
        let mut row = Self::reserved(memory, labels, drop_name, count)?;
        row.cells.resize(count, None);
        Ok(row)
    }

    /// Adds a cell.
    #[inline]
    pub(crate) fn push(&mut self, cell: Cell) -> Result<(), Error> {
        self.held.grow(added(&cell, self.cells.last()))?;
        debug_assert!(self.cells.len() < self.cells.capacity(), "cells that nobody charged");
        self.cells.push(cell);
        Ok(())
    }

    /// Sets the cell of an instant.
    pub(crate) fn put(&mut self, step: usize, cell: Cell) -> Result<(), Error> {
        self.held.grow(added(&cell, step.checked_sub(1).and_then(|before| self.cells.get(before))))?;
        self.cells[step] = cell;
        Ok(())
    }

    /// Replaces its labels.
    pub(crate) fn relabel(&mut self, labels: Labels) -> Result<(), Error> {
        self.held.grow(labels.memory_bytes().saturating_sub(self.labels.memory_bytes()))?;
        self.labels = labels;
        Ok(())
    }

    /// Its labels and cells, and their charge.
    pub(crate) fn into_parts(self) -> (Labels, Vec<Cell>, Charge) {
        (self.labels, self.cells, self.held)
    }

    /// Number of cells that have a value; a histogram counts as one sample for each bin and one for itself.
    pub(crate) fn samples(&self) -> usize {
        self.cells.iter().flatten().map(point_size).sum()
    }

    /// Whether no cell has a value.
    pub(crate) fn is_blank(&self) -> bool {
        self.cells.iter().all(Option::is_none)
    }
}

/// Bytes of a cell's histogram, unless it is shared with the previous cell.
#[inline]
fn added(cell: &Cell, before: Option<&Cell>) -> usize {
    match (cell, before) {
        (Some(Point::Histogram(one)), Some(Some(Point::Histogram(other)))) if Arc::ptr_eq(one, other) => 0,
        (Some(Point::Histogram(one)), _) => SAMPLE_BYTES * histogram_size(one),
        _ => 0,
    }
}

/// What a node evaluates to.
#[derive(Debug)]
pub(crate) enum Output {
    /// One number for each instant.
    Scalar(Numbers),
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
        for (step, other) in row.cells.into_iter().enumerate().filter(|(_, other)| other.is_some()) {
            if out[index].cells[step].is_some() {
                return Err(Error::evaluate(SAME_LABELSET));
            }
            out[index].put(step, other)?;
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
        let memory = Memory::unbounded();
        let row = |cells: &[Option<f64>]| {
            let points = cells.iter().map(|cell| cell.map(Point::Float));
            Row::new(&memory, Labels::empty(), false, cells.len(), points).unwrap()
        };
        let out = merged(vec![row(&[Some(1.0), None]), row(&[None, Some(2.0)])]).unwrap();
        assert_eq!(out.len(), 1);
        assert_eq!(out[0].cells, [Some(Point::Float(1.0)), Some(Point::Float(2.0))]);
        assert!(merged(vec![row(&[Some(1.0), None]), row(&[Some(1.0), None])]).is_err());
    }
}
