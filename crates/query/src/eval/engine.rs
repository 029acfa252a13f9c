//! Whole queries.

use std::sync::Arc;

use ogive_model::{Memory, MemoryScope, Select};

use super::evaluator::{Evaluator, Frame, TIME_MS_MAX};
use super::rows::{Grid, Output, Row, merged, without_metadata};
use crate::ast::{Expr, ExprKind, ValueType};
use crate::value::{InstantSample, Point, QueryResult, Series, Value};
use crate::{Error, Level, parse};

/// 1 GiB.
const MEMORY_BYTES: usize = 1 << 30;

/// How an [`Engine`] evaluates.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// How far back an instant selector looks for a sample.
    pub lookback_ms: i64,
    /// Step of a subquery that names none.
    pub subquery_step_ms: i64,
    /// Most points that one intermediate value may hold, a histogram counting as one for each bin and 8 more.
    pub samples_max: usize,
    /// Most samples that one selector may read from the store at once, a histogram counting as one for each bin. Longer
    /// range queries are read in slices of time.
    pub samples_read_max: usize,
    /// Most series that one selector may read from the store.
    pub series_max: usize,
    /// Most instants at which one expression may be evaluated.
    pub instants_max: usize,
    /// Metric names go when the query ends rather than at the operator that takes their meaning away.
    pub delayed_name_removal: bool,
    /// Start times of samples decide where counters were reset.
    pub start_times: bool,
    /// Count what each instant looks at.
    pub step_stats: bool,
    /// What queries hold is charged to it: their labels, samples, rows, groups and answers.
    pub memory: Arc<Memory>,
    /// Threads that evaluate the series of one selector; the answer does not depend on them.
    pub threads: usize,
}

impl Default for EngineOptions {
    /// 5 min of lookback and 1 min between a subquery's instants are Prometheus' own. 50,000,000 points of 16
    /// bytes are 800 MB, the most that one value may take, and 20,000,000 samples at once a third of that; 1,000,000 series are a whole large installation.
    /// 2,000,000 instants are 23 days of seconds, and 32 MB a series. 1 GiB of memory holds one such value
    /// and what it is made of.
    fn default() -> Self {
        Self {
            lookback_ms: 5 * 60 * 1000,
            subquery_step_ms: 60 * 1000,
            samples_max: 50_000_000,
            samples_read_max: 20_000_000,
            series_max: 1_000_000,
            instants_max: 2_000_000,
            delayed_name_removal: false,
            start_times: true,
            step_stats: false,
            memory: Memory::new(MemoryScope::Query, MEMORY_BYTES),
            threads: 1,
        }
    }
}

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

    /// The value of `query` at `time_ms`.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn instant(&self, store: &dyn Select, query: &str, time_ms: i64) -> Result<QueryResult, Error> {
        self.instant_until(store, query, time_ms, &never)
    }

    /// The value of `query` from `start_ms` to `end_ms` each `step_ms`.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn range(
        &self,
        store: &dyn Select,
        query: &str,
        start_ms: i64,
        end_ms: i64,
        step_ms: i64,
    ) -> Result<QueryResult, Error> {
        self.range_until(store, query, (start_ms, end_ms, step_ms), &never)
    }

    /// As [`Engine::instant`]; ends with [`Error::Cancelled`] soon after `cancelled` answers true.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn instant_until(
        &self,
        store: &dyn Select,
        query: &str,
        time_ms: i64,
        cancelled: &(dyn Fn() -> bool + Sync),
    ) -> Result<QueryResult, Error> {
        let expr = parse(query)?;
        check_times([time_ms])?;
        let frame = Frame { start: time_ms, end: time_ms, step: 0 };
        let mut evaluator = Evaluator::new(&self.options, store, &expr, frame, cancelled);
        let value = self.instant_value(&mut evaluator, &expr, time_ms)?;
        Ok(finish(value, evaluator, query))
    }

    /// As [`Engine::range`] over (start, end, step); ends with [`Error::Cancelled`] soon after `cancelled`
    /// answers true.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn range_until(
        &self,
        store: &dyn Select,
        query: &str,
        (start_ms, end_ms, step_ms): (i64, i64, i64),
        cancelled: &(dyn Fn() -> bool + Sync),
    ) -> Result<QueryResult, Error> {
        let expr = parse(query)?;
        if step_ms <= 0 {
            return Err(Error::evaluate("the step of a range query must be above zero"));
        }
        let kind = expr.value_type();
        if !matches!(kind, ValueType::Scalar | ValueType::Vector) {
            let kind = kind.name();
            let message = format!("invalid expression type {kind:?} for range query, must be Scalar or instant Vector");
            return Err(Error::NoRange(message));
        }
        check_times([start_ms, end_ms, step_ms])?;
        let frame = Frame { start: start_ms, end: end_ms, step: step_ms };
        let mut evaluator = Evaluator::new(&self.options, store, &expr, frame, cancelled);
        let grid = Grid::new(start_ms, end_ms, step_ms);
        evaluator.check_samples(grid.count)?;
        let memory = Arc::clone(&evaluator.memory);
        let series = evaluator.sliced(&expr, grid, &|output, slice| self.matrix(output, slice, &memory))?;
        Ok(finish(Value::Matrix(series), evaluator, query))
    }

    fn instant_value(&self, evaluator: &mut Evaluator<'_>, expr: &Expr, time_ms: i64) -> Result<Value, Error> {
        let bare = expr.unparenthesised();
        if matches!(bare.kind, ExprKind::MatrixSelector(_) | ExprKind::Subquery(_)) {
            return Ok(Value::Matrix(evaluator.top_level_range(bare, time_ms)?));
        }
        Ok(match evaluator.eval(expr, Grid::single(time_ms))? {
            Output::Scalar(values) => Value::Scalar { time_ms, value: values[0] },
            Output::Text(value) => Value::String { time_ms, value },
            Output::Vector(rows) => Value::Vector(
                self.cleaned(rows)?
                    .into_iter()
                    .filter_map(|row| {
                        let (labels, mut cells, held) = row.into_parts();
                        held.keep();
                        Some(InstantSample { labels, time_ms, value: cells.swap_remove(0)? })
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
    // The answer takes no more than the row did.
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
