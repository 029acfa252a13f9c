//! The state of the server as the Prometheus API reports it: for operators and the tools that they know.
//!
//! Format: prometheus.io/docs/prometheus/latest/querying/api. What has no meaning here (Go's runtime, alert managers)
//! has the value that a client takes for "nothing to report".

use axum::extract::State;
use axum::response::Response;
use ogive_model::{TimeRange, WallMs};
use serde_json::{Value, json};

use super::App;
use super::ask::ask;
use super::cardinality::{ACTIVE, Counts, top};
use super::error::{ApiError, success};
use super::params::Params;
use ogive_text::calendar::iso;

/// Since when it runs, and where.
pub(super) async fn runtime(State(app): State<App>) -> Response {
    let now = app.wall();
    let started = now - app.uptime();
    let directory = std::env::current_dir().map(|path| path.display().to_string()).unwrap_or_default();
    let corruptions = fact(&app, "block_failures") + fact(&app, "journal_failures_total");
    success(&json!({
        "startTime": iso(started.0), "serverTime": iso(now.0), "CWD": directory,
        "reloadConfigSuccess": true, "lastConfigTime": iso(started.0), "corruptionCount": corruptions as u64,
        "goroutineCount": 0, "GOMAXPROCS": std::thread::available_parallelism().map_or(1, usize::from),
        "GOMEMLIMIT": 0, "GOGC": "", "GODEBUG": "", "storageRetention": "",
    }))
}

/// Every option with its values as a YAML mapping (a JSON list is one in YAML too), and the tenant's own scrape jobs.
pub(super) async fn config(State(app): State<App>, params: Params) -> Response {
    let options = app.flags.0.iter().filter(|flag| !flag.values.is_empty());
    let lines: Vec<String> = options.map(|flag| format!("{}: {}\n", flag.name, json!(flag.values))).collect();
    success(&json!({"yaml": lines.concat() + &app.scrape.effective_config(&params.tenant)}))
}

/// All options, each as one text.
pub(super) async fn flags(State(app): State<App>) -> Response {
    let flags = app.flags.0.iter().map(|flag| (flag.name.clone(), flag.values.join(",").into()));
    success(&Value::Object(flags.collect()))
}

fn fact(app: &App, name: &str) -> f64 {
    app.backend.facts().into_iter().find(|fact| fact.name == name).map_or(0.0, |fact| fact.value)
}

/// The labels with the most active series.
pub(super) async fn storage(State(app): State<App>, params: Params) -> Result<Response, ApiError> {
    let top = top(&params)?;
    let range = TimeRange { start: app.now() - ACTIVE, end: WallMs::MAX };
    let data = ask(&app, params.duration("timeout")?, move |app, cancel| {
        let store = app.backend.of(&params.tenant);
        let series = cancel.opening(|opening| store.label_sets(&[], range, usize::MAX, opening))?;
        Ok(Counts::new(&series, cancel)?.answer(top, range, fact(app, "samples_head") as u64))
    });
    Ok(success(&data.await?))
}

/// Nothing is optional here that a client could ask for.
pub(super) async fn features() -> Response {
    success(&json!({}))
}

/// The listener answers only after the journal was replayed.
pub(super) async fn replay() -> Response {
    success(&json!({"min": 0, "max": 0, "current": 0, "state": "done"}))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::Flag;
    use axum::http::StatusCode;

    use super::super::tests::Server;
    use super::*;

    #[tokio::test]
    async fn options_are_told_as_they_were_given() {
        let mut server = Server::new();
        let flag = |name: &str, values: &[&str], is_default| {
            let values = values.iter().map(|value| (*value).to_owned()).collect();
            Flag { name: name.into(), values, is_default }
        };
        let flags = vec![flag("data", &["a", "b \"c\""], false), flag("rollups", &["1m,1h"], true)];
        Arc::get_mut(&mut server.app).expect("nobody else has it").flags.0 = flags;
        let get = async |path: &str| server.get(path).await.1["data"].clone();
        assert_eq!(get("/api/v1/status/flags").await, json!({"data": "a,b \"c\"", "rollups": "1m,1h"}));
        assert_eq!(
            get("/api/v1/status/config").await,
            json!({"yaml": "data: [\"a\",\"b \\\"c\\\"\"]\nrollups: [\"1m,1h\"]\n"})
        );
    }

    #[tokio::test]
    async fn the_labels_with_most_series_come_first() {
        let server = Server::new();
        let one = |name: &str, route: &str| json!({"labels": {"__name__": name, "route": route}, "kind": "float"});
        let series = json!([one("a", "/x"), one("a", "/y"), one("b", "/x")]);
        let time_ms = server.app.clock.wall() / 1_000_000;
        let samples: Vec<Value> = (0..3).map(|at| json!({"series": at, "time_ms": time_ms, "float": 1})).collect();
        assert_eq!(server.batch(1, series, samples.into()).await.0, StatusCode::OK);
        let (status, body) = server.get("/api/v1/status/tsdb").await;
        assert_eq!(status, StatusCode::OK, "{body}");
        let data = &body["data"];
        assert_eq!((&data["headStats"]["numSeries"], &data["headStats"]["numLabelPairs"]), (&json!(3), &json!(4)));
        let named = |name: &str, value: u64| json!({"name": name, "value": value});
        assert_eq!(data["seriesCountByMetricName"], json!([named("a", 2), named("b", 1)]));
        assert_eq!(data["labelValueCountByLabelName"], json!([named("__name__", 2), named("route", 2)]));
        assert_eq!(data["memoryInBytesByLabelName"], json!([named("__name__", 18), named("route", 14)]));
        assert_eq!(data["seriesCountByLabelValuePair"][0], named("__name__=a", 2));
        assert_eq!(
            server.get("/api/v1/status/tsdb?limit=1").await.1["data"]["seriesCountByMetricName"],
            json!([named("a", 2)])
        );
        assert_eq!(server.get("/api/v1/status/tsdb?limit=0").await.0, StatusCode::BAD_REQUEST);
    }
}
