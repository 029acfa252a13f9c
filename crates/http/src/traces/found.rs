//! What is wanted of the traces, and what was found.

use ogive_model::{Matcher, Ns, TimeRange};
use ogive_probe::SlowTrace;

use super::super::texts::{Cursor, FoundText};

/// The order of the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Newest,
    Slowest,
}

/// The query.
pub(super) struct TraceFilter {
    pub(super) selectors: Vec<Vec<Matcher>>,
    pub(super) range: TimeRange,
    pub(super) order: Order,
    pub(super) limit: usize,
    /// Traces that took less are left out.
    pub(super) shortest: Ns,
    pub(super) cursor: Option<Cursor>,
}

/// A text, read if it can be.
pub(super) struct ParsedText {
    pub(super) found: FoundText,
    pub(super) trace: Result<SlowTrace, String>,
}

impl ParsedText {
    pub(super) fn new(found: FoundText) -> Self {
        let trace = found.text.parse::<SlowTrace>().map_err(|error| error.to_string());
        Self { found, trace }
    }

    /// A text that is not a trace comes last, whether sorted by duration or by time.
    pub(super) fn total(&self) -> Option<Ns> {
        self.trace.as_ref().ok().map(|trace| Ns(i64::try_from(trace.total_ns).unwrap_or(i64::MAX)))
    }
}

/// The result.
#[derive(Default)]
pub(super) struct Traces {
    pub(super) list: Vec<ParsedText>,
    pub(super) series: usize,
    pub(super) examined: usize,
    pub(super) invalid: usize,
    /// Where the reading ended, when it did before the start of the range.
    pub(super) next: Option<Cursor>,
}
