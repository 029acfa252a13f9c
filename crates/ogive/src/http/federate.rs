//! `GET /federate`: the last values of selected series, for another server to scrape.
//!
//! Format: Prometheus text 0.0.4 with the time of each value; names beyond the old rules are quoted. Float states and counters
//! alone: a text page has no native histograms, and a delta cell is no state that a scraper could take.
//! Limits: [`LOOKBACK_MS`], [`SAMPLES_MAX`].

use std::collections::BTreeMap;
use std::fmt::Write as _;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use ogive_model::{Kind, Labels, METRIC_NAME, MetricKind, Selection, Temporality, TimeRange};

use super::App;
use super::ask::ask;
use super::catalog::selector;
use super::error::ApiError;
use super::params::Params;
use super::prometheus_json;

/// 5 minutes: what a query without a range looks back.
const LOOKBACK_MS: i64 = 5 * 60 * 1_000;
/// 5,000,000 samples are read: 16,000 series with a value a second.
const SAMPLES_MAX: usize = 5_000_000;
/// The bits of a value that says that its series ended.
const STALE: u64 = 0x7ff0_0000_0000_0002;

pub(super) async fn get(State(app): State<App>, params: Params) -> Result<Response, ApiError> {
    let selectors: Vec<_> = params.all("match[]").map(selector).collect::<Result<_, _>>()?;
    if selectors.is_empty() {
        return Err(ApiError::bad_data("no match[] parameter provided"));
    }
    let now_ms = app.clock.wall().div_euclid(1_000_000);
    let page = ask(&app, None, move |app, cancel| {
        let store = app.backend.of(&params.tenant);
        // By name first, as a page has it.
        let mut found: BTreeMap<(String, Labels), (i64, f64)> = BTreeMap::new();
        for matchers in selectors {
            if cancel.is_set() {
                return Err(ApiError::timeout("the query was cancelled"));
            }
            let selection = Selection {
                matchers,
                range: TimeRange { start_ms: now_ms - LOOKBACK_MS, end_ms: now_ms },
                samples_max: SAMPLES_MAX,
                labels_only: false,
                resolution: Default::default(),
            };
            for series in store.select(&selection)? {
                let is_state = series.meta.kind == Kind::Float && series.meta.temporality != Temporality::Delta;
                let last = series.floats.times.last().copied().zip(series.floats.values.last().copied());
                if let Some(last) = last.filter(|last| is_state && last.1.to_bits() != STALE) {
                    found.insert((series.labels.metric_name().to_owned(), series.labels), last);
                }
            }
        }
        let mut out = String::new();
        let mut before = "";
        for ((name, labels), (time, value)) in &found {
            if name != before {
                let kinds = app.metadata.entries(&params.tenant, Some(name));
                let kind = kinds.values().flatten().map(|entry| entry.kind).next();
                put_type(&mut out, name, kind.unwrap_or(MetricKind::Unknown));
                before = name;
            }
            put_sample(&mut out, labels, *time, *value);
        }
        Ok(out)
    })
    .await?;
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    Ok((StatusCode::OK, kind, page).into_response())
}

fn put_type(out: &mut String, name: &str, kind: MetricKind) {
    let kind = match kind {
        MetricKind::Counter | MetricKind::Gauge => kind.as_str(),
        _ => "untyped",
    };
    let name = if is_plain(name, true) { name.to_owned() } else { quoted(name) };
    writeln!(out, "# TYPE {name} {kind}").expect("writes to memory");
}

fn put_sample(out: &mut String, labels: &Labels, time_ms: i64, value: f64) {
    let name = labels.metric_name();
    let plain = is_plain(name, true);
    let mut inside = Vec::new();
    if !plain {
        inside.push(quoted(name));
    }
    for (label, value) in labels.iter().filter(|(label, _)| *label != METRIC_NAME) {
        let label = if is_plain(label, false) { label.to_owned() } else { quoted(label) };
        inside.push(format!("{label}={}", quoted(value)));
    }
    if plain {
        out.push_str(name);
    }
    if !inside.is_empty() {
        write!(out, "{{{}}}", inside.join(",")).expect("writes to memory");
    }
    let mut number = Vec::new();
    prometheus_json::number(&mut number, value);
    let number = String::from_utf8(number).expect("digits");
    writeln!(out, " {number} {time_ms}").expect("writes to memory");
}

/// Whether a name may stand without quotes.
fn is_plain(name: &str, is_metric: bool) -> bool {
    let may = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || (is_metric && byte == b':');
    !name.is_empty() && name.bytes().all(may) && !name.as_bytes()[0].is_ascii_digit()
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

#[cfg(test)]
mod tests {
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
            float(3, now - LOOKBACK_MS - 1_000, 1.0), {"series": 5, "time_ms": now, "text": "words"},
        ]);
        let (status, body) = server.batch(1, series, samples).await;
        assert_eq!((status, &body["accepted"]), (StatusCode::OK, &json!(6)), "{body}");
        server.app.metadata.learn(&Tenant::default(), "b_total", MetricKind::Counter, "", "");
        let (status, page) = server.get("/federate?match[]=%7B__name__=~%22.%2B%22%7D&match[]=b_total").await;
        assert_eq!(status, StatusCode::OK, "{page}");
        let expected = "# TYPE \"a.b\" untyped\n{\"a.b\",\"x y\"=\"1\"} 1e+21 1700000001000\n\
                        # TYPE b_total counter\nb_total{job=\"say \\\"x\\\"\"} 2 1700000002000\n";
        assert_eq!(page.as_str().unwrap(), expected);
        assert_eq!(server.get("/federate").await.0, StatusCode::BAD_REQUEST);
        assert_eq!(server.get("/federate?match[]=sum(a)").await.0, StatusCode::BAD_REQUEST);
    }
}
