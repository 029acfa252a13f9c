//! Lines that were sent as texts, searched in every way.

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::super::tests::Server;
use super::SCANNED_BYTES_MAX;

const T: i64 = 1_700_000_000;

fn series() -> Value {
    json!([
        {"labels": {"__name__": "log", "job": "api"}, "kind": "text"},
        {"labels": {"__name__": "log", "job": "web", "severity": "WARN"}, "kind": "text"},
        {"labels": {"__name__": "events"}, "kind": "text"},
        {"labels": {"__name__": "log", "job": "api"}, "kind": "float"},
    ])
}

fn text(series: u32, second: i64, text: &str) -> Value {
    json!({"series": series, "time_ms": (T + second) * 1000, "text": text})
}

async fn filled() -> Server {
    let server = Server::new();
    let samples = json!([
        text(0, 1, "level=info msg=\"listening on 0.0.0.0:80\""),
        text(0, 2, "level=error msg=\"connection refused\" status=503 took=12ms"),
        text(0, 2, "level=error msg=\"connection reset\" status=502 took=2s"),
        text(1, 2, "{\"body\":\"Connection refused by peer\",\"attributes\":{\"code\":111}}"),
        text(1, 3, "{\"body\":\"retry\",\"attributes\":{\"code\":0}}"),
        text(2, 4, "a line that says nothing of itself"),
        {"series": 3, "time_ms": (T + 2) * 1000, "float": 1.0},
    ]);
    let (status, body) = server.batch(1, series(), samples).await;
    assert_eq!((status, &body["rejected"]), (StatusCode::OK, &json!([])));
    server
}

