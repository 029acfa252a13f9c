//! Function calls.

use std::sync::Arc;

use super::annotate;
use super::arguments::{check_edges, keeps_name, matrix_span, text_argument};
use super::dense_call::combines;
use super::evaluator::{Evaluator, Sink};
use super::functions::{self, RangeKernel, Site};
use super::invariant;
use super::memory::Numbers;
use super::parallel::{Evaluate, EvaluateColumns, EvaluateFloats, SeriesRead, TakenFloats};
use super::range_call::{MakeRange, RangeCall, RangeMakers};
use super::rows::{Grid, Output, Row};
use super::selectors::{PickedField, Source};
use super::window::columns;
use crate::ast::{Call, Expr, ExprKind, Span, ValueType};
use crate::value::Point;
use crate::{Annotations, Error};
use ogive_model::SeriesSet;
use ogive_text::calendar::Moment;

impl<'a> Evaluator<'a> {
    /// The value of a call at `span`.
    pub(crate) fn call(&mut self, call: &Call, span: Span, grid: Grid) -> Result<Output, Error> {
        let before = (self.detect_resets, self.bins_needed);
        match call.function.name {
            "histogram_count" | "histogram_sum" | "histogram_avg" => self.detect_resets = true,
            "histogram_quantile"
            | "histogram_quantiles"
            | "histogram_fraction"
            | "histogram_fraction_bounds"
            | "histogram_modes"
            | "histogram_quantile_bounds"
            | "histogram_distance" => {
                self.bins_needed = true;
            }
            _ => {}
        }
        let output = self.dispatch(call, span, grid);
        (self.detect_resets, self.bins_needed) = before;
        output
    }

    fn dispatch(&mut self, call: &Call, span: Span, grid: Grid) -> Result<Output, Error> {
        let name = call.function.name;
        if let Some(kernel) = functions::range_kernel(name) {
            return self.range_call(call, kernel, grid).map(Output::Vector);
        }
        if let Some(map) = functions::float_map(name) {
            return self.mapped(&call.arguments[0], grid, |value, _| Some(map(value))).map(Output::Vector);
        }
        if let Some(part) = functions::date_part(name) {
            return self.dated(call, part, grid).map(Output::Vector);
        }
        if call.function.returns == ValueType::Scalar {
            return self.scalar_call(call, grid).map(Output::Scalar);
        }
        let rows = match name {
            "absent" => self.absent(call, grid)?,
            "absent_over_time" => self.absent_over_time(call, grid)?,
            "clamp" | "clamp_max" | "clamp_min" => self.clamped(call, grid)?,
            "round" => self.rounded(call, grid)?,
            "vector" => {
                let values = self.scalar(&call.arguments[0], grid)?;
                vec![self.unlabelled(grid, values.iter().copied())?]
            }
            "timestamp" => self.sample_times(call, grid, PickedField::Time)?,
            "start_timestamp" => self.sample_times(call, grid, PickedField::Start)?,
            "label_replace" => self.label_replace(call, grid)?,
            "label_join" => self.label_join(call, grid)?,
            "sort" | "sort_desc" | "sort_by_label" | "sort_by_label_desc" => self.sorted(call, span, grid)?,
            "info" => self.info(call, grid)?,
            _ => self.histogram_call(call, grid)?,
        };
        Ok(Output::Vector(rows))
    }

    fn scalar_call(&mut self, call: &Call, grid: Grid) -> Result<Numbers, Error> {
        let seconds = |millis: i64| millis as f64 / 1000.0;
        let frame = self.frame;
        let memory = Arc::clone(&self.memory);
        let constant = |value: f64| Numbers::constant(&memory, grid.count, value);
        match call.function.name {
            "time" => Numbers::new(&memory, grid.count, grid.times().map(seconds)),
            "pi" => constant(std::f64::consts::PI),
            "start" => constant(seconds(frame.start)),
            "end" => constant(seconds(frame.end)),
            "range" => constant(seconds(frame.end - frame.start)),
            "step" => constant(seconds(frame.step)),
            "scalar" => {
                let rows = self.vector(&call.arguments[0], grid)?;
                Numbers::new(&memory, grid.count, (0..grid.count).map(|step| only_float(&rows, step)))
            }
            name => {
                let left = self.scalar(&call.arguments[0], grid)?;
                let right = self.scalar(&call.arguments[1], grid)?;
                let choose = if name == "max_of" { functions::greater } else { functions::lesser };
                Numbers::new(&memory, grid.count, left.iter().zip(&*right).map(|(a, b)| choose(*a, *b)))
            }
        }
    }

