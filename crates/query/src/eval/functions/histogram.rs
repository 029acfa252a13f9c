//! `histogram_*` functions: over native histograms, and over classic ones made of `le` series.

use std::collections::HashMap;

use ogive_model::{Labels, METRIC_NAME};

use super::Site;
use crate::Error;
use crate::ast::{Call, Expr, Span};
use crate::eval::annotate;
use crate::eval::call::text_argument;
use crate::eval::evaluator::Evaluator;
use crate::eval::histogram::{
    ClassicBucket, Hist, NanNote, classic_fraction, classic_quantile, fraction, quantile, variance,
};
use crate::eval::kernel::{open_metrics, parse_float};
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
            "histogram_count" => |histogram| histogram.count,
            "histogram_sum" => Hist::sum_or_estimate,
            "histogram_avg" => |histogram| histogram.sum_or_estimate() / histogram.count,
            "histogram_stddev" => |histogram| variance(histogram).sqrt(),
            "histogram_stdvar" => variance,
            name => return Err(Error::evaluate(format!("function {name} is not implemented"))),
        };
        let mut rows = self.vector(&call.arguments[0], grid)?;
        for cell in rows.iter_mut().flat_map(|row| &mut row.cells) {
            *cell = match cell {
                Some(Point::Histogram(histogram)) => Some(Point::Float(map(histogram))),
                _ => None,
            };
        }
        rows.retain(|row| !row.is_blank());
        self.nameless(rows)
    }

    fn quantile_call(&mut self, call: &Call, grid: Grid) -> Result<Vec<Row>, Error> {
        let quantiles = self.quantiles(&call.arguments[0], grid)?;
        let source = self.histograms(&call.arguments[1], grid)?;
        let span = call.arguments[1].unparenthesised().span;
        let rows = source.quantile_rows(&quantiles, &mut self.site(span));
        self.nameless(rows)
    }

    fn quantiles_call(&mut self, call: &Call, grid: Grid) -> Result<Vec<Row>, Error> {
        let label = text_argument(&call.arguments[1]);
        let mut columns = Vec::new();
        for argument in &call.arguments[2..] {
            columns.push(self.quantiles(argument, grid)?);
        }
        let source = self.histograms(&call.arguments[0], grid)?;
        let span = call.arguments[0].unparenthesised().span;
        let mut rows: Vec<Row> = Vec::new();
        for quantiles in columns {
            let found = source.quantile_rows(&quantiles, &mut self.site(span));
            rows.extend(found.into_iter().flat_map(|row| labelled(row, label, &quantiles)));
        }
        let rows = self.nameless(rows)?;
        merged(rows)
    }

    /// The quantiles of an argument; those outside 0 to 1 are told.
    fn quantiles(&mut self, argument: &Expr, grid: Grid) -> Result<Vec<f64>, Error> {
        let quantiles = self.scalar(argument, grid)?;
        for q in &quantiles {
            if !(0.0..=1.0).contains(q) {
                self.note(annotate::invalid_quantile(argument.span, *q));
            }
        }
        Ok(quantiles)
    }

    fn fraction_call(&mut self, call: &Call, grid: Grid) -> Result<Vec<Row>, Error> {
        let lower = self.scalar(&call.arguments[0], grid)?;
        let upper = self.scalar(&call.arguments[1], grid)?;
        let source = self.histograms(&call.arguments[2], grid)?;
        let span = call.arguments[2].unparenthesised().span;
        let mut site = self.site(span);
        let rows = source.rows(
            |step, histogram, metric| {
                let (value, left_out) = fraction(lower[step], upper[step], histogram);
                if left_out {
                    site.note(annotate::fraction_without_nan(span, metric));
                }
                value
            },
            |step, buckets, _| classic_fraction(lower[step], upper[step], buckets),
        );
        self.nameless(rows)
    }

    /// The vector of an argument, split into native and classic histograms.
    fn histograms(&mut self, argument: &Expr, grid: Grid) -> Result<Histograms, Error> {
        let rows = self.vector(argument, grid)?;
        let span = argument.unparenthesised().span;
        let delayed = self.options.delayed_name_removal;
        Ok(Histograms::split(rows, grid.count, span, delayed, &mut self.site(span)))
    }
}

/// One row a value of the label: quantiles that vary from instant to instant spread over several rows.
fn labelled(row: Row, label: &str, quantiles: &[f64]) -> Vec<Row> {
    let mut rows: Vec<(u64, Row)> = Vec::new();
    for (step, cell) in row.cells.iter().enumerate() {
        let q = quantiles[step];
        let at = rows.iter().position(|(bits, _)| *bits == q.to_bits()).unwrap_or_else(|| {
            let labels = row.labels.with(label, &open_metrics(q));
            rows.push((q.to_bits(), Row { labels, drop_name: row.drop_name, cells: vec![None; row.cells.len()] }));
            rows.len() - 1
        });
        rows[at].1.cells[step] = cell.clone();
    }
    rows.into_iter().map(|(_, row)| row).collect()
}

/// A classic histogram: rows of one label set but for the bound.
struct Classic {
    labels: Labels,
    metric: String,
    drop_name: bool,
    rows: Vec<(f64, Vec<Cell>)>,
}

