//! The HTTP API: the Prometheus endpoints, Ogive's own, and the page.
//!
//! Threads: connections are served by the async runtime, which never blocks; queries and large batches run on its
//! blocking threads, as many as their limits allow.
//! Limits: the constants of [`Limits`] and of each handler's module. What is beyond them is answered 413 or 429.
//! Failure: every refusal is an `ApiError`.
//!
//! What may be in it: routes, answers, login, TLS, live streams, and how requests become batches for the door. What may not: a command line beyond
//! its own options, files (how they are read is an argument), and who starts the server.
#![forbid(unsafe_code)]

mod access;
mod admin;
mod ask;
mod backtest;
mod batch;
mod batches;
mod body;
mod catalog;
mod cells;
mod classic_buckets;
mod columns;
mod compression;
mod continuous;
mod cors;
mod detections;
mod error;
mod exemplars;
mod expressions;
mod federate;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod groups;
mod heatmap;
mod influx;
mod listener;
mod live;
mod logs;
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
mod query_stats;
mod remote_read;
mod remote_write;
mod resolution;
mod room;
mod rows;
mod rules;
mod shape;
mod sources;
mod state;
mod status;
mod streams;
mod subscribe;
mod targets;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod texts;
mod traces;
mod transfer;
mod upkeep;
mod views;
pub mod web;
mod widths;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use tokio::sync::Semaphore;

pub use cors::Cors;
pub use influx::Rules as InfluxRules;
pub use listener::serve;
use ogive_door::Door;
use ogive_storage::upkeep::Upkeep;
pub use otlp::{Options as OtlpOptions, Otlp};
pub use upkeep::{document_of, snapshot as snapshot_document};
use web::Web;

use error::ApiError;
use ogive_protocol::remote_write::Known;
use place::Places;
use room::Room;
use streams::Streams;

/// What every handler can reach; cloning shares it.
pub type App = Arc<Shared>;

/// See [`App`].
pub struct Shared {
    /// The way in for samples.
    pub door: Arc<Door>,
    /// Live cells, where there are any.
    pub live: Option<Arc<ogive_storage::live::Live>>,
    /// Evaluates queries.
    pub engine: ogive_query::Engine,
    /// When the server started, on the clock's line.
    pub started_ns: u64,
    /// What may go on at once.
    pub limits: Limits,
    /// The series that remote write and OTLP wrote before.
    pub written: Known,
    /// What requests of OTLP have in common.
    pub otlp: Otlp,
    /// How InfluxDB's lines are read.
    pub influx: influx::Rules,
    /// Deletion may be asked for.
    pub admin: bool,
    /// The care for what is stored on this machine's disks.
    pub upkeep: Option<Upkeep>,
    /// Who may come in.
    pub web: Arc<Web>,
    /// Which pages of other sites may read answers; none when nobody says.
    pub cors: Option<Cors>,
    /// Rules and alerts.
    pub alerting: Arc<ogive_alerting::rules_view::View>,
    /// What is scraped.
    pub scrape: Arc<ogive_scrape::View>,
    /// The options that it was started with.
    pub flags: Flags,
    /// What the detectors found.
    pub detection: Arc<ogive_alerting::detection::board::Board>,
}

/// What is behind the door is reached as if it were here: `app.backend`.
impl std::ops::Deref for Shared {
    type Target = Arc<Door>;

    fn deref(&self) -> &Arc<Door> {
        &self.door
    }
}

/// The options of the server, for whoever asks how it was started.
#[derive(Clone, Debug, Default)]
pub struct Flags(pub Vec<Flag>);

impl Flags {
    /// The values of the option `name`.
    pub fn of(&self, name: &str) -> Vec<String> {
        self.0.iter().filter(|flag| flag.name == name).flat_map(|flag| flag.values.clone()).collect()
    }
}

/// One option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flag {
    /// Without the dashes before it.
    pub name: String,
    /// As they were given, each of those that may be named several times.
    pub values: Vec<String>,
    /// Nobody gave it.
    pub is_default: bool,
}

