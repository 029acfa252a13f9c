//! Range queries in slices of time.
//!
//! Instants of a query are independent, so a query that would exceed the limits on memory or samples is split in two by
//! time, repeatedly, and the answers are joined. Memory is then bounded by the limits, and a day of one-second cells of
//! many series still has an answer. A single instant must fit the limits.
//!
//! Failed attempts read at most the limit each; together they cost about as much as the slices that succeed.

use ogive_model::{MemoryScope, SelectError};

use super::evaluator::Evaluator;
use super::memory::histogram_size;
use super::rows::{Grid, Output};
use crate::Error;
use crate::ast::Expr;
use crate::value::Series;

/// Makes the final series of a slice.
pub(super) type Finish<'f> = dyn Fn(Output, Grid) -> Result<Vec<Series>, Error> + 'f;

impl Evaluator<'_> {
    /// The series of `expr` over `grid`, sorted by labels.
    pub(super) fn sliced(&mut self, expr: &Expr, grid: Grid, finish: &Finish<'_>) -> Result<Vec<Series>, Error> {
        let notes = self.notes_mut().clone();
        match self.eval(expr, grid).and_then(|output| finish(output, grid)) {
            Err(error) if grid.count > 1 && is_too_much(&error) => {
                // The annotations so far will be made again.
                *self.notes_mut() = notes;
                let [early, late] = halves(grid);
                self.read.clear();
                let early = self.sliced(expr, early, finish)?;
                self.read.clear();
                let late = self.sliced(expr, late, finish)?;
                let joined = joined(early, late);
                self.check_samples(joined.iter().map(size).sum())?;
                Ok(joined)
            }
            outcome => outcome,
        }
    }
}

/// Whether a shorter range could succeed.
const fn is_too_much(error: &Error) -> bool {
    match error {
        Error::TooManySamples { .. } | Error::Select(SelectError::TooManySamples { .. }) => true,
        Error::TooMuchMemory(exceeded) => matches!(exceeded.scope, MemoryScope::Query),
        _ => false,
    }
}

fn halves(grid: Grid) -> [Grid; 2] {
    let early = grid.count / 2;
    [Grid { count: early, ..grid }, Grid { start: grid.time(early), count: grid.count - early, ..grid }]
}

fn size(series: &Series) -> usize {
    let histograms = series.histograms.iter().map(|(_, histogram)| histogram_size(histogram));
    series.floats.len() + histograms.sum::<usize>()
}

/// Joins two lists of series, both sorted by labels, of which the second is later in time.
fn joined(early: Vec<Series>, late: Vec<Series>) -> Vec<Series> {
    let mut out: Vec<Series> = Vec::with_capacity(early.len().max(late.len()));
    let mut late = late.into_iter().peekable();
    for mut series in early {
        while let Some(other) = late.next_if(|other| other.labels < series.labels) {
            out.push(other);
        }
        if let Some(other) = late.next_if(|other| other.labels == series.labels) {
            series.floats.extend(other.floats);
            series.histograms.extend(other.histograms);
        }
        out.push(series);
    }
    out.extend(late);
    out
}

#[cfg(test)]
mod tests {
    use ogive_model::Labels;

    use super::*;

    #[test]
    fn halves_hold_every_instant_once() {
        for count in 2..9 {
            let grid = Grid { start: 5, step: 10, count };
            let times: Vec<i64> = halves(grid).into_iter().flat_map(Grid::times).collect();
            assert_eq!(times, grid.times().collect::<Vec<_>>());
        }
    }

    #[test]
    fn series_of_both_slices_are_joined_in_order() {
        let series = |name: &str, time: i64| Series {
            labels: Labels::new([("n", name)]).unwrap(),
            floats: vec![(time, 1.0)],
            histograms: Vec::new(),
        };
        let found = joined(vec![series("b", 1), series("c", 1)], vec![series("a", 2), series("c", 2), series("d", 2)]);
        let points: Vec<(&str, usize)> = found.iter().map(|one| (one.labels.get("n"), one.floats.len())).collect();
        assert_eq!(points, [("a", 1), ("b", 1), ("c", 2), ("d", 1)]);
    }
}
