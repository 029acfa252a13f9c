use std::collections::BTreeMap;

use axum::body::{Body, to_bytes};
use axum::http::Request;
use ogive_door::counters::Protocol;
use serde_json::{Value, json};
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

/// The last period of each value and correction of a stream that resumes after `after`, up to the period that ends at
/// `last`.
async fn streamed(node: &Node, query: &str, after: i64, last: i64) -> BTreeMap<i64, Value> {
    let encoded: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let path = format!("/extension/lua/public/caql_v1/stream?q={encoded}&start_time={BEGIN}&period=60");
    let request = Request::get(path).header("last-event-id", after.to_string()).body(Body::empty()).unwrap();
    let response = node.routes.clone().oneshot(request).await.unwrap();
    let mut body = response.into_body().into_data_stream();
    let (mut text, mut found) = (String::new(), BTreeMap::new());
    while !found.contains_key(&last) {
        let next =
            std::future::poll_fn(|context| futures_core::Stream::poll_next(std::pin::Pin::new(&mut body), context));
        text += std::str::from_utf8(&next.await.unwrap_or_else(|| panic!("{query} ended: {text}")).unwrap()).unwrap();
        while let Some((event, rest)) = text.split_once("\n\n").map(|(event, rest)| (event.to_owned(), rest.to_owned()))
        {
            text = rest;
            let Some((head, data)) = event.split_once("\ndata: ") else { continue };
            let (_, second) = head.split_once("\nid: ").unwrap_or_else(|| panic!("{query}: {event}"));
            found.insert(second.parse().unwrap(), serde_json::from_str(data).unwrap());
        }
    }
    found
}

/// Half an hour before [`T`].
const BEGIN: i64 = T - 1_800;

/// What came, with gaps that are longer than what is searched for a neighbour, in a counter and in a histogram that
/// counts on too.
fn uneven(seconds: impl Iterator<Item = i64>) -> String {
    let mut body = String::new();
    for at in seconds {
        body += &line(at, "steady", (at % 1_301) as f64 / 7.0);
        if !(BEGIN + 300..BEGIN + 1_100).contains(&at) {
            body += &line(at, "pauses", (at - BEGIN) as f64 * 1.1);
            body += &format!("H1\t{at}.000\t{UUID}\th\tAAIUAAAFHgAAAg==\n");
        }
        if at % 660 == 0 {
            body += &line(at, "rare", (at % 911) as f64);
        }
    }
    body
}

/// A streamed period and the same period of an answer are the same, whatever gaps there are and whatever came late.
#[tokio::test]
async fn streamed_periods_are_those_of_an_answer() {
    let node = Node::new();
    let all = || BEGIN / 30 * 30 - 600..T + 60;
    let send = async |body: String| assert_eq!(node.send("POST", "default", "/raw", &body).await.0, 200);
    send(uneven(all().step_by(30).filter(|at| at % 7 != 0))).await;
    for late in [false, true] {
        if late {
            send(uneven(all().step_by(30).filter(|at| at % 7 == 0))).await;
            send(uneven(all().step_by(10).filter(|at| at % 210 == 10))).await;
        }
        for query in [
            "find('*')",
            "find:counter('*')",
            "find:derivative2('*') | stats:sum()",
            "find('*') | rolling:stddev(7M) | diff()",
            "{find('pauses'); find('steady')} | op:div() | window:mean(4M)",
            "find('*') | fill:forward() | integrate() | top(2)",
            "find('*') | forecasting:holt_winters(0.5, 0.3, 0.1, 2M, period=3M)",
            "find:histogram('h') | histogram:rolling(3M) | histogram:percentile(50, 99)",
        ] {
            let periods = streamed(&node, query, T - 1_200, T).await;
            assert!(periods.len() >= 20, "{query}: {}", periods.len());
            for (end, period) in periods.into_iter().filter(|(end, _)| *end > BEGIN) {
                let body = json!({"q": query, "start_time": BEGIN, "end_time": end, "period": 60}).to_string();
                let (status, mut answer) = node.send("POST", "default", "/extension/lua/public/caql_v1", &body).await;
                assert_eq!(status, 200, "{answer}");
                for column in answer["data"].as_array_mut().unwrap() {
                    *column = json!([column.as_array().unwrap().last().unwrap()]);
                }
                answer["head"] = json!({"count": 1, "start": end - 60, "period": 60});
                assert_eq!(period, answer, "{query} at {end}, late: {late}");
            }
        }
    }
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