/// A vector split into native and classic histograms, without the instants at which both claim one label set.
struct Histograms {
    native: Vec<Row>,
    classic: Vec<Classic>,
    steps: usize,
}

impl Histograms {
    fn split(rows: Vec<Row>, steps: usize, span: Span, delayed: bool, site: &mut Site<'_>) -> Self {
        let named = |labels: &Labels| if delayed { labels.metric_name().to_owned() } else { String::new() };
        let mut native = Vec::new();
        let mut classic: Vec<Classic> = Vec::new();
        let mut at: HashMap<Labels, usize> = HashMap::new();
        for mut row in rows {
            let floats: Vec<Cell> = row.cells.iter().map(|cell| only(cell, |p| matches!(p, Point::Float(_)))).collect();
            for cell in &mut row.cells {
                *cell = only(cell, |point| matches!(point, Point::Histogram(_)));
            }
            if floats.iter().any(Option::is_some) {
                let text = row.labels.get(BOUND);
                if let Some(bound) = parse_float(text) {
                    let key = row.labels.filtered(|name| name != BOUND);
                    let index = *at.entry(key).or_insert_with(|| {
                        classic.push(Classic {
                            labels: row.labels.filtered(|name| name != BOUND && (delayed || name != METRIC_NAME)),
                            metric: named(&row.labels),
                            drop_name: row.drop_name,
                            rows: Vec::new(),
                        });
                        classic.len() - 1
                    });
                    classic[index].rows.push((bound, floats));
                } else {
                    site.note(annotate::bad_bucket_label(span, &named(&row.labels), text));
                }
            }
            if !row.is_blank() {
                native.push(row);
            }
        }
        for row in &mut native {
            if let Some(index) = at.get(&row.labels) {
                let metric = named(&row.labels);
                if drop_conflicts(row, &mut classic[*index]) {
                    site.note(annotate::mixed_classic_native(span, &metric));
                }
            }
        }
        Self { native, classic, steps }
    }

    /// One row a histogram with what `of_native` or `of_classic` says of it at each instant.
    fn rows(
        &self,
        mut of_native: impl FnMut(usize, &Hist, &str) -> f64,
        mut of_classic: impl FnMut(usize, &mut Vec<ClassicBucket>, &str) -> f64,
    ) -> Vec<Row> {
        let mut out = Vec::with_capacity(self.native.len() + self.classic.len());
        for row in &self.native {
            let metric = row.labels.metric_name();
            let answer = |(step, cell): (usize, &Cell)| match cell {
                Some(Point::Histogram(histogram)) => Some(Point::Float(of_native(step, histogram, metric))),
                _ => None,
            };
            let cells = row.cells.iter().enumerate().map(answer).collect();
            out.push(Row { labels: row.labels.clone(), drop_name: row.drop_name, cells });
        }
        for classic in &self.classic {
            let mut buckets = Vec::with_capacity(classic.rows.len());
            let mut cells: Vec<Cell> = Vec::with_capacity(self.steps);
            for step in 0..self.steps {
                buckets.clear();
                buckets.extend(classic.rows.iter().filter_map(|(upper, cells)| match cells[step] {
                    Some(Point::Float(count)) => Some(ClassicBucket { upper: *upper, count }),
                    _ => None,
                }));
                let value = (!buckets.is_empty()).then(|| of_classic(step, &mut buckets, &classic.metric));
                cells.push(value.map(Point::Float));
            }
            out.push(Row { labels: classic.labels.clone(), drop_name: classic.drop_name, cells });
        }
        out.retain(|row| !row.is_blank());
        out
    }

    fn quantile_rows(&self, quantiles: &[f64], site: &mut Site<'_>) -> Vec<Row> {
        let span = site.span;
        let mut notes = Vec::new();
        let mut repaired = Vec::new();
        let rows = self.rows(
            |step, histogram, metric| {
                let (value, note) = quantile(quantiles[step], histogram);
                match note {
                    NanNote::None => {}
                    NanNote::Result => notes.push(annotate::quantile_is_nan(span, metric)),
                    NanNote::Skewed => notes.push(annotate::quantile_is_skewed(span, metric)),
                }
                value
            },
            |step, buckets, metric| {
                let found = classic_quantile(quantiles[step], buckets);
                if found.repaired.is_some() {
                    repaired.push(annotate::forced_monotonicity(span, metric));
                }
                found.value
            },
        );
        notes.into_iter().chain(repaired).for_each(|note| site.note(note));
        rows
    }
}

fn only(cell: &Cell, keep: impl Fn(&Point) -> bool) -> Cell {
    cell.as_ref().filter(|point| keep(point)).cloned()
}

/// Where both have something at one instant, neither keeps it. True when that happened.
fn drop_conflicts(native: &mut Row, classic: &mut Classic) -> bool {
    let mut found = false;
    for (step, cell) in native.cells.iter_mut().enumerate() {
        if cell.is_some() && classic.rows.iter().any(|(_, cells)| cells[step].is_some()) {
            found = true;
            *cell = None;
            classic.rows.iter_mut().for_each(|(_, cells)| cells[step] = None);
        }
    }
    found
}
