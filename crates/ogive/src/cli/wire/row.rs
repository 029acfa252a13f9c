//! A row of the table: what it is about, and what was measured of it.

use ogive_wire::{Class, Endpoint, Exchange};

use super::export::Export;
use super::names;
use super::series::{Count, Durations, Sizes};

/// The key of a row.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct RowKey {
    pub(super) service: Endpoint,
    pub(super) protocol: &'static str,
    pub(super) operation: String,
    pub(super) class: Class,
}

impl RowKey {
    /// The labels of its series.
    pub(super) fn labels(&self) -> [(&'static str, String); 4] {
        [
            ("service", names::service(self.service)),
            ("protocol", self.protocol.to_owned()),
            ("operation", self.operation.clone()),
            ("class", names::class(self.class).to_owned()),
        ]
    }
}

/// The measurements of one operation.
#[derive(Debug)]
pub(super) struct Row {
    /// From the request's last byte to the response's first, in seconds.
    pub(super) service: Durations,
    /// From the request's first byte to the response's last, in seconds.
    pub(super) total: Durations,
    /// From the request's first byte to the response's first, in seconds.
    first_byte: Durations,
    request_bytes: Sizes,
    response_bytes: Sizes,
    /// Responses that began before their request ended: they have no service time.
    negative: Count,
}

impl Row {
    pub(super) fn new(export: Option<&Export>, key: &RowKey) -> Self {
        let labels = key.labels();
        let labels = labels.each_ref().map(|(name, value)| (*name, value.as_str()));
        Self {
            service: Durations::new(export, "ogive_wire_service_seconds", &labels),
            total: Durations::new(export, "ogive_wire_total_seconds", &labels),
            first_byte: Durations::new(export, "ogive_wire_first_byte_seconds", &labels),
            request_bytes: Sizes::new(export, "ogive_wire_request_bytes", &labels),
            response_bytes: Sizes::new(export, "ogive_wire_response_bytes", &labels),
            negative: Count::new(export, "ogive_wire_negative_service_time_total", &labels),
        }
    }

    pub(super) fn record(&mut self, exchange: &Exchange) {
        if !exchange.service_time().is_some_and(|nanos| self.service.record(nanos)) {
            self.negative.add(1);
        }
        if let Some(nanos) = exchange.total_time() {
            self.total.record(nanos);
        }
        if let (Some(requested), Some(answered)) = (exchange.request.first, exchange.response.first) {
            self.first_byte.record(answered - requested);
        }
        self.request_bytes.record(exchange.request.bytes);
        self.response_bytes.record(exchange.response.bytes);
    }
}
