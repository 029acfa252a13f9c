//! The handlers in front of a store in memory.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::response::Response;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::*;
use crate::web::Web;
use ogive_door::Door;
use ogive_door::backend::{Backend, Refusal};
use ogive_door::counters::Protocol;
use ogive_door::memory::Memory;
use ogive_door::own_value::OwnValue;
use ogive_model::{MonoNs, Ns};
use ogive_probe::Clock;
use ogive_protocol::remote_write::KnownSeries;
use std::sync::Arc;
use tokio::sync::watch;

const SOURCE: &str = "123e4567-e89b-12d3-a456-426614174000";

/// What stands behind a server without a socket, and what ends it.
fn app(backend: Arc<dyn Backend>, clock: Clock) -> (App, watch::Sender<bool>) {
    let (end, ending) = watch::channel(false);
    let door = Door::fresh(backend, clock, ending);
    let app = Arc::new(Shared {
        door,
        live: None,
        engine: ogive_query::Engine::default(),
        started: MonoNs(0),
        limits: Limits::new(Limits::QUERY_TIMEOUT),
        written: KnownSeries::default(),
        otlp: Otlp::new(ogive_protocol::otlp::Options::default(), Ns::from_secs(1)),
        influx: super::influx::Rules { db_label: "db".into(), ..Default::default() },
        traps: Default::default(),
        admin: false,
        upkeep: None,
        web: Arc::new(Web::open(None, crate::testing::read_file, Arc::default()).unwrap()),
        cors: None,
        alerting: Arc::default(),
        scrape: Arc::default(),
        flags: Flags::default(),
        slowest: Default::default(),
        detection: Arc::default(),
        fleet: None,
    });
    (app, end)
}

/// A server without a socket.
pub(super) struct Server {
    pub(super) app: App,
    pub(super) memory: Arc<Memory>,
    _end: watch::Sender<bool>,
}

impl Server {
    pub(super) fn new() -> Self {
        let memory = Arc::<Memory>::default();
        let clock = Clock::manual(1_000_000_000, 1_700_000_002_500_000_000);
        let (app, end) = app(memory.clone(), clock);
        Self { app, memory, _end: end }
    }

    pub(super) async fn send(&self, request: Request<Body>) -> Response {
        router(self.app.clone()).oneshot(request).await.unwrap()
    }

    pub(super) async fn get(&self, path: &str) -> (StatusCode, Value) {
        answer(self.send(Request::get(path).body(Body::empty()).unwrap()).await).await
    }

    async fn post(&self, kind: &str, body: impl Into<Body>) -> (StatusCode, Value) {
        let request = Request::post("/v1/batch").header("content-type", kind).body(body.into()).unwrap();
        answer(self.send(request).await).await
    }

    pub(super) async fn batch(&self, sequence: u64, series: Value, samples: Value) -> (StatusCode, Value) {
        let body = json!({"source": SOURCE, "sequence": sequence, "series": series, "samples": samples});
        self.post("application/json", body.to_string()).await
    }

    /// A server with one histogram series of three cells and one float series.
    pub(super) async fn filled() -> Self {
        let server = Self::new();
        let series = json!([
            {"labels": {"__name__": "rpc_seconds", "route": "/a"}, "kind": "histogram", "unit": "s", "width_ms": 1000},
            {"labels": {"__name__": "up", "job": "x"}, "kind": "float"},
        ]);
        let cell = |t: i64, bins: Value| json!({"series": 0, "time_ms": t, "histogram": {"bins": bins}});
        let samples = json!([
            cell(1_700_000_000_000, json!({"1e-3": 1})),
            cell(1_700_000_001_000, json!({"1.2e-3": 4, "3.5e-2": 1})),
            cell(1_700_000_002_000, json!({"1e-3": 2})),
            {"series": 1, "time_ms": 1_700_000_002_000_i64, "float": 1.5},
        ]);
        let (status, body) = server.batch(1, series, samples).await;
        assert_eq!((status, &body["accepted"]), (StatusCode::OK, &json!(4)));
        server
    }
}

async fn answer(response: Response) -> (StatusCode, Value) {
    let status = response.status();
    let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
    (status, serde_json::from_slice(&body).unwrap_or_else(|_| json!(String::from_utf8_lossy(&body))))
}