    /// Applies `map` to the floats of a vector; histograms are left out of the result.
    pub(crate) fn mapped(
        &mut self,
        argument: &Expr,
        grid: Grid,
        map: impl Fn(f64, usize) -> Option<f64>,
    ) -> Result<Vec<Row>, Error> {
        let mut rows = self.vector(argument, grid)?;
        for row in &mut rows {
            for (step, cell) in row.cells.iter_mut().enumerate() {
                *cell = match cell {
                    Some(Point::Float(value)) => map(*value, step).map(Point::Float),
                    _ => None,
                };
            }
        }
        rows.retain(|row| !row.is_blank());
        self.nameless(rows)
    }

    fn dated(&mut self, call: &Call, part: fn(Moment) -> i64, grid: Grid) -> Result<Vec<Row>, Error> {
        if let Some(argument) = call.arguments.first() {
            return self.mapped(argument, grid, |value, _| Some(part(Moment::at(value as i64)) as f64));
        }
        let parts = grid.times().map(|time| part(Moment::at(time.div_euclid(1000))) as f64);
        Ok(vec![self.unlabelled(grid, parts)?])
    }

    /// A row without labels.
    fn unlabelled(&self, grid: Grid, values: impl Iterator<Item = f64>) -> Result<Row, Error> {
        let cells = values.map(|value| Some(Point::Float(value)));
        Row::new(&self.memory, ogive_model::Labels::empty(), false, grid.count, cells)
    }

    fn clamped(&mut self, call: &Call, grid: Grid) -> Result<Vec<Row>, Error> {
        let bound = |evaluator: &mut Self, index: usize| evaluator.scalar(&call.arguments[index], grid);
        let (low, high) = match call.function.name {
            "clamp_min" => (bound(self, 1)?, Numbers::constant(&self.memory, grid.count, f64::INFINITY)?),
            "clamp_max" => (Numbers::constant(&self.memory, grid.count, f64::NEG_INFINITY)?, bound(self, 1)?),
            _ => (bound(self, 1)?, bound(self, 2)?),
        };
        self.mapped(&call.arguments[0], grid, |value, step| {
            let (low, high) = (low[step], high[step]);
            if high < low { None } else { Some(functions::greater(low, functions::lesser(high, value))) }
        })
    }

    fn rounded(&mut self, call: &Call, grid: Grid) -> Result<Vec<Row>, Error> {
        let nearest = match call.arguments.get(1) {
            Some(argument) => self.scalar(argument, grid)?,
            None => Numbers::constant(&self.memory, grid.count, 1.0)?,
        };
        self.mapped(&call.arguments[0], grid, |value, step| {
            // Multiplying by the inverse keeps decimal steps such as 0.1 accurate.
            let inverse = 1.0 / nearest[step];
            Some((value * inverse + 0.5).floor() / inverse)
        })
    }

    /// `timestamp` and `start_timestamp`: of the samples when the argument is a selector. Otherwise `timestamp` is the
    /// time of the evaluation, and start times are not known.
    fn sample_times(&mut self, call: &Call, grid: Grid, give: PickedField) -> Result<Vec<Row>, Error> {
        let argument = call.arguments[0].unparenthesised();
        if let ExprKind::VectorSelector(selector) = &argument.kind {
            if give == PickedField::Start && !self.options.start_times {
                return Ok(Vec::new());
            }
            let rows = self.picked(selector, grid, give)?;
            return self.nameless(rows);
        }
        if give == PickedField::Start {
            return Ok(Vec::new());
        }
        let mut rows = self.vector(argument, grid)?;
        for row in &mut rows {
            for (time, cell) in grid.times().zip(&mut row.cells) {
                *cell = cell.as_ref().map(|_| Point::Float(time as f64 / 1000.0));
            }
        }
        self.nameless(rows)
    }

