//! `POST /v1/batch`: samples in, a verdict on each of them out, once the good ones are durable.
//!
//! Invariants: the answer comes after the store's reply; every sample of a batch that could be read is counted once in
//! [`Counters`](ogive_door::counters::Counters), also when its sender has gone.
//! Failure: 400 when nothing was taken and something was wrong, 413 and 415 for bodies that are not read, 429 when as
//! much is in flight as may be, 507 when the disk is full, 503 when writing failed.

use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ogive_model::{Batch, Tenant, Verdict, WallNs, wire};
use std::fmt::Write as _;

use super::App;
use super::ask::reading;
use super::body::{self, ChargedBody};
use super::client::Client;
use super::error::{ApiError, json};
use super::params;
use ogive_door::backend::Refusal;
use ogive_door::counters::{MALFORMED, Protocol};
use ogive_door::division::{self, Piece};
use ogive_door::ingest_path::{OnTheWay, Publisher};
use ogive_door::room::Unfolded;
use ogive_door::senders::Sender;
use ogive_door::submission::{stored_in_pieces, stored_within};
use ogive_protocol::batch_json;
use ogive_protocol::batch_message::{Form, JSON};

/// 64 KiB are decoded in some 300 µs; larger bodies are decoded off the async threads.
const INLINE_BYTES_MAX: usize = 64 * 1024;

pub(super) use ogive_protocol::batch_message::FLAT_BUFFER;

/// The content type of several batches.
pub(super) const FRAMES: &str = "application/x-ogive-batch-frames";

fn form(headers: &HeaderMap) -> Result<Form, ApiError> {
    // Without a type any page could send it: browsers make a preflight request only for a type that forms do not have.
    let Some(kind) = headers.get(header::CONTENT_TYPE) else {
        return Err(ApiError::unsupported(format!("no content type; send {JSON}, {FLAT_BUFFER} or {FRAMES}")));
    };
    let kind = String::from_utf8_lossy(kind.as_bytes());
    Form::named(&kind)
        .ok_or_else(|| ApiError::unsupported(format!("content type {kind:?}; send {JSON}, {FLAT_BUFFER} or {FRAMES}")))
}

/// A batch with the details of its bad samples.
pub(super) struct Decoded {
    pub(super) batch: Batch,
    /// Its bytes for the journal.
    pub(super) frame: Vec<u8>,
    pub(super) details: Vec<(u32, String)>,
    /// Its room in memory.
    pub(super) unfolded: Unfolded,
}

/// Accepts one batch.
pub(super) async fn post(app: App, request: Request, mut way: OnTheWay) -> Response {
    let decoded = match decoded(&app, request, &mut way).await {
        Ok(decoded) => decoded,
        Err(error) => {
            unreadable(&app, Protocol::Batch, &error);
            return error.into_response();
        }
    };
    let (stored, details) = match decoded {
        Body::One(Decoded { batch, frame, details, unfolded }) => {
            (stored_within(&app, Protocol::Batch, batch, frame, &way, Some(unfolded)).await, details)
        }
        Body::Pieces { pieces, details, unfolded } => {
            // Its decompressed size counts until the last piece is stored.
            let stored = stored_in_pieces(&app, Protocol::Batch, pieces, &way).await;
            drop(unfolded);
            (stored, details)
        }
    };
    match stored {
        Ok(verdict) => {
            let (status, body) = answer(&verdict, &details);
            app.meters.ingest.finish(way, Publisher::Of(Protocol::Batch));
            json(status, body)
        }
        Err(refusal) => refused(&refusal),
    }
}

/// A batch that was read.
pub(super) enum Body {
    One(Decoded),
    /// With more than one batch may have.
    Pieces {
        pieces: Vec<Piece>,
        details: Vec<(u32, String)>,
        unfolded: Unfolded,
    },
}

async fn decoded(app: &App, request: Request, way: &mut OnTheWay) -> Result<Body, ApiError> {
    let form = form(request.headers())?;
    let tenant = params::tenant(request.headers())?;
    let held = body::read(app, Protocol::Batch, request).await?;
    way.read();
    let decoded = if held.bytes.len() <= INLINE_BYTES_MAX && !held.is_packed() {
        decode(app, form, held, tenant)
    } else {
        let shared = app.clone();
        reading(app, "reading the batch", move || decode(&shared, form, held, tenant)).await
    };
    way.decoded();
    decoded
}

fn decode(app: &App, form: Form, mut held: ChargedBody, tenant: Option<Tenant>) -> Result<Body, ApiError> {
    held.unpack()?;
    let unfolded = Unfolded::new(&app.limits.unfolded_kib, held.bytes.len())?;
    match form {
        Form::Json => {
            let batch_json::Decoded { mut batch, named, details } =
                batch_json::decode(&held.bytes).map_err(ApiError::bad_data)?;
            batch.tenant = agreed(tenant, named.then_some(batch.tenant))?;
            if let Ok(frame) = division::framed(app.batch_series_max, &batch) {
                return Ok(Body::One(Decoded { batch, frame, details, unfolded }));
            }
            in_pieces(app, &batch, details, unfolded)
        }
        Form::FlatBuffer => from_frame(app, held.bytes, tenant, unfolded),
    }
}

/// The batch of a frame, with the memory for its decoded form: in pieces if it has more than this server accepts at
/// once.
pub(super) fn from_frame(
    app: &App,
    frame: Vec<u8>,
    tenant: Option<Tenant>,
    unfolded: Unfolded,
) -> Result<Body, ApiError> {
    let (batch, frame) = framed(frame, tenant)?;
    let details = series_details(&batch);
    if division::is_within(app.batch_series_max, &batch, frame.len()).is_ok() {
        return Ok(Body::One(Decoded { details, frame, batch, unfolded }));
    }
    in_pieces(app, &batch, details, unfolded)
}

