//! Pages as a scraper gets them.

use ogive_model::Tenant;
use serde_json::json;

use super::super::tests::Server;
use super::*;

#[tokio::test]
async fn the_last_states_are_a_page_to_scrape() {
    let server = Server::new();
    let now = 1_700_000_002_000_i64;
    let series = json!([
        {"labels": {"__name__": "b_total", "job": "say \"x\""}, "kind": "float", "temporality": "cumulative"},
        {"labels": {"__name__": "a.b", "x y": "1"}, "kind": "float"},
        {"labels": {"__name__": "cells"}, "kind": "float", "temporality": "delta"},
        {"labels": {"__name__": "old"}, "kind": "float"},
        {"labels": {"__name__": "ended"}, "kind": "float"},
        {"labels": {"__name__": "texts"}, "kind": "text"},
    ]);
    let float = |series: u32, time: i64, value: f64| json!({"series": series, "time_ms": time, "float": value});
    let samples = json!([
        float(0, now - 1_000, 1.0), float(0, now, 2.0), float(1, now - 1_000, 1e21), float(2, now, 1.0),
        float(3, now - LOOKBACK.0 - 1_000, 1.0), {"series": 5, "time_ms": now, "text": "words"},
    ]);
    let (status, body) = server.batch(1, series, samples).await;
    assert_eq!((status, &body["accepted"]), (StatusCode::OK, &json!(6)), "{body}");
    server.app.metadata.learn(&Tenant::default(), "b_total", MetricKind::Counter, "", "");
    let (status, page) = server.get("/federate?match[]=%7B__name__=~%22.%2B%22%7D&match[]=b_total").await;
    assert_eq!(status, StatusCode::OK, "{page}");
    let expected = "# TYPE \"a.b\" untyped\n{\"a.b\",\"x y\"=\"1\",instance=\"\"} 1e+21 1700000001000\n\
                    # TYPE b_total counter\nb_total{job=\"say \\\"x\\\"\",instance=\"\"} 2 1700000002000\n";
    let (comment, page) = page.as_str().unwrap().split_once('\n').unwrap();
    assert!(comment.starts_with("# 1 series of delta cells"), "{comment}");
    assert_eq!(page, expected);
    assert_eq!(server.get("/federate").await.0, StatusCode::BAD_REQUEST);
    assert_eq!(server.get("/federate?match[]=sum(a)").await.0, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_histogram_of_a_counter_is_classic_in_text() {
    let server = Server::new();
    let now = 1_700_000_002_000_i64;
    let series = json!([
        {"labels": {"__name__": "rpc_seconds", "job": "a"}, "kind": "histogram", "temporality": "cumulative", "unit": "s"},
        {"labels": {"__name__": "cells_seconds"}, "kind": "histogram", "temporality": "delta", "unit": "s", "width_ms": 1000},
    ]);
    let one = |series: u32| json!({"series": series, "time_ms": now, "histogram": {"bins": {"1.2": 4, "3": 1, "-0.5": 2, "0": 3}, "sum": 7.5}});
    let (status, body) = server.batch(1, series, json!([one(0), one(1)])).await;
    assert_eq!((status, &body["accepted"]), (StatusCode::OK, &json!(2)), "{body}");
    let (status, page) = server.get("/federate?match[]=%7B__name__=~%22.%2B_seconds%22%7D").await;
    assert_eq!(status, StatusCode::OK, "{page}");
    let page = page.as_str().unwrap();
    assert!(page.contains("\n# TYPE rpc_seconds histogram\n"), "{page}");
    for line in [
        "rpc_seconds_bucket{job=\"a\",instance=\"\",le=\"0\"} 5 1700000002000\n",
        "rpc_seconds_bucket{job=\"a\",instance=\"\",le=\"2\"} 9 1700000002000\n",
        "rpc_seconds_bucket{job=\"a\",instance=\"\",le=\"4\"} 10 1700000002000\n",
        "rpc_seconds_bucket{job=\"a\",instance=\"\",le=\"+Inf\"} 10 1700000002000\n",
        "rpc_seconds_sum{job=\"a\",instance=\"\"} 7.5 1700000002000\n",
        "rpc_seconds_count{job=\"a\",instance=\"\"} 10 1700000002000\n",
    ] {
        assert!(page.contains(line), "{line} is not in {page}");
    }
    assert!(!page.contains("cells_seconds"), "{page}");
    // By its own name a view has the bounds that queries see.
    let (_, page) = server.get("/federate?match[]=rpc_seconds_count").await;
    assert_eq!(page, "# TYPE rpc_seconds_count untyped\nrpc_seconds_count{job=\"a\",instance=\"\"} 10 1700000002000\n");
}

/// A histogram with a label that is called as its buckets' bounds: two of one name in a line, and a scraper takes
/// nothing of the page.
#[tokio::test]
async fn a_bound_stands_once_in_a_line() {
    let server = Server::new();
    let series = json!([{"labels": {"__name__": "m", "le": "x"}, "kind": "histogram", "temporality": "cumulative"}]);
    let samples = json!([{"series": 0, "time_ms": 1_700_000_002_000_i64, "histogram": {"bins": {"3": 1}}}]);
    assert_eq!(server.batch(1, series, samples).await.0, StatusCode::OK);
    let (_, page) = server.get("/federate?match[]=m").await;
    let page = page.as_str().unwrap();
    assert!(page.contains("m_bucket{instance=\"\",le=\"+Inf\"} 1 "), "{page}");
    assert!(page.contains("m_count{le=\"x\",instance=\"\"} 1 "), "{page}");
}

/// A sender of both kinds: its classic series were on the page, and made of its native histogram once more, with other
/// bounds. A scraper takes nothing of a page that has a series twice.
#[tokio::test]
async fn each_series_is_on_a_page_once() {
    let server = Server::new();
    let now = 1_700_000_002_000_i64;
    let float = |name: &str, le: Option<&str>| {
        let mut labels = json!({"__name__": name, "job": "a"});
        if let Some(le) = le {
            labels["le"] = le.into();
        }
        json!({"labels": labels, "kind": "float", "temporality": "cumulative"})
    };
    let native = |name: &str| json!({"labels": {"__name__": name, "job": "a"}, "kind": "histogram", "temporality": "cumulative"});
    let series = json!([
        native("both"),
        float("both_bucket", Some("1")),
        float("both_bucket", Some("+Inf")),
        float("both_sum", None),
        float("both_count", None),
        native("alone"),
        native("changed"),
        float("changed", None),
    ]);
    let histogram =
        |series: u32| json!({"series": series, "time_ms": now, "histogram": {"bins": {"0.5": 4}, "sum": 2}});
    let mut samples = vec![histogram(0), histogram(5), histogram(6)];
    samples.extend((1..5).map(|at| json!({"series": at, "time_ms": now, "float": 4})));
    samples.push(json!({"series": 7, "time_ms": now - 60_000, "float": 1}));
    let (status, body) = server.batch(1, series, json!(samples)).await;
    assert_eq!((status, &body["accepted"]), (StatusCode::OK, &json!(8)), "{body}");
    for path in [
        "/federate?match[]=%7Bjob=%22a%22%7D",
        "/federate?match[]=%7B__name__=~%22.%2B%22%7D&match[]=alone_count&match[]=alone_bucket&match[]=both",
    ] {
        let (status, page) = server.get(path).await;
        assert_eq!(status, StatusCode::OK, "{page}");
        let page = page.as_str().unwrap();
        let mut names: Vec<&str> = page
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| line.rsplitn(3, ' ').last().unwrap())
            .collect();
        names.sort_unstable();
        let before = names.len();
        names.dedup();
        assert_eq!(names.len(), before, "{page}");
        for line in [
            "both_bucket{job=\"a\",le=\"1\",instance=\"\"} 4",
            "both_count{",
            "alone_sum{",
            "alone_count{",
            "changed_count{",
        ] {
            assert!(page.contains(line), "{line} is not in {page}");
        }
        assert!(!page.contains("changed{"), "what the series was before: {page}");
    }
}

#[test]
fn who_would_rather_have_protobuf_gets_it() {
    let form = |accept: &str| {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, accept.parse().unwrap());
        Form::accepted(&headers)
    };
    let message = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
    assert_eq!(form(message), Form::Protobuf);
    // What a Prometheus sends that scrapes native histograms, and what one sends that does not.
    assert_eq!(
        form(&format!("{message},application/openmetrics-text;version=1.0.0;q=0.8,text/plain;q=0.5,*/*;q=0.1")),
        Form::Protobuf
    );
    assert_eq!(form(&format!("application/openmetrics-text;version=1.0.0,{message};q=0.3")), Form::Text);
    assert_eq!(form(&format!("{message};q=0")), Form::Text);
    assert_eq!(
        form("application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=text"),
        Form::Text
    );
    assert_eq!(form("*/*"), Form::Text);
    assert_eq!(Form::accepted(&HeaderMap::new()), Form::Text);
}