    fn range_call(&mut self, call: &Call, kernel: RangeKernel, grid: Grid) -> Result<Vec<Row>, Error> {
        let mut rows = Vec::new();
        let mut samples = 0;
        let whole: MakeRange<Row> = |call, windows, series, notes| call.row(windows, series, notes);
        let makers = RangeMakers { whole, dense: None, floats: |memory, row| row.into_row(memory) };
        self.each_range_row(call, kernel, grid, &makers, &mut |evaluator, row| {
            samples += row.samples();
            rows.push(row);
            evaluator.check_samples(samples)
        })?;
        if keeps_name(call.function.name) { Ok(rows) } else { self.nameless(rows) }
    }

    /// The rows of a range function, one at a time, with their original names.
    pub(crate) fn each_range_row<T: Send>(
        &mut self,
        call: &Call,
        kernel: RangeKernel,
        grid: Grid,
        makers: &RangeMakers<T>,
        sink: &mut Sink<'_, 'a, T>,
    ) -> Result<(), Error> {
        let name = call.function.name;
        let is_range = |argument: &&Expr| argument.value_type() == ValueType::Matrix;
        let position = call.arguments.iter().position(|argument| is_range(&argument)).unwrap_or(0);
        let range = &call.arguments[position];
        let mut parameters = Vec::new();
        for argument in call.arguments.iter().filter(|argument| !is_range(argument)) {
            parameters.push(self.scalar(argument, grid)?);
        }
        let grid_of_windows = if invariant::is_invariant(range) { Grid::single(grid.start) } else { grid };
        check_edges(range, name)?;
        // The samples of a subquery were already counted by the selectors inside it.
        let is_stored = matches!(range.unparenthesised().kind, ExprKind::MatrixSelector(_));
        let looked = self.looked.clone().filter(|_| is_stored);
        let span = matrix_span(&call.arguments[0]);
        let memory = Arc::clone(&self.memory);
        let requested = RangeCall { memory: &memory, kernel, name, span, parameters: &parameters, grid, looked };
        let (windows, source) = match &range.unparenthesised().kind {
            ExprKind::MatrixSelector(matrix) => {
                let (windows, read) = self.windows(matrix, name, grid_of_windows)?;
                match self.source(&matrix.selector, read, windows.resolution())? {
                    Source::Held(fetched) => (windows, self.stored(fetched)?),
                    Source::Open(set) => {
                        let start_times = self.options.start_times;
                        let hinted = self.detects();
                        let read = SeriesRead { hinted, samples_max: self.options.samples_max };
                        let whole = |series, notes: &mut Annotations| {
                            (makers.whole)(&requested, windows, columns(series, start_times), notes)
                        };
                        let of_columns = |found, notes: &mut Annotations| match makers.dense {
                            Some(dense) => dense(&requested, windows, found, start_times, notes),
                            None => Ok(None),
                        };
                        let is_dense = makers.dense.is_some() && !hinted && combines(name);
                        let columns: Option<&EvaluateColumns<'_, T>> = if is_dense { Some(&of_columns) } else { None };
                        let of_floats = |set: &dyn SeriesSet, number, notes: &mut Annotations| {
                            let Some(kind) = requested.ends_kind(windows) else { return Ok(None) };
                            let taken = requested.row_of_runs((windows, kind), (set, number), notes)?;
                            let Some((samples, row)) = taken else { return Ok(None) };
                            let row = row.map(|row| (makers.floats)(&memory, row)).transpose()?;
                            Ok(Some(TakenFloats { samples, row }))
                        };
                        let floats: Option<&EvaluateFloats<'_, T>> = Some(&of_floats);
                        return self.each_evaluated(&*set, &read, &Evaluate { whole: &whole, columns, floats }, sink);
                    }
                }
            }
            _ => self.range_vector(range, name, grid_of_windows)?,
        };
        for series in source {
            self.check_cancelled()?;
            if let Some(row) = (makers.whole)(&requested, windows, series, self.notes_mut())? {
                sink(self, row)?;
            }
        }
        Ok(())
    }

