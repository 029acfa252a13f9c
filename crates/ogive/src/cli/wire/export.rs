//! What is measured as series for a server: cells of one second, sent exactly once by `ogive-export`.
//!
//! `ogive_wire_service_seconds` and `ogive_wire_total_seconds` by service, protocol, operation and class; counters beside them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ogive_export::{Cells, Error};
use ogive_probe::Recorder;
use ogive_wire::{Exchange, Finding, Path, Reason, Unanswered};

use super::row::{self, RowKey};

/// The series of one row.
#[derive(Debug)]
struct Row {
    service: Recorder,
    total: Recorder,
    request_bytes: Arc<AtomicU64>,
    response_bytes: Arc<AtomicU64>,
    negative: Arc<AtomicU64>,
}

/// What counters are called by: name, service, protocol, reason or kind.
type CounterKey = (&'static str, String, &'static str, &'static str);

/// The series that are sent.
pub(super) struct Export {
    cells: Cells,
    rows: HashMap<RowKey, Row>,
    counters: HashMap<CounterKey, Arc<AtomicU64>>,
    /// Series that the exporter refused: too many.
    refused: Arc<AtomicU64>,
}

impl std::fmt::Debug for Export {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Export").field("rows", &self.rows.len()).finish_non_exhaustive()
    }
}

impl Export {
    pub(super) fn new(cells: Cells) -> Self {
        Self { cells, rows: HashMap::new(), counters: HashMap::new(), refused: Arc::default() }
    }

    /// Sends a counter.
    pub(super) fn counter(&self, name: &str, labels: &[(&str, &str)], counter: &Arc<AtomicU64>) -> Result<(), Error> {
        let counter = counter.clone();
        // ORDERING: Relaxed; a counter on its own.
        self.cells.counter(name, labels, move || counter.load(Ordering::Relaxed))
    }

    fn add(&mut self, key: CounterKey, label: &str) {
        if !self.counters.contains_key(&key) {
            let counter = Arc::new(AtomicU64::new(0));
            let (name, service, protocol, value) = &key;
            if self.counter(name, &[("service", service), ("protocol", protocol), (label, value)], &counter).is_err() {
                // ORDERING: Relaxed; a counter on its own.
                self.refused.fetch_add(1, Ordering::Relaxed);
            }
            self.counters.insert(key.clone(), counter);
        }
        // ORDERING: Relaxed; a counter on its own.
        self.counters[&key].fetch_add(1, Ordering::Relaxed);
    }

    fn row(&mut self, key: &RowKey) -> &Row {
        if !self.rows.contains_key(key) {
            let row = self.new_row(key);
            self.rows.insert(key.clone(), row);
        }
        &self.rows[key]
    }

    fn new_row(&self, key: &RowKey) -> Row {
        let row = Row {
            service: Recorder::new(),
            total: Recorder::new(),
            request_bytes: Arc::default(),
            response_bytes: Arc::default(),
            negative: Arc::default(),
        };
        let service = row::name(key.service);
        let labels = [
            ("service", service.as_str()),
            ("protocol", key.protocol),
            ("operation", key.operation.as_str()),
            ("class", row::class(key.class)),
        ];
        let outcomes = [
            self.cells.recorder("ogive_wire_service_seconds", &labels, &row.service),
            self.cells.recorder("ogive_wire_total_seconds", &labels, &row.total),
            self.counter("ogive_wire_request_bytes_total", &labels, &row.request_bytes),
            self.counter("ogive_wire_response_bytes_total", &labels, &row.response_bytes),
            self.counter("ogive_wire_negative_service_time_total", &labels, &row.negative),
        ];
        let refused = outcomes.iter().filter(|outcome| outcome.is_err()).count() as u64;
        // ORDERING: Relaxed; a counter on its own.
        self.refused.fetch_add(refused, Ordering::Relaxed);
        row
    }

    /// An answered exchange.
    pub(super) fn answered(&mut self, key: &RowKey, exchange: &Exchange) {
        let row = self.row(key);
        match exchange.service_time().map(u64::try_from) {
            Some(Ok(nanos)) => row.service.record_ns(nanos),
            // ORDERING: Relaxed, here and below; counters on their own.
            _ => _ = row.negative.fetch_add(1, Ordering::Relaxed),
        }
        if let Some(Ok(nanos)) = exchange.total_time().map(u64::try_from) {
            row.total.record_ns(nanos);
        }
        row.request_bytes.fetch_add(exchange.request.bytes, Ordering::Relaxed);
        row.response_bytes.fetch_add(exchange.response.bytes, Ordering::Relaxed);
    }

    /// An unanswered one.
    pub(super) fn unanswered(&mut self, path: &Path, exchange: &Exchange, why: Unanswered) {
        self.add(("ogive_wire_unanswered_total", row::name(path.server), exchange.protocol, why.name()), "why");
    }

    /// One that is not reported.
    pub(super) fn discarded(&mut self, path: &Path, exchange: &Exchange, reason: Reason) {
        self.add(("ogive_wire_discarded_total", row::name(path.server), exchange.protocol, reason.name()), "reason");
    }

    /// A finding.
    pub(super) fn finding(&mut self, finding: &Finding) {
        let protocol = finding.protocol.unwrap_or("tcp");
        self.add(("ogive_wire_finding_total", row::name(finding.path.server), protocol, finding.kind.name()), "kind");
    }
}
