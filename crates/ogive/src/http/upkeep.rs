//! `/v1/disks`: the directories of the server, and filling a new one.
//!
//! Failure: requests that change something need `Content-Type: application/json`, which no page of another origin can send
//! without being asked first.

use std::path::PathBuf;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use ogive_journal::{MemberState, MirrorStatus};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::App;
use super::error::{ApiError, json as json_answer};
use crate::upkeep::{FILL_RATE, Upkeep, WorkState};

#[derive(serde::Deserialize)]
pub(super) struct Replace {
    old: PathBuf,
    new: PathBuf,
    /// Bytes a second; 0 is no bound.
    rate: Option<u64>,
}

/// The directories and what goes on with them.
pub(super) async fn disks(State(app): State<App>) -> Result<Response, ApiError> {
    Ok(answer(StatusCode::OK, &document(upkeep(&app)?)))
}

/// Begins to fill a directory.
pub(super) async fn replace(State(app): State<App>, headers: HeaderMap, body: Bytes) -> Result<Response, ApiError> {
    let Replace { old, new, rate } = read(&headers, &body)?;
    let own = upkeep(&app)?.clone();
    blocking(move || {
        let began = own.replace(&old, &new, rate.unwrap_or(FILL_RATE));
        began.map_err(|error| ApiError::bad_data(format!("{error:#}")))?;
        Ok(answer(StatusCode::ACCEPTED, &document(&own)))
    })
    .await
}

/// Runs what may wait for a disk.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(ApiError::internal("the request failed inside the server; its log has the reason")))
}

pub(super) fn upkeep(app: &App) -> Result<&Upkeep, ApiError> {
    app.upkeep.as_ref().ok_or_else(|| ApiError::not_found("this server keeps nothing on disks of its own"))
}

/// The JSON object in the body of a request.
pub(super) fn read<T: DeserializeOwned>(headers: &HeaderMap, body: &[u8]) -> Result<T, ApiError> {
    let kind = headers.get(header::CONTENT_TYPE).map_or(&b""[..], |kind| kind.as_bytes());
    if !kind.starts_with(b"application/json") {
        return Err(ApiError::unsupported("send the request as Content-Type: application/json"));
    }
    serde_json::from_slice(body).map_err(|error| ApiError::bad_data(format!("the body is not as it must be: {error}")))
}

pub(super) fn answer(status: StatusCode, data: &Value) -> Response {
    json_answer(status, json!({"status": "success", "data": data}).to_string() + "\n")
}

fn document(upkeep: &Upkeep) -> Value {
    let members: Vec<Value> = upkeep.members().iter().map(member).collect();
    json!({"disks": members, "epoch": upkeep.mirror.epoch(), "filling": work(&upkeep.filling.state())})
}

fn member(status: &MirrorStatus) -> Value {
    json!({
        "path": status.path.display().to_string(),
        "state": match status.state {
            MemberState::Live => "live",
            MemberState::Out => "out",
            MemberState::Rebuilding => "filling",
        },
        "why": status.why, "failures": status.failures, "healed": status.healed, "healed_bytes": status.healed_bytes,
    })
}

/// How far a work is.
pub(super) fn work(state: &WorkState) -> Value {
    let WorkState { running, what, done, total, error, completed } = state;
    json!({
        "running": running, "what": what, "done_bytes": done, "total_bytes": total, "error": error,
        "completed": completed,
    })
}
