//! What was read of a series for columns: its cells, and how far apart they are.

use ogive_model::{Labels, Resolution};

use super::ask::Cancel;
use super::error::ApiError;
use super::merged::Merged;

/// How far back the sample before the first one of a cumulative series is looked for: the lookback of PromQL.
pub(super) const LOOKBACK_MS: i64 = 300_000;

/// Samples counted in (from, to].
#[derive(Debug)]
pub(super) struct Cell {
    pub(super) from_ms: i64,
    pub(super) to_ms: i64,
    pub(super) value: Merged,
}

/// The cells of one series, ascending in time.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) labels: Labels,
    /// Usual width of its cells, milliseconds; 0 when that is not known.
    pub(super) width_ms: i64,
    pub(super) cells: Vec<Cell>,
}

/// The result of a selector.
#[derive(Debug, Default)]
pub(super) struct Sources {
    pub(super) list: Vec<Source>,
    /// Series of numbers, where no histogram was found.
    pub(super) numbers: usize,
    pub(super) unit: String,
    pub(super) warnings: Vec<String>,
}

/// What was made of each series of a selector.
#[derive(Debug)]
pub(super) struct MappedSources<T> {
    pub(super) list: Vec<T>,
    pub(super) unit: String,
    pub(super) warnings: Vec<String>,
}

/// Which cells: those that end in (from, end].
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) from_ms: i64,
    pub(super) end_ms: i64,
    pub(super) resolution: Resolution,
}

pub(super) fn cancelled(cancel: &Cancel) -> Result<(), ApiError> {
    if cancel.is_set() { Err(ApiError::timeout("the query was cancelled")) } else { Ok(()) }
}

/// The quantile `share` of the distances between the times; 0 when there are fewer than two.
pub(super) fn spacing(times: &[i64], share: f64) -> i64 {
    at_share(times.windows(2).map(|pair| pair[1] - pair[0]).collect(), share).unwrap_or(0)
}

pub(super) fn at_share(mut values: Vec<i64>, share: f64) -> Option<i64> {
    values.sort_unstable();
    values.get(((values.len().saturating_sub(1)) as f64 * share) as usize).copied()
}
