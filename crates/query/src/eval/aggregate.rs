//! Aggregations that make one row of each group.

use std::collections::HashMap;
use std::sync::Arc;

use ogive_hist::CounterReset;
use ogive_model::{Labels, METRIC_NAME};

use super::annotate::{self, Operation};
use super::call::text_argument;
use super::evaluator::Evaluator;
use super::functions::Site;
use super::histogram::{HistogramMean, HistogramSum, text};
use super::kernel::{self, FloatMean, FloatSum, fixed};
use super::rows::{Cell, Grid, Output, Row};
use crate::Error;
use crate::ast::{Aggregate, AggregateOp, Span};
use crate::value::Point;

/// Rows that belong to one group, in their order.
pub(crate) struct Group {
    pub(crate) labels: Labels,
    pub(crate) members: Vec<usize>,
}

/// The groups of `rows` in the order of their first rows.
pub(crate) fn groups(rows: &[Row], aggregate: &Aggregate) -> Vec<Group> {
    let mut out: Vec<Group> = Vec::new();
    let mut at: HashMap<Labels, usize> = HashMap::new();
    for (index, row) in rows.iter().enumerate() {
        let labels = group_labels(&row.labels, aggregate);
        let group = *at.entry(labels.clone()).or_insert_with(|| {
            out.push(Group { labels, members: Vec::new() });
            out.len() - 1
        });
        out[group].members.push(index);
    }
    out
}

fn group_labels(labels: &Labels, aggregate: &Aggregate) -> Labels {
    let listed = |name: &str| aggregate.grouping.iter().any(|label| label == name);
    if aggregate.without {
        labels.filtered(|name| name != METRIC_NAME && !listed(name))
    } else if aggregate.grouping.is_empty() {
        Labels::empty()
    } else {
        labels.filtered(listed)
    }
}

impl Evaluator<'_> {
    /// The value of an aggregation at `span`.
    pub(crate) fn aggregate(&mut self, aggregate: &Aggregate, span: Span, grid: Grid) -> Result<Output, Error> {
        let parameter = match (&aggregate.parameter, aggregate.op) {
            (None, _) | (_, AggregateOp::CountValues) => Vec::new(),
            (Some(parameter), _) => self.scalar(parameter, grid)?,
        };
        let rows = self.vector(&aggregate.expr, grid)?;
        let out = match aggregate.op {
            AggregateOp::CountValues => count_values(aggregate, &rows, grid)?,
            AggregateOp::TopK | AggregateOp::BottomK | AggregateOp::LimitK | AggregateOp::LimitRatio => {
                self.picked_rows(aggregate, span, rows, &parameter, grid)?
            }
            _ => self.folded(aggregate, &rows, &parameter, grid)?,
        };
        self.check_size(&out)?;
        Ok(Output::Vector(out))
    }

    fn folded(
        &mut self,
        aggregate: &Aggregate,
        rows: &[Row],
        parameter: &[f64],
        grid: Grid,
    ) -> Result<Vec<Row>, Error> {
        if aggregate.op == AggregateOp::Quantile {
            self.note_quantiles(aggregate, parameter);
        }
        let span = aggregate.expr.unparenthesised().span;
        let mut out = Vec::new();
        for group in groups(rows, aggregate) {
            self.check_cancelled()?;
            let members: Vec<&Row> = group.members.iter().map(|index| &rows[*index]).collect();
            let mut site = self.site(span);
            let mut cells: Vec<Cell> = Vec::with_capacity(grid.count);
            for step in 0..grid.count {
                let points = members.iter().filter_map(|row| Some((*row, row.cells[step].as_ref()?)));
                let q = parameter.get(step).copied().unwrap_or(0.0);
                cells.push(fold(aggregate.op, points, q, &mut site));
            }
            let drop_name = members.iter().any(|row| row.drop_name);
            let row = Row { labels: group.labels, drop_name, cells };
            if !row.is_blank() {
                out.push(row);
            }
        }
        Ok(out)
    }

    fn note_quantiles(&mut self, aggregate: &Aggregate, quantiles: &[f64]) {
        let Some(parameter) = &aggregate.parameter else { return };
        let span = parameter.unparenthesised().span;
        if quantiles.iter().any(|q| q.is_nan()) {
            self.note(annotate::invalid_quantile(span, f64::NAN));
        }
        let most = quantiles.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if most > 1.0 {
            self.note(annotate::invalid_quantile(span, most));
        }
        let least = quantiles.iter().copied().fold(f64::INFINITY, f64::min);
        if least < 0.0 {
            self.note(annotate::invalid_quantile(span, least));
        }
    }
}

