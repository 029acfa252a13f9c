//! What the server measures of itself while it takes batches and answers, by its own probe.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use ogive_export::Cells;
use ogive_probe::{Clock, Recorder};

use crate::ingest_path::{self, Ingest};
use crate::own_value::OwnValue;

/// How long each target's responses took.
pub const SCRAPE: &str = "ogive_scrape_seconds";

/// The server's own measurements.
pub struct Meters {
    /// The series of all of them.
    pub cells: Cells,
    http: Mutex<BTreeMap<(&'static str, u16), Recorder>>,
    query: Recorder,
    /// Batches on their way.
    pub ingest: Ingest,
    /// The journal's fsyncs.
    pub fsync: Recorder,
    /// The store's flushes.
    pub flush: Recorder,
    /// The figures that the clock reported last.
    clock: Mutex<Vec<OwnValue>>,
    /// The figures of rules and alerts, as last reported.
    rules: Mutex<Vec<OwnValue>>,
}

impl Default for Meters {
    fn default() -> Self {
        let out = Self {
            cells: Cells::new(Clock::global(), &[], 1_000),
            http: Mutex::default(),
            query: Recorder::default(),
            ingest: Ingest::default(),
            fsync: Recorder::default(),
            flush: Recorder::default(),
            clock: Mutex::default(),
            rules: Mutex::default(),
        };
        out.measure("ogive_journal_fsync_seconds", &[], &out.fsync);
        out.measure("ogive_query_seconds", &[], &out.query);
        out.measure("ogive_flush_seconds", &[], &out.flush);
        let traces = out.cells.traces_named(ingest_path::METRIC, &[], out.ingest.recorder());
        traces.expect("own labels keep the rules");
        out
    }
}

impl Meters {
    /// Records a request that was answered.
    pub fn http_request(&self, route: &'static str, status: u16, ns: u64) {
        let mut http = self.http.lock().unwrap_or_else(PoisonError::into_inner);
        let recorder = http.entry((route, status)).or_insert_with(|| {
            let recorder = Recorder::default();
            self.measure("ogive_http_request_seconds", &[("route", route), ("status", &status.to_string())], &recorder);
            recorder
        });
        recorder.record_ns(ns);
    }

    /// A query ended.
    pub fn query(&self, ns: u64) {
        self.query.record_ns(ns);
    }

    /// A target is scraped from now on; `labels` name it.
    pub fn scrape(&self, labels: &[(&str, &str)], recorder: &Recorder) {
        // Beyond the limit of own series a target is scraped without being measured.
        let _ = self.cells.recorder(SCRAPE, labels, recorder);
    }

    /// It is not any more.
    pub fn scrape_ended(&self, labels: &[(&str, &str)]) {
        self.cells.forget(SCRAPE, labels);
    }

    /// The clock's figures, as last stored; empty before the first second.
    pub fn clock_values(&self) -> Vec<OwnValue> {
        self.clock.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The clock reported these figures.
    pub fn set_clock_values(&self, values: Vec<OwnValue>) {
        *self.clock.lock().unwrap_or_else(PoisonError::into_inner) = values;
    }

    /// The figures of rules and alerts, as last reported; empty where there are no rules.
    pub fn rule_values(&self) -> Vec<OwnValue> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Rules and alerts reported these figures.
    pub fn set_rule_values(&self, values: Vec<OwnValue>) {
        *self.rules.lock().unwrap_or_else(PoisonError::into_inner) = values;
    }

    /// Own series are far fewer than [`ogive_export::SERIES_MAX`]: routes are fixed, and statuses few.
    fn measure(&self, name: &str, labels: &[(&str, &str)], recorder: &Recorder) {
        self.cells.recorder(name, labels, recorder).expect("own labels keep the rules");
    }
}
