//! `histogram_modes` and `histogram_distance`: functions of a histogram's shape, which Prometheus does not have.
//!
//! Both use sample counts, so they belong around `increase` or a plain cell, not around `rate`: divided by seconds,
//! counts look less certain than they are. Classic histograms are skipped.

use std::collections::HashMap;

use ogive_hist::Distance;
use ogive_model::Labels;

use crate::Error;
use crate::ast::{Call, Expr};
use crate::eval::annotate;
use crate::eval::arguments::text_argument;
use crate::eval::evaluator::Evaluator;
use crate::eval::rows::{Grid, Row, merged, without_metadata};
use crate::value::Point;

impl Evaluator<'_> {
    /// The number of modes of each histogram; no result where there are too few samples to decide.
    pub(super) fn modes_call(&mut self, call: &Call, grid: Grid) -> Result<Vec<Row>, Error> {
        let mut rows = Vec::new();
        let mut too_few = false;
        self.each_row(&call.arguments[0], grid, &mut |_, mut row| {
            for cell in &mut row.cells {
                *cell = match cell {
                    Some(Point::Histogram(histogram)) => match histogram.modes() {
                        Ok(found) => Some(Point::Float(found.modes.len() as f64)),
                        Err(_) => {
                            too_few = true;
                            None
                        }
                    },
                    _ => None,
                };
            }
            if !row.is_blank() {
                rows.push(row);
            }
            Ok(())
        })?;
        if too_few {
            self.note(annotate::too_few_for_modes(call.arguments[0].span));
        }
        self.nameless(rows)
    }

    /// The distance of the histograms of one vector from those with equal labels in the other.
    pub(super) fn distance_call(&mut self, call: &Call, grid: Grid) -> Result<Vec<Row>, Error> {
        let figure = figure(call.arguments.get(2))?;
        let left = self.histogram_side(&call.arguments[0], grid)?;
        let right: HashMap<Labels, Row> =
            self.histogram_side(&call.arguments[1], grid)?.into_iter().map(|row| (row.labels.clone(), row)).collect();
        let mut rows = Vec::new();
        for row in left {
            let Some(others) = right.get(&row.labels) else { continue };
            let distances = row.cells.iter().zip(&others.cells).map(|(cell, other)| match (cell, other) {
                (Some(Point::Histogram(left)), Some(Point::Histogram(right))) => {
                    left.distance(right).and_then(|found| figure(&found)).map(Point::Float)
                }
                _ => None,
            });
            let row = Row::new(&self.memory, row.labels.clone(), false, grid.count, distances)?;
            if !row.is_blank() {
                rows.push(row);
            }
        }
        Ok(rows)
    }

    /// The histograms of a vector under their labels without the name, which must distinguish them.
    fn histogram_side(&mut self, expr: &Expr, grid: Grid) -> Result<Vec<Row>, Error> {
        let mut rows = self.vector(expr, grid)?;
        for row in &mut rows {
            row.relabel(without_metadata(&row.labels))?;
            row.drop_name = false;
            row.cells
                .iter_mut()
                .filter(|cell| !matches!(cell, Some(Point::Histogram(_))))
                .for_each(|cell| *cell = None);
        }
        rows.retain(|row| !row.is_blank());
        merged(rows)
    }
}

/// The statistic that the third argument names.
fn figure(argument: Option<&Expr>) -> Result<fn(&Distance) -> Option<f64>, Error> {
    match argument.map(text_argument) {
        None | Some("distance") => Ok(|found| found.log.map(|log| log.emd)),
        Some("slower") => Ok(|found| found.log.map(|log| log.slower())),
        Some("noise") => Ok(|found| found.log.map(|log| log.noise)),
        Some("ks") => Ok(|found| Some(found.ks)),
        Some("ks_noise") => Ok(|found| Some(found.ks_noise)),
        Some(other) => Err(Error::Evaluate {
            message: format!(
                "histogram_distance has no figure {other:?}: it is one of distance, slower, noise, ks, ks_noise"
            ),
            span: argument.map(|argument| argument.span),
        }),
    }
}
