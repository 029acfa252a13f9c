//! Boards in front of a store in memory.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use serde_json::{Value, json};

use super::*;
use crate::tests::Server;

fn board(title: &str) -> Value {
    json!({
        "name": "shop", "title": title, "range": "1h",
        "variables": [{"name": "host", "label": "host", "match": "rpc_seconds"}],
        "panels": [{"title": "Latency", "queries": ["rpc_seconds{host=~\"$host\"}"], "kind": "heatmap", "x": 0, "y": 0, "w": 6, "h": 4}],
    })
}

async fn send(server: &Server, method: &str, path: &str, body: &Value) -> (StatusCode, Value) {
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    let response = server.send(request.body(Body::from(body.to_string())).unwrap()).await;
    let status = response.status();
    let bytes = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
    (status, serde_json::from_slice(&bytes).unwrap())
}

#[tokio::test]
async fn a_board_has_versions_and_can_be_deleted_and_restored() {
    let server = Server::new();
    let (status, body) = server.get("/v1/boards").await;
    assert_eq!((status, &body["data"]["boards"]), (StatusCode::OK, &json!([])));
    for (title, version) in [("One", 1), ("Two", 2), ("Two", 2), ("Three", 3)] {
        let (status, body) = send(&server, "POST", "/v1/boards", &board(title)).await;
        assert_eq!((status, &body["data"]["version"]), (StatusCode::OK, &json!(version)), "{body}");
    }
    let (_, body) = server.get("/v1/boards").await;
    let list = &body["data"]["boards"];
    assert_eq!((&list[0]["title"], &list[0]["version"], &list[0]["panels"]), (&json!("Three"), &json!(3), &json!(1)));
    assert_eq!(list.as_array().unwrap().len(), 1);
    let (_, body) = server.get("/v1/boards/shop").await;
    assert_eq!(
        (&body["data"]["board"]["title"], body["data"]["versions"].as_array().unwrap().len()),
        (&json!("Three"), 3)
    );
    let (_, body) = server.get("/v1/boards/shop?version=1").await;
    assert_eq!(body["data"]["board"], board("One"));
    // What somebody else changed meanwhile is not lost.
    let (status, body) = send(&server, "POST", "/v1/boards?base=2", &board("Four")).await;
    assert_eq!((status, &body["errorType"]), (StatusCode::CONFLICT, &json!("conflict")));
    let (status, _) = send(&server, "POST", "/v1/boards?base=3", &board("Four")).await;
    assert_eq!(status, StatusCode::OK);
    let (status, body) = send(&server, "DELETE", "/v1/boards/shop", &json!(null)).await;
    assert_eq!((status, &body["data"]["version"]), (StatusCode::OK, &json!(5)));
    assert_eq!(server.get("/v1/boards").await.1["data"]["boards"], json!([]));
    assert_eq!(server.get("/v1/boards/shop").await.0, StatusCode::NOT_FOUND);
    assert_eq!(send(&server, "DELETE", "/v1/boards/shop", &json!(null)).await.0, StatusCode::NOT_FOUND);
    assert_eq!(server.get("/v1/boards/shop?version=4").await.1["data"]["board"]["title"], "Four");
    let (status, body) = send(&server, "POST", "/v1/boards?base=0", &board("Five")).await;
    assert_eq!((status, &body["data"]["version"]), (StatusCode::OK, &json!(6)));
}

#[tokio::test]
async fn boards_that_are_none_are_refused_with_why() {
    let server = Server::new();
    let with = |path: &str, value: Value| {
        let mut board = board("x");
        *board.pointer_mut(path).unwrap() = value;
        board
    };
    for (body, words) in [
        (json!({}), "missing field"),
        (with("/name", json!("a b")), "name"),
        (with("/name", json!("x".repeat(NAME_BYTES_MAX + 1))), "name"),
        (with("/panels/0/w", json!(13)), "12 columns"),
        (with("/panels/0/x", json!(7)), "12 columns"),
        (with("/panels/0/y", json!(u32::MAX)), "rows"),
        (with("/panels/0/h", json!(0)), "rows"),
        (with("/panels/0/kind", json!("pie")), "unknown variant"),
        (with("/panels/0/queries", json!([])), "no query"),
        (with("/panels/0/queries", json!(vec!["up"; QUERIES_MAX + 1])), "9 queries"),
        (with("/panels", json!(vec![board("x")["panels"][0].clone(); PANELS_MAX + 1])), "65 panels"),
        (with("/variables/0/name", json!("1x")), "letters"),
        (with("/variables/0/label", json!("")), "no label"),
        (json!({"name": "x", "title": "x", "panels": [], "more": 1}), "unknown field"),
        (with("/title", json!("x".repeat(BOARD_BYTES_MAX))), "bytes"),
    ] {
        let (status, answer) = send(&server, "POST", "/v1/boards", &body).await;
        assert!(status == StatusCode::BAD_REQUEST || status == StatusCode::PAYLOAD_TOO_LARGE, "{status} {answer}");
        assert!(answer["error"].as_str().unwrap().contains(words), "{words}: {answer}");
    }
    let most = with("/panels", json!(vec![board("x")["panels"][0].clone(); PANELS_MAX]));
    assert_eq!(send(&server, "POST", "/v1/boards", &most).await.0, StatusCode::OK);
    assert_eq!(server.get("/v1/boards/a%20b").await.0, StatusCode::BAD_REQUEST);
    assert_eq!(server.get("/v1/boards/shop?version=x").await.0, StatusCode::BAD_REQUEST);
}

#[test]
fn mutated_boards_never_panic() {
    let good = board("One").to_string();
    crate::mutations::smoke(crate::fuzz::board, good.as_bytes(), 5_000, crate::mutations::TEXT);
}
