//! What is wanted of the lines, and what was found.

use std::collections::BTreeMap;

use ogive_model::{Matcher, TimeRange};
use ogive_search::{Query, Severity};

use super::super::texts::{Cursor, Direction, FoundText};

/// The query.
pub(super) struct LineQuery {
    pub(super) selectors: Vec<Vec<Matcher>>,
    pub(super) query: Query,
    pub(super) range: TimeRange,
    pub(super) direction: Direction,
    pub(super) limit: usize,
    pub(super) cursor: Option<Cursor>,
}

/// Statistics of what was searched.
#[derive(Debug, Default)]
pub(super) struct Scanned {
    pub(super) series: usize,
    pub(super) lines: usize,
    pub(super) bytes: usize,
    /// As much was looked at as may be: there may be more, even when nothing was found.
    pub(super) is_partial: bool,
    pub(super) warnings: Vec<String>,
}

/// The result.
#[derive(Default)]
pub(super) struct Lines {
    pub(super) list: Vec<FoundText>,
    pub(super) scanned: Scanned,
    /// Where the reading ended, when it did before the end of the range.
    pub(super) next: Option<Cursor>,
}

/// How many lines there are of each severity; `None` for those without one.
pub(super) type Counts = BTreeMap<Option<Severity>, u64>;
