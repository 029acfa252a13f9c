use axum::body::{Body, to_bytes};
use axum::http::Request;
use ogive_door::counters::Protocol;
use serde_json::Value;
use tower::ServiceExt;

use super::*;
use crate::irondb_rules::RULES;
use crate::tests::Server;

const UUID: &str = "8b9d2b4e-0c5a-4f0e-8f0d-5a2f6f0c1d2e";
/// 2023-11-14 22:12:00, before the clock of the server.
const T: i64 = 1_699_999_920;

struct Node {
    server: Server,
    routes: Router,
}

impl Node {
    fn new() -> Self {
        let server = Server::new();
        let routes = router(server.app.clone());
        Self { server, routes }
    }

    async fn send(&self, method: &str, tenant: &str, path: &str, body: &str) -> (u16, Value) {
        let request = Request::builder().method(method).uri(path).header("x-scope-orgid", tenant);
        let response = self.routes.clone().oneshot(request.body(Body::from(body.to_owned())).unwrap()).await.unwrap();
        let status = response.status().as_u16();
        let bytes = to_bytes(response.into_body(), 1 << 20).await.unwrap();
        (status, serde_json::from_slice(&bytes).unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into()))
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        self.send("GET", "default", path, "").await
    }
}

fn line(seconds: i64, name: &str, value: f64) -> String {
    format!("M\t{seconds}.000\tx`http`c_1_7::http`{UUID}\t{name}\tn\t{value}\n")
}

