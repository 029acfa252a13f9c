//! The `histogram_*` functions, over native histograms and over classic ones made of `le` series.

use std::collections::HashMap;
use std::sync::Arc;

use ogive_model::float::open_metrics;
use ogive_model::{Charge, Labels, METRIC_NAME, Memory};

use super::{Site, with_label};
use crate::Error;
use crate::annotations::Repairs;
use crate::ast::{Call, Expr};
use crate::eval::annotate;
use crate::eval::arguments::text_argument;
use crate::eval::evaluator::Evaluator;
use crate::eval::histogram::{
    ClassicBucket, Hist, NanNote, classic_fraction, classic_quantile, fraction, quantile, variance,
};
use crate::eval::kernel::parse_float;
use crate::eval::memory::Numbers;
use crate::eval::rows::{Cell, Grid, Row, merged};
use crate::value::Point;

/// The label that holds a classic bucket's bound.
const BOUND: &str = "le";

impl Evaluator<'_> {
    /// The rows of a `histogram_*` call.
    pub(crate) fn histogram_call(&mut self, call: &Call, grid: Grid) -> Result<Vec<Row>, Error> {
        let map: fn(&Hist) -> f64 = match call.function.name {
            "histogram_quantile" => return self.quantile_call(call, grid),
            "histogram_quantiles" => return self.quantiles_call(call, grid),
            "histogram_fraction" => return self.fraction_call(call, grid),
            "histogram_fraction_bounds" => return self.fraction_bounds_call(call, grid),
            "histogram_modes" => return self.modes_call(call, grid),
            "histogram_distance" => return self.distance_call(call, grid),
            "histogram_quantile_bounds" => return self.bounds_call(call, grid),
            "histogram_min" | "histogram_max" => return self.extremes_call(call, grid),
            "histogram_count" => |histogram| histogram.count,
            "histogram_sum" => Hist::sum_or_estimate,
            "histogram_avg" => |histogram| histogram.sum_or_estimate() / histogram.count,
            "histogram_stddev" => |histogram| variance(histogram).sqrt(),
            "histogram_stdvar" => variance,
            name => return Err(Error::evaluate(format!("function {name} is not implemented"))),
        };
        let mut rows = Vec::new();
        self.each_row(&call.arguments[0], grid, &mut |_, mut row| {
            for cell in &mut row.cells {
                *cell = match cell {
                    Some(Point::Histogram(histogram)) => Some(Point::Float(map(histogram))),
                    _ => None,
                };
            }
            if !row.is_blank() {
                rows.push(row);
            }
            Ok(())
        })?;
        self.nameless(rows)
    }

    fn quantile_call(&mut self, call: &Call, grid: Grid) -> Result<Vec<Row>, Error> {
        let quantiles = vec![self.quantiles(&call.arguments[0], grid)?];
        let mut answers = self.answered(&call.arguments[1], grid, &mut Quantiles { quantiles, grid })?;
        self.nameless(answers.pop().unwrap_or_default())
    }

    fn quantiles_call(&mut self, call: &Call, grid: Grid) -> Result<Vec<Row>, Error> {
        let label = text_argument(&call.arguments[1]);
        let mut quantiles = Vec::new();
        for argument in &call.arguments[2..] {
            quantiles.push(self.quantiles(argument, grid)?);
        }
        let mut question = Quantiles { quantiles, grid };
        let answers = self.answered(&call.arguments[0], grid, &mut question)?;
        let labelled_rows = answers.into_iter().zip(&question.quantiles);
        let mut rows = Vec::new();
        for (of_quantile, q) in labelled_rows {
            for row in of_quantile {
                rows.extend(labelled(&self.memory, row, label, q)?);
            }
        }
        let rows = self.nameless(rows)?;
        merged(rows)
    }

    /// The quantiles of an argument; those outside 0 to 1 are reported.
    pub(super) fn quantiles(&mut self, argument: &Expr, grid: Grid) -> Result<Numbers, Error> {
        let quantiles = self.scalar(argument, grid)?;
        for q in &*quantiles {
            if !(0.0..=1.0).contains(q) {
                self.note(annotate::invalid_quantile(argument.span, *q));
            }
        }
        Ok(quantiles)
    }

    fn fraction_call(&mut self, call: &Call, grid: Grid) -> Result<Vec<Row>, Error> {
        let lower = self.scalar(&call.arguments[0], grid)?;
        let upper = self.scalar(&call.arguments[1], grid)?;
        let mut answers = self.answered(&call.arguments[2], grid, &mut Fractions { lower, upper })?;
        self.nameless(answers.pop().unwrap_or_default())
    }

    /// The results of `question` for each histogram of a vector: one list of rows for each of its answers.
    pub(super) fn answered(
        &mut self,
        argument: &Expr,
        grid: Grid,
        question: &mut dyn Question,
    ) -> Result<Vec<Vec<Row>>, Error> {
        let span = argument.unparenthesised().span;
        let delayed = self.options.delayed_name_removal;
        let memory = Arc::clone(&self.memory);
        let held = memory.charge(0)?;
        let mut found = Histograms { held, native: Vec::new(), classic: Vec::new(), at: HashMap::new(), delayed };
        self.each_row(argument, grid, &mut |evaluator, row| {
            found.take(&memory, row, question, &mut evaluator.site(span))
        })?;
        found.finish(&memory, question, grid.count, &mut self.site(span))
    }
}

