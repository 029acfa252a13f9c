//! Heat maps of the shapes of data that senders have: wide cells, gaps, groups, classic buckets.

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::tests::Server;

/// A whole minute.
const T: i64 = 1_699_999_200;

fn form(query: &str) -> String {
    form_urlencoded::byte_serialize(query.as_bytes()).collect()
}

async fn heatmap(server: &Server, query: &str, start: i64, end: i64, step: i64, more: &str) -> Value {
    let path = format!("/v1/heatmap?query={}&start={start}&end={end}&step={step}&quantiles=0.5{more}", form(query));
    let (status, body) = server.get(&path).await;
    assert_eq!(status, StatusCode::OK, "{path}: {body}");
    body
}

/// Cells of a minute with 54 samples each, of three hours and of a day before, in two groups: b has a third of a's.
async fn minutes() -> Server {
    let server = Server::new();
    let named = |route: &str| json!({"labels": {"__name__": "m_seconds", "route": route}, "kind": "histogram", "unit": "s", "width_ms": 60_000});
    let cell =
        |series: i64, t: i64, bins: Value| json!({"series": series, "time_ms": t * 1000, "histogram": {"bins": bins}});
    let times = (0..180).flat_map(|minute| [T - 86_400 + minute * 60, T + minute * 60]);
    let samples: Vec<Value> = times
        .flat_map(|t| {
            let a = if t < T { json!({"5e-1": 54}) } else { json!({"1.2e-3": 50, "3.5e-2": 4}) };
            [cell(0, t, a), cell(1, t, json!({"1.2e-3": 18}))]
        })
        .collect();
    let (status, body) = server.batch(1, json!([named("/a"), named("/b")]), json!(samples)).await;
    assert_eq!((status, &body["accepted"]), (StatusCode::OK, &json!(720)));
    server
}

fn total(body: &Value) -> f64 {
    let columns = body["data"]["columns"].as_array().unwrap().iter();
    columns.map(|column| column["count"].as_str().unwrap().parse::<f64>().unwrap()).sum()
}

/// Once, what was "in view" was the sum of the columns: a window of a minute looked at each second counted each cell 61
/// times, and `offset` repeated a cell until the next one came.
#[tokio::test]
async fn the_distribution_holds_each_cell_once() {
    let server = minutes().await;
    let check = async |query: &str, expected: &str| {
        let body = heatmap(&server, query, T + 601, T + 900, 1, "").await;
        let all = &body["data"]["distribution"];
        assert_eq!(all["count"], expected, "{query}: {all}");
        assert_eq!((&all["from"], &all["t"], &body["data"]["unit"]), (&json!(T + 600), &json!(T + 900), &json!("s")));
        assert_eq!(body["data"]["no_distribution"], Value::Null);
        body
    };
    for query in [
        "m_seconds",
        "sum(m_seconds)",
        "sum(increase(m_seconds[1m]))",
        "increase(m_seconds[5m])",
        "sum(rate(m_seconds[2m]))",
    ] {
        let body = check(query, "360").await;
        assert_eq!(body["data"]["distribution"]["bins"], json!([[0.0012, 0.0013, 340], [0.035, 0.036, 20]]), "{query}");
    }
    let body = check("m_seconds offset 1d", "360").await;
    assert_eq!((total(&body), &body["data"]["additive"]), (360.0, &json!(true)));
    assert_eq!(body["data"]["distribution"]["bins"][1], json!([0.5, 0.51, 270]));
    let body = check("sum(increase(m_seconds[1m]))", "360").await;
    assert!(total(&body) > 3_600.0 && body["data"]["additive"] == json!(false), "{body}");
    check("sum(rate(m_seconds{route=\"/b\"}[1m]))", "90").await;
    for (query, why) in [("m_seconds @ 1699999800", "`@`"), ("avg(m_seconds)", "`avg`"), ("m_seconds * 2", "operator")]
    {
        let body = heatmap(&server, query, T + 601, T + 900, 1, "").await;
        assert_eq!(body["data"]["distribution"], Value::Null, "{query}");
        assert!(body["data"]["no_distribution"].as_str().unwrap().contains(why), "{query}: {body}");
    }
}