#[tokio::test]
async fn a_batch_is_answered_sample_by_sample() {
    let server = Server::new();
    let series = json!([
        {"labels": {"__name__": "a"}, "kind": "float"}, {"labels": {"x": "no name"}, "kind": "float"},
    ]);
    let samples = json!([
        {"series": 0, "time_ms": 1, "float": 1}, {"series": 1, "time_ms": 1, "float": 1},
        {"series": 7, "time_ms": 1, "float": 1}, {"series": 0, "time_ms": 1, "histogram": {"bins": {"1": -1}}},
        {"series": 0, "time_ms": 2, "float": "NaN"},
    ]);
    let (status, body) = server.batch(1, series.clone(), samples.clone()).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!((&body["accepted"], &body["duplicate"]), (&json!(2), &json!(0)));
    let reasons: Vec<_> =
        body["rejected"].as_array().unwrap().iter().map(|r| (r["sample"].clone(), r["reason"].clone())).collect();
    let expected = [(1, "labels_invalid"), (2, "series_unknown"), (3, "histogram_invalid")];
    assert_eq!(reasons, expected.map(|(sample, reason)| (json!(sample), json!(reason))));
    assert!(body["rejected"][0]["detail"].as_str().unwrap().contains("__name__"), "{body}");
    let (status, body) = server.batch(1, series, samples).await;
    assert_eq!((status, body), (StatusCode::OK, json!({"accepted": 0, "duplicate": 5, "rejected": []})));
    let counters = server.app.counters.of(Protocol::Batch);
    assert_eq!((counters.received.get(), counters.accepted.get(), counters.duplicate.get()), (10, 2, 5));
    assert_eq!(counters.rejected_total(), 3);
}

#[tokio::test]
async fn a_batch_with_nothing_good_is_a_400_with_the_same_body() {
    let server = Server::new();
    let (status, body) = server.batch(1, json!([]), json!([{"series": 0, "time_ms": 1, "float": 1}])).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert_eq!(
        (&body["status"], &body["errorType"], &body["accepted"]),
        (&json!("error"), &json!("bad_data"), &json!(0))
    );
    assert_eq!(body["rejected"], json!([{"sample": 0, "reason": "series_unknown"}]));
    assert!(body["error"].as_str().unwrap().contains("series_unknown"));
    let (status, body) = server.batch(2, json!([]), json!([])).await;
    assert_eq!((status, body), (StatusCode::OK, json!({"accepted": 0, "duplicate": 0, "rejected": []})));
}

#[tokio::test]
async fn what_is_no_batch_is_refused_by_kind() {
    let server = Server::new();
    let check = async |kind: &str, body: Vec<u8>, expected: StatusCode, word: &str| {
        let (status, answer) = server.post(kind, body).await;
        assert_eq!(status, expected, "{answer}");
        assert_eq!(answer["status"], "error");
        assert!(answer["error"].as_str().unwrap().contains(word), "{answer}");
    };
    const FLAT: &str = "application/x-ogive-batch-flatbuffer";
    check("application/json", b"{".to_vec(), StatusCode::BAD_REQUEST, "line 1").await;
    check("application/json; charset=utf-8", b"[]".to_vec(), StatusCode::BAD_REQUEST, "batch").await;
    // Forms of pages can send these three, and nothing at all, without being asked.
    for kind in ["", "multipart/form-data", "application/x-www-form-urlencoded"] {
        check(kind, b"{}".to_vec(), StatusCode::UNSUPPORTED_MEDIA_TYPE, "application/json").await;
    }
    let (status, answer) = answer(server.send(Request::post("/v1/batch").body(Body::from("{}")).unwrap()).await).await;
    assert_eq!(status, StatusCode::UNSUPPORTED_MEDIA_TYPE, "{answer}");
    check("text/plain", b"{}".to_vec(), StatusCode::UNSUPPORTED_MEDIA_TYPE, "application/json").await;
    check(FLAT, b"OGVF".to_vec(), StatusCode::BAD_REQUEST, "header").await;
    check(FLAT, vec![0; 100], StatusCode::BAD_REQUEST, "OGVF").await;
    check("application/json", vec![b' '; body::BODY_BYTES_MAX + 1], StatusCode::PAYLOAD_TOO_LARGE, "split").await;
    assert_eq!(server.app.counters.of(Protocol::Batch).unreadable_total(), 10);
    assert_eq!(server.app.limits.ingest_kib.free_kib.available_permits(), Limits::INGEST_KIB as usize);
}

#[tokio::test]
async fn frames_are_read_and_broken_ones_refused() {
    use ogive_model::{Batch, Kind, Sample, SeriesDef, SeriesMeta, SourceId, Temporality};
    let server = Server::new();
    let meta = SeriesMeta { kind: Kind::Float, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };
    let series = vec![SeriesDef::new([("__name__", "a")], meta)];
    let samples = vec![Ok(Sample { series: 0, time_ns: 1, start_ns: None, value: ogive_model::Value::Float(1.0) })];
    let frame = Batch { source: SourceId(7), sequence: 1, series, samples, ..Batch::default() }.encode().unwrap();
    const FLAT: &str = "application/x-ogive-batch-flatbuffer";
    let (status, body) = server.post(FLAT, frame.clone()).await;
    assert_eq!((status, body), (StatusCode::OK, json!({"accepted": 1, "duplicate": 0, "rejected": []})));
    for at in 0..frame.len() {
        let (status, _) = server.post(FLAT, frame[..at].to_vec()).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "cut at {at}");
        let mut flipped = frame.clone();
        flipped[at] ^= 1;
        let (status, body) = server.post(FLAT, flipped).await;
        // Bytes 6 and 7 are flags under the checksum like the rest.
        assert_eq!(status, StatusCode::BAD_REQUEST, "bit at {at}: {body}");
    }
}

