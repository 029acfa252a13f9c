use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};

use super::super::tests::Server;
use super::*;
use ogive_door::counters::Ledger;

const TIME: u64 = 1_700_000_001_000_000_000;

/// A request in JSON with these points of a sum of deltas.
fn body(points: &[Value]) -> String {
    let sum = json!({"dataPoints": points, "aggregationTemporality": 1, "isMonotonic": true});
    let metrics = json!([{"name": "work", "unit": "s", "sum": sum}]);
    let attributes = json!([{"key": "service.name", "value": {"stringValue": "cart"}}]);
    json!({"resourceMetrics": [{"resource": {"attributes": attributes}, "scopeMetrics": [{"metrics": metrics}]}]})
        .to_string()
}

fn good(value: f64) -> Value {
    json!({"startTimeUnixNano": (TIME - 1_000_000_000).to_string(), "timeUnixNano": TIME.to_string(), "asDouble": value})
}

fn bad() -> Value {
    json!({"timeUnixNano": TIME.to_string()})
}

async fn bytes_of(response: Response) -> (StatusCode, Vec<u8>) {
    let status = response.status();
    (status, axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap().to_vec())
}

async fn send(server: &Server, path: &str, headers: &[(&str, &str)], body: impl Into<Body>) -> Response {
    let mut request = Request::post(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    server.send(request.body(body.into()).unwrap()).await
}

const JSON: &[(&str, &str)] = &[("content-type", "application/json")];
const PROTOBUF: &[(&str, &str)] = &[("content-type", "application/x-protobuf")];

#[tokio::test]
async fn both_forms_at_all_addresses_are_one() {
    let text = body(&[good(2.0)]);
    let protobuf = json::protobuf(text.as_bytes(), &json::METRICS).unwrap();
    for path in ["/api/v1/otlp/v1/metrics", "/v1/metrics"] {
        let server = Server::new();
        let (status, answer) = bytes_of(send(&server, path, JSON, text.clone()).await).await;
        assert_eq!((status, &answer[..]), (StatusCode::OK, &b"{}"[..]));
        let (status, answer) = bytes_of(send(&server, path, PROTOBUF, protobuf.clone()).await).await;
        assert_eq!((status, &answer[..]), (StatusCode::OK, &b""[..]));
        let (_, found) = server.get("/api/v1/query?query=work_seconds_total&time=1700000001").await;
        assert_eq!(found["data"]["result"][0]["metric"]["job"], "cart", "{found}");
    }
}

/// Each begins ten seconds behind the one before.
fn span(at: usize, name: &str, took_ms: u64) -> Value {
    let start = TIME + at as u64 * 10_000_000_000;
    json!({
        "traceId": "0123456789abcdef0123456789abcdef", "spanId": format!("{at:016x}"), "name": name, "kind": 2,
        "startTimeUnixNano": start.to_string(), "endTimeUnixNano": (start + took_ms * 1_000_000).to_string(),
        "status": {"code": "STATUS_CODE_ERROR"}, "events": [{"timeUnixNano": (start + 1).to_string(), "name": "began"}],
    })
}

fn traced(spans: &[Value]) -> String {
    let attributes = json!([{"key": "service.name", "value": {"stringValue": "cart"}}]);
    json!({"resourceSpans": [{"resource": {"attributes": attributes}, "scopeSpans": [{"spans": spans}]}]}).to_string()
}

#[tokio::test]
async fn spans_are_counted_once_and_slow_ones_are_kept() {
    let server = Server::new();
    let ledger = server.app.counters.of(Protocol::OtlpTraces);
    let bad = json!({"traceId": "", "spanId": "", "startTimeUnixNano": "1", "endTimeUnixNano": "2"});
    let text = traced(&[span(1, "GET /", 5), span(2, "GET /", 1_500), bad.clone()]);
    let (status, answer) = bytes_of(send(&server, "/v1/traces", JSON, text.clone()).await).await;
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!((status, &answer["partialSuccess"]["rejectedSpans"]), (StatusCode::OK, &json!("1")), "{answer}");
    // Two spans, and the text of the slow one.
    assert_eq!((ledger.received.get(), ledger.accepted.get(), ledger.rejected_total()), (4, 3, 1));
    // The same in other company, at the other addresses and in the other form.
    let text = traced(&[span(2, "GET /", 1_500), span(3, "GET /", 5)]);
    let protobuf = json::protobuf(text.as_bytes(), &json::TRACES).unwrap();
    let (status, _) = bytes_of(send(&server, "/api/v1/otlp/v1/traces", PROTOBUF, protobuf).await).await;
    assert_eq!((status, ledger.accepted.get(), ledger.duplicate.get()), (StatusCode::OK, 4, 1));
    // What the store refuses may come again.
    *server.memory.refusal.lock().unwrap() = Some(Refusal::DiskFull("full".into()));
    let text = traced(&[span(4, "GET /", 5)]);
    assert_eq!(bytes_of(send(&server, "/v1/traces", JSON, text.clone()).await).await.0.as_u16(), 503);
    *server.memory.refusal.lock().unwrap() = None;
    assert_eq!(bytes_of(send(&server, "/v1/traces", JSON, text).await).await.0, StatusCode::OK);
    // The store of these tests refuses every identity as well.
    assert_eq!((ledger.accepted.get(), ledger.duplicate.get(), ledger.refused_total()), (5, 1, 2));

    let (_, found) = server.get("/v1/traces?query=traces_span_seconds&start=1699999000&end=1700001000").await;
    let traces = found["data"]["traces"].as_array().unwrap();
    assert_eq!(traces.len(), 1, "{found}");
    for word in ["0123456789abcdef0123456789abcdef/0000000000000002", "began", "STATUS_CODE_ERROR", "cart"] {
        assert!(traces[0].to_string().contains(word), "{word}: {found}");
    }
    let query = "/api/v1/query?query=histogram_count(sum(sum_over_time(traces_span_seconds[1h])))&time=1700000100";
    assert_eq!(server.get(query).await.1["data"]["result"][0]["value"][1], "4");
}

#[tokio::test]
async fn operations_without_end_are_one() {
    let server = Server::new();
    let many = protocol::OPERATIONS_MAX + 5;
    let spans: Vec<Value> = (1..=many).map(|at| span(at, &format!("GET /{at}"), 1)).collect();
    let (status, _) = bytes_of(send(&server, "/v1/traces", JSON, traced(&spans)).await).await;
    let ledger = server.app.counters.of(Protocol::OtlpTraces);
    assert_eq!((status, ledger.accepted.get(), ledger.folded.get()), (StatusCode::OK, many as u64, 5));
    let of = |name: &str| {
        let labels = form_urlencoded::byte_serialize(name.as_bytes()).collect::<String>();
        format!(
            "/api/v1/query?query=histogram_count(sum_over_time(traces_span_seconds%7Bspan_name%3D%22{labels}%22%7D%5B1d%5D))&time=1700050000"
        )
    };
    assert_eq!(server.get(&of(protocol::SPANS_FOLDED)).await.1["data"]["result"][0]["value"][1], "5");
}

#[tokio::test]
async fn a_part_that_is_rejected_is_told_in_a_success() {
    let server = Server::new();
    let (status, answer) = bytes_of(send(&server, "/v1/metrics", JSON, body(&[good(1.0), bad()])).await).await;
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!((status, &answer["partialSuccess"]["rejectedDataPoints"]), (StatusCode::OK, &json!("1")), "{answer}");
    let sentence = answer["partialSuccess"]["errorMessage"].as_str().unwrap();
    assert!(sentence.contains("point_invalid") && sentence.contains("no value"), "{sentence}");
    let ledger = server.app.counters.of(Protocol::Otlp);
    assert_eq!((ledger.received.get(), ledger.accepted.get(), ledger.rejected_total()), (2, 1, 1));
    assert!(ledger.rejected().any(|pair| pair == ("point_invalid", 1)));
}

#[tokio::test]
async fn what_cannot_be_stored_at_all_is_an_error_in_the_form_of_the_request() {
    let server = Server::new();
    let (status, answer) = bytes_of(send(&server, "/v1/metrics", JSON, body(&[bad(), bad()])).await).await;
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!((status, &answer["code"]), (StatusCode::BAD_REQUEST, &json!(3)), "{answer}");
    assert!(answer["message"].as_str().unwrap().contains("2 of 2"), "{answer}");

    let (status, answer) = bytes_of(send(&server, "/v1/logs", PROTOBUF, "x").await).await;
    assert_eq!((status, &answer[..3]), (StatusCode::BAD_REQUEST, &b"\x08\x03\x12"[..]));
    for (kind, body, status) in [
        ("application/json", "{", StatusCode::BAD_REQUEST),
        ("text/plain", "", StatusCode::UNSUPPORTED_MEDIA_TYPE),
        ("application/grpcish", "", StatusCode::UNSUPPORTED_MEDIA_TYPE),
    ] {
        let response = send(&server, "/v1/metrics", &[("content-type", kind)], body).await;
        assert_eq!(response.status(), status, "{kind}");
    }
    assert_eq!(server.app.counters.total(Ledger::unreadable_total), 4);
}

/// A text is nothing but itself: a sender that tries again must not double it, and two that only look alike are two.
#[tokio::test]
async fn log_records_that_are_sent_again_are_stored_once() {
    const LATER: u64 = 1;
    let server = Server::new();
    let body = |time: u64| {
        let record = json!({"timeUnixNano": time.to_string(), "body": {"stringValue": "x"}});
        json!({"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}).to_string()
    };
    for (time, accepted, duplicate) in
        [(TIME, 1, 0), (TIME, 1, 1), (TIME + 1, 2, 1), (0, 3, 1), (0, 3, 2), (LATER, 4, 2), (0, 4, 3)]
    {
        let time = if time == LATER {
            // Nobody tries again for so long: this one is another.
            server.app.clock.advance(301_000_000_000);
            0
        } else {
            time
        };
        assert_eq!(send(&server, "/v1/logs", JSON, body(time)).await.status(), StatusCode::OK);
        let ledger = server.app.counters.of(Protocol::OtlpLogs);
        assert_eq!((ledger.accepted.get(), ledger.duplicate.get()), (accepted, duplicate), "{time}");
    }
}

#[tokio::test]
async fn nothing_is_a_success() {
    let server = Server::new();
    for path in ["/v1/metrics", "/v1/logs"] {
        assert_eq!(send(&server, path, PROTOBUF, "").await.status(), StatusCode::OK);
        assert_eq!(send(&server, path, JSON, "{}").await.status(), StatusCode::OK);
    }
}

/// A call's body: the message behind its byte and length.
fn framed(packed: u8, message: &[u8]) -> Vec<u8> {
    let length = (message.len() as u32).to_be_bytes();
    [&[packed][..], &length, message].concat()
}

const EXPORT: &str = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";
const CALL: &[(&str, &str)] = &[("content-type", "application/grpc"), ("grpc-encoding", "gzip")];

#[tokio::test]
async fn a_call_is_answered_with_a_message_and_trailers() {
    let server = Server::new();
    let message = json::protobuf(body(&[good(1.0), bad()]).as_bytes(), &json::METRICS).unwrap();
    let response = send(&server, EXPORT, CALL, framed(0, &message)).await;
    assert_eq!(
        (response.status(), response.headers()["content-type"].as_bytes()),
        (StatusCode::OK, &b"application/grpc"[..])
    );
    assert!(!response.headers().contains_key("grpc-status"));
    let (_, answer) = bytes_of(response).await;
    assert_eq!(answer[..5], [0, 0, 0, 0, answer.len() as u8 - 5]);
    // Field 1, with field 1 that is 1: one point was rejected.
    assert_eq!((answer[5], &answer[7..9]), (0x0a, &[0x08, 0x01][..]));

    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packed, &message).unwrap();
    let response = send(&server, EXPORT, CALL, framed(1, &packed.finish().unwrap())).await;
    assert!(!response.headers().contains_key("grpc-status"));
}

#[tokio::test]
async fn a_call_that_fails_says_so_in_its_head() {
    let server = Server::new();
    let bad = json::protobuf(body(&[bad()]).as_bytes(), &json::METRICS).unwrap();
    for (body, status, word) in [
        (vec![], "3", "no message"),
        (framed(2, b""), "3", "neither 0 nor 1"),
        (framed(0, b"xx")[..6].to_vec(), "3", "declares 2 bytes"),
        (framed(0, b"x"), "3", "not an OTLP request"),
        (framed(1, b"not packed"), "3", "unpacked"),
        (framed(0, &bad), "3", "1 of 1"),
    ] {
        let response = send(&server, EXPORT, CALL, body).await;
        let headers = response.headers();
        assert_eq!((response.status(), headers["grpc-status"].to_str().unwrap()), (StatusCode::OK, status), "{word}");
        let message = headers["grpc-message"].to_str().unwrap();
        assert!(message.contains(word), "{message} does not say {word:?}");
    }
    let zstd = [("content-type", "application/grpc+proto"), ("grpc-encoding", "zstd")];
    let response = send(&server, EXPORT, &zstd, framed(1, b"")).await;
    assert_eq!(response.headers()["grpc-status"], "12");
}

#[test]
fn what_will_pass_is_told_from_what_will_not() {
    for (error, http, grpc, retry) in [
        (ApiError::busy(""), 429, 8, Some(1)),
        (ApiError::disk_full(""), 503, 14, Some(5)),
        (ApiError::unavailable(""), 503, 14, Some(1)),
        (ApiError::too_large(""), 413, 3, None),
        (ApiError::bad_data(""), 400, 3, None),
        (ApiError::internal(""), 500, 13, None),
    ] {
        let (status, code, seconds) = codes(&error);
        assert_eq!((status.as_u16(), code, seconds), (http, grpc, retry), "{error:?}");
        let response = failed(Form::Json, &error);
        assert_eq!(response.headers().contains_key("retry-after"), retry.is_some());
        let response = failed(Form::Call, &error);
        // How long to wait is in the details: without it a caller gives up when it hears that something is exhausted.
        let details = response.headers()["grpc-status-details-bin"].len();
        assert_eq!(details > 60, retry.is_some(), "{error:?}");
    }
}
