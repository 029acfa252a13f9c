//! `/v1/disks`, `/v1/scrub`, `/v1/snapshots`: the directories of the server and what is done for them.
//!
//! Failure: requests that change something need `Content-Type: application/json`, which no page of another origin can
//! send without being asked first.

use std::path::PathBuf;

use axum::body::Bytes;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use ogive_journal::{MemberState, MirrorStatus};
use ogive_model::{Ms, Tenant};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::App;
use super::ask::blocking;
use super::error::{ApiError, json as json_answer};
use super::params;
use ogive_storage::upkeep::{ASKED_RATE, FILL_RATE, ScrubTotals, Upkeep, WorkState, absolute};
use ogive_store::{SnapshotInfo, Store, StoredFinding};

#[derive(serde::Deserialize)]
pub(super) struct Replace {
    old: PathBuf,
    new: PathBuf,
    /// Bytes a second; 0 is no bound.
    rate: Option<u64>,
}

/// The directories and their current activity.
pub(super) async fn disks(State(app): State<App>) -> Result<Response, ApiError> {
    Ok(answer(StatusCode::OK, &document(upkeep(&app)?)))
}

/// Starts to fill a directory.
pub(super) async fn replace(State(app): State<App>, headers: HeaderMap, body: Bytes) -> Result<Response, ApiError> {
    let Replace { old, new, rate } = read(&headers, &body)?;
    let own = upkeep(&app)?.clone();
    blocking("the request", move || {
        let began = own.replace(&old, &new, rate.unwrap_or(FILL_RATE));
        began.map_err(|error| ApiError::bad_data(format!("{error:#}")))?;
        Ok(answer(StatusCode::ACCEPTED, &document(&own)))
    })
    .await
}

#[derive(serde::Deserialize)]
pub(super) struct AddRequest {
    path: PathBuf,
    /// Bytes a second; 0 is no bound.
    rate: Option<u64>,
}

/// Starts to fill an additional directory.
pub(super) async fn add(State(app): State<App>, headers: HeaderMap, body: Bytes) -> Result<Response, ApiError> {
    let AddRequest { path, rate } = read(&headers, &body)?;
    let own = upkeep(&app)?.clone();
    blocking("the request", move || {
        let began = own.add(&path, rate.unwrap_or(FILL_RATE));
        began.map_err(|error| ApiError::bad_data(format!("{error:#}")))?;
        Ok(answer(StatusCode::ACCEPTED, &document(&own)))
    })
    .await
}