/// A question about histograms; it may have several answers.
pub(super) trait Question {
    fn answers(&self) -> usize;
    fn native(&mut self, step: usize, histogram: &Hist, metric: &str, out: &mut [f64], site: &mut Site<'_>);
    fn classic(
        &mut self,
        step: usize,
        buckets: &mut Vec<ClassicBucket>,
        metric: &str,
        out: &mut [f64],
        site: &mut Site<'_>,
    );
}

/// Quantiles, each with one number for each instant.
struct Quantiles {
    quantiles: Vec<Numbers>,
    grid: Grid,
}

impl Question for Quantiles {
    fn answers(&self) -> usize {
        self.quantiles.len()
    }

    fn native(&mut self, step: usize, histogram: &Hist, metric: &str, out: &mut [f64], site: &mut Site<'_>) {
        for (out, quantiles) in out.iter_mut().zip(&self.quantiles) {
            let (value, note) = quantile(quantiles[step], histogram);
            match note {
                NanNote::None => {}
                NanNote::Result => site.note(annotate::quantile_is_nan(site.span, metric)),
                NanNote::Skewed => site.note(annotate::quantile_is_skewed(site.span, metric)),
            }
            *out = value;
        }
    }

    fn classic(
        &mut self,
        step: usize,
        buckets: &mut Vec<ClassicBucket>,
        metric: &str,
        out: &mut [f64],
        site: &mut Site<'_>,
    ) {
        for (out, quantiles) in out.iter_mut().zip(&self.quantiles) {
            let found = classic_quantile(quantiles[step], buckets);
            if let Some(repair) = found.repaired {
                let time = self.grid.time(step);
                let repairs = Repairs {
                    times: (time, time),
                    bounds: (repair.lowest, repair.highest),
                    difference_max: repair.most,
                    count: 1,
                };
                site.note(annotate::forced_monotonicity(site.span, metric, repairs));
            }
            *out = found.value;
        }
    }
}

/// Shares of samples between two bounds.
struct Fractions {
    lower: Numbers,
    upper: Numbers,
}

impl Question for Fractions {
    fn answers(&self) -> usize {
        1
    }

    fn native(&mut self, step: usize, histogram: &Hist, metric: &str, out: &mut [f64], site: &mut Site<'_>) {
        let (value, left_out) = fraction(self.lower[step], self.upper[step], histogram);
        if left_out {
            site.note(annotate::fraction_without_nan(site.span, metric));
        }
        out[0] = value;
    }

