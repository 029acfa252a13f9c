//! `PUT` and `POST /module/httptrap/CHECK/SECRET`: metrics as clients of Circonus send them.
//!
//! Invariants: the answer comes after the samples are durable. A secret in the address is a login for its check alone.
//! Histograms without a time count once although a client tries again: the request is known by its bytes for
//! [`AGAIN_SECONDS`].
//! Failure: 404 for a check that is not here, 403 for a wrong secret, 406 for a body that is no JSON, as the clients
//! know them; 413, 429, 503 and 507 as everywhere. Metrics that break a rule are named in the answer, and the others
//! are stored.

mod traps;

pub use traps::Traps;

use axum::extract::{Path, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use ogive_irondb::httptrap::{self, Admission, Options, Refused, Trapped, parse_uuid};
use ogive_model::{Tenant, Verdict, WallNs};
use ogive_protocol::lines::Fault;
use serde_json::json;

use super::App;
use super::ask::reading;
use super::body::{self, ChargedBody};
use super::error::{ApiError, json as answer_json};
use super::params;
use super::parts::WriteFailure;
use ogive_door::counters::Protocol;
use ogive_door::division;
use ogive_door::ingest_path::{OnTheWay, Publisher};
use ogive_door::numbers::{Content, is_forgotten};
use ogive_door::room::Unfolded;
use ogive_door::submission::stored_within;

/// The route, as the router has it.
pub(super) const ROUTE: &str = "/module/httptrap/{check}/{secret}";

/// 8 s: Circonus clients retry for 5 to 8 s, and send their next measurement after 10.
const AGAIN_SECONDS: u32 = 8;

/// Metrics that an answer names.
const NAMED_MAX: usize = 20;

/// Whether the address of a request contains the secret of a configured check: it then needs no other authentication.
pub(super) fn has_secret(app: &App, path: &str) -> bool {
    let mut parts = path.split('/').skip(3);
    let (Some(check), Some(secret), None) = (parts.next(), parts.next(), parts.next()) else { return false };
    let secret = percent_encoding::percent_decode_str(secret).decode_utf8_lossy();
    parse_uuid(check).is_some_and(|uuid| matches!(app.traps.checks.admit(&uuid, &secret), Admission::Check(_)))
}

pub(super) async fn submit(
    State(app): State<App>,
    Path((check, secret)): Path<(String, String)>,
    request: Request,
) -> Response {
    let mut way = app.meters.ingest.begin();
    match taken(&app, &check, &secret, request, &mut way).await {
        Ok(outcome) => {
            app.meters.ingest.finish(way, Publisher::Of(Protocol::Httptrap));
            outcome.answer()
        }
        Err(failed) => refusal(&failed.counted(&app, Protocol::Httptrap)),
    }
}

/// The permission of a check: its UUID, and the tenant of its samples.
fn admitted(app: &App, check: &str, secret: &str, request: &Request) -> Result<(String, Tenant), ApiError> {
    let unknown = |check: &str| {
        ApiError::not_found(format!(
            "no check {check:?} is here; start the server with --httptrap UUID:SECRET, or with --httptrap-any"
        ))
    };
    let uuid = parse_uuid(check).ok_or_else(|| unknown(check))?;
    match app.traps.checks.admit(&uuid, secret) {
        Admission::Check(tenant) => Ok((uuid, tenant)),
        Admission::Any => Ok((uuid, params::tenant(request.headers())?.unwrap_or_default())),
        Admission::Unknown => Err(unknown(check)),
        Admission::WrongSecret => Err(ApiError::forbidden(format!("the secret of the check {uuid} is another one"))),
    }
}

async fn taken(
    app: &App,
    check: &str,
    secret: &str,
    request: Request,
    way: &mut OnTheWay,
) -> Result<Outcome, WriteFailure> {
    let (uuid, tenant) = match admitted(app, check, secret, &request) {
        Ok(admitted) => admitted,
        Err(error) => {
            body::discard(request).await;
            return Err(WriteFailure::Unread(error));
        }
    };
    let held = body::read(app, Protocol::Httptrap, request).await.map_err(WriteFailure::Unread)?;
    way.read();
    let (trapped, frame, unfolded) = decoded(app, held, uuid, tenant).await.map_err(WriteFailure::Unread)?;
    way.decoded();
    let mut outcome = Outcome::new(&trapped, app.traps.checks.names_max());
    if !trapped.batch.samples.is_empty() {
        let verdict = stored_within(app, Protocol::Httptrap, trapped.batch, frame, way, Some(unfolded)).await;
        let verdict = verdict.map_err(|refusal| WriteFailure::from(&refusal))?;
        if is_forgotten(&verdict) {
            let message = "the request cannot be distinguished from older ones; send it again";
            return Err(WriteFailure::Refused(ApiError::unavailable(message)));
        }
        outcome.reject(&verdict);
    }
    let ledger = app.counters.of(Protocol::Httptrap);
    trapped.faults.iter().for_each(|(fault, count)| ledger.unreadable(reason(fault), count));
    Ok(outcome)
}

/// The body as a batch with its frame, and the memory that it takes.
async fn decoded(
    app: &App,
    mut held: ChargedBody,
    uuid: String,
    tenant: Tenant,
) -> Result<(Trapped, Vec<u8>, Unfolded), ApiError> {
    let shared = app.clone();
    let read = move || {
        held.unpack()?;
        let unfolded = Unfolded::new(&shared.limits.unfolded_kib, held.bytes.len())?;
        let mut accepts = shared.traps.checks.fuse(&uuid).ok_or_else(|| {
            ApiError::forbidden("more checks than this server takes; name those that are yours with --httptrap")
        })?;
        let options = Options { check: &uuid, now_ns: shared.clock.wall(), names: shared.traps.names };
        let number = shared.numbers.next();
        let mut trapped = match httptrap::read(&held.bytes, &tenant, number, &options, &mut accepts) {
            Ok(trapped) => trapped,
            Err(Refused::Malformed(why)) => return Err(ApiError::not_acceptable(why)),
            Err(Refused::TooLarge(why)) => return Err(ApiError::too_large(why.to_string())),
        };
        number_by_content(&shared, &mut trapped, &uuid, &held.bytes);
        let frame = division::framed(shared.batch_series_max, &trapped.batch)
            .map_err(|why| ApiError::too_large(format!("{}; send fewer metrics at once", why.message)))?;
        Ok((trapped, frame, unfolded))
    };
    reading(app, "reading the metrics", read).await
}

/// Gives a request that has histograms or texts without times of their own a number derived from its content, the same
/// on a retry.
fn number_by_content(app: &App, trapped: &mut Trapped, uuid: &str, bytes: &[u8]) {
    let batch = &trapped.batch;
    let fingerprint = || ogive_protocol::fingerprint(&batch.tenant, &format!("httptrap {uuid}"), bytes);
    let content = match trapped.untimed {
        0 => Content::from_batch(batch, true, fingerprint),
        _ => Content::from_any_batch(batch, false, fingerprint),
    };
    let Some(content) = content else { return };
    let id = app.numbers.of_content_within(content, AGAIN_SECONDS, WallNs(app.clock.wall()));
    trapped.batch.set_id(id);
}

/// The counter label of a fault.
const fn reason(fault: Fault) -> &'static str {
    match fault {
        Fault::Cells => "names_limit",
        fault => fault.as_str(),
    }
}

