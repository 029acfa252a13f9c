//! Subqueries: an expression evaluated at instants that are multiples of the step, whatever the query's own.

use super::evaluator::Evaluator;
use super::range_vector::{RangeSource, from_subquery};
use super::rows::{Grid, Output, Row};
use super::window::{RangeSeries, Windows, row_columns};
use crate::Error;
use crate::ast::Subquery;
use crate::value::Point;

impl Evaluator<'_> {
    /// The range vector of `subquery` for windows that end at the instants of `grid`.
    pub(crate) fn subquery(&mut self, subquery: &Subquery, grid: Grid) -> Result<(Windows, RangeSource), Error> {
        let range = self.positive(&subquery.range)?;
        let step = match &subquery.step {
            Some(step) => self.positive(step)?,
            None => self.options.subquery_step,
        };
        // A step below a millisecond is rounded down to zero.
        let step = step.0.max(1);
        let shift = self.shift(&subquery.shift)?;
        let inner = inner_grid(shift.apply(grid.start).saturating_sub(range.0), shift.apply(grid.end()), step);
        // Checked before anything is allocated: 200 years of milliseconds do not fit a machine.
        self.check_samples(inner.count)?;
        // Hints on samples do not survive the resampling, so they need not be computed.
        let needed = std::mem::replace(&mut self.bins_needed, true);
        let ranged = std::mem::replace(&mut self.ranged, inner.start != shift.apply(grid.end()));
        let output = if inner.count == 0 { Ok(Output::Vector(Vec::new())) } else { self.eval(&subquery.expr, inner) };
        self.bins_needed = needed;
        self.ranged = ranged;
        let rows = match output? {
            Output::Vector(rows) => rows,
            Output::Scalar(values) => {
                let cells = values.iter().map(|value| Some(Point::Float(*value)));
                vec![Row::new(&self.memory, ogive_model::Labels::empty(), false, inner.count, cells)?]
            }
            Output::Text(_) => Vec::new(),
        };
        self.check_size(&rows)?;
        let mut held = self.memory.charge(rows.len() * size_of::<RangeSeries>())?;
        let mut series = Vec::with_capacity(rows.len());
        for row in rows {
            let (one, of_row) = row_columns(row, inner);
            held.absorb(of_row);
            series.push(one);
        }
        Ok(from_subquery(series, held, range, shift))
    }
}

/// The multiples of `step` in (start, end].
fn inner_grid(start: i64, end: i64, step: i64) -> Grid {
    Grid::new((start.div_euclid(step) + 1).saturating_mul(step), end, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_multiples_of_the_step_whatever_the_window() {
        let check = |(start, end, step), expected: &[i64]| {
            assert_eq!(inner_grid(start, end, step).times().collect::<Vec<_>>(), expected);
        };
        check((0, 30, 10), &[10, 20, 30]);
        check((-1, 29, 10), &[0, 10, 20]);
        check((-55, -20, 10), &[-50, -40, -30, -20]);
        check((7, 9, 10), &[]);
    }
}
