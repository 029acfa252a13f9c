//! `/extension/lua/public/caql_v1`: CAQL, and PromQL as gosnowth asks for it.
//!
//! Format: JSON or parameters: `q`, `start_time` and `end_time` (seconds), `period` (seconds), `format` (`DF4`; `PQ`
//! and `PQR` are an instant and a range of PromQL, whose query begins with `#lang="promql"`), `account_id`.
//! Failure: 400 with `user_error`, as the clients read it.

use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use ogive_irondb::caql::{self, Source};
use ogive_irondb::df4;
use ogive_irondb::fetch::COUNT_MAX;
use ogive_irondb::frame::{Grid, Output};
use ogive_irondb::tag_query;
use ogive_model::{Ms, Tenant, TimeRange, WallMs};
use serde_json::{Value as Json, json};

use super::paths::AccountRequest;
use super::{answer, fetch, find};
use crate::App;
use crate::ask::{Cancel, ask};
use crate::error::{ApiError, json as json_answer};
use crate::params::Params;
use crate::prometheus;

/// The default range: one hour.
const SPAN_S: i64 = 3_600;
const PERIOD_S: i64 = 60;

/// A query for the extension.
pub(super) struct Query {
    pub(super) text: String,
    /// None for the default.
    pub(super) start_s: Option<i64>,
    end_s: i64,
    pub(super) period_s: i64,
    format: String,
    pub(super) account: i64,
}

impl Query {
    fn new(member: impl Fn(&str) -> Option<String>, now_s: i64) -> Result<Self, ApiError> {
        let number = |name: &str| -> Result<Option<i64>, ApiError> {
            let Some(text) = member(name).filter(|text| !text.is_empty()) else { return Ok(None) };
            let number = text.parse::<f64>().ok().filter(|number| number.abs() < 9e12);
            number
                .map(|number| Some(number as i64))
                .ok_or_else(|| ApiError::bad_data(format!("{name} {text:?} is not a number")))
        };
        let end_s = number("end_time")?.filter(|end| *end != 0).unwrap_or(now_s);
        Ok(Self {
            text: member("q").or_else(|| member("query")).unwrap_or_default(),
            start_s: number("start_time")?.filter(|start| *start != 0),
            end_s,
            period_s: number("period")?.filter(|period| *period != 0).unwrap_or(PERIOD_S),
            format: member("format").unwrap_or_default(),
            account: number("account_id")?.unwrap_or(0),
        })
    }

    /// The expression, if it is PromQL.
    pub(super) fn promql(&self) -> Option<&str> {
        self.text.trim_start().strip_prefix("#lang=\"promql\"").map(str::trim)
    }

    fn start_s(&self) -> i64 {
        self.start_s.unwrap_or(self.end_s - SPAN_S)
    }

    /// What a request asks for, in its body or in its parameters.
    pub(super) async fn from_request(app: &App, request: Request, params: &Params) -> Result<Self, ApiError> {
        let now_s = app.clock.wall().div_euclid(1_000_000_000);
        if request.method() != Method::POST {
            return Self::new(|name| params.get(name).map(str::to_owned), now_s);
        }
        let held = crate::body::form(app, request, 2 * caql::BYTES_MAX).await?;
        let document: Json = serde_json::from_slice(&held.bytes)
            .map_err(|error| ApiError::bad_data(format!("the body is no JSON object: {error}")))?;
        let member = |name: &str| match document.get(name)? {
            Json::String(text) => Some(text.clone()),
            Json::Number(number) => Some(number.to_string()),
            _ => None,
        };
        Self::new(member, now_s)
    }

    /// The slots: whole ones, from the multiple of the period at or before the start.
    fn grid(&self) -> Result<Grid, ApiError> {
        if self.period_s <= 0 || self.end_s <= self.start_s() {
            return Err(ApiError::bad_data("the period is not above 0, or the end is not behind the start"));
        }
        let start_s = self.start_s().div_euclid(self.period_s) * self.period_s;
        let count = (self.end_s - start_s + self.period_s - 1) / self.period_s;
        match usize::try_from(count) {
            Ok(count @ 1..=COUNT_MAX) => {
                Ok(Grid { start_ms: start_s * 1_000, period_ms: self.period_s * 1_000, count })
            }
            _ => Err(ApiError::bad_data(format!(
                "{count} periods, more than {COUNT_MAX}; ask for longer ones or less time"
            ))),
        }
    }
}

pub(super) async fn run(State(app): State<App>, request: Request) -> Response {
    let mut text = String::new();
    match answered(&app, request, &mut text).await {
        Ok(response) => response,
        Err(error) => refused(&error, &text),
    }
}