/// What may go on at once.
pub struct Limits {
    /// Kibibytes of request bodies that are being read or decoded.
    ingest_kib: Arc<Room>,
    /// Kibibytes of what bodies unfolded to, until the store has it.
    unfolded_kib: Arc<Semaphore>,
    /// Bodies that are being read into batches.
    reading: Arc<Semaphore>,
    /// Kibibytes of forms that are being read.
    forms_kib: Arc<Room>,
    /// The longest that a query may take, and what it may take when it says nothing.
    query_timeout: Duration,
    /// Bytes that one query may hold.
    query_memory_bytes: usize,
    /// Queries that run or wait.
    queries: Places,
    /// Live streams.
    streams: Arc<Streams>,
}

impl Limits {
    /// 64 MiB of bodies: two of the largest.
    pub const INGEST_KIB: u32 = 64 * 1024;
    /// 256 MiB of batches and their frames between a body and the store's answer: two of the worst that a request may unfold to.
    pub const UNFOLDED_KIB: usize = ogive_door::room::UNFOLDED_KIB;
    /// 4 bodies become batches at once unless `--listener-threads` says how many, twice the processors of a small machine: the worst of
    /// them take [`READ_BYTES_MAX`] each, the rest wait as the bytes that they are.
    ///
    /// [`READ_BYTES_MAX`]: ogive_protocol::READ_BYTES_MAX
    pub const READING: usize = 4;
    /// 32 MiB of forms with expressions: 32 of the largest, thousands of usual ones.
    pub const FORMS_KIB: usize = 32 * 1024;
    /// Queries that run or wait on a thread.
    pub const QUERIES: usize = place::SMALL + place::LARGE + place::WAITING;
    /// 1 GiB for what one query holds: a million series with their labels, some samples of each, and what an operator makes of them.
    pub const QUERY_MEMORY_MIB: usize = 1024;
    /// 2 GiB for what all queries hold together: two of the largest, or a great many usual ones.
    pub const QUERIES_MEMORY_MIB: usize = 2048;
    /// 64 live streams: each costs one small query a second.
    pub const STREAMS: usize = 64;

    /// 2 minutes, as in Prometheus.
    pub const QUERY_TIMEOUT: Duration = Duration::from_secs(120);

    /// So many bodies become batches at once.
    pub fn with_reading(self, bodies: usize) -> Self {
        Self { reading: Arc::new(Semaphore::new(bodies)), ..self }
    }

    /// One query may hold so many bytes.
    pub fn with_query_memory(self, bytes: usize) -> Self {
        Self { query_memory_bytes: bytes, ..self }
    }

    /// The longest that a query may take.
    pub fn query_timeout(&self) -> Duration {
        self.query_timeout
    }

    /// The limits of a server whose queries take no longer than `query_timeout`.
    pub fn new(query_timeout: Duration) -> Self {
        let semaphore = |permits| Arc::new(Semaphore::new(permits));
        Self {
            query_timeout,
            forms_kib: Room::new(Self::FORMS_KIB),
            ingest_kib: Room::new(Self::INGEST_KIB as usize),
            unfolded_kib: semaphore(Self::UNFOLDED_KIB),
            reading: semaphore(Self::READING),
            query_memory_bytes: Self::QUERY_MEMORY_MIB << 20,
            queries: Places::new(),
            streams: Streams::new(Self::STREAMS),
        }
    }
}

/// 16 KiB for the body of a command (a scrub, a snapshot, a disk): a path and a number.
const COMMAND_BYTES_MAX: usize = 16 * 1024;

