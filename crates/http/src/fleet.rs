//! `/v1/fleet/*`: groups of brokers and their configurations, enrolment, and the polls of brokers (docs/fleet.md).
//!
//! Format: docs/http.md and docs/formats/fleet.md.
//! Invariants: who may administer the server manages brokers; a broker has only its own token, which opens nothing
//! else. The audit has each change with who and why, without secrets: keys that may hold one stand without their
//! values.

use axum::Extension;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::Response;
use ogive_door::audit::{Entry, note};
use ogive_door::differences::{differences, shown};
use ogive_fleet::{Applied, Contents, Error, Fleet, NewTicket, Order, POLL_BYTES_MAX, Poll};
use ogive_text::mistake::flat;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use std::sync::Arc;

use super::App;
use super::ask::blocking;
use super::body;
use super::error::{ApiError, json as answer, success};
use super::params::Params;
use super::peer::{Asker, Peer};

/// Whether the audit has such a request from its handler, or not at all: configurations may hold secrets, so that their
/// handlers record what differs without them; and whoever waits for a broker's answer looks several times a second.
pub(super) fn is_recorded_elsewhere(route: &str, method: &Method) -> bool {
    let is_look = matches!(*method, Method::GET | Method::HEAD) && route.starts_with("/v1/fleet/");
    is_look || route.starts_with("/v1/fleet/groups/") || route == CONNECT
}

/// Where people ask for a connection through a broker, which may be refused, and lasts.
const CONNECT: &str = "/v1/fleet/brokers/{name}/connect";
/// 12 MiB: both parts of a configuration, with some of their bytes escaped.
const APPLY_BYTES_MAX: usize = 12 << 20;
/// 16 KiB of other requests.
const REQUEST_BYTES_MAX: usize = 16 << 10;
/// 100 versions are listed.
const HISTORY_MAX: usize = 100;

/// The request came at an address that is for brokers alone.
#[derive(Clone, Copy)]
pub(super) struct OwnAddress;

pub(super) fn fleet(app: &App) -> Result<Arc<Fleet>, ApiError> {
    let none = || ApiError::not_found("there are no brokers under a broker; ask the server");
    app.fleet.clone().ok_or_else(none)
}

pub(super) fn refused(error: Error) -> ApiError {
    match error {
        Error::Wrong(message) => ApiError::bad_data(message),
        Error::Invalid(mistakes) => ApiError::bad_data(mistakes.join("\n")),
        Error::Unknown(message) => ApiError::not_found(message),
        Error::Conflict(message) => ApiError { status: StatusCode::CONFLICT, error_type: "conflict", message },
        Error::Limit(message) => ApiError::busy(message),
        Error::Denied { message, .. } => ApiError::unauthorized(message),
        Error::Disk(error) if error.is_full() => ApiError::disk_full(error.to_string()),
        other => ApiError::unavailable(other.to_string()),
    }
}

pub(super) fn now_ms(app: &App) -> i64 {
    app.now().0
}

async fn read<T: DeserializeOwned>(app: &App, request: Request, bytes_max: usize) -> Result<T, ApiError> {
    let held = body::form(app, request, bytes_max).await?;
    serde_json::from_slice(&held.bytes).map_err(|error| ApiError::bad_data(format!("the body: {error}")))
}

pub(super) fn asker(request: &Request) -> String {
    request.extensions().get::<Asker>().cloned().unwrap_or_default().to_string()
}

/// Every group, and files that could not be read.
pub(super) async fn groups(State(app): State<App>) -> Result<Response, ApiError> {
    let fleet = fleet(&app)?;
    blocking("the groups", move || {
        Ok(success(&json!({"groups": fleet.groups(now_ms(&app)), "damaged": fleet.damaged()})))
    })
    .await
}

