//! `/extension/lua/public/caql_v1/stream`: CAQL as its periods close, as Server-Sent Events.
//!
//! Format: the events of `/v1/stream`; `id` is the second at which a period ends, and the data what the batch route
//! answers for that period in a range from the stream's start: DF4 with one slot.
//! Invariants: a value and a batch answer come from one evaluator and are the same bits; late samples cause corrections
//! of the last [`KEPT_PERIODS`] periods. Limits: those of `/v1/stream`, and of a query.

use axum::Extension;
use axum::extract::{Request, State};
use axum::response::Response;
use ogive_irondb::caql::{self, Pipeline};
use ogive_irondb::frame::Grid;
use ogive_irondb::{df4, tag_query};
use ogive_model::{Matcher, Ms, WallMs};

use super::caql::{Query, Streams, refused};
use super::find;
use super::paths::AccountRequest;
use crate::App;
use crate::ask::{Cancel, ask};
use crate::continuous::{Plan, SELECTORS_MAX, bounded, lateness, started};
use crate::error::ApiError;
use crate::live::{last_event, second_end};
use crate::peer::Asker;
use crate::streams::Guard;

/// 60 periods: an hour of those of a minute. Evaluating them again takes as long as 60 values.
const KEPT_PERIODS: i64 = 60;
/// A day, as long as the longest cells.
const PERIOD_S_MAX: i64 = 86_400;

/// A query and what it is evaluated with.
struct Standing {
    pipeline: Pipeline,
    asked: AccountRequest,
    account: i64,
    period: Ms,
    /// The begin of the range, a multiple of the period.
    begin: WallMs,
}

pub(super) async fn run(State(app): State<App>, asker: Option<Extension<Asker>>, request: Request) -> Response {
    let mut text = String::new();
    match begun(&app, asker, request, &mut text).await {
        Ok(response) => response,
        Err(error) => refused(&error, &text),
    }
}

async fn begun(
    app: &App,
    asker: Option<Extension<Asker>>,
    request: Request,
    text: &mut String,
) -> Result<Response, ApiError> {
    let (asked, headers) = (AccountRequest::new(&request)?, request.headers().clone());
    let after = last_event(&headers)?;
    let lateness = lateness(app, &asked.params)?;
    let query = Query::from_request(app, request, &asked.params).await?;
    text.clone_from(&query.text);
    if query.promql().is_some() {
        return Err(ApiError::bad_data("stream PromQL from /v1/stream of the main port"));
    }
    if !(1..=PERIOD_S_MAX).contains(&query.period_s) {
        return Err(ApiError::bad_data(format!("the period is not 1 to {PERIOD_S_MAX} seconds")));
    }
    let period = Ms::from_secs(query.period_s);
    // Without a start, the period before the first that is sent is not part of the range.
    let begin = match query.start_s.or(after) {
        Some(second) => second_end(second),
        None => app.now() - lateness - period,
    };
    let begin = begin.align_down(period);
    let guard = Guard::new(app, asker, &headers, &asked.tenant);
    let plan = ask(app, None, move |_, _| {
        let pipeline = caql::parse(&query.text).map_err(ApiError::bad_data)?;
        plan(Standing { pipeline, asked, account: query.account, period, begin }, lateness)
    });
    Ok(started(app.clone(), plan.await?, guard, after))
}

fn plan(standing: Standing, lateness: Ms) -> Result<Plan, ApiError> {
    let mut selectors: Vec<Vec<Matcher>> = Vec::new();
    let (mut looks_ahead, mut reads_texts) = (false, false);
    for (query, kind) in caql::sources(&standing.pipeline).map_err(ApiError::bad_data)? {
        let query = tag_query::parse(&query).map_err(|wrong| ApiError::bad_data(wrong.to_string()))?;
        selectors.push(find::matchers(&query));
        // A long cell is stored under its end, and belongs to the period of its start.
        looks_ahead |= kind == "histogram";
        reads_texts |= kind == "text";
    }
    if selectors.len() > SELECTORS_MAX {
        return Err(ApiError::bad_data(format!("the query finds streams more than {SELECTORS_MAX} times")));
    }
    Ok(Plan {
        tenant: standing.asked.tenant.clone(),
        step: standing.period,
        lateness,
        selectors,
        reads_texts,
        looks_ahead,
        kept_steps: KEPT_PERIODS,
        read: "/extension/lua/public/caql_v1",
        evaluate: Box::new(move |app, cancel, end| standing.value(app, cancel, end)),
    })
}

impl Standing {
    /// The value of the period that ends at `end`.
    fn value(&self, app: &App, cancel: &Cancel, end: WallMs) -> Result<Vec<u8>, ApiError> {
        cancel.check()?;
        let last = end - self.period;
        let start = self.begin.min(last);
        let count = usize::try_from((end - start) / self.period).unwrap_or(usize::MAX);
        let grid = |start: WallMs, count| Grid { start_ms: start.0, period_ms: self.period.0, count };
        let source = Streams { app, cancel, tenant: &self.asked.tenant, account: self.account };
        let outputs =
            caql::evaluate_last(&self.pipeline, grid(start, count), 1, &source).map_err(ApiError::bad_data)?;
        let value = df4::json(grid(last, 1), &outputs).to_string().into_bytes();
        bounded(&value)?;
        Ok(value)
    }
}
