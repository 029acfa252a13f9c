//! Aggregations that reduce each group to one row.

use std::collections::HashMap;
use std::sync::Arc;

use ogive_hist::CounterReset;
use ogive_model::{Charge, Labels, METRIC_NAME, Memory, float};

use super::annotate::{self, Operation};
use super::arguments::text_argument;
use super::dense_row::DensePoint;
use super::evaluator::Evaluator;
use super::float_row::{AnyRow, Streamed};
use super::functions::{Site, with_label};
use super::histogram::{Hist, HistogramMean, HistogramSum, text};
use super::kernel::{self, FloatMean, FloatSum};
use super::memory::SAMPLE_BYTES;
use super::rows::{Cell, Grid, Output, Row};
use crate::Error;
use crate::ast::{Aggregate, AggregateOp, Span};
use crate::value::Point;

/// An entry of the map of groups, its unused slots included, and the header of its value.
const GROUP_BYTES: usize = 128;

/// The indexes of `rows` by group, groups in the order of their first rows.
pub(crate) fn groups(
    memory: &Arc<Memory>,
    rows: &[Row],
    aggregate: &Aggregate,
) -> Result<(Vec<Vec<usize>>, Charge), Error> {
    let mut held = memory.charge(0)?;
    let mut out: Vec<Vec<usize>> = Vec::new();
    let mut at: HashMap<Labels, usize> = HashMap::new();
    for (index, row) in rows.iter().enumerate() {
        // A group's labels take no more than those of its first row.
        held.grow(GROUP_BYTES + row.labels.memory_bytes())?;
        let group = *at.entry(group_labels(&row.labels, aggregate)).or_insert_with(|| {
            out.push(Vec::new());
            out.len() - 1
        });
        out[group].push(index);
    }
    Ok((out, held))
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
            (None, _) | (_, AggregateOp::CountValues) => None,
            (Some(parameter), _) => Some(self.scalar(parameter, grid)?),
        };
        let parameter = parameter.as_deref().unwrap_or_default();
        let out = match aggregate.op {
            AggregateOp::CountValues => {
                let rows = self.vector(&aggregate.expr, grid)?;
                count_values(&self.memory, aggregate, &rows, grid)?
            }
            AggregateOp::TopK | AggregateOp::BottomK | AggregateOp::LimitK | AggregateOp::LimitRatio => {
                let rows = self.vector(&aggregate.expr, grid)?;
                self.picked_rows(aggregate, span, rows, parameter, grid)?
            }
            _ => self.folded(aggregate, parameter, grid)?,
        };
        self.check_size(&out)?;
        Ok(Output::Vector(out))
    }

    /// Adds the rows one by one to the totals of their groups.
    fn folded(&mut self, aggregate: &Aggregate, parameter: &[f64], grid: Grid) -> Result<Vec<Row>, Error> {
        if aggregate.op == AggregateOp::Quantile {
            self.note_quantiles(aggregate, parameter);
        }
        let span = aggregate.expr.unparenthesised().span;
        let mut groups: Vec<Fold> = Vec::new();
        let mut at: HashMap<Labels, usize> = HashMap::new();
        let mut held = 0;
        let memory = Arc::clone(&self.memory);
        self.each_any_row(&aggregate.expr, grid, &mut |evaluator, row| {
            let labels = group_labels(row.labels(), aggregate);
            let index = match at.get(&labels) {
                Some(index) => *index,
                None => {
                    at.insert(labels.clone(), groups.len());
                    groups.push(Fold::new(&memory, labels, grid)?);
                    groups.len() - 1
                }
            };
            let group = &mut groups[index];
            let added = group.add(aggregate.op, &row, &mut evaluator.site(span));
            group.held.grow(added * SAMPLE_BYTES)?;
            held += added;
            evaluator.check_samples(held)
        })?;
        let mut site = self.site(span);
        let mut out = Vec::with_capacity(groups.len());
        for Fold { labels, drop_name, totals, held } in groups {
            let finish = |(step, total): (usize, Total)| {
                total.finish(aggregate.op, parameter.get(step).copied().unwrap_or(0.0), &mut site)
            };
            let cells = totals.into_iter().enumerate().map(finish);
            let row = Row::new(&memory, labels, drop_name, grid.count, cells)?;
            drop(held);
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
            return;
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

/// One group while its rows are added.
struct Fold {
    labels: Labels,
    drop_name: bool,
    /// One an instant.
    totals: Vec<Total>,
    held: Charge,
}

impl Fold {
    fn new(memory: &Arc<Memory>, labels: Labels, grid: Grid) -> Result<Self, Error> {
        let totals = grid.count.saturating_mul(size_of::<Total>());
        let held = memory.charge(totals.saturating_add(GROUP_BYTES + labels.memory_bytes()))?;
        Ok(Self { labels, drop_name: false, totals: vec![Total::default(); grid.count], held })
    }

    /// Adds a row. Returns how many more samples it holds now, as limits count them.
    fn add(&mut self, op: AggregateOp, row: &AnyRow, site: &mut Site<'_>) -> usize {
        match row {
            AnyRow::Floats(row) => {
                self.drop_name |= row.drop_name;
                let filled =
                    self.totals.iter_mut().zip(row.values()).filter_map(|(total, value)| Some((total, value?)));
                filled.map(|(total, value)| total.add_value(op, value)).sum()
            }
            AnyRow::Dense(row) => {
                self.drop_name |= row.drop_name;
                let metric = row.labels.metric_name();
                row.points().map(|(step, point)| self.totals[step].add_dense(op, point, metric, site)).sum()
            }
            AnyRow::Cells(row) => {
                self.drop_name |= row.drop_name;
                let metric = row.labels.metric_name();
                let filled =
                    self.totals.iter_mut().zip(&row.cells).filter_map(|(total, cell)| Some((total, cell.as_ref()?)));
                filled.map(|(total, point)| total.add(op, point, metric, site)).sum()
            }
        }
    }
}

/// The running total of one group at one instant.
#[derive(Clone, Debug, Default)]
struct Total {
    state: State,
    any_float: bool,
    any_histogram: bool,
    any_reset: bool,
    any_not_reset: bool,
    incompatible: bool,
}

#[derive(Clone, Debug, Default)]
enum State {
    #[default]
    Empty,
    Count(f64),
    Extreme(f64),
    Variance {
        count: f64,
        mean: f64,
        sum: f64,
    },
    Values(Vec<f64>),
    Sum(FloatSum),
    Mean(FloatMean),
    HistogramSum(Box<HistogramSum>),
    HistogramMean(Box<HistogramMean>),
}

impl Total {
    /// Adds a point of the series named `metric`. Returns how many more samples it holds now, as limits count them.
    fn add(&mut self, op: AggregateOp, point: &Point, metric: &str, site: &mut Site<'_>) -> usize {
        match (op, point) {
            (_, Point::Float(value)) => self.add_value(op, *value),
            (AggregateOp::Sum | AggregateOp::Avg, Point::Histogram(histogram)) => {
                self.add_histogram(op, histogram, metric, site)
            }
            (AggregateOp::Count | AggregateOp::Group, _) => self.count(),
            (_, Point::Histogram(_)) => {
                site.note(annotate::ignored_in_aggregation(site.span, op.name()));
                0
            }
        }
    }

    /// As [`Total::add`], for a float.
    fn add_value(&mut self, op: AggregateOp, value: f64) -> usize {
        match op {
            AggregateOp::Sum | AggregateOp::Avg => self.add_float(op, value),
            AggregateOp::Count | AggregateOp::Group => self.count(),
            _ => self.take(op, value),
        }
    }

    fn count(&mut self) -> usize {
        match &mut self.state {
            State::Count(count) => {
                *count += 1.0;
                0
            }
            state => {
                *state = State::Count(1.0);
                1
            }
        }
    }

    fn add_float(&mut self, op: AggregateOp, value: f64) -> usize {
        self.any_float = true;
        match &mut self.state {
            State::Sum(sum) => sum.add(value),
            State::Mean(mean) => mean.add(value),
            state @ State::Empty => {
                *state = if op == AggregateOp::Sum {
                    State::Sum(FloatSum::new(value))
                } else {
                    State::Mean(FloatMean::new(value))
                };
                return 1;
            }
            // There were histograms: the total is void already.
            _ => {}
        }
        0
    }

    fn add_histogram(&mut self, op: AggregateOp, histogram: &Hist, metric: &str, site: &mut Site<'_>) -> usize {
        if self.incompatible {
            return 0;
        }
        self.any_histogram = true;
        self.any_reset |= histogram.reset == CounterReset::Reset;
        self.any_not_reset |= histogram.reset == CounterReset::NotReset;
        let before = self.size();
        let outcome = match &mut self.state {
            State::HistogramSum(sum) => sum.add(histogram),
            State::HistogramMean(mean) => mean.add(histogram),
            state @ State::Empty => {
                *state = if op == AggregateOp::Sum {
                    State::HistogramSum(Box::new(HistogramSum::new(histogram)))
                } else {
                    State::HistogramMean(Box::new(HistogramMean::new(histogram)))
                };
                Ok(())
            }
            // There were floats: the total is void already.
            _ => Ok(()),
        };
        if let Err(why) = outcome {
            site.note(annotate::mixed_schemes(site.span, metric, why));
            self.incompatible = true;
        }
        self.size().saturating_sub(before)
    }

    /// As [`Total::add`], of a histogram in a row of dense ones.
    fn add_dense(&mut self, op: AggregateOp, point: DensePoint<'_>, metric: &str, site: &mut Site<'_>) -> usize {
        let fits = match &self.state {
            State::Empty => true,
            State::HistogramSum(sum) => sum.has_layout_of(point.head),
            _ => false,
        };
        if op != AggregateOp::Sum || !fits || self.incompatible {
            return self.add(op, &Point::Histogram(Arc::new(point.histogram())), metric, site);
        }
        let added = self.add_histogram(op, point.head, metric, site);
        let before = self.size();
        if let State::HistogramSum(sum) = &mut self.state {
            sum.add_bins(point.negative, point.positive);
        }
        added + self.size().saturating_sub(before)
    }

    fn size(&self) -> usize {
        match &self.state {
            State::HistogramSum(sum) => sum.size(),
            State::HistogramMean(mean) => mean.size(),
            _ => 0,
        }
    }

    /// Adds a float to an aggregation that ignores histograms.
    fn take(&mut self, op: AggregateOp, value: f64) -> usize {
        match &mut self.state {
            State::Extreme(best) => {
                let beats = if op == AggregateOp::Min { value < *best } else { value > *best };
                if beats || best.is_nan() {
                    *best = value;
                }
                return 0;
            }
            State::Variance { count, mean, sum } => {
                // Welford's update.
                *count += 1.0;
                let delta = value - *mean;
                *mean += delta / *count;
                *sum += delta * (value - *mean);
                return 0;
            }
            State::Values(values) => values.push(value),
            state => {
                *state = match op {
                    AggregateOp::Min | AggregateOp::Max => State::Extreme(value),
                    AggregateOp::Quantile => State::Values(vec![value]),
                    // With an infinity or NaN the spread is NaN from the start.
                    _ => {
                        State::Variance { count: 1.0, mean: value, sum: if value.is_finite() { 0.0 } else { f64::NAN } }
                    }
                };
            }
        }
        1
    }

    /// The result; `q` is the requested quantile.
    fn finish(self, op: AggregateOp, q: f64, site: &mut Site<'_>) -> Cell {
        if self.any_float && self.any_histogram {
            site.note(annotate::mixed_in_aggregation(site.span));
            return None;
        }
        let reconciled = match &self.state {
            State::HistogramSum(sum) => sum.reconciled(),
            State::HistogramMean(mean) => mean.reconciled(),
            _ => false,
        };
        if reconciled {
            site.note(annotate::reconciled_bounds(site.span, Operation::Aggregation));
        }
        if self.incompatible {
            return None;
        }
        if self.any_reset && self.any_not_reset {
            site.note(annotate::reset_collision(site.span, Operation::Aggregation));
        }
        Some(match self.state {
            State::Empty => return None,
            State::Count(_) if op == AggregateOp::Group => Point::Float(1.0),
            State::Count(value) | State::Extreme(value) => Point::Float(value),
            State::Variance { count, sum, .. } if op == AggregateOp::Stddev => Point::Float((sum / count).sqrt()),
            State::Variance { count, sum, .. } => Point::Float(sum / count),
            State::Values(mut values) => Point::Float(kernel::quantile(q, &mut values)),
            State::Sum(sum) => Point::Float(sum.total()),
            State::Mean(mean) => Point::Float(mean.mean()),
            State::HistogramSum(sum) => Point::Histogram(Arc::new(sum.finish())),
            State::HistogramMean(mean) => Point::Histogram(Arc::new(mean.finish())),
        })
    }
}

/// One row for each value that occurs, with its number of occurrences.
fn count_values(memory: &Arc<Memory>, aggregate: &Aggregate, rows: &[Row], grid: Grid) -> Result<Vec<Row>, Error> {
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
                Some(Point::Float(value)) => float::plain(*value),
                Some(Point::Histogram(histogram)) => text(histogram),
            };
            let labels = group_labels(&with_label(&row.labels, label, &value)?, &grouping);
            let index = match at.get(&labels) {
                Some(index) => *index,
                None => {
                    at.insert(labels.clone(), out.len());
                    out.push(Row::blank(memory, labels, false, grid.count)?);
                    out.len() - 1
                }
            };
            match &mut out[index].cells[step] {
                Some(Point::Float(count)) => *count += 1.0,
                cell => *cell = Some(Point::Float(1.0)),
            }
        }
    }
    Ok(out)
}
