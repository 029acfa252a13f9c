//! The HTTP API: the Prometheus endpoints, Ogive's own, and the page.
//!
//! Threads: connections are served by the async runtime, which never blocks; queries and large batches run on its
//! blocking threads, as many as their limits allow.
//! Limits: the constants of [`Limits`] and of each handler's module. Requests beyond them are answered 413 or 429.
//! Failure: every refusal is an `ApiError`.
//!
//! Belongs here: routes, responses, login, TLS, live streams, and the conversion of requests to batches for the door.
//! Does not belong here: a command line beyond its own options, reading of files (it is an argument), and starting of
//! the server.
#![forbid(unsafe_code)]

mod access;
mod admin;
mod app;
mod ask;
mod backtest;
mod batch;
mod batch_frames;
mod board;
mod body;
mod cardinality;
mod catalog;
mod cells;
mod classic_buckets;
mod client;
mod column_frame;
mod columns;
mod compare;
mod compression;
mod continuous;
mod cors;
mod detections;
mod error;
mod events;
mod exemplars;
mod explain;
mod expressions;
mod fair;
mod federate;
mod fleet;
mod fleet_session;
mod fleet_watch;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod group_columns;
mod groups;
mod heatmap;
mod httptrap;
mod influx;
mod irondb;
mod irondb_rules;
mod journald;
mod limits;
mod listener;
mod live;
mod logins;
mod logs;
mod merged;
mod metadata;
mod metrics;
mod multipart;
#[cfg(test)]
#[path = "../../protocol/src/mutations.rs"]
mod mutations;
mod otlp;
mod page;
mod params;
mod parts;
mod peer;
mod pieces;
mod place;
mod prometheus;
mod prometheus_json;
mod queries;
mod query_options;
mod query_stats;
mod reach;
mod remote_read;
mod remote_write;
mod resolution;
mod room;
mod rows;
mod rules;
mod senders;
mod shape;
mod slowest;
mod source_cells;
mod sources;
mod state;
mod status;
mod stream_places;
mod streams;
mod subscribe;
mod targets;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod texts;
mod tickets;
mod traces;
mod transfer;
mod upkeep;
mod views;
pub mod web;
mod widths;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};

pub use app::{App, Flag, Flags, Shared};
pub use cors::Cors;
pub use httptrap::Traps;
pub use influx::Rules as InfluxRules;
pub use irondb::router as irondb_router;
pub use limits::Limits;
pub use listener::{Routes, serve, serve_fleet};
pub use otlp::{Options as OtlpOptions, Otlp};
pub use query_options::QueryLimits;
pub use slowest::Slowest;
pub use upkeep::{document_of, snapshot as snapshot_document};

use error::ApiError;

/// 16 KiB for the body of a command (a scrub, a snapshot, a disk): a path and a number.
const COMMAND_BYTES_MAX: usize = 16 * 1024;

/// What is stored, and the care for it.
fn upkeep_routes() -> Router<App> {
    Router::new()
        .route("/v1/disks", get(upkeep::disks))
        .route("/v1/disks/add", post(upkeep::add))
        .route("/v1/disks/replace", post(upkeep::replace))
        .route("/v1/retention", get(upkeep::retention).post(upkeep::confirm_clock))
        .route("/v1/logins", get(logins::get))
        .route("/v1/scrub", get(upkeep::scrub).post(upkeep::start_scrub))
        .route("/v1/findings", get(upkeep::findings))
        .route("/v1/findings/acknowledge", post(upkeep::acknowledge))
        .route("/v1/snapshots", get(upkeep::snapshots).post(upkeep::create_snapshot))
        .route("/v1/snapshots/clone", post(upkeep::clone_snapshot))
        .route("/v1/snapshots/receive", post(transfer::receive))
        .route("/v1/snapshots/{name}", axum::routing::delete(upkeep::delete_snapshot))
}

fn stream_routes() -> Router<App> {
    Router::new()
        .route("/v1/cells", get(cells::get))
        .route("/v1/heatmap", get(heatmap::get).post(heatmap::get))
        .route("/v1/compare", get(compare::get).post(compare::get))
        .route("/v1/boards", get(board::list).post(board::save))
        .route("/v1/boards/{name}", get(board::get).delete(board::delete))
        .route("/v1/explain", get(explain::get).post(explain::get))
        .route("/v1/explain/related", get(explain::related).post(explain::related))
        .route("/v1/heatmap/groups", get(group_columns::get).post(group_columns::get))
        .route("/v1/events", get(events::get).post(events::post))
        .route("/v1/live", get(live::get))
        .route("/v1/stream", get(continuous::get))
        .route("/v1/subscribe", get(subscribe::get))
}