fn escaped(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

async fn requested(server: &Server, query: &str, rest: &str) -> Value {
    let path = format!("/v1/logs?start={T}&end={}&query={}&{rest}", T + 10, escaped(query));
    let (status, body) = server.get(&path).await;
    assert_eq!(status, StatusCode::OK, "{path}: {body}");
    body["data"].clone()
}

fn lines(data: &Value) -> Vec<&str> {
    data["lines"].as_array().unwrap().iter().map(|line| line["line"].as_str().unwrap()).collect()
}

/// Where the lines are that a query finds, as seconds and job.
async fn check(server: &Server, query: &str, expected: &[i64]) {
    let data = requested(server, query, "").await;
    let times: Vec<i64> =
        data["lines"].as_array().unwrap().iter().map(|line| line["t"].as_i64().unwrap() - T).collect();
    assert_eq!(times, expected, "{query}: {data}");
}

#[tokio::test]
async fn a_search_finds_words_fields_and_labels() {
    let server = filled().await;
    check(&server, "", &[4, 3, 2, 2, 2, 1]).await;
    check(&server, "connection", &[2, 2, 2]).await;
    check(&server, "\"connection refused\"", &[2, 2]).await;
    check(&server, "refused NOT peer", &[2]).await;
    check(&server, "status>=500", &[2, 2]).await;
    check(&server, "took>1s", &[2]).await;
    check(&server, "attributes.code=111 OR /0\\.0\\.0\\.0/", &[2, 1]).await;
    check(&server, "{job=\"web\"} NOT refused", &[3]).await;
    check(&server, "events{}", &[4]).await;
    check(&server, "nobody", &[]).await;
    let data = requested(&server, "says", "match=log").await;
    assert_eq!((lines(&data).len(), &data["series"]), (0, &json!(2)));
    let data = requested(&server, "", "match=events&match=log%7Bjob=%22web%22%7D").await;
    assert_eq!((lines(&data).len(), &data["series"]), (3, &json!(2)));
}

#[tokio::test]
async fn a_line_comes_with_its_labels_fields_and_severity() {
    let server = filled().await;
    let data = requested(&server, "reset", "").await;
    let expected = json!({"t": T + 2, "labels": {"__name__": "log", "job": "api"}, "severity": "error",
        "line": "level=error msg=\"connection reset\" status=502 took=2s",
        "fields": [["level", "error"], ["msg", "connection reset"], ["status", "502"], ["took", "2s"]]});
    assert_eq!(data["lines"], json!([expected]));
    assert_eq!((&data["scanned"], &data["partial"], &data["complete"]), (&json!(6), &json!(false), &json!(true)));
    let severities = |data: &Value| -> Vec<String> {
        data["lines"].as_array().unwrap().iter().map(|line| line["severity"].as_str().unwrap().to_owned()).collect()
    };
    let data = requested(&server, "", "direction=forward").await;
    assert_eq!(severities(&data), ["info", "error", "error", "warn", "warn", "unknown"]);
}

#[tokio::test]
async fn the_newest_come_first_and_both_directions_are_opposites() {
    let server = filled().await;
    let backward = requested(&server, "", "").await;
    let forward = requested(&server, "", "direction=forward").await;
    let mut reversed = lines(&forward);
    reversed.reverse();
    assert_eq!(lines(&backward), reversed);
    assert!(lines(&forward)[1].contains("refused") && lines(&forward)[2].contains("reset"), "by their bytes");
    // Page by page is the same as at once, in both directions and inside of an instant too.
    for (direction, whole) in [("backward", &backward), ("forward", &forward)] {
        for limit in 1..=6 {
            let (mut paged, mut cursor) = (Vec::new(), String::new());
            loop {
                let data = requested(&server, "", &format!("direction={direction}&limit={limit}{cursor}")).await;
                paged.extend(data["lines"].as_array().unwrap().clone());
                let Some(next) = data["next"].as_str() else { break };
                assert_eq!((&data["complete"], &data["partial"]), (&json!(false), &json!(false)));
                cursor = format!("&cursor={next}");
            }
            assert_eq!(json!(paged), whole["lines"], "{direction} by {limit}");
        }
    }
}

#[tokio::test]
async fn columns_count_lines_by_severity() {
    let server = filled().await;
    let get = async |query: &str, rest: &str| {
        let path = format!("/v1/logs/columns?query={}&{rest}", escaped(query));
        let (status, body) = server.get(&path).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        body["data"].clone()
    };
    let range = |start: i64, end: i64, step: i64| format!("start={}&end={}&step={step}", T + start, T + end);
    // (0, 2], (2, 4]
    let data = get("", &range(2, 4, 2)).await;
    let expected = json!([[T + 2, {"info": 1, "error": 2, "warn": 1}], [T + 4, {"warn": 1, "unknown": 1}]]);
    assert_eq!((&data["columns"], &data["series"], &data["from"]), (&expected, &json!(3), &Value::Null));
    assert_eq!(get("refused", &range(2, 4, 2)).await["columns"], json!([[T + 2, {"error": 1, "warn": 1}]]));
    assert_eq!(get("", &range(20, 30, 1)).await["columns"], json!([]));
}

/// A search of what is rare would read everything that is stored: it says where it stopped, and goes on from there.
#[tokio::test]
async fn what_is_looked_at_is_bounded_and_a_cursor_goes_on() {
    let server = Server::new();
    let line = "x".repeat(1_000);
    let samples = |second: i64| text(0, second, if second == 3 { "the needle" } else { &line });
    let count = 3 * (SCANNED_BYTES_MAX as i64) / 1_000;
    server.batch(1, series(), (1..=count).map(samples).collect()).await;
    let path = |rest: &str| format!("/v1/logs?start={T}&end={}&query=needle{rest}", T + count);
    let (mut cursor, mut pages, mut found, mut scanned) = (String::new(), 0, 0, 0);
    loop {
        let (_, body) = server.get(&path(&cursor)).await;
        let data = &body["data"];
        (pages, found) = (pages + 1, found + lines(data).len());
        scanned += data["scanned"].as_i64().unwrap();
        assert_eq!(data["partial"], data["next"].is_string());
        let Some(next) = data["next"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!((found, scanned), (1, count));
    assert!((3..=4).contains(&pages), "{pages}");
    let path = format!("/v1/logs/columns?start={}&end={}&step=1000", T + count, T + count);
    let (_, body) = server.get(&path).await;
    let from = body["data"]["from"].as_i64().unwrap() - T;
    assert_eq!(body["data"]["partial"], true);
    assert_eq!(body["data"]["scanned"].as_i64().unwrap(), count - from, "what came later is counted");
}

#[tokio::test]
async fn wrong_requests_are_told_what_is_wrong() {
    let server = Server::new();
    for (rest, word) in [
        ("query=(a", "column 1"),
        ("query=/api/orders", "column 5"),
        ("match=1", "selector"),
        ("direction=up", "neither backward nor forward"),
        ("start=2&end=1", "before the start"),
        ("cursor=x", "next"),
        ("limit=x", "limit"),
    ] {
        let (status, body) = server.get(&format!("/v1/logs?{rest}")).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{rest}: {body}");
        assert!(body["error"].as_str().unwrap().contains(word), "{rest}: {body}");
    }
    let (status, body) = server.get("/v1/logs").await;
    assert_eq!((status, &body["data"]["lines"]), (StatusCode::OK, &json!([])));
    let (status, body) = server.get("/v1/logs/columns?start=1&end=2").await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{body}");
}
