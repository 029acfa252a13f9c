//! How wide cells are in time, and the columns that suit them.
//!
//! Invariants: a fitted step is never below the width of the cells, and holds a whole number of them while it holds
//! few: otherwise columns would have one cell and two by turns, which is no pattern of the data.

use ogive_model::{Ms, WallMs};

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
    pub(super) start: WallMs,
    pub(super) end: WallMs,
    pub(super) step: Ms,
}

impl Grid {
    /// The grid for cells of `width` that shows at least what this one does. Its times are multiples of its step.
    pub(super) fn fitted(self, width: Ms) -> Self {
        let width = rounded(width);
        if width <= Ms::ZERO || self.step >= width.saturating_mul(MANY) {
            return self;
        }
        let step = width * ((self.step + width - Ms(1)) / width);
        if step == self.step {
            return self;
        }
        let from = (self.start - self.step).align_down(step);
        let steps = (self.end - from + step - Ms(1)).0.div_euclid(step.0);
        Self { start: from + step, end: from + step * steps, step }
    }
}

/// The intended width: the next of [`ROUND`] within 5 %, or whole seconds.
fn rounded(width: Ms) -> Ms {
    let near = |round: &Ms| (width - *round).saturating_abs() * 20 <= *round;
    match ROUND.iter().map(|seconds| Ms::from_secs(*seconds)).find(near) {
        Some(round) => round,
        None if width > Ms(1_000) => Ms((width.0 + 999) / 1_000 * 1_000),
        None => width,
    }
}

/// The width that [`USUAL`] of the samples' cells do not exceed; zero when it is not known.
pub(super) fn usual_width(sources: &[Source]) -> Ms {
    let mut widths: Vec<(Ms, f64)> =
        sources.iter().map(|source| (source.width, source.cells.iter().map(|cell| cell.value.count()).sum())).collect();
    widths.sort_by_key(|width| width.0);
    let total: f64 = widths.iter().map(|width| width.1).sum();
    let mut before = 0.0;
    for (width, count) in &widths {
        before += count;
        if before >= USUAL * total && before > 0.0 {
            return *width;
        }
    }
    Ms::ZERO
}

/// Where the interval of a column begins: usual cells decide, unless most samples are in wider ones (a pause between
/// two scrapes).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cover {
    usual: Option<(WallMs, f64)>,
    wide: Option<(WallMs, f64)>,
}

impl Cover {
    /// Adds a cell of `count` samples that begins at `from`.
    pub(super) fn add(&mut self, from: WallMs, count: f64, is_usual: bool) {
        let part = if is_usual { &mut self.usual } else { &mut self.wide };
        let (first, counted) = part.unwrap_or((WallMs::MAX, 0.0));
        *part = Some((first.min(from), counted + count));
    }

    /// The begin.
    pub(super) fn begin(&self) -> Option<WallMs> {
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
            let (start, end) = (WallMs(1_000_000_000 + requested), WallMs(1_000_600_000));
            let grid = Grid { start, end, step: Ms(requested) };
            let fitted = grid.fitted(Ms(width));
            assert_eq!(fitted.step, Ms(expected), "asked {requested}, cells of {width}");
            assert!(fitted.start - fitted.step <= grid.start - grid.step && fitted.end >= grid.end);
            assert_eq!((fitted.end - fitted.start) % fitted.step, Ms::ZERO);
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
        assert_eq!(cover.begin(), None);
        cover.add(WallMs(50), 10.0, true);
        cover.add(WallMs(40), 10.0, true);
        cover.add(WallMs(-1_000), 5.0, false);
        assert_eq!(cover.begin(), Some(WallMs(40)));
        cover.add(WallMs(-2_000), 50.0, false);
        assert_eq!(cover.begin(), Some(WallMs(-2_000)));
    }
}