/// What brokers shall do, for whoever manages them.
fn fleet_routes() -> Router<App> {
    Router::new()
        .route("/v1/fleet/groups", get(fleet::groups))
        .route("/v1/fleet/groups/{name}", get(fleet::group).post(fleet::apply))
        .route("/v1/fleet/groups/{name}/rollback", post(fleet::rollback))
        .route("/v1/fleet/brokers", get(fleet::brokers))
        .route("/v1/fleet/brokers/{name}", axum::routing::delete(fleet::revoke))
        .route("/v1/fleet/brokers/{name}/requests", get(fleet::asked).post(fleet::ask))
        .route("/v1/fleet/brokers/{name}/connect", post(reach::connect))
        .route("/v1/fleet/brokers/{name}/live", get(fleet_watch::get))
        .route("/v1/fleet/tickets", get(fleet::tickets).post(fleet::ticket))
        .merge(link_routes())
}

/// The same for brokers, which show their own tokens.
fn link_routes() -> Router<App> {
    Router::new()
        .route("/v1/fleet/enroll", post(fleet::enrol))
        .route("/v1/fleet/poll", post(fleet::poll))
        .route("/v1/fleet/rotate", post(fleet::rotate))
        .route("/v1/fleet/outcomes", post(fleet::outcomes))
        .route("/v1/fleet/stream", post(reach::stream))
}

/// What is served at an address of brokers alone.
pub fn fleet_router(app: App) -> Router {
    let routes = link_routes().fallback(fleet::elsewhere).layer(axum::Extension(fleet::OwnAddress));
    layered(routes, app)
}

/// Rules, alerts, and what keeps them quiet.
fn alert_routes() -> Router<App> {
    Router::new()
        .route("/api/v1/alertmanagers", get(rules::alert_managers))
        .route("/api/v1/rules", get(rules::rules))
        .route("/api/v1/alerts", get(rules::alerts))
        .route("/v1/rules/backtest", post(backtest::post))
        .route("/v1/alerts", get(rules::quiet_alerts))
        .route("/v1/tickets", axum::routing::post(tickets::vend))
        .route("/v1/silences", get(rules::silences).post(rules::silence))
        .route("/v1/silences/{id}", axum::routing::delete(rules::unsilence))
}