/// The points of one group at one instant, in one.
fn fold<'a>(op: AggregateOp, points: impl Iterator<Item = (&'a Row, &'a Point)>, q: f64, site: &mut Site<'_>) -> Cell {
    match op {
        AggregateOp::Sum => combine::<Sum>(points, site),
        AggregateOp::Avg => combine::<Mean>(points, site),
        AggregateOp::Count => some_if(points.count()).map(|count| Point::Float(count as f64)),
        AggregateOp::Group => some_if(points.count()).map(|_| Point::Float(1.0)),
        AggregateOp::Min => extreme(points, "min", |value, best| value < best, site),
        AggregateOp::Max => extreme(points, "max", |value, best| value > best, site),
        AggregateOp::Stddev => variance(points, "stddev", site).map(|value| Point::Float(value.sqrt())),
        AggregateOp::Stdvar => variance(points, "stdvar", site).map(Point::Float),
        _ => {
            let mut values: Vec<f64> = floats(points, "quantile", site).collect();
            some_if(values.len()).map(|_| Point::Float(kernel::quantile(q, &mut values)))
        }
    }
}

fn some_if(count: usize) -> Option<usize> {
    (count > 0).then_some(count)
}

/// The floats; histograms have no place in the aggregation and are told.
fn floats<'a>(
    points: impl Iterator<Item = (&'a Row, &'a Point)>,
    name: &'static str,
    site: &mut Site<'_>,
) -> impl Iterator<Item = f64> {
    points.filter_map(move |(_, point)| match point {
        Point::Float(value) => Some(*value),
        Point::Histogram(_) => {
            site.note(annotate::ignored_in_aggregation(site.span, name));
            None
        }
    })
}

fn extreme<'a>(
    points: impl Iterator<Item = (&'a Row, &'a Point)>,
    name: &'static str,
    beats: impl Fn(f64, f64) -> bool,
    site: &mut Site<'_>,
) -> Cell {
    let pick = |best: f64, value: f64| if beats(value, best) || best.is_nan() { value } else { best };
    floats(points, name, site).reduce(pick).map(Point::Float)
}

/// Population variance by Welford's updates.
fn variance<'a>(
    points: impl Iterator<Item = (&'a Row, &'a Point)>,
    name: &'static str,
    site: &mut Site<'_>,
) -> Option<f64> {
    let (mut count, mut mean, mut sum) = (0.0, 0.0, 0.0);
    for value in floats(points, name, site) {
        count += 1.0;
        let delta = value - mean;
        mean += delta / count;
        sum += delta * (value - mean);
    }
    (count > 0.0).then(|| sum / count)
}

/// A sum or a mean of floats or of histograms.
trait Total: Sized {
    fn float(first: f64) -> Self;
    fn histogram(first: &super::histogram::Hist) -> Self;
    fn add_float(&mut self, value: f64);
    fn add_histogram(&mut self, value: &super::histogram::Hist) -> Result<(), super::histogram::Incompatible>;
    fn reconciled(&self) -> bool;
    fn finish(self) -> Point;
}

enum Sum {
    Float(FloatSum),
    Histogram(Box<HistogramSum>),
}

enum Mean {
    Float(FloatMean),
    Histogram(Box<HistogramMean>),
}