fn in_pieces(app: &App, batch: &Batch, details: Vec<(u32, String)>, mut unfolded: Unfolded) -> Result<Body, ApiError> {
    unfolded.settle(ogive_protocol::batch_bytes(batch))?;
    let pieces = division::divide(app.batch_series_max, batch).map_err(|why| ApiError::too_large(why.message))?;
    Ok(Body::Pieces { pieces, details, unfolded })
}

/// The batch of a frame and of the request's tenant, and the frame as that tenant's.
pub(super) fn framed(mut frame: Vec<u8>, tenant: Option<Tenant>) -> Result<(Batch, Vec<u8>), ApiError> {
    // With more than the store accepts at once, it is divided.
    let mut batch = Batch::decode_wide(&frame).map_err(no_batch)?;
    let named = Some(&batch.tenant).filter(|named| !named.is_default()).cloned();
    let tenant = agreed(tenant, named)?;
    if tenant != batch.tenant {
        frame = wire::with_tenant(&frame, &tenant).map_err(no_batch)?;
        batch.tenant = tenant;
    }
    Ok((batch, frame))
}

pub(super) fn no_batch(error: ogive_model::Error) -> ApiError {
    match error {
        ogive_model::Error::TooLarge { .. } => ApiError::too_large(error.to_string()),
        error => ApiError::bad_data(error.to_string()),
    }
}

/// The tenant that the request's header and its body name.
fn agreed(header: Option<Tenant>, body: Option<Tenant>) -> Result<Tenant, ApiError> {
    match (header, body) {
        (Some(header), Some(body)) if header != body => Err(ApiError::bad_data(format!(
            "the header X-Scope-OrgID names tenant {header} and the batch tenant {body}; name one of them"
        ))),
        (header, body) => Ok(header.or(body).unwrap_or_default()),
    }
}

/// What is wrong with the series of the first bad samples.
fn series_details(batch: &Batch) -> Vec<(u32, String)> {
    let of = |series: u32| batch.series.get(series as usize)?.as_ref().err();
    let samples = batch.samples.iter().enumerate();
    samples
        .filter_map(|(index, sample)| {
            let series = sample.as_ref().ok()?.series;
            of(series).map(|error| (index as u32, format!("series {series}: {error}")))
        })
        .take(batch_json::DETAILS_MAX)
        .collect()
}

/// Counts a request by `protocol` that failed with `error` before it became a batch.
pub(crate) fn unreadable(app: &App, protocol: Protocol, error: &ApiError) {
    let reason = match error.status {
        StatusCode::PAYLOAD_TOO_LARGE => "too_large",
        StatusCode::UNSUPPORTED_MEDIA_TYPE => "unsupported",
        StatusCode::REQUEST_TIMEOUT => "slow",
        StatusCode::TOO_MANY_REQUESTS => "busy",
        StatusCode::INSUFFICIENT_STORAGE => "disk_full",
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => "forbidden",
        _ => MALFORMED,
    };
    app.counters.of(protocol).unreadable(reason, 1);
    let tenant = Tenant::new(&Client::current().tenant).unwrap_or_default();
    app.counters.senders.unreadable(&Sender::current(tenant, protocol, None), reason, WallNs(app.clock.wall()));
}

/// The status and the body that describe it.
pub(super) fn answer(verdict: &Verdict, details: &[(u32, String)]) -> (StatusCode, String) {
    let mut rejected = String::from("[");
    let mut details = details.iter().peekable();
    for (at, (sample, reason)) in verdict.rejected.iter().enumerate() {
        let comma = if at > 0 { "," } else { "" };
        write!(rejected, "{comma}{{\"sample\":{sample},\"reason\":\"{}\"", reason.as_str()).expect("writes to memory");
        while details.peek().is_some_and(|detail| detail.0 < *sample) {
            details.next();
        }
        if let Some((_, text)) = details.next_if(|detail| detail.0 == *sample) {
            write!(rejected, ",\"detail\":{}", serde_json::Value::from(&**text)).expect("writes to memory");
        }
        rejected.push('}');
    }
    rejected.push(']');
    let folded = if verdict.folded > 0 { format!(",\"folded\":{}", verdict.folded) } else { String::new() };
    let Verdict { accepted, duplicate, .. } = verdict;
    let counts = format!("\"accepted\":{accepted},\"duplicate\":{duplicate}{folded},\"rejected\":{rejected}");
    if verdict.accepted + verdict.duplicate > 0 || verdict.rejected.is_empty() {
        return (StatusCode::OK, format!("{{{counts}}}\n"));
    }
    let reason = verdict.rejected[0].1.as_str();
    let message = format!("none of the batch's {} samples was accepted; the first: {reason}", verdict.rejected.len());
    let body = format!(
        "{{\"status\":\"error\",\"errorType\":\"bad_data\",\"error\":{},{counts}}}\n",
        serde_json::Value::from(message)
    );
    (StatusCode::BAD_REQUEST, body)
}

/// The response to a sender whose batch the store refused.
pub(crate) fn refused(refusal: &Refusal) -> Response {
    let (error, more) = error_of(refusal);
    error.with(&more)
}

/// The same as its status and its body.
pub(super) fn refusal(refusal: &Refusal) -> (StatusCode, String) {
    let (error, more) = error_of(refusal);
    (error.status, error.body(&more))
}

/// With the unknown identities, so that the sender declares those series.
fn error_of(refusal: &Refusal) -> (ApiError, Vec<(&'static str, serde_json::Value)>) {
    let more = match refusal {
        Refusal::UnknownSeries { unknown, .. } => vec![("unknown", unknown.as_slice().into())],
        _ => Vec::new(),
    };
    (refusal.into(), more)
}
