//! `histogram_quantile_bounds`, `histogram_fraction_bounds`, `histogram_min`, `histogram_max` and `presence`: certain
//! answers where Prometheus has an estimate or nothing.

use super::Site;
use super::histogram::Question;
use super::with_label;
use crate::Error;
use crate::ast::Call;
use crate::eval::annotate;
use crate::eval::evaluator::Evaluator;
use crate::eval::histogram::{
    ClassicBucket, Hist, classic_bounds, classic_fraction_bounds, fraction_bounds, quantile_bounds,
};
use crate::eval::memory::Numbers;
use crate::eval::rows::{Cell, Grid, Row, merged};
use crate::eval::window::Window;
use crate::value::Point;

/// The label that distinguishes the two edges.
const EDGE: &str = "bound";

impl Evaluator<'_> {
    /// The bin edges between which each quantile lies: two rows for each histogram.
    pub(super) fn bounds_call(&mut self, call: &Call, grid: Grid) -> Result<Vec<Row>, Error> {
        let quantiles = self.quantiles(&call.arguments[0], grid)?;
        let answers = self.answered(&call.arguments[1], grid, &mut Bounds { quantiles })?;
        self.edges(answers)
    }

    /// The shares between which each fraction lies: two rows for each histogram.
    pub(super) fn fraction_bounds_call(&mut self, call: &Call, grid: Grid) -> Result<Vec<Row>, Error> {
        let lower = self.scalar(&call.arguments[0], grid)?;
        let upper = self.scalar(&call.arguments[1], grid)?;
        let answers = self.answered(&call.arguments[2], grid, &mut FractionBounds { lower, upper })?;
        self.edges(answers)
    }

    /// The rows of a lower and an upper result, distinguished by a label.
    fn edges(&self, answers: Vec<Vec<Row>>) -> Result<Vec<Row>, Error> {
        let rows = ["lower", "upper"].into_iter().zip(answers).flat_map(|(edge, rows)| {
            rows.into_iter().map(move |mut row| {
                row.relabel(with_label(&row.labels, EDGE, edge)?)?;
                Ok(row)
            })
        });
        let rows = self.nameless(rows.collect::<Result<Vec<Row>, Error>>()?)?;
        merged(rows)
    }

    /// The minimum or the maximum of each histogram that keeps it.
    pub(super) fn extremes_call(&mut self, call: &Call, grid: Grid) -> Result<Vec<Row>, Error> {
        let name = call.function.name;
        let extreme: fn(&Hist) -> Option<f64> =
            if name == "histogram_min" { |histogram| histogram.min } else { |histogram| histogram.max };
        let (mut rows, mut unknown) = (Vec::new(), false);
        self.each_row(&call.arguments[0], grid, &mut |_, mut row| {
            for cell in &mut row.cells {
                *cell = match cell {
                    Some(Point::Histogram(histogram)) => {
                        let found = extreme(histogram);
                        unknown |= found.is_none() && histogram.count > histogram.nan;
                        found.map(Point::Float)
                    }
                    _ => None,
                };
            }
            if !row.is_blank() {
                rows.push(row);
            }
            Ok(())
        })?;
        if unknown {
            self.note(annotate::unknown_extreme(call.arguments[0].span, name));
        }
        self.nameless(rows)
    }
}

/// The edges between which quantiles lie.
struct Bounds {
    quantiles: Numbers,
}

impl Question for Bounds {
    fn answers(&self) -> usize {
        2
    }

    fn native(&mut self, step: usize, histogram: &Hist, _: &str, out: &mut [f64], _: &mut Site<'_>) {
        (out[0], out[1]) = quantile_bounds(self.quantiles[step], histogram).unwrap_or((f64::NAN, f64::NAN));
    }

    fn classic(&mut self, step: usize, buckets: &mut Vec<ClassicBucket>, _: &str, out: &mut [f64], _: &mut Site<'_>) {
        (out[0], out[1]) = classic_bounds(self.quantiles[step], buckets).unwrap_or((f64::NAN, f64::NAN));
    }
}

/// The shares between which fractions lie.
struct FractionBounds {
    lower: Numbers,
    upper: Numbers,
}

impl Question for FractionBounds {
    fn answers(&self) -> usize {
        2
    }

    fn native(&mut self, step: usize, histogram: &Hist, metric: &str, out: &mut [f64], site: &mut Site<'_>) {
        (out[0], out[1]) = fraction_bounds(self.lower[step], self.upper[step], histogram);
        if histogram.sum.is_some_and(f64::is_nan) && !out[0].is_nan() {
            site.note(annotate::fraction_without_nan(site.span, metric));
        }
    }

    fn classic(&mut self, step: usize, buckets: &mut Vec<ClassicBucket>, _: &str, out: &mut [f64], _: &mut Site<'_>) {
        (out[0], out[1]) = classic_fraction_bounds(self.lower[step], self.upper[step], buckets);
    }
}

/// The share of the expected samples of a window that are present. Expected is one for each width of a cell; where the
/// series has no width, one for each typical spacing: the tenth percentile of the gaps in the window, so that the gaps
/// left by many missing samples are not taken for the normal spacing. None when a lone sample does not show the
/// spacing.
pub(super) fn presence(window: &Window<'_>, _: &[f64], _: &mut Site<'_>) -> Result<Cell, Error> {
    let mut times: Vec<i64> = window.float_times().iter().chain(window.histogram_times()).copied().collect();
    times.sort_unstable();
    times.dedup();
    let width = match i64::from(window.series.width_ms) {
        0 => typical_gap(&times),
        width => Some(width),
    };
    let expected = |width: i64| (window.end - window.start) as f64 / width as f64;
    Ok(width.map(|width| Point::Float((times.len() as f64 / expected(width).max(1.0)).min(1.0))))
}

fn typical_gap(times: &[i64]) -> Option<i64> {
    let mut gaps: Vec<i64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let at = gaps.len() / 10;
    if gaps.is_empty() { None } else { Some(*gaps.select_nth_unstable(at).1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_typical_gap_survives_missing_samples() {
        assert_eq!(typical_gap(&[]), None);
        assert_eq!(typical_gap(&[5]), None);
        assert_eq!(typical_gap(&[0, 15, 30, 45]), Some(15));
        // Four of five are missing, but some neighbours are left.
        assert_eq!(typical_gap(&[0, 60, 75, 150, 225, 240, 315]), Some(15));
    }
}