#[tokio::test]
async fn refusals_have_their_status() {
    let server = Server::new();
    for (refusal, expected, kind) in [
        (Refusal::Busy, StatusCode::TOO_MANY_REQUESTS, "busy"),
        (Refusal::DiskFull("no space".into()), StatusCode::INSUFFICIENT_STORAGE, "disk_full"),
        (Refusal::Failed("broken".into()), StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
    ] {
        *server.memory.refusal.lock().unwrap() = Some(refusal);
        let (status, body) = server.batch(1, json!([]), json!([{"series": 0, "time_ms": 1, "float": 1}])).await;
        assert_eq!((status, &body["errorType"]), (expected, &json!(kind)));
    }
    assert_eq!(server.app.counters.of(Protocol::Batch).refused_total(), 3);
}

#[tokio::test]
async fn bytes_in_flight_are_limited() {
    let server = Server::new();
    let taken = server.app.limits.ingest_kib.free_kib.clone().try_acquire_many_owned(Limits::INGEST_KIB).unwrap();
    let request = Request::post("/v1/batch").header("content-length", "2").header("content-type", "application/json");
    let request = request.body(Body::from("{}")).unwrap();
    let response = server.send(request).await;
    assert_eq!(
        (response.status(), &response.headers()["retry-after"]),
        (StatusCode::TOO_MANY_REQUESTS, &"1".parse().unwrap())
    );
    drop(taken);
    assert_eq!(server.post("application/json", "{}").await.0, StatusCode::BAD_REQUEST);
}

/// A batch by every way in over HTTP: a gauge of OTLP, a snappy block without a series, and a line.
fn small_batches() -> [(&'static str, &'static str, Vec<u8>); 4] {
    let otlp = r#"{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"m","gauge":{"dataPoints":[{"timeUnixNano":"1","asInt":"1"}]}}]}]}]}"#;
    let batch = format!("{{\"source\":\"{SOURCE}\",\"sequence\":1,\"series\":[],\"samples\":[]}}");
    [
        ("/v1/batch", "application/json", batch.into_bytes()),
        ("/v1/metrics", "application/json", otlp.into()),
        ("/api/v1/write", "application/x-protobuf", vec![0]),
        ("/api/v2/write", "text/plain", b"cpu v=1".to_vec()),
    ]
}

async fn send_small(server: &Server, (path, kind, body): (&'static str, &'static str, Vec<u8>)) -> Response {
    server.send(Request::post(path).header("content-type", kind).body(body.into()).unwrap()).await
}

/// What small bodies unfold to is counted too, until the store has answered: by every way in over HTTP.
#[tokio::test]
async fn what_bodies_unfold_to_is_limited() {
    let server = Server::new();
    let unfolded = &server.app.limits.unfolded_kib;
    let taken = unfolded.clone().try_acquire_many_owned(Limits::UNFOLDED_KIB as u32).unwrap();
    for way in small_batches() {
        let response = send_small(&server, way.clone()).await;
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS, "{}", way.0);
        assert_eq!(response.headers()["retry-after"], "1", "{}", way.0);
    }
    drop(taken);
    for way in small_batches() {
        assert!(send_small(&server, way.clone()).await.status().is_success(), "{}", way.0);
    }
    assert_eq!(unfolded.available_permits(), Limits::UNFOLDED_KIB, "everything is given back");
}

/// A store without room says so before a body is read: one that is no batch gets the same answer.
#[tokio::test]
async fn a_full_store_refuses_before_it_reads() {
    let server = Server::new();
    for (refusal, expected, reason) in [
        (Refusal::Busy, StatusCode::TOO_MANY_REQUESTS, "busy"),
        (Refusal::DiskFull("no space".into()), StatusCode::INSUFFICIENT_STORAGE, "disk_full"),
    ] {
        *server.memory.full.lock().unwrap() = Some(refusal);
        for (path, kind, _) in small_batches() {
            let response = send_small(&server, (path, kind, b"\xff no batch".to_vec())).await;
            // Of OTLP's statuses, 503 is the one that is retried.
            let is_otlp = path == "/v1/metrics" && expected.is_server_error();
            assert_eq!(response.status(), if is_otlp { StatusCode::SERVICE_UNAVAILABLE } else { expected }, "{path}");
        }
        let unread: Vec<_> = server.app.counters.unreadable().collect();
        assert_eq!(unread.iter().filter(|(_, of, count)| *of == reason && *count == 1).count(), 4, "{unread:?}");
    }
    *server.memory.full.lock().unwrap() = None;
    for way in small_batches() {
        assert!(send_small(&server, way.clone()).await.status().is_success(), "{}", way.0);
    }
}

