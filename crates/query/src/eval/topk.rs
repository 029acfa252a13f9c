//! Aggregations that keep some rows of each group: `topk`, `bottomk`, `limitk`, `limit_ratio`.

use std::cmp::Ordering;
use std::hash::Hasher;

use ogive_model::Labels;
use twox_hash::XxHash64;

use super::aggregate::groups;
use super::annotate;
use super::evaluator::Evaluator;
use super::rows::{Cell, Grid, Row};
use crate::Error;
use crate::ast::{Aggregate, AggregateOp, Span};
use crate::value::Point;

/// Bounds of the parameters that fit i64.
const COUNT_MAX: f64 = 9_223_372_036_854_774_784.0;
const COUNT_MIN: f64 = -9_223_372_036_854_775_808.0;

impl Evaluator<'_> {
    /// The rows that `aggregate` at `span` keeps, each with the cells that it keeps.
    pub(crate) fn picked_rows(
        &mut self,
        aggregate: &Aggregate,
        span: Span,
        mut rows: Vec<Row>,
        parameter: &[f64],
        grid: Grid,
    ) -> Result<Vec<Row>, Error> {
        let most = parameter.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let least = parameter.iter().copied().fold(f64::INFINITY, f64::min);
        let keeps_none = if aggregate.op == AggregateOp::LimitRatio { most == 0.0 && least == 0.0 } else { most < 1.0 };
        if keeps_none && !parameter.iter().any(|value| value.is_nan()) {
            return Ok(Vec::new());
        }
        if aggregate.op == AggregateOp::LimitRatio {
            self.check_ratio(aggregate, parameter, least, most)?;
        } else {
            check_count(parameter, least, most)?;
        }
        let mut order: Vec<usize> = Vec::new();
        let _flags = self.memory.charge(rows.len().saturating_mul(grid.count + size_of::<Vec<bool>>()))?;
        let mut keep: Vec<Vec<bool>> = vec![vec![false; grid.count]; rows.len()];
        let (groups, _held) = groups(&self.memory, &rows, aggregate)?;
        for group in groups {
            self.check_cancelled()?;
            for step in 0..grid.count {
                let present = group.iter().copied().filter(|index| rows[*index].cells[step].is_some());
                let present: Vec<usize> = present.collect();
                for index in self.pick(aggregate.op, span, &rows, present, parameter[step], step) {
                    keep[index][step] = true;
                    if grid.count == 1 {
                        order.push(index);
                    }
                }
            }
        }
        for (row, keep) in rows.iter_mut().zip(&keep) {
            for (cell, keep) in row.cells.iter_mut().zip(keep) {
                if !keep {
                    *cell = None;
                }
            }
        }
        if grid.count == 1 {
            // The picks are in the order of an instant result.
            let mut slots: Vec<Option<Row>> = rows.into_iter().map(Some).collect();
            return Ok(order.into_iter().filter_map(|index| slots[index].take()).collect());
        }
        rows.retain(|row| !row.is_blank());
        Ok(rows)
    }

    fn pick(
        &mut self,
        op: AggregateOp,
        span: Span,
        rows: &[Row],
        mut present: Vec<usize>,
        parameter: f64,
        step: usize,
    ) -> Vec<usize> {
        if op == AggregateOp::LimitRatio {
            present.retain(|index| in_ratio(parameter.clamp(-1.0, 1.0), &rows[*index].labels));
            return present;
        }
        if parameter < 1.0 {
            return Vec::new();
        }
        let count = parameter as usize;
        if op != AggregateOp::LimitK {
            let name = if op == AggregateOp::TopK { "topk" } else { "bottomk" };
            present.retain(|index| {
                let float = matches!(rows[*index].cells[step], Some(Point::Float(_)));
                if !float {
                    self.note(annotate::ignored_in_aggregation(span, name));
                }
                float
            });
            let value = |index: &usize| float_of(&rows[*index].cells[step]);
            present.sort_by(|a, b| rank(value(a), value(b), op == AggregateOp::TopK));
        }
        present.truncate(count);
        present
    }

    fn check_ratio(&mut self, aggregate: &Aggregate, ratios: &[f64], least: f64, most: f64) -> Result<(), Error> {
        if ratios.iter().any(|ratio| ratio.is_nan()) {
            return Err(Error::evaluate("Ratio value is NaN"));
        }
        let Some(parameter) = &aggregate.parameter else { return Ok(()) };
        let span = parameter.unparenthesised().span;
        if most > 1.0 {
            self.note(annotate::invalid_ratio(span, most, 1.0));
        }
        if least < -1.0 {
            self.note(annotate::invalid_ratio(span, least, -1.0));
        }
        Ok(())
    }
}

fn check_count(counts: &[f64], least: f64, most: f64) -> Result<(), Error> {
    if counts.iter().any(|count| count.is_nan()) {
        return Err(Error::evaluate("Parameter value is NaN"));
    }
    if least <= COUNT_MIN {
        return Err(Error::evaluate(format!("Scalar value {least} underflows int64")));
    }
    if most >= COUNT_MAX {
        return Err(Error::evaluate(format!("Scalar value {most} overflows int64")));
    }
    Ok(())
}

fn float_of(cell: &Cell) -> f64 {
    match cell {
        Some(Point::Float(value)) => *value,
        _ => f64::NAN,
    }
}

/// Best first; NaN after all numbers; equal values keep their order.
fn rank(a: f64, b: f64, descending: bool) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (false, false) if descending => b.partial_cmp(&a).unwrap_or(Ordering::Equal),
        (false, false) => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
        (a, b) => a.cmp(&b),
    }
}

/// Whether a row of these labels is in the share `ratio` of all; a negative ratio is the complement.
fn in_ratio(ratio: f64, labels: &Labels) -> bool {
    let place = hash(labels) as f64 / u64::MAX as f64;
    if ratio >= 0.0 { place < ratio } else { place >= 1.0 + ratio }
}

/// The hash that Prometheus computes of a label set, so that both keep the same rows: xxh64 over names and values, each
/// preceded by its length (one byte; from 255 on, 0xff and three bytes, little-endian).
fn hash(labels: &Labels) -> u64 {
    let mut hasher = XxHash64::with_seed(0);
    for text in labels.iter().flat_map(|(name, value)| [name, value]) {
        match u8::try_from(text.len()) {
            Ok(length) if length < u8::MAX => hasher.write(&[length]),
            _ => {
                let [a, b, c, ..] = (text.len() as u64).to_le_bytes();
                hasher.write(&[u8::MAX, a, b, c]);
            }
        }
        hasher.write(text.as_bytes());
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_and_its_complement_make_the_whole() {
        for number in 0..200 {
            let labels = Labels::new([("instance", number.to_string())]).unwrap();
            assert_ne!(in_ratio(0.3, &labels), in_ratio(-0.7, &labels));
            assert!(in_ratio(-1.0, &labels) && !in_ratio(0.0, &labels));
        }
    }
}