macro_rules! total {
    ($name:ident, $float:ident, $histogram:ident, $result:ident) => {
        impl Total for $name {
            fn float(first: f64) -> Self {
                Self::Float($float::new(first))
            }
            fn histogram(first: &super::histogram::Hist) -> Self {
                Self::Histogram(Box::new($histogram::new(first)))
            }
            fn add_float(&mut self, value: f64) {
                if let Self::Float(total) = self {
                    total.add(value);
                }
            }
            fn add_histogram(
                &mut self,
                value: &super::histogram::Hist,
            ) -> Result<(), super::histogram::Incompatible> {
                if let Self::Histogram(total) = self { total.add(value) } else { Ok(()) }
            }
            fn reconciled(&self) -> bool {
                matches!(self, Self::Histogram(total) if total.reconciled())
            }
            fn finish(self) -> Point {
                match self {
                    Self::Float(total) => Point::Float(total.$result()),
                    Self::Histogram(total) => Point::Histogram(Arc::new(total.finish())),
                }
            }
        }
    };
}

total!(Sum, FloatSum, HistogramSum, total);
total!(Mean, FloatMean, HistogramMean, mean);

fn combine<'a, T: Total>(points: impl Iterator<Item = (&'a Row, &'a Point)>, site: &mut Site<'_>) -> Cell {
    let mut total: Option<T> = None;
    let (mut any_float, mut any_histogram) = (false, false);
    let (mut reset, mut not_reset) = (false, false);
    let mut incompatible = false;
    for (row, point) in points {
        match point {
            Point::Float(value) => {
                any_float = true;
                match &mut total {
                    None => total = Some(T::float(*value)),
                    Some(total) => total.add_float(*value),
                }
            }
            Point::Histogram(value) => {
                any_histogram = true;
                reset |= value.reset == CounterReset::Reset;
                not_reset |= value.reset == CounterReset::NotReset;
                match &mut total {
                    None => total = Some(T::histogram(value)),
                    Some(total) => {
                        if let Err(why) = total.add_histogram(value) {
                            site.note(annotate::mixed_schemes(site.span, row.labels.metric_name(), why));
                            incompatible = true;
                            break;
                        }
                    }
                }
            }
        }
    }
    let total = total?;
    if any_float && any_histogram {
        site.note(annotate::mixed_in_aggregation(site.span));
        return None;
    }
    if total.reconciled() {
        site.note(annotate::reconciled_bounds(site.span, Operation::Aggregation));
    }
    if incompatible {
        return None;
    }
    if reset && not_reset {
        site.note(annotate::reset_collision(site.span, Operation::Aggregation));
    }
    Some(total.finish())
}

/// One row for each value that occurs, with how often it does.
fn count_values(aggregate: &Aggregate, rows: &[Row], grid: Grid) -> Result<Vec<Row>, Error> {
    let label = aggregate.parameter.as_ref().map_or("", text_argument);
    if label.is_empty() {
        return Err(Error::evaluate(format!("invalid label name {label:?}")));
    }
    let mut out: Vec<Row> = Vec::new();
    let mut at: HashMap<Labels, usize> = HashMap::new();
    let mut grouping = aggregate.clone();
    if !aggregate.without {
        grouping.grouping.push(label.to_owned());
    }
    for row in rows {
        for (step, cell) in row.cells.iter().enumerate() {
            let value = match cell {
                None => continue,
                Some(Point::Float(value)) => fixed(*value),
                Some(Point::Histogram(histogram)) => text(histogram),
            };
            let labels = group_labels(&row.labels.with(label, &value), &grouping);
            let index = *at.entry(labels.clone()).or_insert_with(|| {
                out.push(Row { labels, drop_name: false, cells: vec![None; grid.count] });
                out.len() - 1
            });
            match &mut out[index].cells[step] {
                Some(Point::Float(count)) => *count += 1.0,
                cell => *cell = Some(Point::Float(1.0)),
            }
        }
    }
    Ok(out)
}
