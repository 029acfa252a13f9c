//! A row of the table: what it is about, and what was measured of it.

use ogive_hist::Histogram;
use ogive_wire::{Class, Endpoint};

/// What a row is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct RowKey {
    pub(super) service: Endpoint,
    pub(super) protocol: &'static str,
    pub(super) operation: String,
    pub(super) class: Class,
}

/// What was measured of one operation.
#[derive(Debug)]
pub(super) struct Row {
    /// From the request's last byte to the response's first, in seconds.
    pub(super) service: Histogram,
    /// From the request's first byte to the response's last, in seconds.
    pub(super) total: Histogram,
    pub(super) request_bytes: u64,
    pub(super) response_bytes: u64,
    /// Responses that began before their request ended: they have no service time.
    pub(super) negative: u64,
}

impl Row {
    pub(super) fn new() -> Self {
        Self {
            service: Histogram::log_linear(),
            total: Histogram::log_linear(),
            request_bytes: 0,
            response_bytes: 0,
            negative: 0,
        }
    }
}

/// `host:port`.
pub(super) fn name(endpoint: Endpoint) -> String {
    std::net::SocketAddr::new(endpoint.ip, endpoint.port).to_string()
}

pub(super) fn class(class: Class) -> &'static str {
    match class {
        Class::Ok => "ok",
        Class::ClientError => "client error",
        Class::Error => "error",
    }
}
