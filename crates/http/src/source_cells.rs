//! What was read of a series for columns: its cells, and how far apart they are.

use ogive_model::{Labels, Ms, Resolution, WallMs};

use super::ask::Cancel;
use super::error::ApiError;
use super::merged::Merged;

/// How far back the sample before the first one of a cumulative series is looked for: the lookback of PromQL.
pub(super) const LOOKBACK: Ms = Ms::from_secs(300);

/// Samples counted in (from, to].
#[derive(Debug)]
pub(super) struct Cell {
    pub(super) from: WallMs,
    pub(super) to: WallMs,
    pub(super) value: Merged,
}

/// The cells of one series, ascending in time.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) labels: Labels,
    /// Usual width of its cells; zero when that is not known.
    pub(super) width: Ms,
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
    pub(super) from: WallMs,
    pub(super) end: WallMs,
    pub(super) resolution: Resolution,
}

pub(super) fn cancelled(cancel: &Cancel) -> Result<(), ApiError> {
    if cancel.is_set() { Err(ApiError::timeout("the query was cancelled")) } else { Ok(()) }
}

/// The quantile `share` of the distances between the times; zero when there are fewer than two.
pub(super) fn spacing(times: &[i64], share: f64) -> Ms {
    at_share(times.windows(2).map(|pair| Ms(pair[1] - pair[0])).collect(), share).unwrap_or(Ms::ZERO)
}

pub(super) fn at_share(mut values: Vec<Ms>, share: f64) -> Option<Ms> {
    values.sort_unstable();
    values.get(((values.len().saturating_sub(1)) as f64 * share) as usize).copied()
}