#[tokio::test]
async fn queries_answer_as_prometheus_does() {
    let server = Server::filled().await;
    let (status, body) = server.get("/api/v1/query?query=up&time=1700000002").await;
    let expected = json!({"status": "success", "data": {"resultType": "vector", "result": [
        {"metric": {"__name__": "up", "job": "x"}, "value": [1_700_000_002, "1.5"]}]}});
    assert_eq!((status, body), (StatusCode::OK, expected));
    let (_, body) = server.get("/api/v1/query?query=sum(increase(rpc_seconds[2s]))&time=1700000002").await;
    let histogram = &body["data"]["result"][0]["histogram"][1];
    assert_eq!(histogram["count"], "7", "{body}");
    assert_eq!(histogram["buckets"][0], json!([1, "0.001", "0.0011", "2"]));
    let (_, body) = server.get("/api/v1/query_range?query=up&start=1700000001&end=1700000003&step=1").await;
    assert_eq!(body["data"]["result"][0]["values"], json!([[1_700_000_002, "1.5"], [1_700_000_003, "1.5"]]));
    let request = Request::post("/api/v1/query?time=1")
        .header("content-type", "application/x-www-form-urlencoded")
        .body(Body::from("query=1%2B1&time=2"))
        .unwrap();
    let (_, body) = answer(server.send(request).await).await;
    assert_eq!(body["data"], json!({"resultType": "scalar", "result": [2, "2"]}));
    let (_, body) = server.get("/api/v1/query?query=rpc_seconds%20or%20up&time=1700000002&limit=1").await;
    assert_eq!(body["data"]["result"].as_array().unwrap().len(), 1);
    assert_eq!(body["warnings"], json!(["results truncated due to limit"]));
}

#[tokio::test]
async fn wrong_queries_say_what_is_wrong() {
    let server = Server::filled().await;
    let check = async |path: &str, expected: StatusCode, kind: &str, word: &str| {
        let (status, body) = server.get(path).await;
        assert_eq!((status, &body["errorType"]), (expected, &json!(kind)), "{path}: {body}");
        assert!(body["error"].as_str().unwrap().contains(word), "{path}: {body}");
    };
    let bad = StatusCode::BAD_REQUEST;
    check("/api/v1/query", bad, "bad_data", "query").await;
    check("/api/v1/query?query=sum(", bad, "bad_data", "parse error").await;
    check("/api/v1/query?query=1&time=x", bad, "bad_data", "timestamp").await;
    check("/api/v1/query_range?query=1&start=0&end=99999&step=1", bad, "bad_data", "11000").await;
    check("/api/v1/series", bad, "bad_data", "match[]").await;
    check("/api/v1/labels?match[]=sum(up)", bad, "bad_data", "selector").await;
    check("/api/v1/series?match[]=up%20offset%205m", bad, "bad_data", "leave out offset").await;
    check("/v1/cells?match[]=up%20@%207", bad, "bad_data", "leave out offset").await;
    check("/v1/heatmap?query=up", bad, "bad_data", "start").await;
    check(
        "/v1/heatmap?query=up&start=1700000000&end=1700000002&step=1",
        StatusCode::UNPROCESSABLE_ENTITY,
        "execution",
        "histograms",
    )
    .await;
    check("/v1/heatmap?query=up&start=0&end=2&step=1&quantiles=2", bad, "bad_data", "quantiles").await;
    check("/api/v1/nothing", StatusCode::NOT_FOUND, "not_found", "nothing").await;
    let (status, body) = answer(server.send(Request::put("/api/v1/query").body(Body::empty()).unwrap()).await).await;
    assert_eq!((status, &body["status"]), (StatusCode::METHOD_NOT_ALLOWED, &json!("error")));
    let deep = format!("/api/v1/query?query={}1", "(".repeat(30_000));
    check(&deep, bad, "bad_data", "").await;
}

#[tokio::test]
async fn the_catalog_lists_what_is_stored() {
    let server = Server::filled().await;
    let (_, body) = server.get("/api/v1/labels").await;
    assert_eq!(body["data"], json!(["__name__", "job", "le", "route"]));
    let (_, body) = server.get("/api/v1/labels?match[]=up").await;
    assert_eq!(body["data"], json!(["__name__", "job"]));
    let (_, body) = server.get("/api/v1/label/__name__/values?classic_views=false").await;
    assert_eq!(body["data"], json!(["rpc_seconds", "up"]));
    let (_, body) = server.get("/api/v1/label/__name__/values?limit=1").await;
    assert_eq!((&body["data"], body["warnings"].as_array().unwrap().len()), (&json!(["rpc_seconds"]), 1));
    let (_, body) = server.get("/api/v1/series?match[]=up&match[]={route!=%22%22}").await;
    let expected = json!([{"__name__": "rpc_seconds", "route": "/a"}, {"__name__": "up", "job": "x"}]);
    assert_eq!(body["data"], expected);
    let (_, body) = server.get("/api/v1/metadata").await;
    let expected = json!({"rpc_seconds": [{"type": "histogram", "help": "", "unit": "s"}], "up": [{"type": "gauge", "help": "", "unit": ""}]});
    assert_eq!(body["data"], expected);
    let (_, body) = server.get("/api/v1/metadata?metric=up").await;
    assert_eq!(body["data"].as_object().unwrap().len(), 1);
    let (_, body) = server.get("/api/v1/status/buildinfo").await;
    assert_eq!(body["data"]["features"], json!({}));
    assert!(body["data"]["version"].as_str().unwrap().starts_with("3."), "Grafana takes it for a Prometheus 3");
    assert_eq!(body["data"]["ogiveVersion"], env!("CARGO_PKG_VERSION"));
    for (path, member) in [("rules", "groups"), ("alerts", "alerts")] {
        let (_, body) = server.get(&format!("/api/v1/{path}")).await;
        assert_eq!(body["data"][member], json!([]));
    }
}

