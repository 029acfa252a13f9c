//! Slow traces that were sent as texts, asked for in every way.

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::super::tests::Server;
use ogive_probe::SlowTrace;

use super::*;

const EXAMPLE: &str = include_str!("../../../../vectors/trace/slow.txt");
const T: i64 = 1_700_000_000;

/// The documented example, longer or shorter in its first stage.
fn line(ns: u64) -> String {
    let mut trace: SlowTrace = EXAMPLE.trim_end().parse().unwrap();
    trace.stages[0].ns = ns;
    trace.stages[0].ticks = ns * 2;
    trace.total_ns = trace.stages.iter().map(|stage| stage.ns).sum();
    trace.total_ticks = trace.stages.iter().map(|stage| stage.ticks).sum();
    trace.to_string()
}

fn series() -> Value {
    let cells = |labels: Value| json!({"labels": labels, "kind": "histogram", "unit": "s", "width_ms": 1000});
    let texts = |labels: Value| json!({"labels": labels, "kind": "text"});
    json!([
        cells(json!({"__name__": "order_path_seconds", "stage": "total", "host": "a"})),
        cells(json!({"__name__": "order_path_seconds", "stage": "journal", "class": "infra", "host": "a"})),
        texts(json!({"__name__": "order_path_slow", "stage": "total", "host": "a"})),
        texts(json!({"__name__": "order_path_slow", "stage": "total", "host": "b"})),
        texts(json!({"__name__": "other_slow"})),
    ])
}

/// One trace a second of 1, 2, .. 9 ms on host a, one of host b, and a text that is no trace.
async fn filled() -> Server {
    let server = Server::new();
    let mut samples = Vec::new();
    for at in 1..=9 {
        let time_ms = (T + at) * 1000;
        samples.push(json!({"series": 0, "time_ms": time_ms, "histogram": {"bins": {"1e-3": 1}}}));
        samples.push(json!({"series": 1, "time_ms": time_ms, "histogram": {"bins": {"1e-3": 1}}}));
        // Slow, fast, slow: the order of time is not that of slowness.
        let ns = (if at % 2 == 0 { at } else { 10 - at }) as u64 * 1_000_000;
        samples.push(json!({"series": 2, "time_ms": time_ms, "text": line(ns)}));
    }
    samples.push(json!({"series": 3, "time_ms": (T + 3) * 1000, "text": line(50_000_000)}));
    samples.push(json!({"series": 4, "time_ms": (T + 4) * 1000, "text": "no trace at all"}));
    let (status, body) = server.batch(1, series(), json!(samples)).await;
    assert_eq!((status, &body["rejected"]), (StatusCode::OK, &json!([])));
    server
}

async fn requested(server: &Server, rest: &str) -> Value {
    let path = format!("/v1/traces?start={T}&end={}&{rest}", T + 10);
    let (status, body) = server.get(&path).await;
    assert_eq!(status, StatusCode::OK, "{path}: {body}");
    body["data"].clone()
}

fn times(data: &Value) -> Vec<i64> {
    data["traces"].as_array().unwrap().iter().map(|trace| trace["t"].as_i64().unwrap() - T).collect()
}

#[tokio::test]
async fn a_histogram_leads_to_its_slow_traces_and_back() {
    let server = filled().await;
    for query in [
        "order_path_seconds%7Bstage=%22total%22%7D",
        "order_path_seconds%7Bstage=%22journal%22%7D",
        "sum(increase(order_path_seconds%5B1m%5D))",
        "order_path_slow%7Bhost=%22a%22%7D",
    ] {
        let data = requested(&server, &format!("query={query}")).await;
        assert_eq!(times(&data), [9, 8, 7, 6, 5, 4, 3, 2, 1], "{query}");
        assert_eq!((&data["series"], &data["examined"], &data["invalid"]), (&json!(1), &json!(9), &json!(0)));
        let cell = &data["traces"][0]["cell"];
        let labels = json!({"__name__": "order_path_seconds", "stage": "total", "host": "a"});
        assert_eq!((&cell["labels"], &cell["t"]), (&labels, &json!(T + 9)), "{query}");
        assert_eq!(cell["selector"], r#"order_path_seconds{host="a", stage="total"}"#);
    }
    let data = requested(&server, "query=order_path_slow%7Bhost=%22b%22%7D").await;
    assert_eq!(data["traces"][0]["cell"], Value::Null, "no histogram of host b was sent");
}

#[tokio::test]
async fn a_trace_is_answered_with_all_that_its_line_says() {
    let server = filled().await;
    let data = requested(&server, "query=order_path_slow%7Bhost=%22b%22%7D").await;
    let trace = &data["traces"][0];
    let expected = json!({"path": "OrderPath", "publisher": "feed 1", "published_ns": "1700000000123456789",
        "total_ns": 60_046_794, "limit_ns": 1_000_000, "gap_ns": 10_052_113, "epoch": 0, "clamped": 0,
        "missing": ["replicate"], "worst": "decode",
        "clock": {"mode": "counter", "source": "tsc-lfence", "frequency_hz": 2_596_120_000_u64, "err_ns": 35, "read_ns": 10.1, "epoch": 0}});
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&trace[name], value, "{name}");
    }
    let stages = trace["stages"].as_array().unwrap();
    assert_eq!(stages.len(), 4);
    let journal = json!({"name": "journal", "class": "infra", "start_ns": 50_000_000, "ns": 10_041_210, "ticks": 26_068_186, "percent": 20.68});
    assert_eq!(stages[1], journal);
    assert_eq!(trace["line"], line(50_000_000));
}

