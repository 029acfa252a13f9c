//! Open cells besides the newest one of each series: those displaced by a newer one, and those that late items belong
//! to.

use super::{ItemValue, Refused};

/// What a table holds for each series.
pub(crate) trait CellState: Default {
    /// Adds an item of the table's kind.
    fn add(&mut self, time_ns: i64, what: ItemValue) -> Result<(), Refused>;

    /// Merges another cell of the same series and second; returns false if their bins do not fit.
    fn join(&mut self, other: &Self) -> bool;

    /// Empties it; it may keep memory for the next second.
    fn clear(&mut self);

    /// Gives it away.
    fn take(&mut self) -> Self;
}

/// Cells of one second are merged when this many of them may belong to series that are already there.
const LOOSE: usize = 1_024;

/// Cells of one second.
#[derive(Debug)]
pub(crate) struct SecondCells<C> {
    cells: Vec<(u128, C)>,
    /// Cells among them whose series may have another one.
    loose: usize,
}

impl<C> Default for SecondCells<C> {
    fn default() -> Self {
        Self { cells: Vec::new(), loose: 0 }
    }
}

impl<C: CellState> SecondCells<C> {
    pub(crate) fn len(&self) -> usize {
        self.cells.len()
    }

    /// Adds a cell whose series has no other cell of this second here.
    pub(crate) fn displaced(&mut self, series: u128, cell: C) {
        self.cells.push((series, cell));
    }

    /// Adds a cell whose series may be here.
    pub(crate) fn push(&mut self, series: u128, cell: C) {
        self.cells.push((series, cell));
        self.loose += 1;
        assert!(self.loose <= self.cells.len(), "{} of {} cells are loose", self.loose, self.cells.len());
        if self.loose >= LOOSE && self.loose * 2 >= self.cells.len() {
            self.merge();
        }
    }

    /// Leaves one cell for each series, ascending; parts of a distribution whose bins do not fit each other stay
    /// separate.
    pub(crate) fn merge(&mut self) {
        if self.loose > 0 {
            self.loose = 0;
            self.cells.sort_unstable_by_key(|cell| cell.0);
            let before = self.cells.len();
            self.cells.dedup_by(|later, kept| later.0 == kept.0 && kept.1.join(&later.1));
            assert!(self.cells.len() <= before && !self.cells.is_empty(), "{} of {before} cells", self.cells.len());
            debug_assert!(self.cells.is_sorted_by_key(|cell| cell.0), "series ascend");
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &(u128, C)> {
        self.cells.iter()
    }
}
