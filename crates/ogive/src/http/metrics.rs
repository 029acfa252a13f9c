//! `/metrics`: the server's own counters in the Prometheus text format 0.0.4.

use std::fmt::Write as _;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::App;
use crate::counters::{Entry, Ledger};
use crate::observe::{UNREADABLE, help};
use crate::own_value::OwnValue;

/// A counter of each protocol: its name, what it tells, and where it is.
type ByProtocol = (&'static str, &'static str, fn(&Ledger) -> u64);

const BY_PROTOCOL: [ByProtocol; 4] = [
    ("ogive_ingest_received_samples_total", "Samples in batches that could be read.", |ledger| ledger.received.get()),
    (
        "ogive_ingest_folded_samples_total",
        "Of the accepted samples, those beyond a limit of their tenant: they are in ogive_overflow.",
        |ledger| ledger.folded.get(),
    ),
    ("ogive_ingest_batches_total", "Batches answered.", |ledger| ledger.batches.get()),
    ("ogive_ingest_bytes_total", "Bytes as they came.", |ledger| ledger.bytes.get()),
];

pub(super) async fn get(State(app): State<App>) -> Response {
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    (StatusCode::OK, kind, exposition(&app)).into_response()
}

fn exposition(app: &App) -> String {
    let counters = &app.counters;
    let mut out = String::new();
    let samples = "ogive_ingest_samples_total";
    family(&mut out, samples, "counter", help(samples));
    for Entry { protocol, outcome, reason, samples: value } in counters.entries() {
        let labels = format!("outcome=\"{outcome}\",protocol=\"{protocol}\",reason=\"{reason}\"");
        writeln!(out, "{samples}{{{labels}}} {value}").expect("writes to memory");
    }
    family(&mut out, UNREADABLE, "counter", help(UNREADABLE));
    for (protocol, reason, value) in counters.unreadable() {
        writeln!(out, "{UNREADABLE}{{protocol=\"{protocol}\",reason=\"{reason}\"}} {value}").expect("writes to memory");
    }
    for (name, text, each) in BY_PROTOCOL {
        family(&mut out, name, "counter", text);
        for (protocol, ledger) in counters.ledgers() {
            writeln!(out, "{name}{{protocol=\"{}\"}} {}", protocol.name(), each(ledger)).expect("writes to memory");
        }
    }
    for (name, text, value) in [
        ("ogive_queries_timed_out_total", "Queries that took longer than they may.", counters.queries_timed_out.get()),
        ("ogive_own_lost_total", "Own cells that the store did not take.", counters.own_lost.get()),
        (
            "ogive_own_slow_dropped_total",
            "Own slow traces for which there was no room.",
            counters.own_slow_dropped.get(),
        ),
    ] {
        family(&mut out, name, "counter", text);
        writeln!(out, "{name} {value}").expect("writes to memory");
    }
    let uptime = app.clock.now().saturating_sub(app.started_ns) as f64 / 1e9;
    family(&mut out, "ogive_uptime_seconds", "gauge", "Seconds since the server started.");
    writeln!(out, "ogive_uptime_seconds {uptime}").expect("writes to memory");
    for fact in app.backend.facts() {
        let name = format!("ogive_store_{}", fact.name);
        family(&mut out, &name, if name.ends_with("_total") { "counter" } else { "gauge" }, "A figure of the store.");
        writeln!(out, "{name} {}", fact.value).expect("writes to memory");
    }
    clock(&mut out, &app.meters.clock_values());
    out
}

/// The figures of the clock, as they were last stored.
fn clock(out: &mut String, values: &[OwnValue]) {
    for of_one in values.chunk_by(|one, next| one.name() == next.name()) {
        let name = of_one[0].name();
        family(out, name, of_one[0].kind(), help(name));
        for value in of_one {
            writeln!(out, "{value}").expect("writes to memory");
        }
    }
}

fn family(out: &mut String, name: &str, kind: &str, help: &str) {
    writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}").expect("writes to memory");
}