/// What is stored, and the care for it.
fn upkeep_routes() -> Router<App> {
    Router::new()
        .route("/v1/disks", get(upkeep::disks))
        .route("/v1/disks/add", post(upkeep::add))
        .route("/v1/disks/replace", post(upkeep::replace))
        .route("/v1/retention", get(upkeep::retention).post(upkeep::confirm_clock))
        .route("/v1/scrub", get(upkeep::scrub).post(upkeep::start_scrub))
        .route("/v1/findings", get(upkeep::findings))
        .route("/v1/findings/acknowledge", post(upkeep::acknowledge))
        .route("/v1/snapshots", get(upkeep::snapshots).post(upkeep::create_snapshot))
        .route("/v1/snapshots/clone", post(upkeep::clone_snapshot))
        .route("/v1/snapshots/receive", post(transfer::receive))
        .route("/v1/snapshots/{name}", axum::routing::delete(upkeep::delete_snapshot))
}

/// Every route.
pub fn router(app: App) -> Router {
    Router::new()
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
        .route("/api/v1/alertmanagers", get(rules::alert_managers))
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
        .route("/write", post(influx::write_v1))
        .route("/api/v2/write", post(influx::write_v2))
        .route("/ping", get(influx::ping))
        .route("/health", get(influx::health))
        .route("/query", get(influx::query).post(influx::query))
        .route("/api/v1/read", post(remote_read::post))
        .route("/api/v1/query_exemplars", get(exemplars::get).post(exemplars::get))
        .route("/federate", get(federate::get))
        .route("/api/v1/rules", get(rules::rules))
        .route("/api/v1/alerts", get(rules::alerts))
        .route("/api/v1/admin/tsdb/delete_series", post(admin::delete_series).put(admin::delete_series))
        .route("/api/v1/admin/tsdb/clean_tombstones", post(admin::clean_tombstones).put(admin::clean_tombstones))
        .route("/api/v1/targets", get(targets::targets))
        .route("/api/v1/targets/metadata", get(targets::metadata))
        .route("/api/v1/scrape_pools", get(targets::pools))
        .route("/-/reload", post(targets::reload).put(targets::reload))
        .route("/v1/batch", post(batch::post))
        .route("/v1/cells", get(cells::get))
        .route("/v1/heatmap", get(heatmap::get).post(heatmap::get))
        .route("/v1/live", get(live::get))
        .route("/v1/stream", get(continuous::get))
        .route("/v1/subscribe", get(subscribe::get))
        .route("/v1/traces", get(traces::get).post(otlp::traces))
        .route("/v1/traces/columns", get(traces::columns))
        .route("/v1/detections", get(detections::get))
        .route("/v1/detections/run", get(detections::run))
        .route("/v1/rules/backtest", post(backtest::post))
        .route("/v1/status", get(status::get))
        .route("/v1/broker", get(status::broker))
        .merge(upkeep_routes())
        .route("/metrics", get(metrics::get))
        .route("/-/healthy", get(status::healthy))
        .route("/-/ready", get(status::ready))
        .method_not_allowed_fallback(wrong_method)
        .fallback(page::get)
        .layer(DefaultBodyLimit::max(COMMAND_BYTES_MAX))
        .layer(axum::middleware::from_fn(place::carry))
        .layer(axum::middleware::from_fn_with_state(app.clone(), access::check))
        .layer(axum::middleware::from_fn_with_state(app.clone(), cors::apply))
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

/// Measures each request from its head to the head of its answer, and marks the answer as safe to embed nowhere.
async fn measure(State(app): State<App>, request: Request, next: Next) -> Response {
    let from = app.clock.now();
    let route = access::route_name(request.extensions().get());
    let mut response = next.run(request).await;
    let status = response.status();
    // A stream's head says nothing of how long it took to answer.
    if !["/v1/live", "/v1/stream", "/v1/subscribe"].contains(&route) {
        app.meters.http_request(route, status.as_u16(), app.clock.now().saturating_sub(from));
    }
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.extend(app.web.headers().iter().map(|(name, value)| (name.clone(), value.clone())));
    response
}

/// A plain text answer.
fn text(status: StatusCode, text: impl Into<String>) -> Response {
    (status, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text.into()).into_response()
}
