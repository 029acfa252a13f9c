//! `/api/v1/admin/tsdb/*`: deletion, as Prometheus has it. Only with `--enable-admin-api`.

use axum::extract::State;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use ogive_model::{Matcher, TimeRange};
use serde_json::json;

use super::App;
use super::ask::blocking;
use super::catalog::selector;
use super::error::ApiError;
use super::params::Params;

use ogive_door::backend::{Deletion, Refusal};

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
    let range = params.range()?;
    if range.start >= range.end {
        return Err(ApiError::bad_data("invalid parameter \"end\": end timestamp must not be before start time"));
    }
    let snapshots = match params.get("snapshots") {
        None => Snapshots::Name,
        Some("keep") => Snapshots::Keep,
        Some("delete") => Snapshots::Delete,
        Some("refuse") => Snapshots::Refuse,
        Some(other) => {
            return Err(ApiError::bad_data(format!(
                "invalid parameter \"snapshots\": {other:?}; give keep, delete or refuse"
            )));
        }
    };
    blocking("the request", move || deleted(&app, &params, &selectors, range, snapshots)).await
}

/// What is done about snapshots that may contain the deleted data.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Snapshots {
    /// They are named in a header, because the request did not say.
    Name,
    Keep,
    Delete,
    /// Nothing is deleted if there is one.
    Refuse,
}

fn deleted(
    app: &App,
    params: &Params,
    selectors: &[Vec<Matcher>],
    range: TimeRange,
    snapshots: Snapshots,
) -> Result<Response, ApiError> {
    let backend = &app.backend;
    let holding = || backend.snapshots_holding(&params.tenant, selectors, range).map_err(refused);
    if snapshots == Snapshots::Refuse {
        let names = holding()?;
        if !names.is_empty() {
            let names = names.join(", ");
            return Err(ApiError::bad_data(format!(
                "nothing was deleted: the snapshots {names} may hold it; delete them first, or ask with snapshots=delete or keep"
            )));
        }
    }
    backend.delete(&params.tenant, selectors, range).map_err(refused)?;
    if let Some(live) = &app.live {
        live.recent().forget();
    }
    let names = holding()?;
    let what = params.all("match[]").collect::<Vec<_>>().join(" and ");
    let deletion = Deletion { text: &what, tenant: &params.tenant, selectors, range };
    backend.after_deletion(&names, snapshots == Snapshots::Delete, deletion).map_err(refused)?;
    if snapshots == Snapshots::Name {
        let all = HeaderValue::from_str(&names.join(",")).map_err(|error| ApiError::unavailable(error.to_string()))?;
        let mut response = StatusCode::NO_CONTENT.into_response();
        if !names.is_empty() {
            response.headers_mut().insert("ogive-snapshots", all);
        }
        return Ok(response);
    }
    let is_deleted = snapshots == Snapshots::Delete;
    Ok(super::upkeep::answer(StatusCode::OK, &json!({"snapshots": names, "snapshots_deleted": is_deleted})))
}

/// Waits until the deleted data is removed from the disk.
pub(super) async fn clean_tombstones(State(app): State<App>) -> Result<Response, ApiError> {
    enabled(&app)?;
    blocking("the request", move || app.backend.clean().map_err(refused)).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
