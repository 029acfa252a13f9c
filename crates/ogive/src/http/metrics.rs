//! `/metrics`: the server's own counters in the Prometheus text format 0.0.4.

use std::fmt::Write as _;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::App;
use crate::observe::help;
use crate::own_value::OwnValue;

pub(super) async fn get(State(app): State<App>) -> Response {
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    (StatusCode::OK, kind, exposition(&app)).into_response()
}

fn exposition(app: &App) -> String {
    let counters = &app.counters;
    let mut out = String::new();
    let samples = "ogive_ingest_samples_total";
    family(&mut out, samples, "counter", help(samples));
    for (outcome, reason, value) in counters.ledger() {
        writeln!(out, "{samples}{{outcome=\"{outcome}\",reason=\"{reason}\"}} {value}").expect("writes to memory");
    }
    for (name, text, value) in [
        ("ogive_ingest_received_samples_total", "Samples in batches that could be read.", counters.received.get()),
        (
            "ogive_ingest_folded_samples_total",
            "Of the accepted samples, those beyond a limit of their tenant: they are in ogive_overflow.",
            counters.folded.get(),
        ),
        ("ogive_ingest_batches_total", "Batches answered.", counters.batches.get()),
        ("ogive_ingest_unreadable_total", "Requests in which no batch could be read.", counters.unreadable.get()),
        ("ogive_ingest_bytes_total", "Bytes of request bodies with batches.", counters.ingest_bytes.get()),
        ("ogive_queries_timed_out_total", "Queries that took longer than they may.", counters.queries_timed_out.get()),
        ("ogive_own_lost_total", "Own cells that the store did not take.", counters.own_lost.get()),
        (
            "ogive_own_slow_dropped_total",
            "Own slow traces for which there was no room.",
            counters.own_slow_dropped.get(),
        ),
        ("ogive_ingest_exemplars_ignored_total", "Exemplars, which are not stored.", counters.exemplars_ignored.get()),
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
