//! Rows one at a time, for operators that fold a vector without holding it whole.
//!
//! Selectors and range functions produce their rows one by one; any other expression is evaluated whole first.

use std::collections::HashMap;
use std::sync::Arc;

use ogive_model::{Labels, Memory, SeriesData};

use super::arguments::keeps_name;
use super::evaluator::{Evaluator, RowSink, Sink};
use super::float_row::{AnyRow, Streamed};
use super::functions;
use super::invariant;
use super::matching::Steps;
use super::range_call::{MakeDense, MakeRange, RangeMakers};
use super::rows::{Grid, Row, SAME_LABELSET, without_metadata};
use super::selectors::{MakePicked, PickedField, any_instant_row, instant_row};
use super::shift::Shift;
use crate::Error;
use crate::ast::{Edges, Expr, ExprKind};

/// An entry of a map of labels with flags.
const SEEN_BYTES: usize = 96;

/// Makes the row of the newest samples of a series, with a shift and a lookback.
type PickRow<T> = fn(&Arc<Memory>, &SeriesData, Grid, Shift, i64) -> Result<T, Error>;

/// How rows of one kind are made.
struct Makers<T> {
    /// From the newest samples of a series.
    picked: PickRow<T>,
    /// From the windows of a series; and of floats, whatever they were made from.
    range: RangeMakers<T>,
    /// From a row that was evaluated whole.
    whole: fn(Row) -> T,
}

impl<'a> Evaluator<'a> {
    /// Passes the rows of the vector `expr` to `sink`, in order.
    pub(crate) fn each_row(&mut self, expr: &Expr, grid: Grid, sink: &mut RowSink<'_, 'a>) -> Result<(), Error> {
        let picked = |memory: &Arc<Memory>, series: &SeriesData, grid, shift, lookback| {
            instant_row(memory, series, grid, shift, lookback, PickedField::Value)
        };
        let range: MakeRange<Row> = |call, windows, series, notes| call.row(windows, series, notes);
        let range = RangeMakers { whole: range, dense: None, floats: |memory, row| row.into_row(memory) };
        self.each_made(expr, grid, &Makers { picked, range, whole: |row| row }, sink)
    }

    /// As [`Evaluator::each_row`], with rows of floats where series have no histograms.
    pub(crate) fn each_any_row(
        &mut self,
        expr: &Expr,
        grid: Grid,
        sink: &mut Sink<'_, 'a, AnyRow>,
    ) -> Result<(), Error> {
        let range: MakeRange<AnyRow> = |call, windows, series, notes| call.any_row(windows, series, notes);
        let dense: MakeDense<AnyRow> =
            |call, windows, found, start_times, notes| call.row_of_columns(windows, found, start_times, notes);
        let range = RangeMakers { whole: range, dense: Some(dense), floats: |_, row| Ok(AnyRow::Floats(row)) };
        let makers = Makers { picked: any_instant_row, range, whole: AnyRow::Cells };
        self.each_made(expr, grid, &makers, sink)
    }

    fn each_made<T: Streamed>(
        &mut self,
        expr: &Expr,
        grid: Grid,
        makers: &Makers<T>,
        sink: &mut Sink<'_, 'a, T>,
    ) -> Result<(), Error> {
        self.check_instants(grid)?;
        let bare = expr.unparenthesised();
        let once = grid.count > 1 && invariant::is_worth_sharing(bare);
        match &bare.kind {
            ExprKind::VectorSelector(selector) if !once && selector.edges == Edges::Plain => {
                let shift = self.shift(&selector.shift)?;
                let memory = Arc::clone(&self.memory);
                let make = |series: &SeriesData, lookback| (makers.picked)(&memory, series, grid, shift, lookback);
                let picked = MakePicked { whole: &make, floats: Some(makers.range.floats) };
                self.each_picked(selector, shift, grid, &picked, sink)
            }
            ExprKind::Call(call) if !once && let Some(kernel) = functions::range_kernel(call.function.name) => {
                if keeps_name(call.function.name) {
                    return self.each_range_row(call, kernel, grid, &makers.range, sink);
                }
                let mut seen = HashMap::new();
                self.each_range_row(call, kernel, grid, &makers.range, &mut |evaluator, row| {
                    let row = evaluator.nameless_row(row, grid, &mut seen)?;
                    sink(evaluator, row)
                })
            }
            _ => self.vector(bare, grid)?.into_iter().try_for_each(|row| sink(self, (makers.whole)(row))),
        }
    }

    /// Removes the name of a streamed row: immediately, or when the query ends. Rows that become equal may not overlap.
    fn nameless_row<T: Streamed>(&self, row: T, grid: Grid, seen: &mut HashMap<Labels, Steps>) -> Result<T, Error> {
        if self.options.delayed_name_removal {
            return Ok(row.nameless_later());
        }
        let labels = without_metadata(row.labels());
        let mut filled = Steps::none(grid.count);
        row.each_filled(&mut |step, _| filled.set(step));
        match seen.get_mut(&labels) {
            None => {
                // For as long as the query runs: it streams its rows once.
                self.memory.charge(SEEN_BYTES + labels.memory_bytes() + grid.count / 8)?.keep();
                seen.insert(labels.clone(), filled);
            }
            Some(before) if before.overlaps(&filled) => return Err(Error::evaluate(SAME_LABELSET)),
            Some(before) => before.union(&filled),
        }
        Ok(row.relabelled(labels))
    }
}
