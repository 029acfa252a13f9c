//! Points of a series, within what scripts hold.

use ogive_model::STALE;
use ogive_query::points;
pub(crate) use ogive_query::points::{Point, number};

/// 100,001 points, a value and 100,000 repetitions: far above what scripts hold.
const POINTS_MAX: usize = 100_001;

/// Whether a number is the stale marker.
pub(crate) fn is_stale(value: f64) -> bool {
    value.to_bits() == STALE
}

/// All points of a line.
pub(crate) fn parse(text: &str) -> Result<Vec<Point>, String> {
    bounded(points::parse(text)?)
}

/// As [`points::numbers`].
pub(crate) fn numbers(text: &str, read: impl Fn(&str) -> Result<f64, String>) -> Result<Vec<f64>, String> {
    bounded(points::numbers(text, read)?)
}

fn bounded<T>(points: Vec<T>) -> Result<Vec<T>, String> {
    if points.len() > POINTS_MAX { Err(format!("{} points", points.len())) } else { Ok(points) }
}