#[tokio::test]
async fn a_heat_map_has_exact_columns() {
    let server = Server::filled().await;
    let path = "/v1/heatmap?query=rpc_seconds&start=1700000001&end=1700000002&step=1&quantiles=0.5,0.99";
    let (status, body) = server.get(path).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    let data = &body["data"];
    assert_eq!((&data["unit"], &data["series"], &body["warnings"]), (&json!("s"), &json!(1), &json!([])));
    assert_eq!((&data["start"], &data["step"]), (&json!(1_700_000_001), &json!(1)));
    let columns = data["columns"].as_array().unwrap();
    assert_eq!(columns.len(), 2);
    assert_eq!((&columns[0]["t"], &columns[0]["count"]), (&json!(1_700_000_001), &json!("5")));
    assert_eq!(columns[0]["bins"], json!([[0.0012, 0.0013, 4], [0.035, 0.036, 1]]));
    assert_eq!(columns[0]["quantiles"].as_array().unwrap().len(), 2);
    // Two steps in one column; and an expression instead of a selector gives the same sum.
    let (_, body) = server.get("/v1/heatmap?query=rpc_seconds&start=1700000002&end=1700000002&step=2").await;
    assert_eq!(body["data"]["columns"][0]["count"], "7");
    let path = "/v1/heatmap?query=sum(increase(rpc_seconds[2s]))&start=1700000002&end=1700000002&step=2";
    let (_, body) = server.get(path).await;
    assert_eq!((&body["data"]["columns"][0]["count"], &body["data"]["unit"]), (&json!("7"), &json!("s")), "{body}");
}

/// The first bytes of a stream.
pub(super) async fn first_event(response: Response) -> String {
    let mut stream = response.into_body().into_data_stream();
    let piece =
        std::future::poll_fn(|context| futures_core::Stream::poll_next(std::pin::Pin::new(&mut stream), context));
    String::from_utf8(piece.await.unwrap().unwrap().to_vec()).unwrap()
}

#[tokio::test]
async fn a_live_stream_begins_with_the_last_closed_second() {
    let server = Server::filled().await;
    let response = server.send(Request::get("/v1/live?query=rpc_seconds").body(Body::empty()).unwrap()).await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    assert_eq!(server.app.limits.streams.taken(), 1);
    let event = first_event(response).await;
    assert!(event.starts_with("event: column\nid: 1700000002\ndata: {\"t\":1700000002,\"count\":\"2\""), "{event}");
    let response = server.send(Request::get("/v1/live?query=sum(").body(Body::empty()).unwrap()).await;
    let event = first_event(response).await;
    assert!(event.starts_with("event: error\ndata: {\"error\":") && event.contains("parse error"), "{event}");
}

#[tokio::test]
async fn live_streams_are_limited_and_given_back() {
    let server = Server::filled().await;
    let mut open = Vec::new();
    for _ in 0..Limits::STREAMS {
        open.push(server.send(Request::get("/v1/live?query=up").body(Body::empty()).unwrap()).await);
    }
    // One more takes the place of the oldest, which ends and says when to come back.
    open.push(server.send(Request::get("/v1/live?query=up").body(Body::empty()).unwrap()).await);
    assert!(open.iter().all(|response| response.status() == StatusCode::OK));
    let oldest = axum::body::to_bytes(open.remove(0).into_body(), usize::MAX).await.unwrap();
    let oldest = String::from_utf8(oldest.to_vec()).unwrap();
    assert!(oldest.contains("\nretry: 15000\n") && oldest.contains("event: error"), "{oldest}");
    assert_eq!(server.app.limits.streams.taken(), Limits::STREAMS);
    drop(open);
    for _ in 0..3_000 {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        if server.app.limits.streams.taken() == 0 {
            return;
        }
    }
    panic!("streams that ended keep their places");
}

