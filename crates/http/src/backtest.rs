//! `/v1/rules/backtest`: would these rules have alerted over what is stored?
//!
//! Limits: [`FILE_BYTES_MAX`] of rules, those of a query, and those of [`ogive_detect::rules::backtest`].

use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use ogive_detect::rules::duration::parse_ms;
use ogive_detect::rules::{Backtest, BacktestError, EvaluationContext, GroupDefaults, RuleFile, backtest};
use ogive_model::{Ms, WallMs};
use serde_json::json;

use super::App;
use super::ask::ask;
use super::body;
use super::error::{ApiError, json as json_answer};
use super::params::{self, Params};
use super::resolution::StoreAtResolution;
use super::views::Views;
use ogive_alerting::backtest_report::report;

/// 1 MiB of rules: some two thousand.
const FILE_BYTES_MAX: usize = 1 << 20;
/// A day, when the request does not name its start.
const STRETCH: Ms = Ms::from_secs(86_400);

/// What is asked for beside the file.
struct BacktestParams {
    path: String,
    start: WallMs,
    end: WallMs,
    interval: Ms,
    holds: Vec<Ms>,
    external_url: String,
    external_labels: std::collections::BTreeMap<String, String>,
}

/// Takes a rule file as the body and gives what became of each rule.
pub(super) async fn post(State(app): State<App>, request: Request) -> Result<Response, ApiError> {
    let mut params = Params::parse(request.uri().query().unwrap_or_default().as_bytes());
    params.tenant = params::tenant(request.headers())?.unwrap_or_default();
    let requested = requested(&app, &params)?;
    let timeout = params.duration("timeout")?;
    let body = body::form(&app, request, FILE_BYTES_MAX).await?;
    let body = ask(&app, timeout, move |app, cancel| {
        let text = std::str::from_utf8(&body.bytes).map_err(|_| ApiError::bad_data("the rules are not UTF-8"))?;
        let file = RuleFile::parse(text).map_err(|errors| {
            let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
            ApiError::bad_data(lines.join("\n"))
        })?;
        let store = Views::new(app, &params);
        let reported = StoreAtResolution { store: &store, resolution: None, cancel };
        let engine = cancel.engine(app);
        let test = Backtest {
            path: &requested.path,
            file: &file,
            defaults: GroupDefaults { interval: requested.interval, query_offset: Ms::ZERO },
            start: requested.start,
            end: requested.end,
            holds: &requested.holds,
        };
        let context = EvaluationContext {
            engine: &engine,
            external_url: &requested.external_url,
            external_labels: &requested.external_labels,
            elapsed: &|| Duration::ZERO,
            cancelled: &|| cancel.is_set(),
        };
        let found = backtest(&test, &reported, &context).map_err(|error| match error {
            BacktestError::TooLarge(message) => ApiError::bad_data(message),
            other => ApiError::timeout(other.to_string()),
        })?;
        Ok(json!({"status": "success", "data": report(&test, &found)}).to_string() + "\n")
    });
    Ok(json_answer(StatusCode::OK, body.await?))
}

fn requested(app: &App, params: &Params) -> Result<BacktestParams, ApiError> {
    let now = app.now();
    let end = params.ago("end", now)?.unwrap_or(now).min(now);
    let start = params.ago("start", now)?.unwrap_or_else(|| end.saturating_sub(STRETCH));
    let span = |text: &str| parse_ms(text).map(Ms).map_err(|error| ApiError::bad_data(format!("for: {error}")));
    let usual = app.alerting.setting();
    let interval = params.duration("interval")?.unwrap_or(Ms(usual.interval_ms));
    if interval <= Ms::ZERO {
        return Err(ApiError::bad_data("the interval must be above zero"));
    }
    Ok(BacktestParams {
        path: params.get("file").unwrap_or_default().to_owned(),
        start,
        end,
        interval,
        holds: params.all("for").map(span).collect::<Result<_, _>>()?,
        external_url: usual.external_url,
        external_labels: usual.external_labels,
    })
}
