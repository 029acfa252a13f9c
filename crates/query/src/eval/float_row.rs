//! Rows of floats alone: half the memory of a [`Row`], and nothing to match on or to drop in the cells.
//!
//! Invariant: an instant without a sample holds the staleness marker, which no sample that a query sees is.

use std::sync::Arc;

use ogive_model::{Charge, Labels, Memory, STALE, SeriesData};

use super::dense_row::DenseRow;
use super::histogram::is_stale;
use super::memory::point_size;
use super::places::TimeCursor;
use super::rows::{Grid, ROW_BYTES, Row};
use super::shift::Shift;
use crate::Error;
use crate::value::Point;

/// One series of an intermediate value without histograms. Its memory is charged to its query.
#[derive(Debug)]
pub(crate) struct FloatRow {
    pub(crate) labels: Labels,
    /// As of a [`Row`].
    pub(crate) drop_name: bool,
    /// One for each instant.
    values: Vec<f64>,
    _held: Charge,
}

/// A row of either kind.
#[derive(Debug)]
pub(crate) enum AnyRow {
    Floats(FloatRow),
    Dense(DenseRow),
    Cells(Row),
}

impl FloatRow {
    /// Without values, and with room for `count` of them.
    pub(crate) fn reserved(memory: &Arc<Memory>, labels: Labels, drop_name: bool, count: usize) -> Result<Self, Error> {
        let values = count.saturating_mul(size_of::<f64>());
        let held = memory.charge(values.saturating_add(ROW_BYTES + labels.memory_bytes()))?;
        Ok(Self { labels, drop_name, values: Vec::with_capacity(count), _held: held })
    }

    /// Of one value for each instant, which `held` is charged for; the staleness marker where there is none.
    pub(crate) fn from_values(labels: Labels, values: Vec<f64>, mut held: Charge) -> Result<Self, Error> {
        held.grow(ROW_BYTES + labels.memory_bytes())?;
        Ok(Self { labels, drop_name: false, values, _held: held })
    }

    /// The newest floats of `series` at the instants of `grid`, within the last `lookback` milliseconds.
    pub(crate) fn newest(
        memory: &Arc<Memory>,
        series: &SeriesData,
        grid: Grid,
        shift: Shift,
        lookback: i64,
    ) -> Result<Self, Error> {
        assert!(series.histograms.times.is_empty(), "histograms have no place in a row of floats");
        let mut row = Self::reserved(memory, series.labels.clone(), false, grid.count)?;
        let (times, values) = (&*series.floats.times, &*series.floats.values);
        let mut place = TimeCursor::default();
        for time in grid.times() {
            let reference = shift.apply(time);
            let index = place.to(times, reference).checked_sub(1);
            let found = index.filter(|index| times[*index] > reference.saturating_sub(lookback));
            row.push(found.map(|index| values[index]));
        }
        Ok(row)
    }

    /// Adds the value of the next instant.
    #[inline]
    pub(crate) fn push(&mut self, value: Option<f64>) {
        debug_assert!(self.values.len() < self.values.capacity(), "values that nobody charged");
        self.values.push(value.unwrap_or(f64::from_bits(STALE)));
    }

    /// As a row of cells.
    pub(crate) fn into_row(self, memory: &Arc<Memory>) -> Result<Row, Error> {
        let cells = self.values().map(|value| value.map(Point::Float));
        Row::new(memory, self.labels.clone(), self.drop_name, self.values.len(), cells)
    }

    /// One for each instant; None where there is no sample.
    pub(crate) fn values(&self) -> impl Iterator<Item = Option<f64>> + '_ {
        self.values.iter().map(|value| (!is_stale(*value)).then_some(*value))
    }

    /// Whether no instant has a value.
    pub(crate) fn is_blank(&self) -> bool {
        self.values.iter().all(|value| is_stale(*value))
    }
}

/// What rows of either kind have in common while they are streamed.
pub(crate) trait Streamed: Sized + Send {
    fn labels(&self) -> &Labels;
    fn relabelled(self, labels: Labels) -> Self;
    /// Marks the name for removal when the query ends.
    fn nameless_later(self) -> Self;
    /// Calls `each` with every instant that has a value, and how many samples that counts as.
    fn each_filled(&self, each: &mut dyn FnMut(usize, usize));
    fn is_blank(&self) -> bool;
}

impl Streamed for Row {
    fn labels(&self) -> &Labels {
        &self.labels
    }

    fn relabelled(mut self, labels: Labels) -> Self {
        self.labels = labels;
        self
    }

    fn nameless_later(mut self) -> Self {
        self.drop_name = true;
        self
    }

    fn each_filled(&self, each: &mut dyn FnMut(usize, usize)) {
        let filled = self.cells.iter().enumerate().filter_map(|(step, cell)| Some((step, cell.as_ref()?)));
        filled.for_each(|(step, point)| each(step, point_size(point)));
    }

    fn is_blank(&self) -> bool {
        Self::is_blank(self)
    }
}

impl Streamed for AnyRow {
    fn labels(&self) -> &Labels {
        match self {
            Self::Floats(row) => &row.labels,
            Self::Dense(row) => &row.labels,
            Self::Cells(row) => &row.labels,
        }
    }

    fn relabelled(self, labels: Labels) -> Self {
        match self {
            Self::Floats(row) => Self::Floats(FloatRow { labels, ..row }),
            Self::Dense(row) => Self::Dense(row.relabelled(labels)),
            Self::Cells(row) => Self::Cells(row.relabelled(labels)),
        }
    }

    fn nameless_later(self) -> Self {
        match self {
            Self::Floats(row) => Self::Floats(FloatRow { drop_name: true, ..row }),
            Self::Dense(row) => Self::Dense(row.nameless_later()),
            Self::Cells(row) => Self::Cells(row.nameless_later()),
        }
    }

    fn each_filled(&self, each: &mut dyn FnMut(usize, usize)) {
        match self {
            Self::Floats(row) => {
                let filled = row.values().enumerate().filter(|(_, value)| value.is_some());
                filled.for_each(|(step, _)| each(step, 1));
            }
            Self::Dense(row) => row.points().for_each(|(step, point)| each(step, point.size())),
            Self::Cells(row) => row.each_filled(each),
        }
    }

    fn is_blank(&self) -> bool {
        match self {
            Self::Floats(row) => row.is_blank(),
            Self::Dense(row) => row.is_blank(),
            Self::Cells(row) => row.is_blank(),
        }
    }
}
