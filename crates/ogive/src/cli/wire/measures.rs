//! What was measured: histograms by service, protocol, operation and class of the answer.
//!
//! Limits: the most frequent operations, and [`MAX_ROWS`] rows; what is beyond them counts under `other` of its service. [`MAX_FINDINGS`] findings are kept in full.

use std::collections::HashMap;

use ogive_hist::Histogram;
use ogive_wire::{
    Endpoint, Exchange, Finding, FindingKind, Output, Path, Reason, Summary, Unanswered, operation::Namer,
};

use super::export::Export;
use super::row::{Row, RowKey};

/// Rows: a thousand operations each in three classes, at some KiB each.
pub(super) const MAX_ROWS: usize = 3_000;

/// Findings kept in full; the others are counted.
pub(super) const MAX_FINDINGS: usize = 1_000;

const OTHER: &str = "other";

/// Everything that was measured.
#[derive(Debug, Default)]
pub(super) struct Measures {
    /// Names operations, and keeps the most frequent.
    pub(super) namer: Namer,
    pub(super) rows: HashMap<RowKey, Row>,
    /// Exchanges whose operation was folded into `other`.
    pub(super) folded: u64,
    pub(super) unanswered: HashMap<(Endpoint, &'static str, Unanswered), u64>,
    pub(super) discarded: [u64; Reason::ALL.len()],
    pub(super) findings: Vec<Finding>,
    pub(super) finding_counts: HashMap<FindingKind, u64>,
    pub(super) handshakes: HashMap<Endpoint, Histogram>,
    pub(super) connections: u64,
    /// Where it is sent as well.
    pub(super) export: Option<Export>,
}

impl Measures {
    fn key(&mut self, path: &Path, exchange: &Exchange) -> RowKey {
        let mut key = RowKey {
            service: path.server,
            protocol: exchange.protocol,
            operation: self.namer.name(exchange),
            class: exchange.class,
        };
        if self.rows.len() >= MAX_ROWS && !self.rows.contains_key(&key) {
            self.folded += 1;
            key.operation = OTHER.to_owned();
        }
        key
    }
}

impl Output for Measures {
    fn answered(&mut self, path: &Path, exchange: &Exchange) {
        let key = self.key(path, exchange);
        if let Some(export) = &mut self.export {
            export.answered(&key, exchange);
        }
        let row = self.rows.entry(key).or_insert_with(Row::new);
        match exchange.service_time() {
            Some(nanos) if nanos >= 0 => row.service.record_int(nanos, -9),
            _ => row.negative += 1,
        }
        if let Some(nanos) = exchange.total_time() {
            row.total.record_int(nanos, -9);
        }
        row.request_bytes += exchange.request.bytes;
        row.response_bytes += exchange.response.bytes;
    }

    fn unanswered(&mut self, path: &Path, exchange: &Exchange, why: Unanswered) {
        if let Some(export) = &mut self.export {
            export.unanswered(path, exchange, why);
        }
        *self.unanswered.entry((path.server, exchange.protocol, why)).or_default() += 1;
    }

    fn discarded(&mut self, path: &Path, exchange: &Exchange, reason: Reason) {
        if let Some(export) = &mut self.export {
            export.discarded(path, exchange, reason);
        }
        self.discarded[reason as usize] += 1;
    }

    fn connected(&mut self, path: &Path, took: i64, _at: i64) {
        self.handshakes.entry(path.server).or_insert_with(Histogram::log_linear).record_int(took, -9);
    }

    fn finding(&mut self, finding: &Finding) {
        if let Some(export) = &mut self.export {
            export.finding(finding);
        }
        *self.finding_counts.entry(finding.kind).or_default() += 1;
        if self.findings.len() < MAX_FINDINGS {
            self.findings.push(*finding);
        }
    }

    fn closed(&mut self, _summary: &Summary) {
        self.connections += 1;
    }
}
