//! What was measured: histograms by service, protocol, operation and class of the answer.
//!
//! Limits: the most frequent operations, and [`MAX_ROWS`] rows; what is beyond them counts under `other` of its
//! service, and beyond [`MAX_OTHER_ROWS`] more under `other` of no service. [`MAX_FINDINGS`] findings are kept in full.

use std::collections::{BTreeMap, HashMap};

use ogive_wire::{
    Endpoint, Exchange, Finding, FindingKind, Output, Path, Reason, Summary, TcpEvent, TlsEvent, Unanswered,
    operation::Namer,
};

use super::counters::Counters;
use super::edges::Edges;
use super::exemplars::Exemplars;
use super::export::Export;
use super::names;
use super::row::{Row, RowKey};
use super::services::{OTHER_SERVICE, Services};
use super::transport::Transport;

/// Rows: a thousand operations in three classes each, at some KiB each.
pub(super) const MAX_ROWS: usize = 3_000;

/// Rows of operations beyond those: `other` for each service, protocol and class.
pub(super) const MAX_OTHER_ROWS: usize = 1_000;

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
    /// Measurements of TCP and TLS, by service.
    pub(super) transport: BTreeMap<Endpoint, Transport>,
    services: Services,
    counters: Counters,
    edges: Edges,
    pub(super) connections: u64,
    /// The slowest exchanges.
    pub(super) exemplars: Exemplars,
    /// Where it is sent as well.
    export: Option<Export>,
}

impl Measures {
    /// Nothing yet, with operations named by `namer`.
    pub(super) fn new(namer: Namer, exemplars: usize) -> Self {
        Self { namer, exemplars: Exemplars::new(exemplars, None), ..Self::default() }
    }

    /// Sends what is measured from now on, and its slowest exchanges every second, as many as are kept.
    pub(super) fn send(&mut self, export: Export) {
        self.exemplars = Exemplars::new(self.exemplars.limit(), Some(&export));
        self.export = Some(export);
    }

    fn key(&mut self, path: &Path, exchange: &Exchange) -> RowKey {
        let mut key = RowKey {
            service: self.services.of(path.server),
            protocol: exchange.protocol,
            operation: self.namer.name(exchange),
            class: exchange.class,
        };
        if self.rows.len() >= MAX_ROWS && !self.rows.contains_key(&key) {
            self.folded += 1;
            key.operation = OTHER.to_owned();
            if self.rows.len() >= MAX_ROWS + MAX_OTHER_ROWS && !self.rows.contains_key(&key) {
                key.service = OTHER_SERVICE;
            }
        }
        key
    }

    /// The TCP and TLS measurements of a service, and the export.
    fn transport(&mut self, server: Endpoint) -> (&mut Transport, Option<&Export>, String) {
        let service = self.services.of(server);
        let (name, export) = (names::service(service), self.export.as_ref());
        let transport = self.transport.entry(service).or_insert_with(|| Transport::new(export, &name));
        (transport, export, name)
    }
}

impl Output for Measures {
    fn answered(&mut self, path: &Path, exchange: &Exchange) {
        let key = self.key(path, exchange);
        self.exemplars.answered(&key, path, exchange);
        self.edges.answered(self.export.as_ref(), path.client.ip, key.service, exchange);
        match self.rows.get_mut(&key) {
            Some(row) => row.record(exchange),
            None => {
                let mut row = Row::new(self.export.as_ref(), &key);
                row.record(exchange);
                self.rows.insert(key, row);
            }
        }
    }

    fn unanswered(&mut self, path: &Path, exchange: &Exchange, why: Unanswered) {
        let service = self.services.of(path.server);
        let (protocol, value) = (exchange.protocol, why.name());
        self.counters.add(self.export.as_ref(), "ogive_wire_unanswered_total", service, protocol, "why", value);
        if why != Unanswered::ByDesign {
            self.edges.failed(self.export.as_ref(), path.client.ip, service, exchange);
        }
        *self.unanswered.entry((service, exchange.protocol, why)).or_default() += 1;
    }

    fn discarded(&mut self, path: &Path, exchange: &Exchange, reason: Reason) {
        let service = self.services.of(path.server);
        let (protocol, value) = (exchange.protocol, reason.name());
        self.counters.add(self.export.as_ref(), "ogive_wire_discarded_total", service, protocol, "reason", value);
        self.discarded[reason as usize] += 1;
    }

    fn connected(&mut self, path: &Path, took: i64, _at: i64) {
        self.transport(path.server).0.connect.record(took);
    }

    fn finding(&mut self, finding: &Finding) {
        let service = self.services.of(finding.path.server);
        let (protocol, value) = (finding.protocol.unwrap_or("tcp"), finding.kind.name());
        self.counters.add(self.export.as_ref(), "ogive_wire_finding", service, protocol, "kind", value);
        *self.finding_counts.entry(finding.kind).or_default() += 1;
        if self.findings.len() < MAX_FINDINGS {
            self.findings.push(*finding);
        }
    }

    fn closed(&mut self, _summary: &Summary) {
        self.connections += 1;
    }

    fn tls(&mut self, path: &Path, event: &TlsEvent<'_>) {
        let (transport, export, service) = self.transport(path.server);
        transport.tls(export, &service, event);
    }

    fn tcp(&mut self, path: &Path, _protocol: Option<&'static str>, event: TcpEvent) {
        self.transport(path.server).0.tcp(event);
    }
}
