use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};

use super::super::tests::Server;
use super::*;
use crate::counters::Ledger;

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
