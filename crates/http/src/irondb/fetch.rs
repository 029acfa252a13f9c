//! `POST /fetch`: streams transformed and reduced, as DF4.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ogive_irondb::df4;
use ogive_irondb::fetch::{self, Request as StreamSearch, Stream};
use ogive_irondb::frame::{Column, Data, Grid, Output, reduce, transform};
use ogive_irondb::identity::Identity;
use ogive_model::{Tenant, WallMs};

use super::answer;
use super::paths::{self, AccountRequest};
use super::reads::BEFORE;
use super::streams;
use crate::App;
use crate::ask::{Cancel, ask};
use crate::error::{ApiError, json as json_answer};

/// 1 MiB: the longest names of the maximum number of streams in a request take a quarter of it.
const BODY_BYTES_MAX: usize = 1 << 20;

pub(super) async fn post(State(app): State<App>, request: Request) -> Response {
    match answered(&app, request).await {
        Ok(response) => response,
        Err(error) => answer::refusal(&error),
    }
}

fn is(headers: &HeaderMap, name: header::HeaderName, kind: &str) -> bool {
    headers.get(name).and_then(|value| value.to_str().ok()).is_some_and(|value| value.contains(kind))
}

async fn answered(app: &App, request: Request) -> Result<Response, ApiError> {
    let asked = AccountRequest::new(&request)?;
    let is_flat = is(request.headers(), header::CONTENT_TYPE, fetch::CONTENT_TYPE);
    let wants_flat = is(request.headers(), header::ACCEPT, df4::CONTENT_TYPE);
    let held = crate::body::form(app, request, BODY_BYTES_MAX).await?;
    let wanted =
        if is_flat { StreamSearch::from_flatbuffer(&held.bytes) } else { StreamSearch::from_json(&held.bytes) };
    let wanted = wanted.map_err(ApiError::bad_data)?;
    let grid = wanted.grid;
    let timeout = asked.timeout;
    let outputs = ask(app, timeout, move |app, cancel| evaluated(app, cancel, &asked.tenant, wanted)).await?;
    if wants_flat {
        let body = df4::flatbuffer(grid, &outputs);
        return Ok((StatusCode::OK, [(header::CONTENT_TYPE, df4::CONTENT_TYPE)], body).into_response());
    }
    Ok(json_answer(StatusCode::OK, df4::json(grid, &outputs).to_string()))
}

fn evaluated(app: &App, cancel: &Cancel, tenant: &Tenant, wanted: StreamSearch) -> Result<Vec<Output>, ApiError> {
    let mut outputs = Vec::new();
    for stream in &wanted.streams {
        outputs.push(one(app, cancel, tenant, stream, wanted.grid)?);
    }
    for reduction in &wanted.reductions {
        let all = reduce(outputs, wanted.grid, &reduction.method, &reduction.params, &reduction.label);
        outputs = all.map_err(ApiError::bad_data)?;
    }
    Ok(outputs)
}

/// The column of a stream that a request names.
fn one(app: &App, cancel: &Cancel, tenant: &Tenant, stream: &Stream, grid: Grid) -> Result<Output, ApiError> {
    let uuid = paths::check(&stream.uuid)?;
    let identity = Identity::parse(&uuid, &stream.name)
        .map_err(|fault| ApiError::bad_data(format!("the metric's name {:?}: {fault}", stream.name)))?;
    let asked = ColumnRequest {
        identity: &identity,
        kind: &stream.kind,
        grid,
        since: WallMs(grid.start_ms),
        transform: &stream.transform,
        params: &stream.params,
    };
    let column = column(app, cancel, tenant, &asked)?;
    let label = if stream.label.is_empty() { identity.canonical() } else { stream.label.clone() };
    Ok(Output { label, tags: tags(&identity), column })
}

/// The tags of a column that consists of one stream.
pub(super) fn tags(identity: &Identity) -> Vec<(String, String)> {
    let own = [("__check_uuid", &identity.check), ("__name", &identity.base)];
    own.map(|(category, value)| (category.to_owned(), value.clone())).into_iter().chain(identity.tags.clone()).collect()
}

/// Numbers of three instants before the slots: a change of changes needs them, anything else fewer.
const NEIGHBOURS: usize = 3;

/// A stream in the slots of a range.
pub(super) struct ColumnRequest<'a> {
    pub(super) identity: &'a Identity,
    /// Empty: the only one that the stream has.
    pub(super) kind: &'a str,
    pub(super) grid: Grid,
    /// When the range began, of which these slots may be a part: they are as if all of it were evaluated.
    pub(super) since: WallMs,
    pub(super) transform: &'a str,
    /// Those of the transform.
    pub(super) params: &'a [String],
}

/// The column of a stream.
pub(super) fn column(
    app: &App,
    cancel: &Cancel,
    tenant: &Tenant,
    asked: &ColumnRequest<'_>,
) -> Result<Column, ApiError> {
    let ColumnRequest { identity, kind, grid, since, transform: name, params } = *asked;
    let (start, end) = (WallMs(grid.start_ms), WallMs(grid.end_ms()));
    let read = |from: WallMs| streams::read(app, cancel, tenant, identity, from.saturating_sub(BEFORE)..end);
    let mut stream = read(start)?;
    if since < start && !has_neighbours(&stream, kind, name, start) {
        stream = read(since)?;
    }
    let numbers = stream.numbers();
    let data = match kind {
        "text" => Data::Texts(&stream.texts),
        "histogram" | "histogram_cumulative" => Data::Histograms(&stream.histograms),
        "" if numbers.is_empty() && !stream.histograms.is_empty() => Data::Histograms(&stream.histograms),
        "" if numbers.is_empty() && !stream.texts.is_empty() => Data::Texts(&stream.texts),
        _ => Data::Numbers(&numbers),
    };
    let column = transform(data, grid, name, params).map_err(ApiError::bad_data)?;
    // Once here, and once in the response.
    cancel.hold(2 * column.memory_bytes())?;
    Ok(column)
}

/// Whether a stream that was read from shortly before `start` on holds everything that its slots depend on.
fn has_neighbours(stream: &streams::Stream, kind: &str, name: &str, start: WallMs) -> bool {
    let is_change =
        !matches!(name, "" | "none" | "mean" | "average" | "average_stddev" | "value" | "stddev" | "count" | "sum");
    match kind {
        "text" => true,
        // One that counts on is the difference from the one before it.
        "histogram" | "histogram_cumulative" => stream.histograms.iter().any(|(time_ms, _)| *time_ms < start.0),
        _ if !is_change => true,
        _ => {
            let mut times: Vec<i64> = stream.numbers().iter().map(|point| point.time_ms).collect();
            times.dedup();
            times.get(NEIGHBOURS - 1).is_some_and(|time_ms| *time_ms < start.0)
        }
    }
}