/// A version of a group, and the versions that there are.
pub(super) async fn group(
    State(app): State<App>,
    Path(name): Path<String>,
    params: Params,
) -> Result<Response, ApiError> {
    let fleet = fleet(&app)?;
    let wrong =
        |text: &str| ApiError::bad_data(format!("invalid parameter \"version\": {text:?} is not a whole number"));
    let version = params.get("version").map(|text| text.parse().map_err(|_| wrong(text))).transpose()?;
    blocking("the group", move || {
        let package = fleet.version(&name, version).map_err(refused)?;
        let history = fleet.history(&name, HISTORY_MAX).map_err(refused)?;
        let row = |one: &ogive_fleet::Package| {
            json!({"version": one.version, "time_ms": one.time_ms, "by": one.by, "why": one.why})
        };
        Ok(success(&json!({"package": package, "versions": history.iter().map(row).collect::<Vec<_>>()})))
    })
    .await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ApplyBody {
    toml: String,
    #[serde(default)]
    scrape: Option<String>,
    #[serde(default)]
    why: String,
    #[serde(default)]
    base: Option<u64>,
}

/// Makes a configuration the next version of a group.
pub(super) async fn apply(
    State(app): State<App>,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, ApiError> {
    let (fleet, by) = (fleet(&app)?, asker(&request));
    let ApplyBody { toml, scrape, why, base } = read(&app, request, APPLY_BYTES_MAX).await?;
    let contents = Contents { toml, scrape };
    let (of, who, group) = (now_ms(&app), by.clone(), name.clone());
    let work = move || Ok(fleet.apply(&group, contents, base, &who, &why, of));
    let applied = blocking("the configuration", work).await?;
    applied_as(&app, "fleet_apply", &name, &by, applied)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RollbackBody {
    version: u64,
    #[serde(default)]
    why: String,
}

/// Puts an earlier version in force again.
pub(super) async fn rollback(
    State(app): State<App>,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, ApiError> {
    let (fleet, by) = (fleet(&app)?, asker(&request));
    let RollbackBody { version, why } = read(&app, request, REQUEST_BYTES_MAX).await?;
    let (of, who, group) = (now_ms(&app), by.clone(), name.clone());
    let work = move || Ok(fleet.rollback(&group, version, &who, &why, of));
    let applied = blocking("the configuration", work).await?;
    applied_as(&app, "fleet_rollback", &name, &by, applied)
}

/// Records what a change did, and answers.
fn applied_as(
    app: &App,
    action: &str,
    group: &str,
    by: &str,
    applied: Result<Applied, Error>,
) -> Result<Response, ApiError> {
    let applied = match applied {
        Ok(applied) => applied,
        Err(error) => {
            let error = refused(error);
            note(app, Entry::from_request(action, by, &format!("group {group}\nrefused: {}", error.message)));
            return Err(error);
        }
    };
    let package = &applied.package;
    if applied.is_new {
        let what = format!("group {group}, version {}: {}\n{}", package.version, package.why, changes(&applied));
        note(app, Entry::from_request(action, by, &what));
    }
    Ok(success(&json!({"version": package.version, "changed": applied.is_new})))
}

/// What differs from the version before, key by key.
fn changes(applied: &Applied) -> String {
    let none = Contents::default();
    let before = applied.before.as_ref().map_or(&none, |before| &before.contents);
    let after = &applied.package.contents;
    let keys = differences(&shown(&flat(&before.toml)), &shown(&flat(&after.toml)));
    let scrape = (before.scrape != after.scrape).then(|| "~ scrape configuration".to_owned());
    keys.into_iter().chain(scrape).collect::<Vec<_>>().join("\n")
}

/// The brokers that changed since a cursor.
pub(super) async fn brokers(State(app): State<App>, params: Params) -> Result<Response, ApiError> {
    let fleet = fleet(&app)?;
    let since = params.get("since").map_or(Ok(0), str::parse);
    let since = since.map_err(|_| ApiError::bad_data("invalid parameter \"since\": it is a cursor of an answer"))?;
    blocking("the brokers", move || Ok(answer(StatusCode::OK, fleet.brokers(since, now_ms(&app)) + "\n"))).await
}

/// Revokes a broker.
pub(super) async fn revoke(
    State(app): State<App>,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, ApiError> {
    let (fleet, by) = (fleet(&app)?, asker(&request));
    blocking("the broker", move || fleet.revoke(&name, &by, now_ms(&app)).map_err(refused)).await?;
    Ok(success(&json!({})))
}

/// The requests to a broker.
pub(super) async fn asked(State(app): State<App>, Path(name): Path<String>) -> Result<Response, ApiError> {
    let requests = fleet(&app)?.asked(&name).map_err(refused)?;
    Ok(success(&json!({"requests": requests})))
}

/// Asks a broker to do something.
pub(super) async fn ask(
    State(app): State<App>,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, ApiError> {
    let (fleet, by) = (fleet(&app)?, asker(&request));
    let order: Order = read(&app, request, REQUEST_BYTES_MAX).await?;
    let id = blocking("the request", move || fleet.ask(&name, order, &by, now_ms(&app)).map_err(refused)).await?;
    Ok(success(&json!({"id": id})))
}

/// The tickets, without their secrets.
pub(super) async fn tickets(State(app): State<App>) -> Result<Response, ApiError> {
    let fleet = fleet(&app)?;
    blocking("the tickets", move || Ok(success(&json!({"tickets": fleet.tickets()})))).await
}

/// Makes a ticket.
pub(super) async fn ticket(State(app): State<App>, request: Request) -> Result<Response, ApiError> {
    let (fleet, by) = (fleet(&app)?, asker(&request));
    let wanted: NewTicket = read(&app, request, REQUEST_BYTES_MAX).await?;
    let made = blocking("the ticket", move || fleet.ticket(&wanted, &by, now_ms(&app)).map_err(refused)).await?;
    let (view, text) = made;
    Ok(success(&json!({"ticket": text, "id": view.id, "group": view.group, "expires_ms": view.expires_ms})))
}

/// Enrols a broker.
pub(super) async fn enrol(State(app): State<App>, request: Request) -> Result<Response, ApiError> {
    let fleet = fleet(&app)?;
    let from = Asker::new(request.extensions(), None).sender();
    let held = body::form(&app, request, REQUEST_BYTES_MAX).await?;
    let time_ms = now_ms(&app);
    let enroled = blocking("the enrolment", move || Ok(fleet.enrol(&held.bytes, time_ms))).await?;
    let what = match &enroled {
        Ok(enroled) => format!("broker {} enrolled in the group {}", enroled.name, enroled.group),
        Err(error) => format!("refused: {error}"),
    };
    note(&app, Entry::from_request("fleet_enroll", &format!("a broker from {from}"), &what));
    let enroled = enroled.map_err(refused)?;
    Ok(answer(StatusCode::OK, serde_json::to_string(&enroled).expect("it is JSON")))
}

/// The token of a broker.
pub(super) fn token(headers: &HeaderMap) -> Result<String, ApiError> {
    let value = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let found = value.and_then(|value| value.strip_prefix("Bearer "));
    found
        .map(|token| token.trim().to_owned())
        .ok_or_else(|| ApiError::unauthorized("a broker shows its token here; `ogive broker enroll` gives it one"))
}

/// Answers a broker when there is something new for it.
pub(super) async fn poll(
    State(app): State<App>,
    own: Option<Extension<OwnAddress>>,
    request: Request,
) -> Result<Response, ApiError> {
    let (fleet, token) = (fleet(&app)?, token(request.headers())?);
    let address = request.extensions().get::<Peer>().map(|peer| peer.address().to_string()).unwrap_or_default();
    let poll: Poll = read(&app, request, POLL_BYTES_MAX).await?;
    let mut ending = app.ending.clone();
    let answered = tokio::select! {
        answered = fleet.poll(&token, poll, address, own.is_none(), app.clock) => answered.map_err(refused)?,
        // What it finds is a lock, which no wait may outlive.
        () = async { drop(ending.wait_for(|ending| *ending).await) } => {
            return Err(ApiError::unavailable("the server is ending; poll again"));
        }
    };
    Ok(answer(StatusCode::OK, serde_json::to_string(&answered).expect("it is JSON")))
}

/// Replaces the token of a broker.
pub(super) async fn rotate(State(app): State<App>, request: Request) -> Result<Response, ApiError> {
    let (fleet, token) = (fleet(&app)?, token(request.headers())?);
    let held = body::form(&app, request, REQUEST_BYTES_MAX).await?;
    let time_ms = now_ms(&app);
    let work = move || fleet.rotate(&token, &held.bytes, time_ms).map_err(refused);
    let enroled = blocking("the token", work).await?;
    Ok(answer(StatusCode::OK, serde_json::to_string(&enroled).expect("it is JSON")))
}

/// Takes outcomes of requests.
pub(super) async fn outcomes(State(app): State<App>, request: Request) -> Result<Response, ApiError> {
    let (fleet, token) = (fleet(&app)?, token(request.headers())?);
    let held = body::form(&app, request, POLL_BYTES_MAX).await?;
    let time_ms = now_ms(&app);
    blocking("the outcomes", move || fleet.finish(&token, &held.bytes, time_ms).map_err(refused)).await?;
    Ok(answer(StatusCode::OK, String::from("{}")))
}

/// What is asked for at an address of brokers and is not there.
pub(super) async fn elsewhere() -> ApiError {
    ApiError::not_found("only brokers poll here; everything else is at the addresses of --listen")
}
