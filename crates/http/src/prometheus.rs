//! `/api/v1/query`, `/api/v1/query_range`, and what clients ask to learn what they talk to.
//!
//! Limits: [`POINTS_MAX`] points a series, as in Prometheus.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use ogive_model::{Ms, WallMs};
use ogive_query::value::{QueryResult, Value};
use ogive_query::{Engine, EngineOptions};

use super::App;
use super::ask::{Cancel, ask};
use super::error::{ApiError, json, success};
use super::params::Params;
use super::pieces;
use super::prometheus_json;
use super::query_stats::Stats;
use super::resolution::{StoreAtResolution, resolution};
use super::views::Views;

/// 11,000 points a series, the limit of Prometheus: a week in minutes, more than any screen has columns.
pub(super) const POINTS_MAX: i64 = 11_000;

pub(super) async fn query(State(app): State<App>, params: Params) -> Result<Response, ApiError> {
    let query = params.need("query")?.to_owned();
    let time = params.time("time")?.unwrap_or_else(|| app.now());
    evaluated(&app, params, time, Ms(1), move |engine, reported, cancel| {
        engine.instant_until(reported, &query, time, &|| cancel.is_set())
    })
    .await
}

pub(super) async fn query_range(State(app): State<App>, params: Params) -> Result<Response, ApiError> {
    let query = params.need("query")?.to_owned();
    let (start, end, step) = range(&params)?;
    evaluated(&app, params, start, step, move |engine, reported, cancel| {
        engine.range_until(reported, &query, start, end, step, &|| cancel.is_set())
    })
    .await
}

/// Answers with the result of `evaluate`.
async fn evaluated(
    app: &App,
    params: Params,
    start: WallMs,
    step: Ms,
    evaluate: impl FnOnce(&Engine, &StoreAtResolution<'_>, &Cancel) -> Result<QueryResult, ogive_query::Error>
    + Send
    + 'static,
) -> Result<Response, ApiError> {
    let (limit, lookback) = (params.limit()?, params.duration("lookback_delta")?);
    let (timeout, resolution) = (params.duration("timeout")?, resolution(&params)?);
    let stats = Stats::requested(app, &params);
    let answer = ask(app, timeout, move |app, cancel| {
        let stats = stats.map(|stats| stats.begin(app));
        let engine = with_options(&cancel.engine(app), lookback, stats.is_some());
        let store = Views::new(app, &params);
        let result = evaluate(&engine, &StoreAtResolution { store: &store, resolution, cancel }, cancel)?;
        let stats = stats.map(|stats| stats.end(app, &result, start, step));
        Ok((prometheus_json::Answer::new(limited(result, limit), stats), Arc::clone(cancel.memory())))
    });
    let (answer, held) = answer.await?;
    Ok(json(StatusCode::OK, pieces::body(app, answer, held)))
}

/// `start`, `end` and `step`, checked as Prometheus checks them.
pub(super) fn range(params: &Params) -> Result<(WallMs, WallMs, Ms), ApiError> {
    params.need("start")?;
    params.need("end")?;
    params.need("step")?;
    let (Some(start), Some(end), Some(step)) = (params.time("start")?, params.time("end")?, params.duration("step")?)
    else {
        return Err(ApiError::bad_data("start, end and step are needed"));
    };
    if end < start {
        return Err(ApiError::bad_data("invalid parameter \"end\": end timestamp must not be before start time"));
    }
    if step <= Ms::ZERO {
        return Err(ApiError::bad_data(
            "invalid parameter \"step\": zero or negative query resolution step widths are not accepted; try a positive integer",
        ));
    }
    if (end - start) / step > POINTS_MAX {
        return Err(ApiError::bad_data(format!(
            "exceeded maximum resolution of {POINTS_MAX} points per timeseries; try decreasing the query resolution (?step=XX)"
        )));
    }
    Ok((start, end, step))
}

fn with_options(engine: &Engine, lookback: Option<Ms>, step_stats: bool) -> Engine {
    let mut options = EngineOptions { step_stats, ..engine.options().clone() };
    options.lookback = lookback.filter(|lookback| *lookback > Ms::ZERO).unwrap_or(options.lookback);
    Engine::new(options)
}

/// The first `limit` elements, with a warning when that leaves some out.
fn limited(mut result: QueryResult, limit: usize) -> QueryResult {
    let length = match &mut result.value {
        Value::Vector(samples) => {
            let length = samples.len();
            samples.truncate(limit);
            length
        }
        Value::Matrix(series) => {
            let length = series.len();
            series.truncate(limit);
            length
        }
        Value::Scalar { .. } | Value::String { .. } => 0,
    };
    if length > limit {
        result.warnings.push("results truncated due to limit".into());
        result.infos.push(format!("the first {limit} of {length} series"));
    }
    result
}

/// The release of Prometheus whose HTTP API and PromQL are served. Grafana switches features of its data source by it.
const PROMETHEUS_VERSION: &str = "3.5.0";

/// Grafana reads the version from it. `features` stays empty: any entry makes Grafana look for a ruler API.
pub(super) async fn buildinfo() -> Response {
    let data = serde_json::json!({
        "version": PROMETHEUS_VERSION, "revision": "", "branch": "", "buildUser": "", "buildDate": "", "goVersion": "",
        "application": "Ogive", "ogiveVersion": env!("CARGO_PKG_VERSION"), "features": {},
    });
    success(&data)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range_of(text: &str) -> Result<(i64, i64, i64), String> {
        range(&Params::parse(text.as_bytes()))
            .map(|(start, end, step)| (start.0, end.0, step.0))
            .map_err(|error| error.message)
    }

    #[test]
    fn a_range_is_checked_at_its_limit_and_one_above() {
        assert_eq!(range_of("start=0&end=10&step=1s"), Ok((0, 10_000, 1_000)));
        assert_eq!(range_of("start=0&end=11000&step=1"), Ok((0, 11_000_000, 1_000)));
        assert!(range_of("start=0&end=11001&step=1").unwrap_err().contains("11000 points"));
        assert!(range_of("start=10&end=0&step=1").unwrap_err().contains("before"));
        assert!(range_of("start=0&end=1&step=0").unwrap_err().contains("step"));
        assert!(range_of("start=0&end=1").unwrap_err().contains("step"));
        assert!(range_of("start=x&end=1&step=1").unwrap_err().contains("start"));
    }
}
