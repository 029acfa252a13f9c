//! What clients do connection after connection: one that opens a new one for each request.
//!
//! *Limits*: [`MAX_HABITS`] pairs of a client's address and a server; when there are more, those that were quiet for
//! [`WINDOW`] are forgotten, and new ones are not watched as long as that makes no room.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::finding::{Finding, FindingKind};
use crate::hash::Seeded;
use crate::output::Summary;
use crate::path::Endpoint;
use crate::span::Nanos;

/// How many consecutive connections with a single request each make a habit.
const HABIT: u64 = 10;

/// Connections further apart do not count as consecutive: a monitoring probe comes once in some seconds.
const APART: Nanos = 5_000_000_000;

/// Pairs that are watched at once.
const MAX_HABITS: usize = 4_096;

/// See the module's page.
const WINDOW: Nanos = 60_000_000_000;

#[derive(Debug)]
struct Row {
    count: u64,
    /// The count at which it is reported next: it doubles, so that a habit of a million connections is reported some
    /// twenty times.
    next: u64,
    since: Nanos,
    last: Nanos,
}

/// The habits of clients.
#[derive(Debug, Default)]
pub(crate) struct Habits {
    rows: HashMap<(IpAddr, Endpoint), Row, Seeded>,
}

impl Habits {
    /// A connection that ended; a finding when its client has the habit.
    pub(crate) fn closed(&mut self, summary: &Summary) -> Option<Finding> {
        if !summary.from_start || !summary.ended || summary.requests == 0 {
            return None;
        }
        let key = (summary.path.client.ip, summary.path.server);
        if summary.requests > 1 {
            // The client is able to keep one open.
            self.rows.remove(&key);
            return None;
        }
        if self.rows.len() >= MAX_HABITS && !self.rows.contains_key(&key) {
            self.rows.retain(|_, row| summary.last - row.last < WINDOW);
            if self.rows.len() >= MAX_HABITS {
                return None;
            }
        }
        let new = || Row { count: 0, next: HABIT, since: summary.first, last: summary.first };
        let row = self.rows.entry(key).or_insert_with(new);
        if summary.first - row.last > APART {
            *row = new();
        }
        row.count += 1;
        row.last = row.last.max(summary.last);
        if row.count < row.next {
            return None;
        }
        row.next *= 2;
        Some(Finding {
            kind: FindingKind::ConnectionPerRequest,
            path: summary.path,
            at: summary.last,
            nanos: row.last - row.since,
            count: row.count,
            protocol: summary.protocol,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::Path;

    fn connection(client: u8, port: u16, first: Nanos, requests: u64) -> Summary {
        let endpoint = |last: u8, port| Endpoint { ip: IpAddr::from([10, 0, 0, last]), port };
        Summary {
            path: Path { client: endpoint(client, port), server: endpoint(200, 80) },
            protocol: Some("http1"),
            first,
            last: first + 1_000,
            handshake: None,
            from_start: true,
            ended: true,
            requests,
            answered: requests,
            unanswered: 0,
            discarded: [0; 4],
            open: 0,
            losses: 0,
            resyncs: 0,
            sides: Default::default(),
        }
    }

    #[test]
    fn the_tenth_connection_in_a_row_with_one_request_is_a_finding() {
        let mut habits = Habits::default();
        let found: Vec<u64> = (0..45)
            .filter_map(|number| habits.closed(&connection(1, number, i64::from(number) * 1_000_000, 1)))
            .map(|finding| finding.count)
            .collect();
        assert_eq!(found, [10, 20, 40]);
    }

    #[test]
    fn connections_of_more_requests_or_far_apart_make_no_row() {
        let mut habits = Habits::default();
        let mut close = |number: u16, first: Nanos, requests| habits.closed(&connection(1, number, first, requests));
        for number in 0..40_u16 {
            let requests = if number % 9 == 8 { 2 } else { 1 };
            assert_eq!(close(number, i64::from(number), requests), None);
        }
        for number in 0..40_u16 {
            assert_eq!(close(number, i64::from(number) * (APART + 2_000), 1), None);
        }
    }

    #[test]
    fn a_flood_of_clients_keeps_to_the_limit() {
        let mut habits = Habits::default();
        for number in 0..20_000_u32 {
            let [a, b, c, d] = number.to_be_bytes();
            let mut summary = connection(1, 1, 5, 1);
            summary.path.client.ip = IpAddr::from([a, b, c, d]);
            habits.closed(&summary);
        }
        assert_eq!(habits.rows.len(), MAX_HABITS);
        assert!(habits.closed(&connection(9, 1, WINDOW * 2, 1)).is_none());
        assert_eq!(habits.rows.len(), 1);
    }
}