#[tokio::test]
async fn what_is_no_slow_trace_is_answered_as_it_is() {
    let server = filled().await;
    let data = requested(&server, "").await;
    assert_eq!((&data["series"], &data["examined"], &data["invalid"]), (&json!(3), &json!(11), &json!(1)));
    let raw = data["traces"].as_array().unwrap().iter().find(|trace| trace.get("raw").is_some()).unwrap();
    assert_eq!((&raw["raw"], &raw["raw_bytes"], &raw["t"]), (&json!("no trace at all"), &json!(15), &json!(T + 4)));
    assert!(raw["error"].as_str().unwrap().contains("ogive-trace"), "{raw}");
    // It is listed whatever the least time is: nobody knows its own.
    let data = requested(&server, "min_ms=9000").await;
    assert_eq!((times(&data), &data["invalid"]), (vec![4], &json!(1)));
}

#[tokio::test]
async fn order_limit_and_cursor() {
    let server = filled().await;
    let host = "query=order_path_slow%7Bhost=%22a%22%7D";
    let data = requested(&server, &format!("{host}&order=slowest&limit=3")).await;
    assert_eq!(times(&data), [1, 8, 3]);
    assert_eq!((&data["complete"], &data["next"]), (&json!(true), &Value::Null));
    let data = requested(&server, &format!("{host}&min_ms=18")).await;
    assert_eq!(times(&data), [8, 1]);
    // Page by page is the same as at once, two of one instant on two pages too.
    let all = requested(&server, "").await;
    let (mut paged, mut cursor, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let data = requested(&server, &format!("limit=2{cursor}")).await;
        paged.extend(data["traces"].as_array().unwrap().clone());
        pages += 1;
        let Some(next) = data["next"].as_str() else { break };
        assert_eq!(data["complete"], false);
        cursor = format!("&cursor={next}");
    }
    assert_eq!((json!(paged), pages), (all["traces"].clone(), 6));
}

#[tokio::test]
async fn columns_count_slow_traces() {
    let server = filled().await;
    let get = async |query: &str, rest: &str| {
        let path = format!("/v1/traces/columns?query={query}&{rest}");
        let (status, body) = server.get(&path).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        body["data"].clone()
    };
    let range = |start: i64, end: i64, step: i64| format!("start={}&end={}&step={step}", T + start, T + end);
    let data = get("order_path_seconds", &range(1, 9, 4)).await;
    // (-3, 1], (1, 5], (5, 9]
    assert_eq!(data["columns"], json!([[T + 1, 1], [T + 5, 4], [T + 9, 4]]));
    assert_eq!((&data["series"], &data["complete"]), (&json!(1), &json!(true)));
    assert_eq!(get("order_path_seconds", &range(20, 30, 1)).await["columns"], json!([]));
    assert_eq!(get("nobody", &range(1, 9, 1)).await, json!({"series": 0, "complete": true, "columns": []}));
}

#[tokio::test]
async fn wrong_requests_are_told_what_is_wrong() {
    let server = Server::new();
    for (rest, word) in [
        ("query=sum(", "parse error"),
        ("query=1", "selects no series"),
        ("order=random", "neither newest nor slowest"),
        ("min_ms=-1", "min_ms"),
        ("start=2&end=1", "before the start"),
        ("cursor=x", "next"),
        ("cursor=1-1&order=slowest", "larger limit"),
        ("limit=x", "limit"),
    ] {
        let (status, body) = server.get(&format!("/v1/traces?{rest}")).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{rest}: {body}");
        assert!(body["error"].as_str().unwrap().contains(word), "{rest}: {body}");
    }
    let (status, body) = server.get("/v1/traces").await;
    assert_eq!((status, &body["data"]["traces"]), (StatusCode::OK, &json!([])));
}

#[tokio::test]
async fn as_many_texts_are_read_as_the_limit_says_and_no_more() {
    for (count, complete) in [(EXAMINED_MAX, true), (EXAMINED_MAX + 1, false)] {
        let server = Server::new();
        let at = |at: usize| json!({"series": 4, "time_ms": T * 1000 + 1 + at as i64, "text": "x"});
        server.batch(1, series(), (0..count).map(at).collect()).await;
        let data = requested(&server, "order=slowest").await;
        assert_eq!((&data["examined"], &data["invalid"]), (&json!(EXAMINED_MAX), &json!(EXAMINED_MAX)));
        assert_eq!((&data["complete"], &data["next"]), (&json!(complete), &Value::Null), "{count}");
        let path = format!("/v1/traces/columns?query=other_slow&start={}&end={}&step=10", T + 10, T + 10);
        let (_, body) = server.get(&path).await;
        assert_eq!(body["data"]["columns"], json!([[T + 10, EXAMINED_MAX]]));
        assert_eq!(body["data"]["complete"], complete, "{count}");
    }
}

/// More texts in a minute than a window holds: the windows become shorter, and nothing is missing or twice.
#[tokio::test]
async fn many_texts_are_read_in_windows() {
    let server = Server::new();
    let text = line(1_000);
    let samples: Vec<Value> =
        (0..5_003).map(|at| json!({"series": 4, "time_ms": T * 1000 + at / 3, "text": text})).collect();
    server.batch(1, series(), json!(samples)).await;
    let data = requested(&server, "limit=0").await;
    assert_eq!(data["traces"].as_array().unwrap().len(), TRACES_USUAL);
    let data = requested(&server, "limit=5000&order=slowest").await;
    assert_eq!(
        (&data["examined"], &data["complete"]),
        (&json!(5_000), &json!(true)),
        "the first three are at the start"
    );
    assert_eq!(data["traces"].as_array().unwrap().len(), TRACES_MAX);
}