#[test]
fn every_route_is_in_the_table() {
    let source = include_str!("mod.rs");
    let routes: Vec<&str> = source.split(".route(\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    assert!(routes.len() > 20, "{routes:?}");
    assert!(routes.iter().all(|route| RULES.iter().any(|rule| rule.0 == *route)), "{routes:?}");
    assert!(RULES.iter().all(|rule| routes.contains(&rule.0)));
}

#[tokio::test]
async fn what_comes_twice_counts_once_and_of_one_tenant() {
    let node = Node::new();
    let mut body = line(T, "load", 1.0) + &line(T + 60, "load", 3.0);
    body += &format!("M\t{T}.500\tx`http`c_1_7::http`{UUID}\tstate\ts\ton\nH1\t{T}.000\t{UUID}\th\tAAFQ/gAB\n");
    for _ in 0..2 {
        let (status, answer) = node.send("POST", "team-a", "/raw", &body).await;
        assert_eq!((status, &answer["records"], &answer["errors"]), (200, &4.into(), &0.into()));
    }
    let raw = format!("/raw/{UUID}/load?start_ts={T}&end_ts={}", T + 60);
    let expected = serde_json::json!([[T * 1_000, 1], [(T + 60) * 1_000, 3]]);
    assert_eq!(node.send("GET", "team-a", &raw, "").await, (200, expected));
    assert_eq!(node.get(&raw).await, (200, serde_json::json!([])));
    let texts = format!("/read/{T}/{}/{UUID}/state", T + 60);
    assert_eq!(node.send("GET", "team-a", &texts, "").await.1, serde_json::json!([[T as f64 + 0.5, "on"]]));
    let histograms = format!("/histogram/{T}/{}/60/{UUID}/h", T + 60);
    assert_eq!(node.send("GET", "team-a", &histograms, "").await.1, serde_json::json!([[T, 60, {"+80e-003": 1}]]));
    let find = "/find/1/tags?query=and(__name:*)";
    assert_eq!(node.send("GET", "team-a", find, "").await.1.as_array().unwrap().len(), 3);
    assert_eq!(node.get(find).await.1, serde_json::json!([]));
    let ledger = node.server.app.counters.of(Protocol::Irondb);
    assert_eq!((ledger.accepted.get(), ledger.duplicate.get()), (4, 4));
}

#[tokio::test]
async fn what_is_wrong_is_a_400_and_counted() {
    let node = Node::new();
    let mixed = line(T, "good", 1.0) + "M\tsoon\tx\ty\tn\t1\n";
    let (status, answer) = node.send("POST", "default", "/raw", &mixed).await;
    assert_eq!((status, &answer["records"], &answer["errors"]), (200, &1.into(), &1.into()));
    assert!(answer["error"].as_str().unwrap().contains("timestamp"), "{answer}");
    for (method, path, body) in [
        ("POST", "/raw", "nonsense"),
        ("POST", "/write/text", "{"),
        ("POST", "/histogram/write", "[{\"id\":1}]"),
        ("POST", "/nntbs", "CINN"),
        ("POST", "/fetch", "{}"),
        ("POST", "/fetch", "{\"start\":1,\"period\":0,\"count\":1}"),
        ("POST", "/extension/lua/public/caql_v1", "{\"q\":\"find(\"}"),
        ("POST", "/meta/check/tag/nobody", "{}"),
        ("POST", "/meta/check/tag/8b9d2b4e-0c5a-4f0e-8f0d-5a2f6f0c1d2e", "{\"add\":[\"a,b]\"]}"),
        ("GET", "/find/x/tags", ""),
        ("GET", "/find/1/tags?query=and(", ""),
        ("GET", "/raw/nobody/x?start_ts=1&end_ts=2", ""),
        ("GET", "/rollup/8b9d2b4e-0c5a-4f0e-8f0d-5a2f6f0c1d2e/x?start_ts=1&end_ts=999999999&rollup_span=1s", ""),
        ("GET", "/read/1/2/3", ""),
        ("GET", "/graphite/x/metrics/find?query=*", ""),
        ("GET", "/graphite/1/metrics/find?query=[", ""),
        ("GET", "/graphite/1/tags/find?query=host", ""),
        ("GET", "/graphite/1/series?start=1&end=2", ""),
        ("GET", "/graphite/1/series?start=0&end=9e11&name=a", ""),
        ("POST", "/graphite/1/series_multi", "{\"start\":1,\"end\":2,\"names\":[7]}"),
        ("POST", "/graphite/1/nobody/dev", "a 1 2\n"),
        ("GET", "/histogram/1/2/0/8b9d2b4e-0c5a-4f0e-8f0d-5a2f6f0c1d2e/x", ""),
    ] {
        let (status, answer) = node.send(method, "default", path, body).await;
        let says = answer["error"].is_string() || answer["user_error"]["message"].is_string();
        assert!(status == 400 && says, "{path}: {status} {answer}");
    }
    assert_eq!(node.get("/topology/xml/other").await.0, 404);
    assert_eq!(node.send("DELETE", "default", "/raw", "").await.0, 405);
    assert!(node.server.app.counters.of(Protocol::Irondb).unreadable_total() >= 5);
}

#[tokio::test]
async fn check_tags_find_streams() {
    let node = Node::new();
    assert_eq!(node.send("PUT", "default", "/raw", &line(T, "load", 1.0)).await.0, 200);
    let path = format!("/meta/check/tag/{UUID}");
    let change = r#"{"add": ["team:a", "tier:1"]}"#;
    assert_eq!(node.send("POST", "default", &path, change).await.1[UUID], serde_json::json!(["team:a", "tier:1"]));
    let change = r#"{"add": ["team:b"], "remove": ["team:a"]}"#;
    assert_eq!(node.send("POST", "default", &path, change).await.0, 200);
    assert_eq!(node.get(&path).await.1[UUID], serde_json::json!(["team:b", "tier:1"]));
    let count =
        async |query: &str| node.get(&format!("/find/0/tags?count_only=1&query={query}")).await.1["count"].clone();
    assert_eq!((count("team:b").await, count("team:a").await), (1.into(), 0.into()));
    assert_eq!(node.get("/find/0/tag_vals?query=&category=team").await.1, serde_json::json!(["b"]));
    assert_eq!(node.send("DELETE", "default", &path, "").await.0, 200);
    assert_eq!(count("team:b").await, 0);
}