    fn classic(&mut self, step: usize, buckets: &mut Vec<ClassicBucket>, _: &str, out: &mut [f64], _: &mut Site<'_>) {
        out[0] = classic_fraction(self.lower[step], self.upper[step], buckets);
    }
}

/// One row for each value of the label: quantiles that vary from instant to instant spread over several rows.
fn labelled(memory: &Arc<Memory>, row: Row, label: &str, quantiles: &[f64]) -> Result<Vec<Row>, Error> {
    let mut rows: Vec<(u64, Row)> = Vec::new();
    for (step, cell) in row.cells.iter().enumerate() {
        let q = quantiles[step];
        let at = match rows.iter().position(|(bits, _)| *bits == q.to_bits()) {
            Some(at) => at,
            None => {
                let labels = with_label(&row.labels, label, &open_metrics(q))?;
                rows.push((q.to_bits(), Row::blank(memory, labels, row.drop_name, row.cells.len())?));
                rows.len() - 1
            }
        };
        rows[at].1.put(step, cell.clone())?;
    }
    Ok(rows.into_iter().map(|(_, row)| row).collect())
}

/// A classic histogram: rows whose labels differ only in the bound.
struct Classic {
    labels: Labels,
    metric: String,
    drop_name: bool,
    rows: Vec<(f64, Vec<Cell>)>,
    held: Charge,
}

/// A classic histogram without its rows, and its entry in a map.
const CLASSIC_BYTES: usize = size_of::<Classic>() + 64;

/// Memory of the answers about one histogram.
fn answers_bytes(question: &dyn Question, steps: usize) -> usize {
    let each = steps.saturating_mul(size_of::<Cell>()).saturating_add(size_of::<Vec<Cell>>());
    each.saturating_mul(question.answers()).saturating_add(size_of::<Native>())
}

/// The answers about one series of native histograms.
struct Native {
    labels: Labels,
    drop_name: bool,
    /// For each answer, one cell for each instant.
    answers: Vec<Vec<Cell>>,
    held: Charge,
}

/// A vector split into native histograms, which are answered as they come, and classic ones, which arrive in parts.
struct Histograms {
    /// Charged for the keys of `at`.
    held: Charge,
    native: Vec<Native>,
    classic: Vec<Classic>,
    /// Index of a classic histogram by its labels without the bound.
    at: HashMap<Labels, usize>,
    delayed: bool,
}

impl Histograms {
    /// The name for messages; empty when names are removed at once.
    fn named(&self, labels: &Labels) -> String {
        if self.delayed { labels.metric_name().to_owned() } else { String::new() }
    }

    fn take(
        &mut self,
        memory: &Arc<Memory>,
        row: Row,
        question: &mut dyn Question,
        site: &mut Site<'_>,
    ) -> Result<(), Error> {
        self.take_native(memory, &row, question, site)?;
        let drop_name = row.drop_name;
        let (labels, mut floats, of_row) = row.into_parts();
        for cell in floats.iter_mut().filter(|cell| matches!(cell, Some(Point::Histogram(_)))) {
            *cell = None;
        }
        if floats.iter().all(Option::is_none) {
            return Ok(());
        }
        let text = labels.get(BOUND);
        let Some(bound) = parse_float(text) else {
            site.note(annotate::bad_bucket_label(site.span, &self.named(&labels), text));
            return Ok(());
        };
        let key = labels.filtered(|name| name != BOUND);
        let delayed = self.delayed;
        let index = match self.at.get(&key) {
            Some(index) => *index,
            None => {
                self.held.grow(2 * (CLASSIC_BYTES + key.memory_bytes()))?;
                self.classic.push(Classic {
                    held: Charge::default(),
                    labels: key.filtered(|name| delayed || name != METRIC_NAME),
                    metric: self.named(&key),
                    drop_name,
                    rows: Vec::new(),
                });
                self.at.insert(key, self.classic.len() - 1);
                self.classic.len() - 1
            }
        };
        self.classic[index].held.absorb(of_row);
        self.classic[index].rows.push((bound, floats));
        Ok(())
    }