/// Every route.
pub fn router(app: App) -> Router {
    let routes = Router::new()
        .route("/api/v1/query", get(prometheus::query).post(prometheus::query))
        .route("/api/v1/query_range", get(prometheus::query_range).post(prometheus::query_range))
        .route("/api/v1/series", get(catalog::series).post(catalog::series))
        .route("/api/v1/labels", get(catalog::labels).post(catalog::labels))
        .route("/api/v1/label/{name}/values", get(catalog::label_values))
        .route("/api/v1/format_query", get(expressions::format).post(expressions::format))
        .route("/api/v1/parse_query", get(expressions::parse).post(expressions::parse))
        .route("/api/v1/metadata", get(metadata::get))
        .route("/api/v1/status/buildinfo", get(prometheus::buildinfo))
        .route("/api/v1/status/config", get(state::config))
        .route("/api/v1/status/flags", get(state::flags))
        .route("/api/v1/status/runtimeinfo", get(state::runtime))
        .route("/api/v1/status/tsdb", get(state::storage))
        .route("/api/v1/status/walreplay", get(state::replay))
        .route("/api/v1/features", get(state::features))
        .route("/api/v1/write", post(remote_write::post))
        .route("/api/v1/otlp/v1/metrics", post(otlp::metrics))
        .route("/api/v1/otlp/v1/logs", post(otlp::logs))
        .route("/api/v1/otlp/v1/traces", post(otlp::traces))
        .route("/v1/metrics", post(otlp::metrics))
        .route("/v1/logs", get(logs::get).post(otlp::logs))
        .route("/v1/logs/columns", get(logs::columns))
        .route("/opentelemetry.proto.collector.metrics.v1.MetricsService/Export", post(otlp::metrics))
        .route("/opentelemetry.proto.collector.logs.v1.LogsService/Export", post(otlp::logs))
        .route("/opentelemetry.proto.collector.trace.v1.TraceService/Export", post(otlp::traces))
        .route("/upload", post(journald::post))
        .route("/write", post(influx::write_v1))
        .route("/api/v2/write", post(influx::write_v2))
        .route("/ping", get(influx::ping))
        .route("/health", get(influx::health))
        .route("/query", get(influx::query).post(influx::query))
        .route("/module/httptrap/{check}/{secret}", put(httptrap::submit).post(httptrap::submit))
        .route("/api/v1/read", post(remote_read::post))
        .route("/api/v1/query_exemplars", get(exemplars::get).post(exemplars::get))
        .route("/federate", get(federate::get))
        .route("/api/v1/admin/tsdb/delete_series", post(admin::delete_series).put(admin::delete_series))
        .route("/api/v1/admin/tsdb/clean_tombstones", post(admin::clean_tombstones).put(admin::clean_tombstones))
        .route("/api/v1/targets", get(targets::targets))
        .route("/api/v1/targets/metadata", get(targets::metadata))
        .route("/api/v1/scrape_pools", get(targets::pools))
        .route("/-/reload", post(targets::reload).put(targets::reload))
        .route("/v1/batch", post(batch_frames::post))
        .merge(stream_routes())
        .route("/v1/traces", get(traces::get).post(otlp::traces))
        .route("/v1/traces/columns", get(traces::columns))
        .route("/v1/queries", get(queries::get))
        .route("/v1/senders", get(senders::get))
        .route("/v1/cardinality", get(cardinality::get))
        .route("/v1/detections", get(detections::get))
        .route("/v1/detections/run", get(detections::run))
        .route("/v1/status", get(status::get))
        .route("/v1/broker", get(status::broker))
        .route("/v1/cluster", get(status::cluster))
        .merge(upkeep_routes())
        .merge(alert_routes())
        .merge(fleet_routes())
        .route("/metrics", get(metrics::get))
        .route("/-/healthy", get(status::healthy))
        .route("/-/ready", get(status::ready))
        .method_not_allowed_fallback(wrong_method)
        .fallback(page::get);
    layered(routes, app)
}

/// `routes` behind what every request passes first.
fn layered(routes: Router<App>, app: App) -> Router {
    routes
        .layer(DefaultBodyLimit::max(COMMAND_BYTES_MAX))
        .layer(axum::middleware::from_fn_with_state(app.clone(), queries::measured))
        .layer(axum::middleware::from_fn(client::carry))
        .layer(axum::middleware::from_fn_with_state(app.clone(), access::check))
        .layer(axum::middleware::from_fn_with_state(app.cors.clone(), cors::apply))
        .layer(axum::middleware::from_fn_with_state(app.clone(), measure))
        .with_state(app)
}

/// The answer to a method that an address does not take, and to OPTIONS; the router adds the header Allow.
async fn wrong_method(method: Method, headers: HeaderMap) -> Response {
    if method == Method::OPTIONS {
        return StatusCode::NO_CONTENT.into_response();
    }
    let message = format!("{method} is not for this address; the header Allow names what is, docs/http.md what for");
    otlp::unknown_call(&headers, &message).unwrap_or_else(|| ApiError::method(message).into_response())
}

/// Routes whose answers wait for something else.
const UNMEASURED: [&str; 6] = [
    "/v1/live",
    "/v1/stream",
    "/v1/subscribe",
    "/v1/fleet/poll",
    "/v1/fleet/brokers/{name}/connect",
    "/v1/fleet/brokers/{name}/live",
];

/// Measures each request from its head to the head of its answer, and marks the answer as safe to embed nowhere.
async fn measure(State(app): State<App>, request: Request, next: Next) -> Response {
    let from = app.clock.now();
    let route = access::route_name(request.extensions().get());
    let mut response = next.run(request).await;
    let status = response.status();
    // A stream's head says nothing of how long it took to answer.
    if !UNMEASURED.contains(&route) {
        app.meters.http_request(route, status.as_u16(), app.clock.now().saturating_sub(from));
    }
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.extend(app.web.headers().iter().map(|(name, value)| (name.clone(), value.clone())));
    response
}
