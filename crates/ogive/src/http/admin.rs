//! `/api/v1/admin/tsdb/*`: deletion, as Prometheus has it. Only with `--enable-admin-api`.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use ogive_model::TimeRange;

use super::App;
use super::ask::blocking;
use super::catalog::selector;
use super::error::ApiError;
use super::params::Params;

use crate::backend::Refusal;

/// 64 selectors in one request: each is a deletion of its own.
const SELECTORS_MAX: usize = 64;

pub(super) fn enabled(app: &App) -> Result<(), ApiError> {
    if app.admin {
        return Ok(());
    }
    Err(ApiError::unavailable("the admin API is disabled; start the server with --enable-admin-api"))
}

fn refused(refusal: Refusal) -> ApiError {
    match refusal {
        Refusal::DiskFull(message) => ApiError::disk_full(message),
        Refusal::TooLarge(message) => ApiError::bad_data(message),
        other => ApiError::unavailable(other.to_string()),
    }
}

/// Deletes the samples of the matching series from `start` to `end`, both included.
pub(super) async fn delete_series(State(app): State<App>, params: Params) -> Result<Response, ApiError> {
    enabled(&app)?;
    let selectors = params.all("match[]").map(selector).collect::<Result<Vec<_>, ApiError>>()?;
    if selectors.is_empty() || selectors.len() > SELECTORS_MAX {
        return Err(ApiError::bad_data(format!("give 1 to {SELECTORS_MAX} match[] parameters")));
    }
    // The start is part of what is deleted, unlike in a selection.
    let start_ms = params.time("start")?.map_or(i64::MIN, |start| start.saturating_sub(1));
    let range = TimeRange { start_ms, end_ms: params.time("end")?.unwrap_or(i64::MAX) };
    if range.start_ms >= range.end_ms {
        return Err(ApiError::bad_data("invalid parameter \"end\": end timestamp must not be before start time"));
    }
    blocking("the request", move || app.backend.delete(&params.tenant, &selectors, range).map_err(refused)).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Waits until what was deleted is gone from the disk.
pub(super) async fn clean_tombstones(State(app): State<App>) -> Result<Response, ApiError> {
    enabled(&app)?;
    blocking("the request", move || app.backend.clean().map_err(refused)).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