#[tokio::test]
async fn columns_are_as_wide_as_cells_where_that_is_asked_for() {
    let server = minutes().await;
    let body = heatmap(&server, "m_seconds", T + 601, T + 900, 1, "").await;
    let data = &body["data"];
    assert_eq!((&data["width"], data["columns"].as_array().unwrap().len()), (&json!(60), 5));
    assert_eq!((&data["columns"][0]["from"], &data["columns"][0]["t"]), (&json!(T + 600), &json!(T + 660)));
    for query in ["m_seconds", "sum(increase(m_seconds[1m]))"] {
        let body = heatmap(&server, query, T + 631, T + 890, 1, "&fit=true").await;
        let data = &body["data"];
        assert_eq!(
            (&data["step"], &data["start"], &data["end"]),
            (&json!(60), &json!(T + 660), &json!(T + 900)),
            "{query}"
        );
        assert_eq!((data["columns"].as_array().unwrap().len(), total(&body)), (5, 360.0), "{query}: {body}");
    }
    let (status, body) = server.get("/v1/heatmap?query=m_seconds&start=1&end=2&step=1&fit=x").await;
    assert!(status == StatusCode::BAD_REQUEST && body["error"].as_str().unwrap().contains("fit"), "{body}");
}

/// Once, `sum by (route)` gave the sum of all routes without a word.
#[tokio::test]
async fn groups_are_merged_only_when_that_is_asked_for() {
    let server = minutes().await;
    for query in [
        "sum by (route) (m_seconds)",
        "sum by (route) (increase(m_seconds[1m]))",
        "sum without (route, x) (m_seconds) or sum by (route) (m_seconds)",
    ] {
        let body = heatmap(&server, query, T + 660, T + 660, 60, "").await;
        let (data, sums) = (&body["data"], query.starts_with("sum by"));
        assert_eq!(data["groups_total"], if sums { 2 } else { 3 }, "{query}: {body}");
        assert!(body["warnings"].to_string().contains(" groups: the largest, {"), "{query}: {body}");
        if sums {
            let a = json!({"labels": {"route": "/a"}, "series": 1, "count": "54"});
            assert_eq!((&data["groups"][0], &data["group"]), (&a, &json!({"route": "/a"})), "{query}");
            assert_eq!((total(&body), &data["distribution"]["count"]), (54.0, &json!("54")), "{query}");
        }
        let body = heatmap(&server, query, T + 660, T + 660, 60, &format!("&group={}", form("{route=\"/b\"}"))).await;
        assert_eq!((total(&body), &body["data"]["group"]), (18.0, &json!({"route": "/b"})), "{query}");
        assert_eq!(body["warnings"], json!([]));
    }
    let merged = heatmap(&server, "sum by (route) (m_seconds)", T + 660, T + 660, 60, "&merge=true").await;
    assert_eq!((total(&merged), &merged["data"]["group"]), (72.0, &Value::Null));
    let none =
        heatmap(&server, "sum by (route) (m_seconds)", T + 660, T + 660, 60, "&group=%7Broute=%22/c%22%7D").await;
    assert_eq!((total(&none), &none["data"]["groups_total"]), (0.0, &json!(2)));
    let refused = |path: &'static str| async { server.get(path).await };
    for path in [
        "/v1/heatmap?query=sum&start=1&end=2&step=1&merge=yes",
        "/v1/heatmap?query=x&start=1&end=2&step=1&group=%7Ba%3D1%7D",
        "/v1/heatmap?query=x&start=1&end=2&step=1&merge=true&group=%7Ba%3D%221%22%7D",
    ] {
        assert_eq!(refused(path).await.0, StatusCode::BAD_REQUEST, "{path}");
    }
}

