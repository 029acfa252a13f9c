//! What writes: `/raw`, `/write/text`, `/write/numeric`, `/write/nnt`, `/histogram/write`, `/nntbs`.

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::Response;
use ogive_door::counters::Protocol;
use ogive_door::division;
use ogive_door::ingest_path::{OnTheWay, Publisher};
use ogive_door::numbers::{Content, is_forgotten};
use ogive_door::room::Unfolded;
use ogive_door::submission::stored_within;
use ogive_irondb::body::{self as decoder, Encoding};
use ogive_irondb::intake::{ParsedBody, Refused};
use ogive_irondb::legacy::Form;
use ogive_irondb::{metric_list, nntbs};
use ogive_model::{Tenant, WallNs};
use serde_json::json;

use super::answer;
use crate::App;
use crate::ask::reading;
use crate::body::{self, ChargedBody};
use crate::error::{ApiError, json as json_answer};
use crate::params;
use crate::parts::WriteFailure;

pub(super) async fn raw(State(app): State<App>, request: Request) -> Response {
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    let encoding = match kind.split(';').next().unwrap_or("").trim() {
        metric_list::CONTENT_TYPE => Encoding::MetricList,
        nntbs::CONTENT_TYPE => Encoding::Rollups,
        _ => Encoding::Lines,
    };
    taken(&app, encoding, request).await
}

pub(super) async fn text(State(app): State<App>, request: Request) -> Response {
    taken(&app, Encoding::Json(Form::Text), request).await
}

pub(super) async fn numeric(State(app): State<App>, request: Request) -> Response {
    taken(&app, Encoding::Json(Form::Numeric), request).await
}

pub(super) async fn histogram(State(app): State<App>, request: Request) -> Response {
    taken(&app, Encoding::Json(Form::Histogram), request).await
}

pub(super) async fn rollups(State(app): State<App>, request: Request) -> Response {
    taken(&app, Encoding::Rollups, request).await
}

pub(super) async fn taken(app: &App, encoding: Encoding, request: Request) -> Response {
    let mut way = app.meters.ingest.begin();
    match stored(app, encoding, request, &mut way).await {
        Ok((records, errors, named)) => {
            app.meters.ingest.finish(way, Publisher::Of(Protocol::Irondb));
            let mut body = json!({"records": records, "updated": records, "misdirected": 0, "errors": errors});
            if errors > 0 {
                body["error"] = format!("{errors} records are not stored: {}", named.join("; ")).into();
            }
            let status = if records == 0 && errors > 0 { StatusCode::BAD_REQUEST } else { StatusCode::OK };
            json_answer(status, body.to_string() + "\n")
        }
        Err(failed) => answer::refused_write(&failed.counted(app, Protocol::Irondb), 1),
    }
}

/// How many records were accepted, how many were not, and what is wrong with the first of those.
async fn stored(
    app: &App,
    encoding: Encoding,
    request: Request,
    way: &mut OnTheWay,
) -> Result<(u64, u64, Vec<String>), WriteFailure> {
    let tenant = params::tenant(request.headers()).map_err(WriteFailure::Unread)?.unwrap_or_default();
    let held = body::read(app, Protocol::Irondb, request).await.map_err(WriteFailure::Unread)?;
    way.read();
    let (taken, frame, unfolded) = decoded(app, encoding, held, tenant).await.map_err(WriteFailure::Unread)?;
    way.decoded();
    let (mut records, mut errors) = (taken.records, taken.faults.total());
    let mut named: Vec<String> = taken.details.iter().map(|(name, fault)| format!("{name:?}: {fault}")).collect();
    if !taken.batch.samples.is_empty() {
        let verdict = stored_within(app, Protocol::Irondb, taken.batch, frame, way, Some(unfolded)).await;
        let verdict = verdict.map_err(|refusal| WriteFailure::from(&refusal))?;
        if is_forgotten(&verdict) {
            let message = "the request cannot be distinguished from older ones; send it again";
            return Err(WriteFailure::Refused(ApiError::unavailable(message)));
        }
        let rejected = verdict.rejected.len() as u64;
        (records, errors) = (records.saturating_sub(rejected), errors + rejected);
        named.extend(verdict.rejected.iter().map(|(sample, reason)| format!("sample {sample}: {}", reason.as_str())));
        named.truncate(20);
    }
    let ledger = app.counters.of(Protocol::Irondb);
    taken.faults.iter().for_each(|(fault, count)| ledger.unreadable(fault.as_str(), count));
    Ok((records, errors, named))
}

/// The body as a batch with its frame, and the memory that it takes.
async fn decoded(
    app: &App,
    encoding: Encoding,
    mut held: ChargedBody,
    tenant: Tenant,
) -> Result<(ParsedBody, Vec<u8>, Unfolded), ApiError> {
    let shared = app.clone();
    let read = move || {
        held.unpack()?;
        let unfolded = Unfolded::new(&shared.limits.unfolded_kib, held.bytes.len())?;
        let mut taken = match decoder::read(&encoding, &held.bytes, &tenant, shared.numbers.next()) {
            Ok(taken) => taken,
            Err(Refused::Malformed(why)) => return Err(ApiError::bad_data(why)),
            Err(Refused::TooLarge(why)) => return Err(ApiError::too_large(why.to_string())),
        };
        // Texts at one time are distinguished only by the request in which they arrived.
        let fingerprint = || ogive_protocol::fingerprint(&tenant, "irondb", &held.bytes);
        if let Some(content) = Content::from_batch(&taken.batch, true, fingerprint) {
            taken.batch.set_id(shared.numbers.of_content(content, WallNs(shared.clock.wall())));
        }
        let frame = division::framed(shared.batch_series_max, &taken.batch)
            .map_err(|why| ApiError::too_large(format!("{}; send fewer metrics at once", why.message)))?;
        Ok((taken, frame, unfolded))
    };
    reading(app, "reading the metrics", read).await
}
