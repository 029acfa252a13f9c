//! What is measured as series for a server: cells of one second, sent exactly once by `ogive-export`, or taken as a server's own.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ogive_export::{Cells, Error};
use ogive_wire::Endpoint;

use super::row;
use super::series::Count;

/// What counters are called by: name, service, protocol, reason or kind.
type CounterKey = (&'static str, Endpoint, &'static str, &'static str);

/// The series that are sent.
pub(super) struct Export {
    pub(super) cells: Cells,
    counters: HashMap<CounterKey, Count>,
    /// Series that were refused: too many.
    refused: Count,
}

impl std::fmt::Debug for Export {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Export").field("counters", &self.counters.len()).finish_non_exhaustive()
    }
}

impl Export {
    pub(super) fn new(cells: Cells) -> Self {
        let refused = Count::default();
        // One more series than there may be is the one that says so.
        let _ = cells.counter("ogive_wire_refused_series_total", &[], refused.reader());
        Self { cells, counters: HashMap::new(), refused }
    }

    /// Counts a series that was refused.
    pub(super) fn note(&self, outcome: Result<(), Error>) {
        self.refused.add(u64::from(outcome.is_err()));
    }

    /// Sends a counter.
    pub(super) fn counter(&self, name: &str, labels: &[(&str, &str)], counter: &Arc<AtomicU64>) -> Result<(), Error> {
        let counter = counter.clone();
        // ORDERING: Relaxed; a counter on its own.
        self.cells.counter(name, labels, move || counter.load(Ordering::Relaxed))
    }

    /// Sends a count as a state.
    pub(super) fn gauge(&self, name: &str, labels: &[(&str, &str)], count: &Count) {
        let read = count.reader();
        #[allow(clippy::cast_precision_loss, reason = "a time in seconds")]
        self.note(self.cells.gauge(name, labels, move || read() as f64));
    }

    /// Counts what is no exchange with an answer: `label` says why, or of what kind it is.
    pub(super) fn count(
        &mut self,
        name: &'static str,
        service: Endpoint,
        protocol: &'static str,
        (label, value): (&str, &'static str),
    ) {
        let key = (name, service, protocol, value);
        if !self.counters.contains_key(&key) {
            let labels = [("service", &*row::name(service)), ("protocol", protocol), (label, value)];
            let count = Count::new(Some(self), name, &labels);
            self.counters.insert(key, count);
        }
        self.counters[&key].add(1);
    }
}
