//! `/v1/status` for people and scripts, `/-/healthy` and `/-/ready` for whoever watches the process.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use ogive_model::Ns;
use serde_json::{Map, Value};

use super::ask::blocking;
use super::error::{ApiError, json, text};
use super::{App, params};
use ogive_door::counters::Ledger;

/// One flat object.
pub(super) async fn get(State(app): State<App>) -> Response {
    json(StatusCode::OK, Value::Object(figures(&app)).to_string() + "\n")
}

/// A broker's spool and destinations; for gaps, which name series, those of the requesting tenant, or all for a login
/// without a tenant.
pub(super) async fn broker(State(app): State<App>, headers: HeaderMap) -> Result<Response, ApiError> {
    let tenant = params::tenant(&headers)?;
    // Each destination's lock is held while it reads a segment.
    let found = blocking("the broker's state", move || Ok(app.backend.broker(tenant.as_ref()))).await?;
    let found = found.ok_or_else(|| ApiError::not_found("this is no broker; `ogive broker -c FILE` starts one"))?;
    Ok(json(StatusCode::OK, found.to_string() + "\n"))
}

/// The clusters that hold a server's samples, and their nodes.
pub(super) async fn cluster(State(app): State<App>) -> Result<Response, ApiError> {
    let found = app.backend.cluster();
    let found =
        found.ok_or_else(|| ApiError::not_found("this server keeps its samples itself; see `ogive serve --store`"))?;
    Ok(json(StatusCode::OK, found.to_string() + "\n"))
}

/// Every figure of the server by name.
pub(super) fn figures(app: &App) -> Map<String, Value> {
    let mut out = Map::new();
    out.insert("version".into(), env!("CARGO_PKG_VERSION").into());
    out.insert("uptime_seconds".into(), (app.uptime() / Ns::from_secs(1)).into());
    for fact in ogive_observe::facts(&*app.backend) {
        // Whole numbers without a point.
        let whole = fact.value.fract() == 0.0 && fact.value.abs() < 9e15;
        out.insert(fact.name.into(), if whole { (fact.value as i64).into() } else { fact.value.into() });
    }
    let counters = &app.counters;
    for (at, (name, _)) in Ledger::default().sums().into_iter().enumerate() {
        out.insert(name.into(), counters.total(|ledger| ledger.sums()[at].1).into());
    }
    for (name, value) in [
        ("audit_lost_total", counters.audit.lost.get()),
        ("own_lost_total", counters.own_lost.get()),
        ("own_slow_dropped_total", counters.own_slow_dropped.get()),
        ("web_config_reload_failures_total", counters.door.reloads_failed.get()),
        ("queries_timed_out_total", counters.queries_timed_out.get()),
        ("query_memory_bytes", app.engine.options().memory.used() as u64),
        ("detect_bytes", app.detection.memory_bytes()),
        ("stream_window_bytes", app.live.as_ref().map_or(0, |live| live.recent().bytes() as u64)),
    ] {
        out.insert(name.into(), value.into());
    }
    for (outcome, count) in counters.forwards.late().into_iter().flatten() {
        out.insert(format!("forward_late_{outcome}_total"), count.into());
    }
    if let Some(why) = app.web.refused() {
        out.insert("web_config_refused".into(), why.into());
    }
    let turned_away = counters.door.failures().filter(|(_, count)| *count > 0);
    out.extend(turned_away.map(|(reason, count)| (format!("turned_away_{reason}_total"), count.into())));
    if counters.statsd.measurements.get() > 0 {
        let figures = counters.statsd.figures();
        out.extend(figures.map(|(name, _, value)| (name.to_owned(), value.into())));
    }
    // A protocol without traffic has nothing to report.
    for (protocol, ledger) in counters.ledgers() {
        let sums = ledger.sums();
        if sums.iter().any(|(_, sum)| *sum > 0) {
            out.extend(sums.map(|(name, sum)| (format!("{}_{name}", protocol.name()), sum.into())));
        }
    }
    let clock = app.clock.status();
    out.insert("clock_mode".into(), format!("{:?}", clock.mode).to_lowercase().into());
    out.insert("clock_source".into(), clock.source.name().into());
    out.insert("clock_hz".into(), clock.frequency_hz.into());
    out.insert("clock_error_ns".into(), clock.err_ns.into());
    out
}

/// The process answers.
pub(super) async fn healthy() -> Response {
    text(StatusCode::OK, "Ogive is healthy.\n")
}

/// The store is open: the listener answers only when it is.
pub(super) async fn ready(State(app): State<App>) -> Response {
    if *app.ending.borrow() {
        return text(StatusCode::SERVICE_UNAVAILABLE, "Ogive is ending.\n");
    }
    text(StatusCode::OK, "Ogive is ready.\n")
}