#[tokio::test]
async fn status_and_metrics_tell_the_ledger() {
    let server = Server::filled().await;
    let (_, body) = server.get("/v1/status").await;
    assert_eq!((&body["accepted_total"], &body["received_total"], &body["series"]), (&json!(4), &json!(4), &json!(2)));
    let clock = [("a", 1.0), ("b", 0.0)]
        .map(|(source, value)| OwnValue::gauge("ogive_clock_info", &[("os_clocksource", source)], "", value));
    server.app.meters.set_clock_values(clock.into());
    let (_, text) = server.get("/metrics").await;
    let text = text.as_str().unwrap();
    let (_, clock) = text.split_once("# TYPE ogive_clock_info gauge\n").unwrap();
    assert_eq!(clock, "ogive_clock_info{os_clocksource=\"a\"} 1\nogive_clock_info{os_clocksource=\"b\"} 0\n");
    assert!(
        text.contains("ogive_ingest_samples_total{outcome=\"accepted\",protocol=\"batch\",reason=\"\"} 4\n"),
        "{text}"
    );
    let none = "ogive_ingest_samples_total{outcome=\"rejected\",protocol=\"otlp\",reason=\"time_too_new\"} 0\n";
    assert!(text.contains(none), "{text}");
    assert_eq!((&body["batch_accepted_total"], &body["otlp_accepted_total"]), (&json!(4), &Value::Null));
    let families: Vec<&str> = text.lines().filter(|line| line.starts_with("# TYPE")).collect();
    let mut unique = families.clone();
    unique.dedup();
    assert_eq!(families, unique);
    assert_eq!(server.get("/-/ready").await.0, StatusCode::OK);
    assert_eq!(server.get("/-/healthy").await.0, StatusCode::OK);
}

