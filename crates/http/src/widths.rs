//! How wide cells are in time, and the columns that suit them.
//!
//! Invariants: a fitted step is never below the width of the cells, and holds a whole number of them while it holds few: otherwise
//! columns would have one cell and two by turns, which is no pattern of the data.

use super::source_cells::Source;

/// 99 of 100 samples lie in cells that are no wider: one slow sender among many does not coarsen the picture.
const USUAL: f64 = 0.99;

/// From 20 cells in a column on, one more or less is 5 % and not visible.
const MANY: i64 = 20;

/// Widths that senders are configured with, seconds. Measured ones stray by some milliseconds.
const ROUND: [i64; 16] = [1, 2, 3, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 86_400];

/// Times of columns: `start`, and every `step` after it up to `end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Grid {
    pub(super) start_ms: i64,
    pub(super) end_ms: i64,
    pub(super) step_ms: i64,
}

impl Grid {
    /// The grid for cells of `width_ms` that shows at least what this one does. Its times are multiples of its step.
    pub(super) fn fitted(self, width_ms: i64) -> Self {
        let width_ms = rounded(width_ms);
        if width_ms <= 0 || self.step_ms >= MANY.saturating_mul(width_ms) {
            return self;
        }
        let step_ms = (self.step_ms + width_ms - 1) / width_ms * width_ms;
        if step_ms == self.step_ms {
            return self;
        }
        let from_ms = (self.start_ms - self.step_ms).div_euclid(step_ms) * step_ms;
        let steps = (self.end_ms - from_ms + step_ms - 1).div_euclid(step_ms);
        Self { start_ms: from_ms + step_ms, end_ms: from_ms + steps * step_ms, step_ms }
    }
}

/// The intended width: the next of [`ROUND`] within 5 %, or whole seconds.
fn rounded(width_ms: i64) -> i64 {
    let near = |seconds: &&i64| (width_ms - **seconds * 1_000).abs() * 20 <= **seconds * 1_000;
    match ROUND.iter().find(near) {
        Some(seconds) => seconds * 1_000,
        None if width_ms > 1_000 => (width_ms + 999) / 1_000 * 1_000,
        None => width_ms,
    }
}

/// The width that [`USUAL`] of the samples' cells do not exceed; 0 when it is not known.
pub(super) fn usual_width(sources: &[Source]) -> i64 {
    let mut widths: Vec<(i64, f64)> = sources
        .iter()
        .map(|source| (source.width_ms, source.cells.iter().map(|cell| cell.value.count()).sum()))
        .collect();
    widths.sort_by_key(|width| width.0);
    let total: f64 = widths.iter().map(|width| width.1).sum();
    let mut before = 0.0;
    for (width, count) in &widths {
        before += count;
        if before >= USUAL * total && before > 0.0 {
            return *width;
        }
    }
    0
}

/// Where the interval of a column begins: usual cells decide, unless most samples are in wider ones (a pause between two scrapes).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cover {
    usual: Option<(i64, f64)>,
    wide: Option<(i64, f64)>,
}

impl Cover {
    /// Adds a cell of `count` samples that begins at `from_ms`.
    pub(super) fn add(&mut self, from_ms: i64, count: f64, is_usual: bool) {
        let part = if is_usual { &mut self.usual } else { &mut self.wide };
        let (from, counted) = part.unwrap_or((i64::MAX, 0.0));
        *part = Some((from.min(from_ms), counted + count));
    }

    /// The begin.
    pub(super) fn begin_ms(&self) -> Option<i64> {
        match (self.usual, self.wide) {
            (Some(usual), Some(wide)) => Some(if wide.1 > usual.1 { wide.0 } else { usual.0 }),
            (one, other) => one.or(other).map(|part| part.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_suits_the_cells() {
        let check = |requested: i64, width: i64, expected: i64| {
            let grid = Grid { start_ms: 1_000_000_000 + requested, end_ms: 1_000_600_000, step_ms: requested };
            let fitted = grid.fitted(width);
            assert_eq!(fitted.step_ms, expected, "asked {requested}, cells of {width}");
            assert!(fitted.start_ms - fitted.step_ms <= grid.start_ms - grid.step_ms && fitted.end_ms >= grid.end_ms);
            assert_eq!((fitted.end_ms - fitted.start_ms) % fitted.step_ms, 0);
        };
        check(1_000, 0, 1_000);
        check(1_000, 1_000, 1_000);
        check(1_000, 60_000, 60_000);
        check(10_000, 15_003, 15_000);
        check(10_000, 14_991, 15_000);
        check(15_000, 10_000, 20_000);
        check(2_000, 5_000, 5_000);
        check(1_000, 7_400, 8_000);
        check(60_000, 7_000, 63_000);
        check(300_000, 7_000, 300_000);
        check(1_000, 250, 1_000);
    }

    #[test]
    fn a_column_begins_where_most_of_it_does() {
        let mut cover = Cover::default();
        assert_eq!(cover.begin_ms(), None);
        cover.add(50, 10.0, true);
        cover.add(40, 10.0, true);
        cover.add(-1_000, 5.0, false);
        assert_eq!(cover.begin_ms(), Some(40));
        cover.add(-2_000, 50.0, false);
        assert_eq!(cover.begin_ms(), Some(-2_000));
    }
}
