//! What is wanted of the lines, and what was found.

use std::collections::BTreeMap;

use ogive_model::{Matcher, TimeRange};
use ogive_search::{Query, Severity};

use super::super::texts::{Cursor, Direction, FoundText};

/// What is asked for.
pub(super) struct LineQuery {
    pub(super) selectors: Vec<Vec<Matcher>>,
    pub(super) query: Query,
    pub(super) range: TimeRange,
    pub(super) direction: Direction,
    pub(super) limit: usize,
    pub(super) cursor: Option<Cursor>,
}

/// What was looked at.
#[derive(Debug, Default)]
pub(super) struct Scanned {
    pub(super) series: usize,
    pub(super) lines: usize,
    pub(super) bytes: usize,
    /// As much was looked at as may be: there may be more, even when nothing was found.
    pub(super) is_partial: bool,
    pub(super) warnings: Vec<String>,
}

/// What was found.
#[derive(Default)]
pub(super) struct Lines {
    pub(super) list: Vec<FoundText>,
    pub(super) scanned: Scanned,
    /// Where the reading ended, when it did before the end of the range.
    pub(super) next: Option<Cursor>,
}

/// How many lines of each severity; `None` is of those that say none.
pub(super) type Counts = BTreeMap<Option<Severity>, u64>;
