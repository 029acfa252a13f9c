//! One query: dispatch over the nodes, limits, annotations and statistics.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ogive_model::{Memory, Ms, Select};

use super::fetched::{Fetched, matchers_key};
use super::invariant;
use super::looked::SampleCounter;
use super::memory::Numbers;
use super::options::EngineOptions;
use super::rows::{Grid, Output, Row, merged, without_metadata};
use super::shift::Shift;
use crate::ast::{AtModifier, DurationError, DurationExpr, DurationScope, Expr, ExprKind, TimeShift, UnaryOp};
use crate::eval::histogram::scale;
use crate::value::{MemoryCharge, Point, QueryStats};
use crate::{Annotation, Annotations, Error};

/// The instants of the whole query.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    /// The first, milliseconds.
    pub(crate) start: i64,
    /// The last.
    pub(crate) end: i64,
    /// Between two; 0 when there is one.
    pub(crate) step: i64,
}

impl Frame {
    /// Its instants.
    fn grid(&self) -> Grid {
        if self.step > 0 { Grid::new(self.start, self.end, self.step) } else { Grid::single(self.start) }
    }
}

/// A consumer of rows of some kind.
pub(crate) type Sink<'s, 'a, T> = dyn FnMut(&mut Evaluator<'a>, T) -> Result<(), Error> + 's;

/// A consumer of rows.
pub(crate) type RowSink<'s, 'a> = Sink<'s, 'a, Row>;

/// Evaluation of one query.
pub(crate) struct Evaluator<'a> {
    pub(crate) options: &'a EngineOptions,
    pub(crate) store: &'a dyn Select,
    /// The budget to which everything it holds is charged.
    pub(crate) memory: Arc<Memory>,
    pub(crate) frame: Frame,
    /// What was already read, by selector and window: the same selector often occurs twice.
    pub(crate) read: HashMap<String, Fetched>,
    /// Matchers of the selectors that occur more than once: only their series are worth keeping.
    pub(crate) shared: HashSet<String>,
    /// Cumulative histograms are compared with their predecessors when read, because their hints feed a warning. Set
    /// for `histogram_count` and similar functions, whose users see no bins.
    pub(crate) detect_resets: bool,
    /// A node above looks at bins: hints then stay as they were stored.
    pub(crate) bins_needed: bool,
    /// The current expression is evaluated at more than one instant.
    pub(crate) ranged: bool,
    pub(crate) cancelled: &'a (dyn Fn() -> bool + Sync),
    notes: Annotations,
    pub(crate) stats: QueryStats,
    /// Counts the samples that each instant looks at, if requested.
    pub(crate) looked: Option<SampleCounter>,
}

impl<'a> Evaluator<'a> {
    pub(crate) fn new(
        options: &'a EngineOptions,
        store: &'a dyn Select,
        expr: &Expr,
        frame: Frame,
        cancelled: &'a (dyn Fn() -> bool + Sync),
    ) -> Self {
        let (mut seen, mut shared) = (HashSet::new(), HashSet::new());
        expr.nodes().for_each(|node| find_shared(node, &mut seen, &mut shared));
        Self {
            shared,
            options,
            store,
            // Unlimited of its own: the surrounding budget sets the limit. This one releases the result's charge when
            // it is dropped.
            memory: options.memory.within(usize::MAX),
            frame,
            read: HashMap::new(),
            detect_resets: false,
            bins_needed: false,
            ranged: frame.start != frame.end,
            cancelled,
            notes: Annotations::new(),
            stats: QueryStats::default(),
            looked: options.step_stats.then(|| SampleCounter::new(frame.grid())),
        }
    }

    /// The annotations and statistics, and the charge for the result.
    pub(crate) fn finish(mut self) -> (Annotations, QueryStats, MemoryCharge) {
        if let Some(looked) = &self.looked {
            (self.stats.samples_looked_at, self.stats.samples_by_step) = looked.counts();
        }
        (self.notes, self.stats, MemoryCharge(Some(self.memory)))
    }

    /// Adds an annotation.
    pub(crate) fn note(&mut self, annotation: Annotation) {
        self.notes.add(annotation);
    }

    /// The annotations so far.
    pub(crate) const fn notes_mut(&mut self) -> &mut Annotations {
        &mut self.notes
    }

    /// Fails when the caller no longer waits.
    pub(crate) fn check_cancelled(&self) -> Result<(), Error> {
        if (self.cancelled)() { Err(Error::Cancelled) } else { Ok(()) }
    }

    /// Fails when `rows` hold more samples than one value may.
    pub(crate) fn check_size(&self, rows: &[Row]) -> Result<(), Error> {
        self.check_samples(rows.iter().map(Row::samples).sum())
    }

    /// Fails when `samples` are more than one value may hold.
    pub(crate) fn check_samples(&self, samples: usize) -> Result<(), Error> {
        let limit = self.options.samples_max;
        if samples > limit { Err(Error::TooManySamples { limit }) } else { Ok(()) }
    }

    /// Fails when a grid has more instants than a value may have.
    pub(crate) fn check_instants(&self, grid: Grid) -> Result<(), Error> {
        let limit = self.options.instants_max;
        if grid.count <= limit {
            return Ok(());
        }
        Err(Error::evaluate(format!(
            "an expression would be evaluated at {} instants, more than {limit}: widen the step or narrow the range",
            grid.count
        )))
    }

    /// What durations may refer to.
    pub(crate) fn scope(&self) -> DurationScope {
        DurationScope { step: Ms(self.frame.step), range: Ms(self.frame.end - self.frame.start) }
    }

    /// A duration above zero.
    pub(crate) fn positive(&self, duration: &DurationExpr) -> Result<Ms, Error> {
        duration.positive(self.scope()).map_err(duration_error)
    }