/// The time of the retention clock.
pub(super) async fn retention(State(app): State<App>) -> Result<Response, ApiError> {
    with_store(&app, |_, store| Ok((StatusCode::OK, retention_document(store)))).await
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Confirm {
    /// The server's clock is right.
    confirm_clock: bool,
}

/// An operator confirms the clock.
pub(super) async fn confirm_clock(
    State(app): State<App>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, ApiError> {
    let Confirm { confirm_clock } = read(&headers, &body)?;
    if !confirm_clock {
        return Err(ApiError::bad_data("give {\"confirm_clock\": true} when the server's clock is right"));
    }
    with_store(&app, |_, store| {
        let lag = store.believe_clock();
        tracing::info!("retention: an operator confirmed the clock, which was {} s ahead", lag / Ms::from_secs(1));
        Ok((StatusCode::OK, retention_document(store)))
    })
    .await
}

fn retention_document(store: &Store) -> Value {
    let status = store.status();
    json!({
        "clock_ms": status.retention_clock, "lag_ms": status.retention_lag, "held": status.drops_held,
    })
}

#[derive(serde::Deserialize)]
pub(super) struct StartScrub {
    /// Bytes a second; 0 is no bound.
    rate: Option<u64>,
}

/// The progress of scrubs: the running one, and the findings of the last.
pub(super) async fn scrub(State(app): State<App>) -> Result<Response, ApiError> {
    Ok(answer(StatusCode::OK, &scrubs(upkeep(&app)?)))
}

/// Starts a scrub, or speeds up the running one.
pub(super) async fn start_scrub(State(app): State<App>, headers: HeaderMap, body: Bytes) -> Result<Response, ApiError> {
    let StartScrub { rate } = read(&headers, &body)?;
    let own = upkeep(&app)?;
    let rate = rate.map_or(ASKED_RATE, |rate| if rate == 0 { u64::MAX } else { rate });
    own.start_scrub(rate).map_err(|error| ApiError::busy(format!("{error:#}")))?;
    Ok(answer(StatusCode::ACCEPTED, &scrubs(own)))
}

fn scrubs(upkeep: &Upkeep) -> Value {
    // First, so that work that has ended never stands beside the findings of the scrub before it.
    let state = upkeep.scrub.work.state();
    let (ScrubTotals { bytes, errors, healed, completed }, last) = upkeep.scrub.state();
    let last = last.map(|last| document_of(&last));
    json!({
        "work": work(&state), "last": last,
        "bytes_total": bytes, "errors_total": errors, "healed_total": healed, "completed_time_ms": completed,
    })
}

/// Damage and losses that are not acknowledged; a login with a tenant sees what concerns it or all tenants.
pub(super) async fn findings(State(app): State<App>, headers: HeaderMap) -> Result<Response, ApiError> {
    let tenant = params::tenant(&headers)?;
    with_store(&app, move |_, store| Ok((StatusCode::OK, json!({"findings": known(store, tenant.as_ref())})))).await
}

#[derive(serde::Deserialize)]
pub(super) struct Acknowledge {
    /// The number of the last finding to acknowledge.
    up_to: u64,
}

/// Acknowledges the findings up to a number, which removes them.
pub(super) async fn acknowledge(State(app): State<App>, headers: HeaderMap, body: Bytes) -> Result<Response, ApiError> {
    let Acknowledge { up_to } = read(&headers, &body)?;
    with_store(&app, move |_, store| {
        let acknowledged = store.acknowledge(up_to)?;
        Ok((StatusCode::OK, json!({"acknowledged": acknowledged, "findings": known(store, None)})))
    })
    .await
}

fn known(store: &Store, tenant: Option<&Tenant>) -> Vec<Value> {
    let document = |finding: StoredFinding| {
        let StoredFinding { id, found, problem, tenant, range, silent } = finding;
        // All times have no bounds that a client could use.
        let bound = |bound: i64| Some(bound).filter(|bound| ![i64::MIN, i64::MAX].contains(bound));
        json!({
            "id": id, "found_ms": found, "problem": problem, "tenant": tenant.as_ref().map(Tenant::as_str),
            "start_ms": bound(range.start.0), "end_ms": bound(range.end.0), "warns": silent,
        })
    };
    let concerns =
        |finding: &StoredFinding| tenant.is_none() || finding.tenant.is_none() || finding.tenant.as_ref() == tenant;
    store.findings().into_iter().filter(concerns).map(document).collect()
}

/// The findings of a scrub.
pub fn document_of(scrubbed: &ogive_store::Scrubbed) -> Value {
    let findings: Vec<Value> = scrubbed
        .findings
        .iter()
        .map(|finding| {
            json!({
                "path": finding.path.display().to_string(), "section": finding.section, "offset": finding.offset,
                "end": finding.end, "problem": finding.problem, "healed": finding.healed,
            })
        })
        .collect();
    let ogive_store::Scrubbed { bytes, found, healed, .. } = scrubbed;
    json!({"bytes": bytes, "found": found, "healed": healed, "findings": findings})
}

#[derive(serde::Deserialize)]
pub(super) struct Named {
    name: String,
}

#[derive(serde::Deserialize)]
pub(super) struct Clone {
    name: String,
    data: PathBuf,
}

/// All snapshots.
pub(super) async fn snapshots(State(app): State<App>) -> Result<Response, ApiError> {
    with_store(&app, |_, store| {
        let all: Vec<Value> = store.snapshots()?.iter().map(snapshot).collect();
        Ok((StatusCode::OK, json!({"snapshots": all})))
    })
    .await
}

/// Creates a snapshot.
pub(super) async fn create_snapshot(
    State(app): State<App>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, ApiError> {
    let Named { name } = read(&headers, &body)?;
    let created = app.now();
    with_store(&app, move |_, store| Ok((StatusCode::CREATED, snapshot(&store.snapshot(&name, created)?)))).await
}

/// Removes one.
pub(super) async fn delete_snapshot(
    State(app): State<App>,
    name: Result<Path<String>, PathRejection>,
) -> Result<Response, ApiError> {
    let Path(name) = name?;
    with_store(&app, move |own, _| {
        ogive_store::snapshot::delete(&own.mirror, own.mirror.root(), &name)?;
        Ok((StatusCode::OK, json!({"deleted": name})))
    })
    .await
}

/// Clones a snapshot to a separate store.
pub(super) async fn clone_snapshot(
    State(app): State<App>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, ApiError> {
    let Clone { name, data } = read(&headers, &body)?;
    let data = absolute(&data).map_err(|error| ApiError::bad_data(error.to_string()))?;
    with_store(&app, move |own, _| {
        let info = ogive_storage::upkeep::clone_snapshot(&own.mirror, &name, &data)?;
        Ok((StatusCode::CREATED, snapshot(&info)))
    })
    .await
}

/// A snapshot as the API shows it.
pub fn snapshot(info: &SnapshotInfo) -> Value {
    let SnapshotInfo { name, created, blocks, block_bytes, journal_bytes } = info;
    json!({
        "name": name, "created_ms": created, "blocks": blocks, "block_bytes": block_bytes,
        "journal_bytes": journal_bytes,
    })
}

/// Runs work with the store that may wait for the disk.
pub(super) async fn with_store(
    app: &App,
    act: impl FnOnce(&Upkeep, &Store) -> Result<(StatusCode, Value), ogive_store::Error> + Send + 'static,
) -> Result<Response, ApiError> {
    let own = upkeep(app)?.clone();
    blocking("the request", move || {
        let store = own.store().map_err(|error| ApiError::unavailable(error.to_string()))?;
        let (status, data) = act(&own, &store).map_err(|error| match error {
            ogive_store::Error::Refused { problem } => ApiError::bad_data(problem),
            ogive_store::Error::Disk(ogive_journal::Error::Mirror { problem }) => ApiError::bad_data(problem),
            error if error.is_full() => ApiError::disk_full(error.to_string()),
            error => ApiError::unavailable(error.to_string()),
        })?;
        Ok(answer(status, &data))
    })
    .await
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
    // First: a client that sees that nothing is being filled must not see the old state of what was filled.
    let filling = work(&upkeep.filling.state());
    let members: Vec<Value> = upkeep.members().iter().map(member).collect();
    // Files of which no directory had a good copy when the store was opened, or has one now.
    let problems = upkeep.store().map(|store| {
        let status = store.status();
        let mut problems = [status.recovered.findings, status.block_failures].concat();
        let earlier = store.findings().into_iter().map(|finding| finding.problem);
        problems.extend(earlier);
        let mut reported = std::collections::HashSet::new();
        problems.retain(|problem| reported.insert(problem.clone()));
        problems
    });
    json!({
        "disks": members, "epoch": upkeep.mirror.epoch(), "filling": filling,
        "problems": problems.unwrap_or_default(),
    })
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
        "free_bytes": status.space.map(|space| space.free_bytes),
        "size_bytes": status.space.map(|space| space.size_bytes),
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
