//! Who talks to whom: a client's address, a service and a protocol, which the page draws its map of services from.
//!
//! Limits: the first [`FIRST`] edges have series of their own; a later one has once it was seen [`FREQUENT`] times, up
//! to [`MAX_EDGES`]. The others count under the client `other` of their service, and beyond [`MAX_OTHERS`] of those
//! under no service's.

use std::collections::HashMap;
use std::net::IpAddr;

use ogive_wire::{Class, Endpoint, Exchange};

use super::export::Export;
use super::names;
use super::series::{Count, Durations};
use super::services::OTHER_SERVICE;

/// Edges that need not be frequent.
const FIRST: usize = 250;

/// Edges with series of their own.
const MAX_EDGES: usize = 500;

/// Rows of the client `other`.
const MAX_OTHERS: usize = 1_000;

/// Exchanges after which a client is no passer-by.
const FREQUENT: u32 = 1_000;

/// Clients whose exchanges are counted to see whether they are frequent; when there are more, all are forgotten.
const MAX_CANDIDATES: usize = 4_096;

/// `None` is the client `other`.
type Key = (Option<IpAddr>, Endpoint, &'static str);

/// The measurements of one edge.
#[derive(Debug)]
struct Edge {
    /// From the request's first byte to the response's last.
    total: Durations,
    errors: Count,
}

/// The edges. Without an export nothing is kept: the table does not show them.
#[derive(Debug, Default)]
pub(super) struct Edges {
    rows: HashMap<Key, Edge>,
    others: usize,
    candidates: HashMap<Key, u32>,
}

impl Edges {
    /// Counts an answered exchange of `client` with a service.
    pub(super) fn answered(&mut self, export: Option<&Export>, client: IpAddr, service: Endpoint, exchange: &Exchange) {
        let Some(export) = export else { return };
        let edge = self.edge(export, (Some(client), service, exchange.protocol));
        if let Some(nanos) = exchange.total_time() {
            edge.total.record(nanos);
        }
        if exchange.class != Class::Ok {
            edge.errors.add(1);
        }
    }

    /// Counts one that lacks its response.
    pub(super) fn failed(&mut self, export: Option<&Export>, client: IpAddr, service: Endpoint, exchange: &Exchange) {
        if let Some(export) = export {
            self.edge(export, (Some(client), service, exchange.protocol)).errors.add(1);
        }
    }

    fn edge(&mut self, export: &Export, key: Key) -> &mut Edge {
        let key = if self.rows.contains_key(&key) { key } else { self.kept(key) };
        self.rows.entry(key).or_insert_with(|| {
            let (client, service) =
                (key.0.map_or_else(|| "other".to_owned(), |ip| ip.to_string()), names::service(key.1));
            let labels = [("client", &*client), ("service", &*service), ("protocol", key.2)];
            Edge {
                total: Durations::new(Some(export), "ogive_wire_edge_seconds", &labels),
                errors: Count::new(Some(export), "ogive_wire_edge_errors_total", &labels),
            }
        })
    }

    /// The key under which an edge without series of its own counts.
    fn kept(&mut self, key: Key) -> Key {
        let own = self.rows.len() - self.others;
        if own < FIRST {
            return key;
        }
        if own < MAX_EDGES {
            if self.candidates.len() >= MAX_CANDIDATES {
                self.candidates.clear();
            }
            let count = self.candidates.entry(key).or_default();
            *count += 1;
            if *count >= FREQUENT {
                self.candidates.remove(&key);
                return key;
            }
        }
        let other = (None, key.1, key.2);
        if self.rows.contains_key(&other) {
            return other;
        }
        let other = if self.others < MAX_OTHERS { other } else { (None, OTHER_SERVICE, key.2) };
        self.others += usize::from(!self.rows.contains_key(&other));
        other
    }
}

#[cfg(test)]
mod tests {
    use ogive_export::Exporter;

    use super::*;

    #[test]
    fn a_flood_of_clients_keeps_to_the_limit_and_the_frequent_ones_are_named() {
        let exporter = Exporter::builder("http://127.0.0.1:9").start().unwrap();
        let (export, mut edges) = (Export::new(exporter.cells().clone()), Edges::default());
        let service = Endpoint { ip: IpAddr::from([10, 9, 9, 9]), port: 80 };
        let client = |number: u32| IpAddr::from((0x0a00_0000 + number).to_be_bytes());
        for number in 0..20_000 {
            edges.edge(&export, (Some(client(number)), service, "http1"));
        }
        assert_eq!(edges.rows.len(), FIRST + 1);
        for _ in 0..=FREQUENT {
            edges.edge(&export, (Some(client(30_000)), service, "http1"));
        }
        assert!(edges.rows.contains_key(&(Some(client(30_000)), service, "http1")));
        assert_eq!(edges.rows.len(), FIRST + 2);
        for port in 0..5_000 {
            edges.edge(&export, (Some(client(1)), Endpoint { port, ..service }, "redis"));
        }
        assert!(edges.rows.len() <= MAX_EDGES + MAX_OTHERS + 1, "{}", edges.rows.len());
        let _ = exporter.shutdown(std::time::Duration::ZERO);
    }
}
