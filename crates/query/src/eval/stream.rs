//! Rows one at a time, for operators that fold a vector without holding it whole.
//!
//! Selectors and range functions produce their rows one by one; any other expression is evaluated whole first.

use std::collections::HashMap;

use super::arguments::keeps_name;
use super::evaluator::{Evaluator, RowSink};
use super::functions;
use super::invariant;
use super::rows::Grid;
use super::selectors::Give;
use crate::Error;
use crate::ast::{Edges, Expr, ExprKind};

impl<'a> Evaluator<'a> {
    /// Gives the rows of the vector `expr` to `sink`, in their order.
    pub(crate) fn each_row(&mut self, expr: &Expr, grid: Grid, sink: &mut RowSink<'_, 'a>) -> Result<(), Error> {
        self.check_instants(grid)?;
        let bare = expr.unparenthesised();
        let once = grid.count > 1 && invariant::is_worth_sharing(bare);
        match &bare.kind {
            ExprKind::VectorSelector(selector) if !once && selector.edges == Edges::Plain => {
                let shift = self.shift(&selector.shift)?;
                self.each_picked(selector, shift, grid, Give::Value, sink)
            }
            ExprKind::Call(call) if !once && let Some(kernel) = functions::range_kernel(call.function.name) => {
                if keeps_name(call.function.name) {
                    return self.each_range_row(call, kernel, grid, sink);
                }
                let mut seen = HashMap::new();
                self.each_range_row(call, kernel, grid, &mut |evaluator, row| {
                    let row = evaluator.nameless_row(row, &mut seen)?;
                    sink(evaluator, row)
                })
            }
            _ => self.vector(bare, grid)?.into_iter().try_for_each(|row| sink(self, row)),
        }
    }
}
