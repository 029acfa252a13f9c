use std::sync::Arc;

use axum::body::to_bytes;
use ogive_door::backend::Refusal;
use ogive_irondb::httptrap::TrapChecks;
use ogive_protocol::lines::Names;
use serde_json::Value;

use super::super::Shared;
use super::super::tests::Server;
use super::*;

const UUID: &str = "8b9d2b4e-0c5a-4f0e-8f0d-5a2f6f0c1d2e";

/// A server with one check, of the tenant `team-a`, that may have three metrics.
fn server(accepts_any: bool) -> Server {
    let mut server = Server::new();
    let shared: &mut Shared = Arc::get_mut(&mut server.app).expect("nobody else has it yet");
    let check = format!("team-a/{UUID}:s3cret").parse().unwrap();
    shared.traps = Traps { checks: TrapChecks::new(vec![check], accepts_any, 3), names: Names::Utf8 };
    server
}

async fn put(server: &Server, path: &str, body: &str) -> (u16, Value) {
    let request = Request::put(format!("/module/httptrap/{path}")).body(body.to_owned().into()).unwrap();
    let response = server.send(request).await;
    let status = response.status().as_u16();
    let bytes = to_bytes(response.into_body(), 1 << 20).await.unwrap();
    (status, serde_json::from_slice(&bytes).unwrap())
}

async fn stored(server: &Server, tenant: &str, query: &str) -> Value {
    let request = Request::get(format!("/api/v1/query?query={query}"))
        .header("x-scope-orgid", tenant)
        .body(axum::body::Body::empty())
        .unwrap();
    let bytes = to_bytes(server.send(request).await.into_body(), 1 << 20).await.unwrap();
    serde_json::from_slice::<Value>(&bytes).unwrap()["data"]["result"].clone()
}

#[tokio::test]
async fn metrics_are_stored_under_their_check() {
    let server = server(false);
    let body = r#"{"requests|ST[host:a]": {"_type": "L", "_value": 42}, "word": "up"}"#;
    let (status, answer) = put(&server, &format!("{UUID}/s3cret"), body).await;
    assert_eq!((status, answer), (200, json!({"stats": 2, "filtered": 0})));
    let found = stored(&server, "team-a", "requests").await;
    assert_eq!(found[0]["metric"], json!({"__name__": "requests", "check_uuid": UUID, "host": "a"}));
    assert_eq!(found[0]["value"][1], "42");
    assert_eq!(stored(&server, "default", "requests").await, json!([]));
    let ledger = server.app.counters.of(Protocol::Httptrap);
    assert_eq!((ledger.received.get(), ledger.accepted.get()), (2, 2));
}

#[tokio::test]
async fn a_request_that_is_tried_again_counts_once() {
    let server = server(false);
    let path = format!("{UUID}/s3cret");
    for _ in 0..3 {
        assert_eq!(put(&server, &path, r#"{"h": {"_type": "h", "_value": ["H[1.2]=3"]}}"#).await.0, 200);
    }
    let found = stored(&server, "team-a", "histogram_count(sum_over_time(h[1m]))").await;
    assert_eq!(found[0]["value"][1], "3");
}

#[tokio::test]
async fn what_is_wrong_is_named_and_the_rest_stored() {
    let server = server(false);
    let path = format!("{UUID}/s3cret");
    let body = r#"{"a": 1, "b": {"_type": "n", "_value": "x"}, "c": 2, "d": 3, "e": 4}"#;
    let (status, answer) = put(&server, &path, body).await;
    assert_eq!((status, &answer["stats"], &answer["filtered"]), (200, &json!(3), &json!(1)));
    let error = answer["error"].as_str().unwrap();
    assert!(
        error.starts_with("2 metrics are not stored: ") && error.contains("\"b\": invalid field format"),
        "{error}"
    );
    assert!(error.contains("\"e\": the check has 3 metrics already (--httptrap-names)"), "{error}");
    assert_eq!(server.app.counters.of(Protocol::Httptrap).unreadable_total(), 2);
}

#[tokio::test]
async fn refusals_are_those_that_clients_know() {
    let closed = server(false);
    let other = "11111111-2222-3333-4444-555555555555";
    for (path, body, status) in [
        (format!("{UUID}/wrong"), "{}", 403),
        (format!("{other}/s3cret"), "{}", 404),
        ("no-uuid/s3cret".to_owned(), "{}", 404),
        (format!("{UUID}/s3cret"), r#"{"a": "#, 406),
        (format!("{UUID}/s3cret"), "", 406),
    ] {
        let (found, answer) = put(&closed, &path, body).await;
        assert_eq!((found, &answer["stats"]), (status, &json!(0)), "{path}");
        assert!(answer["error"].as_str().is_some_and(|sentence| sentence.len() > 10), "{answer}");
    }
    let any = server(true);
    assert_eq!(put(&any, &format!("{other}/whatever"), r#"{"a": 1}"#).await.0, 200);
    assert_eq!(
        put(&any, &format!("{UUID}/whatever"), r#"{"a": 1}"#).await.0,
        403,
        "a configured check keeps its secret"
    );
    for (refusal, status) in
        [(Refusal::Busy, 429), (Refusal::DiskFull("full".into()), 507), (Refusal::Failed("x".into()), 503)]
    {
        *any.memory.refusal.lock().unwrap() = Some(refusal);
        assert_eq!(put(&any, &format!("{UUID}/s3cret"), r#"{"a": 1}"#).await.0, status);
    }
}

/// The secret in the address is the login: a page of another host may not be served, but a right secret is enough.
#[tokio::test]
async fn a_right_secret_is_a_login() {
    let server = server(true);
    let send = async |path: &str| {
        let request = Request::put(format!("/module/httptrap/{path}")).header("host", "elsewhere.example");
        server.send(request.body(r#"{"a": 1}"#.to_owned().into()).unwrap()).await.status().as_u16()
    };
    assert_eq!(send(&format!("{UUID}/s3cret")).await, 200);
    assert_eq!(send(&format!("{UUID}/wrong")).await, 503, "as any writer for a host that is not the server's");
    assert_eq!(send("11111111-2222-3333-4444-555555555555/any").await, 503);
}