/// Two processes, scraped each 15 s; the second one begins anew after four scrapes and is away for a minute.
async fn buckets() -> Server {
    let server = Server::new();
    let mut series = Vec::new();
    let mut samples = Vec::new();
    for process in 0..2 {
        for (at, le) in ["0.1", "1", "+Inf"].into_iter().enumerate() {
            let index = series.len();
            let labels = json!({"__name__": "c_seconds_bucket", "instance": process.to_string(), "le": le});
            series.push(json!({"labels": labels, "kind": "float", "temporality": "cumulative", "unit": "s"}));
            for scrape in 0..20_i64 {
                if process == 1 && (5..9).contains(&scrape) {
                    continue;
                }
                let since = if process == 1 && scrape >= 4 { scrape - 4 } else { scrape + 1 };
                // Each scrape, 6 up to 0.1, 3 more up to 1 and 1 above.
                let count = since * [6, 9, 10][at];
                samples
                    .push(json!({"series": index, "time_ms": (T + scrape * 15) * 1000 + 3 * process, "float": count}));
            }
        }
    }
    let (status, body) = server.batch(1, json!(series), json!(samples)).await;
    assert_eq!((status, &body["rejected"]), (StatusCode::OK, &json!([])));
    server
}

/// Once, a click on a classic histogram showed "No samples".
#[tokio::test]
async fn classic_buckets_have_a_heat_map() {
    let server = buckets().await;
    for query in ["c_seconds", "c_seconds_bucket", "sum(c_seconds)"] {
        let body = heatmap(&server, query, T + 1, T + 300, 1, "&fit=true").await;
        let data = &body["data"];
        // 19 increases of the first; of the second 3, nothing at the new begin, and 15 after.
        assert_eq!(data["distribution"]["count"], json!((19 * 10 + 3 * 10 + 15 * 10).to_string()), "{query}: {body}");
        assert_eq!((&data["step"], &data["series"], &data["unit"]), (&json!(15), &json!(2), &json!("s")), "{query}");
        assert_eq!(data["distribution"]["bins"], json!([[null, 0.1, 222], [0.1, 1, 111], [1, null, 37]]), "{query}");
        let quantile = data["distribution"]["quantiles"][0].as_array().unwrap();
        assert_eq!((&quantile[2], &quantile[3]), (&Value::Null, &json!(0.1)), "{query}");
    }
    let query = "sum by (le) (increase(c_seconds_bucket{instance=\"0\"}[1m]))";
    let body = heatmap(&server, query, T + 60, T + 285, 15, "").await;
    assert_eq!(
        (&body["data"]["groups"], &body["data"]["distribution"]["count"]),
        (&json!([]), &json!("160")),
        "{body}"
    );
    let first = &body["data"]["columns"][0];
    assert_eq!((first["bins"].as_array().unwrap().len(), &first["bins"][0][1]), (3, &json!(0.1)), "{body}");
    let grouped = heatmap(&server, "sum by (instance, le) (rate(c_seconds_bucket[1m]))", T + 60, T + 285, 15, "").await;
    assert_eq!(grouped["data"]["groups_total"], 2, "{grouped}");
    // Some of the buckets are no distribution, and numbers are none.
    for query in ["c_seconds_bucket{le=\"1\"}", "rate(c_seconds_bucket{le=\"1\"}[1m])"] {
        let (status, body) =
            server.get(&format!("/v1/heatmap?query={}&start={T}&end={}&step=15", form(query), T + 300)).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{query}: {body}");
    }
}

#[tokio::test]
async fn a_live_stream_of_groups_wants_a_choice() {
    let server = minutes().await;
    let query = form("sum by (route) (last_over_time(m_seconds[4h]))");
    let first = async |more: &str| {
        let path = format!("/v1/live?query={query}{more}");
        let request = axum::http::Request::get(path).body(axum::body::Body::empty()).unwrap();
        crate::tests::first_event(server.send(request).await).await
    };
    let refused = first("").await;
    assert!(refused.contains("event: error") && refused.contains("2 groups"), "{refused}");
    assert!(first(&format!("&group={}", form("{route=\"/b\"}"))).await.contains("\"count\":\"18\""));
    assert!(first("&merge=true").await.contains("\"count\":\"72\""));
}
