//! `/api/v1/query_exemplars`: the exemplars of the series that an expression selects.
//!
//! Format: as the Prometheus API; how they are stored is in docs/formats/exemplar.md.
//! Limits: [`TEXTS_MAX`] texts are read; more are refused.

use std::collections::{BTreeMap, BTreeSet};

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use ogive_model::exemplar::SUFFIX;
use ogive_model::{Exemplar, Kind, Labels, METRIC_NAME, MatchOp, Matcher, Selection, TimeRange};
use ogive_query::series_bytes;

use super::App;
use super::ask::{Cancel, ask, whole};
use super::error::{ApiError, json};
use super::params::Params;
use super::prometheus_json;
use super::traces::selectors;
use ogive_door::backend::Reader;

/// 100,000 texts: a panel shows some hundred.
const TEXTS_MAX: usize = 100_000;

/// Texts of each explained series, by time; duplicates are stored once.
type ExemplarTexts = BTreeMap<Labels, BTreeSet<(i64, String)>>;

pub(super) async fn get(State(app): State<App>, params: Params) -> Result<Response, ApiError> {
    let selectors = selectors(params.need("query")?)?;
    let range = params.range()?;
    let timeout = params.duration("timeout")?;
    let answer = ask(&app, timeout, move |app, cancel| {
        let store = app.backend.of(&params.tenant);
        let mut found = ExemplarTexts::new();
        for matchers in &selectors {
            if cancel.is_set() {
                return Err(ApiError::timeout("the query was cancelled"));
            }
            find(cancel, &*store, matchers, range, &mut found)?;
        }
        Ok(answer(&found))
    });
    Ok(json(StatusCode::OK, answer.await?))
}

/// Finds the exemplars of the series that `matchers` select.
fn find(
    cancel: &Cancel,
    store: &dyn Reader,
    matchers: &[Matcher],
    range: TimeRange,
    found: &mut ExemplarTexts,
) -> Result<(), ApiError> {
    // Their series have the same labels but for the name.
    let mut theirs: Vec<Matcher> = matchers.iter().filter(|matcher| matcher.name != METRIC_NAME).cloned().collect();
    let name = matchers.iter().find(|matcher| matcher.name == METRIC_NAME && matcher.op == MatchOp::Equal);
    let named = match name {
        Some(name) => Matcher::new(METRIC_NAME, MatchOp::Equal, format!("{}{SUFFIX}", name.value)),
        None => Matcher::new(METRIC_NAME, MatchOp::Regex, format!(".+{SUFFIX}")),
    };
    theirs.push(named.map_err(ApiError::bad_data)?);
    let selection = Selection { samples_max: TEXTS_MAX, ..Selection::new(theirs, range) };
    let warnings = cancel.each_series(store, &selection, |series| {
        let explained = Exemplar::explained(&series.labels).filter(|_| series.meta.kind == Kind::Text);
        let Some(explained) = explained else { return Ok(()) };
        if explained.match_all(matchers) {
            // In the list, while read, and in the response.
            cancel.hold(3 * series_bytes(&series))?;
            let texts = series.texts.times.into_iter().zip(series.texts.values);
            found.entry(explained).or_default().extend(texts);
        }
        Ok(())
    })?;
    whole(warnings)
}

fn answer(found: &ExemplarTexts) -> Vec<u8> {
    let mut out = b"{\"status\":\"success\",\"data\":[".to_vec();
    let mut is_first = true;
    for (labels, texts) in found {
        // Texts under such a name may also come from other writers.
        let read = texts.iter().filter_map(|(time, text)| Some((*time, Exemplar::from_text(text).ok()?)));
        let read: Vec<(i64, Exemplar)> = read.collect();
        if read.is_empty() {
            continue;
        }
        out.extend_from_slice(if is_first { b"{\"seriesLabels\":" } else { b",{\"seriesLabels\":" });
        is_first = false;
        prometheus_json::labels(&mut out, labels);
        out.extend_from_slice(b",\"exemplars\":[");
        for (at, (time, exemplar)) in read.iter().enumerate() {
            out.extend_from_slice(if at > 0 { b",{\"labels\":" } else { b"{\"labels\":" });
            prometheus_json::labels(&mut out, &exemplar.labels);
            out.extend_from_slice(b",\"value\":\"");
            prometheus_json::number(&mut out, exemplar.value);
            out.extend_from_slice(b"\",\"timestamp\":");
            prometheus_json::time(&mut out, *time);
            out.push(b'}');
        }
        out.extend_from_slice(b"]}");
    }
    out.extend_from_slice(b"]}\n");
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::Server;
    use super::*;

    #[tokio::test]
    async fn exemplars_of_the_selected_series_are_answered_once() {
        let server = Server::new();
        let series = |name: &str, route: &str| json!({"labels": {"__name__": name, "route": route}, "kind": "text"});
        let text = |series: u32, time_ms: i64, trace: &str| {
            let text = json!({"labels": {"trace_id": trace}, "value": 0.25}).to_string();
            json!({"series": series, "time_ms": time_ms, "text": text})
        };
        let samples = json!([
            text(0, 1_500, "t1"), text(0, 1_500, "t1"), text(0, 2_500, "t2"), text(1, 1_500, "t3"), text(2, 1_500, "t4"),
            {"series": 0, "time_ms": 1_700, "text": "no exemplar"},
        ]);
        let series = json!([series("a_exemplar", "/x"), series("a_exemplar", "/y"), series("b_exemplar", "/x")]);
        server.batch(1, series, samples).await;
        let get = async |query: &str| server.get(&format!("/api/v1/query_exemplars?{query}")).await.1["data"].clone();
        let of = |name: &str, route: &str, exemplars: &[(&str, f64)]| {
            let one = |(trace, time): &(&str, f64)| json!({"labels": {"trace_id": trace}, "value": "0.25", "timestamp": time});
            let exemplars: Vec<_> = exemplars.iter().map(one).collect();
            json!({"seriesLabels": {"__name__": name, "route": route}, "exemplars": exemplars})
        };
        let x = of("a", "/x", &[("t1", 1.5), ("t2", 2.5)]);
        assert_eq!(get("query=rate(a%7Broute=%22/x%22%7D[5m])").await, json!([x]));
        assert_eq!(
            get("query=a&start=1.5&end=1.5").await,
            json!([of("a", "/x", &[("t1", 1.5)]), of("a", "/y", &[("t3", 1.5)])])
        );
        let by_pattern = get("query=%7B__name__=~%22b|c%22%7D").await;
        assert_eq!(by_pattern, json!([of("b", "/x", &[("t4", 1.5)])]));
        assert_eq!(get("query=c").await, json!([]));
        assert_eq!(server.get("/api/v1/query_exemplars?query=1").await.0, StatusCode::BAD_REQUEST);
    }
}