/// A refusal of a query, as the clients read it.
pub(super) fn refused(error: &ApiError, text: &str) -> Response {
    if error.status.is_server_error() || error.status == StatusCode::TOO_MANY_REQUESTS {
        return answer::refusal(error);
    }
    let body = json!({
        "locals": [], "method": "caql_v1", "trace": [], "user_error": {"message": error.message},
        "status": "400", "arguments": {"q": text}, "success": false,
    });
    json_answer(error.status, body.to_string())
}

async fn answered(app: &App, request: Request, text: &mut String) -> Result<Response, ApiError> {
    let asked = AccountRequest::new(&request)?;
    let query = Query::from_request(app, request, &asked.params).await?;
    text.clone_from(&query.text);
    if let Some(expression) = query.promql() {
        return promql(app, &asked, &query, expression).await;
    }
    let grid = query.grid()?;
    let outputs = ask(app, asked.timeout, move |app, cancel| {
        let pipeline = caql::parse(&query.text).map_err(ApiError::bad_data)?;
        let source = Streams { app, cancel, tenant: &asked.tenant, account: query.account };
        caql::evaluate(&pipeline, grid, &source).map_err(ApiError::bad_data)
    })
    .await?;
    Ok(json_answer(StatusCode::OK, df4::json(grid, &outputs).to_string()))
}

/// A PromQL expression, answered in the form of the Prometheus API.
async fn promql(app: &App, asked: &AccountRequest, query: &Query, expression: &str) -> Result<Response, ApiError> {
    let is_range = query.format == "PQR";
    let mut params = Params::parse(form(query, expression, is_range).as_bytes());
    params.tenant = asked.tenant.clone();
    if is_range {
        return prometheus::query_range(State(app.clone()), params).await;
    }
    prometheus::query(State(app.clone()), params).await
}

/// The parameters of the Prometheus API.
fn form(query: &Query, expression: &str, is_range: bool) -> String {
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.append_pair("query", expression);
    if is_range {
        form.append_pair("start", &query.start_s().to_string()).append_pair("end", &query.end_s.to_string());
        form.append_pair("step", &query.period_s.to_string());
    } else {
        form.append_pair("time", &query.end_s.to_string());
    }
    form.finish()
}

/// Access of a query to the stored streams.
pub(super) struct Streams<'s> {
    pub(super) app: &'s App,
    pub(super) cancel: &'s Cancel,
    pub(super) tenant: &'s Tenant,
    pub(super) account: i64,
}

impl Source for Streams<'_> {
    fn find(&self, wanted: &caql::PipelineInput<'_>) -> Result<Vec<Output>, String> {
        let query = tag_query::parse(wanted.query).map_err(|wrong| wrong.to_string())?;
        let since = WallMs(wanted.since_ms);
        let range = TimeRange { start: since.saturating_sub(Ms(1)), end: WallMs(wanted.grid.end_ms()) };
        let asked = find::StreamSearch { account: self.account, query, range };
        let (app, cancel) = (self.app, self.cancel);
        let found = find::find(app, cancel, self.tenant, &asked).map_err(|error| error.message)?;
        let fitting = found.iter().filter(|found| found.kinds.contains(&wanted.kind)).take(wanted.limit);
        let column = |found: &find::MatchedStream| {
            let identity = &found.identity;
            let asked = fetch::ColumnRequest {
                identity,
                kind: wanted.kind,
                grid: wanted.grid,
                since,
                transform: wanted.transform,
                params: &[],
            };
            let column = fetch::column(app, cancel, self.tenant, &asked);
            let column = column.map_err(|error| error.message)?;
            Ok(Output { label: identity.canonical(), tags: fetch::tags(identity), column })
        };
        fitting.map(column).collect()
    }
}

/// Lists the extensions.
pub(super) async fn list() -> Response {
    let param = |kind: &str, description: &str| json!({"type": kind, "description": description, "optional": true});
    answer::from_result(Ok(json!({"public/caql_v1": {
        "method": "POST", "PARSE_JSON_PAYLOAD": true,
        "description": "Evaluates CAQL, and PromQL behind #lang=\"promql\".",
        "documentation": "docs/irondb.md lists the functions.",
        "params": {
            "q": param("string", "The query."), "start_time": param("number", "Seconds since 1970."),
            "end_time": param("number", "Seconds since 1970."), "period": param("number", "Seconds."),
            "format": param("string", "DF4, PQ or PQR."), "account_id": param("string", "The account."),
        },
    }})))
}