#[tokio::test]
async fn a_query_that_takes_too_long_is_ended() {
    let server = Server::filled().await;
    // A millisecond is enough for nothing here: 11,000 steps over a nest of subqueries.
    let path = "/api/v1/query_range?query=max_over_time(sum_over_time(vector(1)[1h:1s])[1h:1s])&start=0&end=11000&step=1&timeout=1ms";
    let (status, body) = server.get(path).await;
    assert_eq!((status, &body["errorType"]), (StatusCode::SERVICE_UNAVAILABLE, &json!("timeout")), "{body}");
    assert_eq!(server.app.counters.queries_timed_out.get(), 1);
    for _ in 0..6_000 {
        if server.app.limits.queries.free_small() == super::place::SMALL {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("the query still runs");
}

/// Path and methods of each operation of the OpenAPI document: its paths stand two spaces in, its methods four.
fn documented() -> Vec<(String, Vec<Method>)> {
    let mut paths: Vec<(String, Vec<Method>)> = Vec::new();
    for line in include_str!("../../../schema/openapi.yaml").lines().skip_while(|line| *line != "paths:") {
        let words = line.trim_start();
        match (line.len() - words.len(), words.split_once(':')) {
            (2, Some((path, more))) if path.starts_with('/') => {
                // An alias stands for the operations of the path that was last given a name.
                let same = if more.starts_with(" *") { vec![Method::POST] } else { Vec::new() };
                paths.push((path.to_owned(), same));
            }
            (4, Some((method @ ("get" | "post" | "put" | "delete"), _))) if line.starts_with("    ") => {
                let method = method.to_uppercase().parse().unwrap();
                paths.last_mut().expect("a method follows a path").1.push(method);
            }
            (0, Some(("components", _))) => break,
            _ => {}
        }
    }
    paths
}

#[tokio::test]
async fn the_openapi_document_has_every_route_and_no_other() {
    let documented = documented();
    let mut paths: Vec<&str> = documented.iter().map(|(path, _)| &**path).collect();
    let mut routes: Vec<&str> = access::RULES.iter().map(|rule| rule.0).collect();
    paths.sort_unstable();
    routes.sort_unstable();
    assert_eq!(paths, routes, "schema/openapi.yaml on the left, the router on the right");
    let server = Server::new();
    for (path, methods) in documented {
        for method in [Method::GET, Method::POST, Method::PUT, Method::DELETE] {
            let path = path.replace("{name}", "x");
            let request = Request::builder().method(method.clone()).uri(&path).body(Body::empty()).unwrap();
            let is_taken = server.send(request).await.status() != StatusCode::METHOD_NOT_ALLOWED;
            assert_eq!(is_taken, methods.contains(&method), "{method} {path}");
        }
    }
}

#[tokio::test]
async fn cells_come_back_in_the_shape_they_were_sent() {
    let server = Server::new();
    let series = json!([
        {"labels": {"__name__": "rpc_seconds", "route": "/a"}, "kind": "histogram", "temporality": "delta", "unit": "s", "width_ms": 1000},
        {"labels": {"__name__": "rpc_log"}, "kind": "text", "temporality": "gauge", "unit": "", "width_ms": 0},
        {"labels": {"__name__": "rpc_up"}, "kind": "float", "temporality": "gauge", "unit": "", "width_ms": 0},
    ]);
    let t = 1_700_000_001_000_i64;
    let samples = json!([
        {"series": 0, "time_ms": t, "histogram": {"bins": {"-3.5e-2": 1, "0": 2, "1.2e-3": 4, "NaN": 1}, "sum": 0.5}},
        {"series": 1, "time_ms": t, "text": "stopped: disk full"},
        {"series": 2, "time_ms": t, "float": "NaN"},
        {"series": 2, "time_ms": t + 1000, "float": 1.5},
    ]);
    assert_eq!(server.batch(1, series, samples).await.1["accepted"], 4);
    let path = "/v1/cells?match[]={__name__=~%22rpc_.*%22}&start=1700000001&end=1700000002";
    let (status, answer) = server.get(path).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    // Sent again as it came, it is taken whole.
    let data = answer["data"].clone();
    assert_eq!(data["samples"].as_array().unwrap().len(), 4);
    let other = Server::new();
    let (status, verdict) = other.batch(1, data["series"].clone(), data["samples"].clone()).await;
    assert_eq!((status, &verdict["accepted"]), (StatusCode::OK, &json!(4)), "{verdict}");
    assert_eq!(other.get(path).await.1, answer);
    // The frame holds the same.
    let request = Request::get(path).header("accept", "application/x-ogive-batch-flatbuffer");
    let frame = server.send(request.body(Body::empty()).unwrap()).await;
    let frame = axum::body::to_bytes(frame.into_body(), usize::MAX).await.unwrap();
    let batch = ogive_model::Batch::decode(&frame).unwrap();
    assert_eq!((batch.series.len(), batch.samples.iter().flatten().count()), (3, 4));
    let (status, answer) = server.get("/v1/cells?match[]=rate(x[1m])").await;
    assert_eq!((status, &answer["errorType"]), (StatusCode::BAD_REQUEST, &json!("bad_data")));
}

#[tokio::test]
async fn a_header_names_the_tenant() {
    let server = Server::new();
    let send = async |method: &str, path: &str, tenant: Option<&str>, body: String| {
        let mut request = Request::builder().method(method).uri(path);
        if method == "POST" {
            request = request.header("content-type", "application/json");
        }
        if let Some(tenant) = tenant {
            request = request.header("X-Scope-OrgID", tenant);
        }
        answer(server.send(request.body(Body::from(body)).unwrap()).await).await
    };
    let body = |sequence: u64, value: f64, more: Value| {
        let series = json!([{"labels": {"__name__": "up"}, "kind": "float"}]);
        let samples = json!([{"series": 0, "time_ms": 1_700_000_002_000_i64, "float": value}]);
        let mut body = json!({"source": SOURCE, "sequence": sequence, "series": series, "samples": samples});
        body.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        body.to_string()
    };
    let b = json!({"tenant": "b"});
    for (sequence, tenant, body) in [
        (1, None, body(1, 1.0, json!({}))),
        (2, Some("a"), body(2, 2.0, json!({}))),
        (3, None, body(3, 3.0, b.clone())),
        (4, Some("b"), body(4, 3.0, b.clone())),
    ] {
        assert_eq!(send("POST", "/v1/batch", tenant, body).await.0, StatusCode::OK, "{sequence}");
    }
    for (tenant, value) in [(None, "1"), (Some("default"), "1"), (Some("a"), "2"), (Some("b"), "3")] {
        let (status, found) = send("GET", "/api/v1/query?query=up", tenant, String::new()).await;
        assert_eq!((status, &found["data"]["result"][0]["value"][1]), (StatusCode::OK, &json!(value)), "{tenant:?}");
    }
    for path in ["/api/v1/query?query=up", "/api/v1/labels", "/v1/cells?match[]=up", "/api/v1/series?match[]=up"] {
        let (status, error) = send("GET", path, Some("a|b"), String::new()).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{path}");
        assert!(error["error"].as_str().unwrap().contains("X-Scope-OrgID"), "{error}");
    }
    let (_, none) = send("GET", "/api/v1/labels", Some("c"), String::new()).await;
    assert_eq!(none["data"], json!([]));
    let (status, error) = send("POST", "/v1/batch", Some("a"), body(5, 1.0, b)).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(error["error"].as_str().unwrap().contains("tenant b"), "{error}");
}

/// A frame takes the tenant of its request, also in the bytes that the journal keeps.
#[test]
fn a_frame_gets_the_tenant_of_its_request() {
    use ogive_model::{Batch, SourceId, Tenant};
    let team = Tenant::new("team-7").unwrap();
    let (source, tenant) = (SourceId(7), Tenant::default());
    let plain = Batch { source, sequence: 1, tenant, ..Batch::default() };
    let named = Batch { tenant: team.clone(), ..plain.clone() };
    let (batch, frame) = super::batch::framed(plain.encode().unwrap(), Some(team.clone())).unwrap();
    assert_eq!((batch, Batch::decode(&frame).unwrap()), (named.clone(), named.clone()));
    let (batch, frame) = super::batch::framed(named.encode().unwrap(), None).unwrap();
    assert_eq!((batch, frame), (named.clone(), named.encode().unwrap()));
    assert!(super::batch::framed(named.encode().unwrap(), Some(Tenant::new("other").unwrap())).is_err());
}

const FRAMES: &str = "application/x-ogive-batch-frames";

/// A frame of one float of a series of its own.
fn float_frame(sequence: u64, name: &str, tenant: &str) -> Vec<u8> {
    use ogive_model::{Batch, Kind, Sample, SeriesDef, SeriesMeta, SourceId, Temporality, Tenant, Value};
    let meta = SeriesMeta { kind: Kind::Float, temporality: Temporality::Gauge, unit: String::new(), width_ms: 0 };
    let series = vec![Ok(SeriesDef::new([("__name__", name)], meta).unwrap())];
    let time_ns = 1_700_000_001_000_000_000;
    let samples = vec![Ok(Sample { series: 0, time_ns, start_ns: None, value: Value::Float(sequence as f64) })];
    let (source, tenant, known) = (SourceId(77), Tenant::new(tenant).unwrap(), Vec::new());
    Batch { source, sequence, tenant, series, known, samples }.encode().unwrap()
}

fn codes(answer: &Value) -> Vec<u64> {
    answer["batches"].as_array().unwrap().iter().map(|one| one["code"].as_u64().unwrap()).collect()
}

/// Several batches in one body: each has its own answer, what is wrong with one spoils no other, and each counts once.
#[tokio::test]
async fn each_batch_of_a_body_stands_for_itself() {
    let server = Server::new();
    let (one, two) = (float_frame(1, "one", "default"), float_frame(2, "two", "default"));
    let mut bad = float_frame(3, "bad", "default");
    let last = bad.len() - 1;
    bad[last] ^= 1;
    let (status, answer) = server.post(FRAMES, [&one[..], &bad, &two, &one].concat()).await;
    assert_eq!((status, codes(&answer)), (StatusCode::OK, vec![200, 400, 200, 200]), "{answer}");
    let each = answer["batches"].as_array().unwrap();
    assert_eq!(each[0], json!({"code": 200, "accepted": 1, "duplicate": 0, "rejected": []}));
    assert!(each[1]["error"].as_str().unwrap().contains("checksum"), "{answer}");
    assert_eq!((&each[2]["accepted"], &each[3]["duplicate"]), (&json!(1), &json!(1)));
    let ledger = server.app.counters.of(Protocol::Batch);
    assert_eq!((ledger.received.get(), ledger.accepted.get(), ledger.duplicate.get()), (3, 2, 1));
    for (name, value) in [("one", "1"), ("two", "2")] {
        let (_, found) = server.get(&format!("/api/v1/query?query={name}")).await;
        assert_eq!(found["data"]["result"][0]["value"][1], value);
    }
    // One that is alone in its body is answered in a list too, and packed bodies are the same.
    let packed = zstd::bulk::compress(&[&one[..], &one].concat(), 1).unwrap();
    let request = Request::post("/v1/batch").header("content-type", FRAMES).header("content-encoding", "zstd");
    let (status, answer) = self::answer(server.send(request.body(packed.into()).unwrap()).await).await;
    assert_eq!((status, codes(&answer)), (StatusCode::OK, vec![200, 200]), "{answer}");
    let (_, answer) = server.post(FRAMES, one).await;
    assert_eq!(codes(&answer), [200]);
}

/// A body that is no row of frames is refused whole, and nothing of it is taken.
#[tokio::test]
async fn a_body_that_was_cut_is_refused_whole() {
    let server = Server::new();
    let body = [float_frame(1, "one", "default"), float_frame(2, "two", "default")].concat();
    let none = |at: usize| body[..at].to_vec();
    let many = ogive_model::wire::frame(&Default::default(), b"").unwrap().repeat(ogive_model::wire::FRAMES_MAX + 1);
    for (bytes, expected) in [
        (none(0), StatusCode::BAD_REQUEST),
        (none(body.len() - 1), StatusCode::BAD_REQUEST),
        (none(body.len() / 2 + 3), StatusCode::BAD_REQUEST),
        ([&body[..], b"more"].concat(), StatusCode::BAD_REQUEST),
        (b"{}".to_vec(), StatusCode::BAD_REQUEST),
        (many, StatusCode::PAYLOAD_TOO_LARGE),
    ] {
        let (status, answer) = server.post(FRAMES, bytes).await;
        assert_eq!(status, expected, "{answer}");
        assert!(answer["batches"].is_null() && answer["error"].is_string(), "{answer}");
    }
    let (_, found) = server.get("/api/v1/labels").await;
    assert_eq!(found["data"], json!([]));
}

/// A tenant that the request does not name, and a store that takes nothing: each batch hears it, and so does who looks
/// at the status alone.
#[tokio::test]
async fn refusals_of_a_body_are_those_of_its_batches() {
    let server = Server::new();
    let body = [float_frame(1, "one", "default"), float_frame(2, "two", "b")].concat();
    let request = Request::post("/v1/batch").header("content-type", FRAMES).header("x-scope-orgid", "a");
    let (status, answer) = self::answer(server.send(request.body(body.clone().into()).unwrap()).await).await;
    assert_eq!((status, codes(&answer)), (StatusCode::OK, vec![200, 400]), "{answer}");
    for (refusal, code) in [(Refusal::Busy, 429), (Refusal::DiskFull("full".into()), 507)] {
        *server.memory.refusal.lock().unwrap() = Some(refusal);
        let request = Request::post("/v1/batch").header("content-type", FRAMES).body(body.clone().into()).unwrap();
        let response = server.send(request).await;
        assert_eq!(response.headers().get("retry-after").is_some(), code == 429);
        let (status, answer) = self::answer(response).await;
        assert_eq!((u64::from(status.as_u16()), codes(&answer)), (code, vec![code, code]), "{answer}");
    }
}
