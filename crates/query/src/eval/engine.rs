//! The evaluation of whole queries.

use std::sync::Arc;

use ogive_model::{Memory, Ms, Select, WallMs};

use super::evaluator::{Evaluator, Frame};
use super::options::EngineOptions;
use super::rows::{Grid, Output, Row, merged, without_metadata};
use super::shift::TIME_MS_MAX;
use crate::ast::{Expr, ExprKind, ValueType};
use crate::value::{InstantSample, Point, QueryResult, Series, Value};
use crate::{Error, Level, parse};

/// Evaluates queries. Holds no state between them.
#[derive(Clone, Debug, Default)]
pub struct Engine {
    options: EngineOptions,
}

/// Never cancelled.
fn never() -> bool {
    false
}

impl Engine {
    /// An engine.
    #[must_use]
    pub const fn new(options: EngineOptions) -> Self {
        Self { options }
    }

    /// How it evaluates.
    #[must_use]
    pub const fn options(&self) -> &EngineOptions {
        &self.options
    }

    /// The value of `query` at `time`.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn instant(&self, store: &dyn Select, query: &str, time: WallMs) -> Result<QueryResult, Error> {
        self.instant_until(store, query, time, &never)
    }

    /// The value of `query` from `start` to `end`, every `step`.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn range(
        &self,
        store: &dyn Select,
        query: &str,
        start: WallMs,
        end: WallMs,
        step: Ms,
    ) -> Result<QueryResult, Error> {
        self.range_until(store, query, start, end, step, &never)
    }

    /// As [`Engine::instant`]; ends with [`Error::Cancelled`] soon after `cancelled` returns true.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn instant_until(
        &self,
        store: &dyn Select,
        query: &str,
        time: WallMs,
        cancelled: &(dyn Fn() -> bool + Sync),
    ) -> Result<QueryResult, Error> {
        let expr = parse(query)?;
        check_times([time.0])?;
        let frame = Frame { start: time.0, end: time.0, step: 0 };
        let mut evaluator = Evaluator::new(&self.options, store, &expr, frame, cancelled);
        let value = self.instant_value(&mut evaluator, &expr, time)?;
        Ok(finish(value, evaluator, query))
    }

    /// As [`Engine::range`] over (start, end, step); ends with [`Error::Cancelled`] soon after `cancelled`
    /// returns true.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn range_until(
        &self,
        store: &dyn Select,
        query: &str,
        start: WallMs,
        end: WallMs,
        step: Ms,
        cancelled: &(dyn Fn() -> bool + Sync),
    ) -> Result<QueryResult, Error> {
        let expr = parse(query)?;
        if step <= Ms::ZERO {
            return Err(Error::evaluate("the step of a range query must be above zero"));
        }
        let kind = expr.value_type();
        if !matches!(kind, ValueType::Scalar | ValueType::Vector) {
            let kind = kind.name();
            let message = format!("invalid expression type {kind:?} for range query, must be Scalar or instant Vector");
            return Err(Error::NoRange(message));
        }
        check_times([start.0, end.0, step.0])?;
        let frame = Frame { start: start.0, end: end.0, step: step.0 };
        let mut evaluator = Evaluator::new(&self.options, store, &expr, frame, cancelled);
        let grid = Grid::new(start.0, end.0, step.0);
        evaluator.check_samples(grid.count)?;
        let memory = Arc::clone(&evaluator.memory);
        let series = evaluator.sliced(&expr, grid, &|output, slice| self.matrix(output, slice, &memory))?;
        Ok(finish(Value::Matrix(series), evaluator, query))
    }

    fn instant_value(&self, evaluator: &mut Evaluator<'_>, expr: &Expr, time: WallMs) -> Result<Value, Error> {
        let bare = expr.unparenthesised();
        if matches!(bare.kind, ExprKind::MatrixSelector(_) | ExprKind::Subquery(_)) {
            return Ok(Value::Matrix(evaluator.top_level_range(bare, time.0)?));
        }
        Ok(match evaluator.eval(expr, Grid::single(time.0))? {
            Output::Scalar(values) => Value::Scalar { time, value: values[0] },
            Output::Text(value) => Value::String { time, value },
            Output::Vector(rows) => Value::Vector(
                self.cleaned(rows)?
                    .into_iter()
                    .filter_map(|row| {
                        let (labels, mut cells, held) = row.into_parts();
                        held.keep();
                        Some(InstantSample { labels, time, value: cells.swap_remove(0)? })
                    })
                    .collect(),
            ),
        })
    }

    /// Rows with their final labels.
    fn cleaned(&self, mut rows: Vec<Row>) -> Result<Vec<Row>, Error> {
        rows.retain(|row| !row.is_blank());
        for row in rows.iter_mut().filter(|row| row.drop_name) {
            row.relabel(without_metadata(&row.labels))?;
        }
        merged(rows)
    }

    fn matrix(&self, output: Output, grid: Grid, memory: &Arc<Memory>) -> Result<Vec<Series>, Error> {
        let rows = match output {
            Output::Vector(rows) => self.cleaned(rows)?,
            Output::Text(_) => Vec::new(),
            Output::Scalar(values) => {
                let cells = values.iter().map(|value| Some(Point::Float(*value)));
                vec![Row::new(memory, ogive_model::Labels::empty(), false, grid.count, cells)?]
            }
        };
        let mut series: Vec<Series> = rows.into_iter().map(|row| series_of(row, grid)).collect();
        series.retain(|series| !(series.floats.is_empty() && series.histograms.is_empty()));
        series.sort_by(|a, b| a.labels.cmp(&b.labels));
        Ok(series)
    }
}

fn check_times<const N: usize>(times: [i64; N]) -> Result<(), Error> {
    match times.into_iter().find(|time| !(-TIME_MS_MAX..=TIME_MS_MAX).contains(time)) {
        Some(time) => Err(Error::evaluate(format!("{time} ms is beyond the times that a query can ask for"))),
        None => Ok(()),
    }
}

fn series_of(row: Row, grid: Grid) -> Series {
    let (labels, cells, held) = row.into_parts();
    // The result takes no more memory than the row did.
    held.keep();
    let floats = cells.iter().filter(|cell| matches!(cell, Some(Point::Float(_)))).count();
    let histograms = cells.iter().flatten().count() - floats;
    let (floats, histograms) = (Vec::with_capacity(floats), Vec::with_capacity(histograms));
    let mut series = Series { labels, floats, histograms };
    for (time, cell) in grid.times().zip(cells) {
        match cell {
            None => {}
            Some(Point::Float(value)) => series.floats.push((time, value)),
            Some(Point::Histogram(value)) => series.histograms.push((time, value)),
        }
    }
    series
}

fn finish(value: Value, evaluator: Evaluator<'_>, query: &str) -> QueryResult {
    let (notes, stats, held) = evaluator.finish();
    let (warnings, infos) = (notes.texts(Level::Warning, query), notes.texts(Level::Info, query));
    QueryResult { value, warnings, infos, stats, held }
}
