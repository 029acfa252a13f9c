//! DNS over UDP: queries and answers by endpoints, id and question.
//!
//! A second copy of an unanswered query is a retry of it, not a new exchange. Limits: [`MAX_QUERIES`] open queries and
//! [`MAX_SERVERS`] known servers; a query without an answer for [`UNANSWERED_AFTER`] is unanswered.

use std::collections::{HashMap, HashSet};

use crate::exchange::{Exchange, Reason, Unanswered};
use crate::finding::{Finding, FindingKind};
use crate::frame::Datagram;
use crate::hash::Seeded;
use crate::output::Output;
use crate::path::{Endpoint, Path};
use crate::protocol::dns::{self, Message};
use crate::span::{Nanos, Span};

/// Queries open at once, over all clients.
pub(crate) const MAX_QUERIES: usize = 65_536;

/// Servers that are remembered as such.
pub(crate) const MAX_SERVERS: usize = 4_096;

/// Resolvers give up after 5 s, some after 10.
pub(crate) const UNANSWERED_AFTER: Nanos = 15_000_000_000;

const DNS_PORTS: [u16; 2] = [53, 5353];

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct QueryKey {
    path: Path,
    id: u16,
    question: Vec<u8>,
}

/// The open queries.
#[derive(Debug, Default)]
pub(crate) struct Datagrams {
    open: HashMap<QueryKey, Exchange, Seeded>,
    servers: HashSet<Endpoint, Seeded>,
    answers: u64,
    looked_at: Nanos,
}

impl Datagrams {
    /// Processes a datagram; returns whether it was DNS.
    pub(crate) fn take(
        &mut self,
        from: Endpoint,
        to: Endpoint,
        datagram: &Datagram<'_>,
        output: &mut dyn Output,
    ) -> bool {
        if datagram.last - self.looked_at > UNANSWERED_AFTER / 4 {
            self.looked_at = datagram.last;
            self.expire(datagram.last, output);
        }
        let is_server = |endpoint: &Endpoint| DNS_PORTS.contains(&endpoint.port) || self.servers.contains(endpoint);
        let is_whole = datagram.payload.len() == datagram.length;
        let message = if is_whole { Message::parse(datagram.payload) } else { None };
        let span = Span { bytes: datagram.length as u64, first: Some(datagram.first), last: Some(datagram.last) };
        match message {
            Some(message) if message.is_response => {
                self.response(Path { client: to, server: from }, &message, span, output)
            }
            Some(message) => {
                let path = Path { client: from, server: to };
                self.query(path, &message, span, datagram.last, output)
            }
            None if is_whole && is_server(&to) => {
                malformed(Path { client: from, server: to }, span, output);
                true
            }
            None => is_server(&to) || is_server(&from),
        }
    }

    fn query(&mut self, path: Path, message: &Message<'_>, span: Span, at: Nanos, output: &mut dyn Output) -> bool {
        let key = QueryKey { path, id: message.id, question: message.question.to_ascii_lowercase() };
        if let Some(open) = self.open.get_mut(&key) {
            open.note += 1;
            let waited = at - open.request.first.unwrap_or(at);
            let kind = FindingKind::DnsRetry;
            output.finding(&Finding { kind, path, at, nanos: waited, count: open.note + 1, protocol: Some("dns") });
            return true;
        }
        if self.servers.len() < MAX_SERVERS {
            self.servers.insert(path.server);
        }
        if self.open.len() >= MAX_QUERIES {
            self.expire(Nanos::MAX, output);
        }
        let exchange = dns::exchange(message, span);
        self.open.insert(key, exchange);
        true
    }

    fn response(&mut self, path: Path, message: &Message<'_>, span: Span, output: &mut dyn Output) -> bool {
        let key = QueryKey { path, id: message.id, question: message.question.to_ascii_lowercase() };
        let Some(mut exchange) = self.open.remove(&key) else { return self.servers.contains(&path.server) };
        dns::answer(&mut exchange, message, span);
        exchange.number = self.answers;
        self.answers += 1;
        output.answered(&path, &exchange);
        true
    }

    /// Queries that waited too long are unanswered.
    pub(crate) fn expire(&mut self, now: Nanos, output: &mut dyn Output) {
        let is_old =
            |exchange: &Exchange| exchange.request.last.is_none_or(|last| now.saturating_sub(last) > UNANSWERED_AFTER);
        self.open.retain(|key, exchange| {
            let is_kept = !is_old(exchange);
            if !is_kept {
                output.unanswered(&key.path, exchange, Unanswered::NoResponse);
            }
            is_kept
        });
    }

    /// The capture ends: open exchanges are neither answered nor unanswered.
    pub(crate) fn finish(&mut self, output: &mut dyn Output) {
        for (key, exchange) in self.open.drain() {
            output.discarded(&key.path, &exchange, Reason::Gap);
        }
    }
}

fn malformed(path: Path, span: Span, output: &mut dyn Output) {
    let mut exchange = Exchange::bare("dns");
    exchange.op.push('?');
    exchange.request = span;
    output.unanswered(&path, &exchange, Unanswered::Malformed);
}
