//! What was seen, by connection and in all, so that anyone can add it up.

use std::collections::BTreeMap;
use std::io::{self, Write};

use ogive_wire::frame::Ignored;
use ogive_wire::{
    Exchange, Finding, Output, Path, Reason, Summary as Connection, TlsEnd, TlsEvent, Totals, Unanswered,
};
use serde_json::{Value, json};

use crate::cli::format::thousands;

/// Connections that are listed; the others count only in the totals.
const MAX_LISTED: usize = 100_000;

/// Adds up what is reported.
#[derive(Debug, Default)]
pub(super) struct Summary {
    answered: u64,
    unanswered: BTreeMap<Unanswered, u64>,
    discarded: BTreeMap<Reason, u64>,
    findings: BTreeMap<&'static str, u64>,
    /// Requests of connections, and how many of them have a known outcome.
    requests: u64,
    fates: u64,
    open: u64,
    connections: Vec<Connection>,
    unlisted: u64,
    retransmitted: u64,
    holes: u64,
    hole_bytes: u64,
    contradictory_bytes: u64,
    losses: u64,
    resyncs: u64,
    handshakes: u64,
    failed_handshakes: u64,
    turns: u64,
}

impl Summary {
    fn unanswered_sum(&self) -> u64 {
        self.unanswered.values().sum()
    }

    fn discarded_sum(&self) -> u64 {
        self.discarded.values().sum()
    }

    /// Requests seen, including those of datagrams.
    fn requests(&self) -> u64 {
        let all = self.answered + self.unanswered_sum() + self.discarded_sum();
        self.requests + (all - self.fates)
    }

    fn is_conserved(&self) -> bool {
        let fates = self.answered + self.unanswered_sum() + self.discarded_sum() + self.open;
        self.requests() == fates && self.connections.iter().all(Connection::is_conserved)
    }

    /// Prints it.
    pub(super) fn print(&self, mut out: impl Write, totals: &Totals, as_json: bool) -> io::Result<()> {
        if as_json {
            writeln!(out, "{}", self.json(totals))?;
        } else {
            self.text(&mut out, totals)?;
        }
        out.flush()
    }

    fn json(&self, totals: &Totals) -> Value {
        let ignored: BTreeMap<&str, u64> =
            Ignored::ALL.iter().map(|kind| (kind.name(), totals.ignored[*kind as usize])).collect();
        let unanswered: BTreeMap<&str, u64> = self.unanswered.iter().map(|(why, count)| (why.name(), *count)).collect();
        let discarded: BTreeMap<&str, u64> =
            self.discarded.iter().map(|(reason, count)| (reason.name(), *count)).collect();
        json!({
            "frames": totals.frames,
            "bytes": totals.bytes,
            "ignored_frames": ignored,
            "fragments_dropped": totals.fragments_dropped,
            "first_ns": totals.first,
            "last_ns": totals.last,
            "connections": totals.connections,
            "evicted_connections": totals.evicted,
            "requests": self.requests(),
            "answered": self.answered,
            "unanswered": unanswered,
            "discarded": discarded,
            "open": self.open,
            "is_conserved": self.is_conserved(),
            "retransmitted_segments": self.retransmitted,
            "holes": self.holes,
            "hole_bytes": self.hole_bytes,
            "contradictory_bytes": self.contradictory_bytes,
            "losses": self.losses,
            "resyncs": self.resyncs,
            "findings": self.findings,
            "tls": {"handshakes": self.handshakes, "failed_handshakes": self.failed_handshakes, "turns": self.turns},
            "by_connection": self.connections.iter().map(connection).collect::<Vec<_>>(),
            "unlisted_connections": self.unlisted,
        })
    }