/// The result of a request.
struct Outcome {
    /// Metrics that are stored.
    stats: u64,
    /// Metrics with names that the check may not have.
    filtered: u64,
    /// Metrics that are not stored.
    wrong: u64,
    /// The first of them.
    named: Vec<String>,
}

impl Outcome {
    fn new(trapped: &Trapped, names_max: usize) -> Self {
        let name = |(name, fault): &(String, Fault)| match fault {
            Fault::Cells => format!("{name:?}: the check has {names_max} metrics already (--httptrap-names)"),
            fault => format!("{name:?}: {fault}"),
        };
        Self {
            stats: trapped.metrics,
            filtered: trapped.faults.iter().find(|(fault, _)| *fault == Fault::Cells).map_or(0, |(_, count)| count),
            wrong: trapped.faults.total(),
            named: trapped.details.iter().map(name).collect(),
        }
    }

    /// Removes the samples that the store rejected.
    fn reject(&mut self, verdict: &Verdict) {
        let rejected = verdict.rejected.len() as u64;
        (self.stats, self.wrong) = (self.stats.saturating_sub(rejected), self.wrong + rejected);
        let named = verdict.rejected.iter().map(|(sample, reason)| format!("sample {sample}: {}", reason.as_str()));
        self.named.extend(named.take(NAMED_MAX));
    }

    fn answer(self) -> Response {
        let mut body = json!({"stats": self.stats, "filtered": self.filtered});
        if self.wrong > 0 {
            let sentence = format!("{} metrics are not stored: {}", self.wrong, self.named.join("; "));
            body["error"] = sentence.into();
        }
        answer_json(StatusCode::OK, body.to_string() + "\n")
    }
}

fn refusal(error: &ApiError) -> Response {
    let body = json!({"stats": 0, "error": error.message});
    let mut response = answer_json(error.status, body.to_string() + "\n");
    if matches!(error.status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

#[cfg(test)]
mod tests;