    /// `offset` in milliseconds and the instant of `@`.
    pub(crate) fn shift(&self, shift: &TimeShift) -> Result<Shift, Error> {
        let offset = shift.offset.as_ref().map_or(Ok(Ms::ZERO), |offset| offset.signed(self.scope()));
        let at = shift.at.map(|at| match at {
            AtModifier::Time(time) => time.0,
            AtModifier::Start => self.frame.start,
            AtModifier::End => self.frame.end,
        });
        Ok(Shift { offset: offset.map_err(duration_error)?.0, at })
    }

    /// The value of `expr` at every instant of `grid`.
    pub(crate) fn eval(&mut self, expr: &Expr, grid: Grid) -> Result<Output, Error> {
        self.check_cancelled()?;
        self.check_instants(grid)?;
        if (grid.count > 1 || self.ranged) && invariant::is_worth_sharing(expr) {
            let ranged = std::mem::replace(&mut self.ranged, false);
            let once = self.eval(expr, Grid::single(grid.start));
            self.ranged = ranged;
            return self.repeated(once?, grid.count);
        }
        match &expr.kind {
            ExprKind::Number(number) => Ok(Output::Scalar(Numbers::constant(&self.memory, grid.count, number.value)?)),
            ExprKind::String(text) => Ok(Output::Text(text.clone())),
            ExprKind::Paren(inner) => self.eval(inner, grid),
            ExprKind::VectorSelector(selector) => self.instant_selector(selector, expr.span, grid),
            ExprKind::Unary(op, inner) => self.unary(*op, inner, grid),
            ExprKind::Binary(_) => self.chain(expr, grid),
            ExprKind::Aggregate(aggregate) => self.aggregate(aggregate, expr.span, grid),
            ExprKind::Call(call) => self.call(call, expr.span, grid),
            ExprKind::MatrixSelector(_) | ExprKind::Subquery(_) => {
                Err(Error::Evaluate { message: "a range vector has no value here".to_owned(), span: Some(expr.span) })
            }
        }
    }

    /// The rows of `expr`, which the parser has found to be a vector.
    pub(crate) fn vector(&mut self, expr: &Expr, grid: Grid) -> Result<Vec<Row>, Error> {
        match self.eval(expr, grid)? {
            Output::Vector(rows) => Ok(rows),
            Output::Scalar(_) | Output::Text(_) => {
                Err(Error::Evaluate { message: "expected an instant vector".to_owned(), span: Some(expr.span) })
            }
        }
    }

    /// The numbers of `expr`, which the parser has found to be a scalar.
    pub(crate) fn scalar(&mut self, expr: &Expr, grid: Grid) -> Result<Numbers, Error> {
        match self.eval(expr, grid)? {
            Output::Scalar(values) => Ok(values),
            Output::Vector(_) | Output::Text(_) => {
                Err(Error::Evaluate { message: "expected a scalar".to_owned(), span: Some(expr.span) })
            }
        }
    }

    pub(crate) fn repeated(&self, once: Output, count: usize) -> Result<Output, Error> {
        Ok(match once {
            Output::Scalar(values) => Output::Scalar(Numbers::constant(&self.memory, count, values[0])?),
            Output::Text(text) => Output::Text(text),
            Output::Vector(rows) => {
                let size: usize = rows.iter().map(Row::samples).sum();
                self.check_samples(size.saturating_mul(count))?;
                let repeated = rows.into_iter().map(|row| {
                    let cells = std::iter::repeat_n(&row.cells[0], count).cloned();
                    Row::new(&self.memory, row.labels.clone(), row.drop_name, count, cells)
                });
                Output::Vector(repeated.collect::<Result<_, Error>>()?)
            }
        })
    }

    fn unary(&mut self, op: UnaryOp, inner: &Expr, grid: Grid) -> Result<Output, Error> {
        let output = self.eval(inner, grid)?;
        if op == UnaryOp::Plus {
            return Ok(output);
        }
        match output {
            Output::Scalar(values) => {
                let negative = values.iter().map(|value| -value);
                Numbers::new(&self.memory, values.len(), negative).map(Output::Scalar)
            }
            Output::Text(text) => Ok(Output::Text(text)),
            Output::Vector(mut rows) => {
                for point in rows.iter_mut().flat_map(|row| row.cells.iter_mut().flatten()) {
                    match point {
                        Point::Float(value) => *value = -*value,
                        Point::Histogram(histogram) => scale(std::sync::Arc::make_mut(histogram), -1.0),
                    }
                }
                self.nameless(rows).map(Output::Vector)
            }
        }
    }

    /// Removes the names of rows: immediately, or when the query ends.
    pub(crate) fn nameless(&self, mut rows: Vec<Row>) -> Result<Vec<Row>, Error> {
        if self.options.delayed_name_removal {
            rows.iter_mut().for_each(|row| row.drop_name = true);
            return Ok(rows);
        }
        for row in &mut rows {
            row.labels = without_metadata(&row.labels);
        }
        merged(rows)
    }
}

/// Adds the matchers of the selector that `expr` is to `shared` if they were `seen` before.
fn find_shared(expr: &Expr, seen: &mut HashSet<String>, shared: &mut HashSet<String>) {
    let selector = match &expr.kind {
        ExprKind::VectorSelector(selector) => Some(selector),
        ExprKind::MatrixSelector(matrix) => Some(&matrix.selector),
        _ => None,
    };
    if let Some(key) = selector.map(matchers_key)
        && !seen.insert(key.clone())
    {
        shared.insert(key);
    }
}

fn duration_error(error: DurationError) -> Error {
    Error::Evaluate { message: error.message, span: Some(error.span) }
}