    fn sorted(&mut self, call: &Call, span: Span, grid: Grid) -> Result<Vec<Row>, Error> {
        let mut rows = self.vector(&call.arguments[0], grid)?;
        if self.ranged {
            self.note(annotate::sort_in_range(span));
        }
        let descending = call.function.name.ends_with("_desc");
        if call.function.name.starts_with("sort_by_label") {
            let labels: Vec<&str> = call.arguments[1..].iter().map(text_argument).collect();
            rows.sort_by(|a, b| {
                let order = functions::by_labels(&a.labels, &b.labels, &labels);
                if descending { order.reverse() } else { order }
            });
            return Ok(rows);
        }
        for cell in rows.iter_mut().flat_map(|row| &mut row.cells) {
            if matches!(cell, Some(Point::Histogram(_))) {
                *cell = None;
            }
        }
        rows.retain(|row| !row.is_blank());
        if grid.count == 1 {
            rows.sort_by(|a, b| functions::by_value(first_float(a), first_float(b), descending));
        }
        Ok(rows)
    }

    fn label_replace(&mut self, call: &Call, grid: Grid) -> Result<Vec<Row>, Error> {
        let [target, replacement, source, pattern] = [1, 2, 3, 4].map(|index| text_argument(&call.arguments[index]));
        let regex = functions::anchored_regex(pattern)
            .map_err(|_| Error::evaluate(format!("invalid regular expression in label_replace(): {pattern}")))?;
        if target.is_empty() {
            return Err(Error::evaluate(format!("invalid destination label name in label_replace(): {target}")));
        }
        let mut rows = self.vector(&call.arguments[0], grid)?;
        for row in &mut rows {
            self.check_cancelled()?;
            let Some(value) = functions::replaced(&regex, row.labels.get(source), replacement)? else { continue };
            relabel(row, target, &value)?;
        }
        super::rows::merged(rows)
    }

    fn label_join(&mut self, call: &Call, grid: Grid) -> Result<Vec<Row>, Error> {
        let [target, separator] = [1, 2].map(|index| text_argument(&call.arguments[index]));
        let sources: Vec<&str> = call.arguments[3..].iter().map(text_argument).collect();
        if target.is_empty() {
            return Err(Error::evaluate(format!("invalid destination label name in label_join(): {target}")));
        }
        let mut rows = self.vector(&call.arguments[0], grid)?;
        for row in &mut rows {
            self.check_cancelled()?;
            let values: Vec<&str> = sources.iter().map(|source| row.labels.get(source)).collect();
            let value = functions::joined(&values, separator)?;
            relabel(row, target, &value)?;
        }
        super::rows::merged(rows)
    }

    /// Where annotations about the expression at `span` go.
    pub(crate) fn site(&mut self, span: Span) -> Site<'_> {
        Site { span, notes: self.notes_mut() }
    }
}

/// Sets a label. Setting the name cancels an earlier mark to remove it.
fn relabel(row: &mut Row, target: &str, value: &str) -> Result<(), Error> {
    row.relabel(functions::with_label(&row.labels, target, value)?)?;
    if target == ogive_model::METRIC_NAME {
        row.drop_name = false;
    }
    Ok(())
}

fn first_float(row: &Row) -> f64 {
    match row.cells.first() {
        Some(Some(Point::Float(value))) => *value,
        _ => f64::NAN,
    }
}

/// The float of the only row that has one at `step`, NaN otherwise.
fn only_float(rows: &[Row], step: usize) -> f64 {
    let mut floats = rows.iter().filter_map(|row| match row.cells[step] {
        Some(Point::Float(value)) => Some(value),
        _ => None,
    });
    match (floats.next(), floats.next()) {
        (Some(value), None) => value,
        _ => f64::NAN,
    }
}