    fn take_native(
        &mut self,
        memory: &Arc<Memory>,
        row: &Row,
        question: &mut dyn Question,
        site: &mut Site<'_>,
    ) -> Result<(), Error> {
        if !row.cells.iter().any(|cell| matches!(cell, Some(Point::Histogram(_)))) {
            return Ok(());
        }
        let held = memory.charge(answers_bytes(question, row.cells.len()) + row.labels.memory_bytes())?;
        let mut answers: Vec<Vec<Cell>> =
            (0..question.answers()).map(|_| Vec::with_capacity(row.cells.len())).collect();
        let mut out = vec![0.0; question.answers()];
        let metric = row.labels.metric_name();
        for (step, cell) in row.cells.iter().enumerate() {
            if let Some(Point::Histogram(histogram)) = cell {
                question.native(step, histogram, metric, &mut out, site);
                answers.iter_mut().zip(&out).for_each(|(cells, value)| cells.push(Some(Point::Float(*value))));
            } else {
                answers.iter_mut().for_each(|cells| cells.push(None));
            }
        }
        self.native.push(Native { labels: row.labels.clone(), drop_name: row.drop_name, answers, held });
        Ok(())
    }

    /// The rows of each answer.
    fn finish(
        mut self,
        memory: &Arc<Memory>,
        question: &mut dyn Question,
        steps: usize,
        site: &mut Site<'_>,
    ) -> Result<Vec<Vec<Row>>, Error> {
        for index in 0..self.native.len() {
            let Some(classic) = self.at.get(&self.native[index].labels) else { continue };
            if drop_conflicts(&mut self.native[index], &mut self.classic[*classic]) {
                let metric = self.named(&self.native[index].labels);
                site.note(annotate::mixed_classic_native(site.span, &metric));
            }
        }
        let mut out: Vec<Vec<Row>> = (0..question.answers()).map(|_| Vec::new()).collect();
        let mut put = |labels: &Labels, drop_name: bool, answers: Vec<Vec<Cell>>| {
            for (rows, cells) in out.iter_mut().zip(answers) {
                let row = Row::new(memory, labels.clone(), drop_name, steps, cells)?;
                if !row.is_blank() {
                    rows.push(row);
                }
            }
            Ok::<(), Error>(())
        };
        for Native { labels, drop_name, answers, held } in self.native {
            put(&labels, drop_name, answers)?;
            drop(held);
        }
        for classic in self.classic {
            let _held = memory.charge(answers_bytes(question, steps))?;
            put(&classic.labels, classic.drop_name, classic.answers(question, steps, site))?;
        }
        Ok(out)
    }
}

impl Classic {
    fn answers(&self, question: &mut dyn Question, steps: usize, site: &mut Site<'_>) -> Vec<Vec<Cell>> {
        let mut answers = vec![vec![None; steps]; question.answers()];
        let mut out = vec![0.0; question.answers()];
        let mut buckets = Vec::with_capacity(self.rows.len());
        for step in 0..steps {
            buckets.clear();
            buckets.extend(self.rows.iter().filter_map(|(upper, cells)| match cells[step] {
                Some(Point::Float(count)) => Some(ClassicBucket { upper: *upper, count }),
                _ => None,
            }));
            if buckets.is_empty() {
                continue;
            }
            question.classic(step, &mut buckets, &self.metric, &mut out, site);
            answers.iter_mut().zip(&out).for_each(|(cells, value)| cells[step] = Some(Point::Float(*value)));
        }
        answers
    }
}

/// Where both have a value at one instant, neither keeps it. True when that happened.
fn drop_conflicts(native: &mut Native, classic: &mut Classic) -> bool {
    let mut found = false;
    for step in 0..native.answers.first().map_or(0, Vec::len) {
        let both = native.answers[0][step].is_some() && classic.rows.iter().any(|(_, cells)| cells[step].is_some());
        if both {
            found = true;
            native.answers.iter_mut().for_each(|cells| cells[step] = None);
            classic.rows.iter_mut().for_each(|(_, cells)| cells[step] = None);
        }
    }
    found
}