    fn text(&self, out: &mut impl Write, totals: &Totals) -> io::Result<()> {
        let ignored: u64 = totals.ignored.iter().sum();
        let lines = [
            ("frames", totals.frames),
            ("  not read", ignored),
            ("bytes", totals.bytes),
            ("connections", totals.connections),
            ("  dropped at the limit", totals.evicted),
            ("requests", self.requests()),
            ("  answered", self.answered),
            ("  unanswered", self.unanswered_sum()),
            ("  discarded", self.discarded_sum()),
            ("  open", self.open),
            ("retransmitted segments", self.retransmitted),
            ("holes", self.holes),
            ("bytes in holes", self.hole_bytes),
            ("places lost", self.losses),
            ("  found again", self.resyncs),
            ("TLS handshakes", self.handshakes),
            ("  that failed", self.failed_handshakes),
            ("TLS turns", self.turns),
        ];
        for (name, value) in lines {
            writeln!(out, "{name:24}{:>16}", thousands(value))?;
        }
        for (why, count) in &self.unanswered {
            writeln!(out, "unanswered: {:12}{:>16}", why.name(), thousands(*count))?;
        }
        for (reason, count) in &self.discarded {
            writeln!(out, "discarded: {:13}{:>16}", reason.name(), thousands(*count))?;
        }
        for (kind, count) in &self.findings {
            writeln!(out, "finding: {kind:24}{:>7}", thousands(*count))?;
        }
        let verdict =
            if self.is_conserved() { "every request has its fate" } else { "REQUESTS ARE MISSING: please report this" };
        writeln!(out, "{verdict}")
    }
}

fn connection(connection: &Connection) -> Value {
    let discarded: u64 = connection.discarded.iter().sum();
    json!({
        "conn": connection.path.to_string(),
        "proto": connection.protocol.unwrap_or("tcp"),
        "handshake_ns": connection.handshake,
        "from_start": connection.from_start,
        "ended": connection.ended,
        "requests": connection.requests,
        "answered": connection.answered,
        "unanswered": connection.unanswered,
        "discarded": discarded,
        "open": connection.open,
        "client_bytes": connection.sides[0].bytes,
        "server_bytes": connection.sides[1].bytes,
        "hole_bytes": connection.sides[0].hole_bytes + connection.sides[1].hole_bytes,
        "retransmitted_segments": connection.sides[0].retransmitted + connection.sides[1].retransmitted,
    })
}

impl Output for Summary {
    fn answered(&mut self, _path: &Path, _exchange: &Exchange) {
        self.answered += 1;
    }

    fn unanswered(&mut self, _path: &Path, _exchange: &Exchange, why: Unanswered) {
        *self.unanswered.entry(why).or_default() += 1;
    }

    fn discarded(&mut self, _path: &Path, _exchange: &Exchange, reason: Reason) {
        *self.discarded.entry(reason).or_default() += 1;
    }

    fn connected(&mut self, _path: &Path, _took: i64, _at: i64) {}

    fn finding(&mut self, finding: &Finding) {
        *self.findings.entry(finding.kind.name()).or_default() += 1;
    }

    fn tls(&mut self, _path: &Path, event: &TlsEvent<'_>) {
        match event {
            TlsEvent::Handshake(handshake) if handshake.end == TlsEnd::Done => self.handshakes += 1,
            TlsEvent::Handshake(_) => self.failed_handshakes += 1,
            TlsEvent::Turn { .. } => self.turns += 1,
            TlsEvent::Bytes(_) => {}
        }
    }

    fn closed(&mut self, connection: &Connection) {
        self.requests += connection.requests;
        self.fates += connection.answered + connection.unanswered + connection.discarded.iter().sum::<u64>();
        self.open += connection.open;
        for side in &connection.sides {
            self.retransmitted += side.retransmitted;
            self.holes += side.holes;
            self.hole_bytes += side.hole_bytes;
            self.contradictory_bytes += side.contradictory_bytes;
        }
        self.losses += connection.losses;
        self.resyncs += connection.resyncs;
        if self.connections.len() < MAX_LISTED {
            self.connections.push(connection.clone());
        } else {
            self.unlisted += 1;
        }
    }
}
