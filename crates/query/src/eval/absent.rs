//! `absent` and `absent_over_time`: 1 where no series exists.

use std::collections::HashSet;
use std::sync::Arc;

use ogive_model::{Labels, METRIC_NAME, MatchOp, Matcher, Memory};

use super::arguments::check_edges;
use super::evaluator::Evaluator;
use super::functions::with_label;
use super::rows::{Grid, Row};
use crate::Error;
use crate::ast::{Call, Expr, ExprKind};
use crate::value::Point;

impl Evaluator<'_> {
    pub(crate) fn absent(&mut self, call: &Call, grid: Grid) -> Result<Vec<Row>, Error> {
        let rows = self.vector(&call.arguments[0], grid)?;
        let found = (0..grid.count).map(|step| rows.iter().any(|row| row.cells[step].is_some())).collect();
        missing(&self.memory, &call.arguments[0], found, false)
    }

    pub(crate) fn absent_over_time(&mut self, call: &Call, grid: Grid) -> Result<Vec<Row>, Error> {
        check_edges(&call.arguments[0], call.function.name)?;
        let (windows, source) = self.range_vector(&call.arguments[0], "present_over_time", grid)?;
        let mut found = vec![false; grid.count];
        for series in source {
            self.check_cancelled()?;
            for (found, window) in found.iter_mut().zip(windows.of(&series, grid)) {
                *found |= window.is_some();
            }
        }
        missing(&self.memory, &call.arguments[0], found, true)
    }
}

/// One row of ones at the instants where nothing was found; no row when something was found at every instant.
fn missing(memory: &Arc<Memory>, argument: &Expr, found: Vec<bool>, drop_name: bool) -> Result<Vec<Row>, Error> {
    let count = found.len();
    let cells = found.into_iter().map(|found| (!found).then_some(Point::Float(1.0)));
    let row = Row::new(memory, labels_of(argument)?, drop_name, count, cells)?;
    Ok(if row.is_blank() { Vec::new() } else { vec![row] })
}

/// The labels that a selector matches with a single `=` and no other matcher.
fn labels_of(argument: &Expr) -> Result<Labels, Error> {
    let matchers: &[Matcher] = match &argument.unparenthesised().kind {
        ExprKind::VectorSelector(selector) => &selector.matchers,
        ExprKind::MatrixSelector(matrix) => &matrix.selector.matchers,
        _ => return Ok(Labels::empty()),
    };
    let mut labels = Labels::empty();
    let mut seen = HashSet::new();
    for matcher in matchers.iter().filter(|matcher| matcher.name != METRIC_NAME) {
        let first = matcher.op == MatchOp::Equal && seen.insert(&matcher.name);
        labels = with_label(&labels, &matcher.name, if first { &matcher.value } else { "" })?;
    }
    Ok(labels)
}
