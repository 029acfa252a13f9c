//! `POST /api/v1/write`: Prometheus remote write 1.0.
//!
//! Invariants: the answer comes after the samples are durable; each sample is counted once, whatever becomes of it.
//! Failure: a sender drops what is answered 4xx and sends again what is answered 429 or 5xx. So 400 is for requests of which
//! a part can never be stored (the rest of it is), 429, 503 and 507 for those to come back with.

use std::sync::atomic::{AtomicU64, Ordering};

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ogive_model::{SourceId, Tenant, Verdict};
use ogive_protocol::remote_write::{self, Read};

use super::App;
use super::batch::{refused, stored};
use super::body::{self, Held};
use super::error::ApiError;
use super::params;
use crate::ingest_path::{OnTheWay, Publisher};
use crate::observe::random_source;

/// A source of the server's own, under which it numbers requests that bring no numbers.
pub(crate) struct Numbers {
    source: SourceId,
    next: AtomicU64,
}

impl Numbers {
    pub(crate) fn new() -> Self {
        Self { source: random_source(), next: AtomicU64::new(0) }
    }

    fn next(&self) -> (SourceId, u64) {
        // ORDERING: Relaxed; only that no two get the same number matters.
        (self.source, self.next.fetch_add(1, Ordering::Relaxed))
    }
}

pub(super) async fn post(State(app): State<App>, request: Request) -> Response {
    let mut way = app.meters.ingest.begin();
    let read = match read(&app, request, &mut way).await {
        Ok(read) => read,
        Err(error) => {
            app.counters.unreadable.add(1);
            return error.into_response();
        }
    };
    app.counters.exemplars_ignored.add(read.exemplars);
    if read.batch.samples.is_empty() {
        return StatusCode::NO_CONTENT.into_response();
    }
    let frame = match read.batch.encode() {
        Ok(frame) => frame,
        Err(error) => return ApiError::too_large(error.to_string()).into_response(),
    };
    match stored(&app, read.batch, frame, &way).await {
        Ok(verdict) => {
            let answer = answer(&verdict, &read.details);
            app.meters.ingest.finish(way, Publisher::RemoteWrite);
            answer
        }
        Err(refusal) => refused(&refusal),
    }
}

async fn read(app: &App, request: Request, way: &mut OnTheWay) -> Result<Read, ApiError> {
    check_kind(request.headers())?;
    let tenant = params::tenant(request.headers())?.unwrap_or_default();
    let numbers = app.numbers.next();
    let held = body::read(app, request).await?;
    way.read();
    // Even a small body may unfold to a large one.
    let failed = |_| ApiError::internal("reading the request failed inside the server; its log has the reason");
    let read = tokio::task::spawn_blocking(move || decode(held, tenant, numbers)).await.map_err(failed)?;
    way.decoded();
    read
}

/// Refuses what is not a message of version 1.0. A sender that says nothing of its message means one.
fn check_kind(headers: &HeaderMap) -> Result<(), ApiError> {
    let Some(kind) = headers.get(header::CONTENT_TYPE) else { return Ok(()) };
    let kind = String::from_utf8_lossy(kind.as_bytes());
    let mut parts = kind.split(';').map(str::trim);
    let is_protobuf = parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case("application/x-protobuf"));
    let message = parts.find_map(|part| part.strip_prefix("proto=")).unwrap_or("prometheus.WriteRequest");
    if is_protobuf && message == "prometheus.WriteRequest" {
        return Ok(());
    }
    Err(ApiError::unsupported(format!(
        "content type {kind:?}; send application/x-protobuf with a prometheus.WriteRequest (remote write 1.0)"
    )))
}

fn decode(mut held: Held, tenant: Tenant, (source, sequence): (SourceId, u64)) -> Result<Read, ApiError> {
    held.unpack()?;
    remote_write::read(&held.bytes, tenant, source, sequence).map_err(|error| match error {
        ogive_protocol::Error::TooLarge { .. } => ApiError::too_large(error.to_string()),
        error => ApiError::bad_data(format!("the body is not a remote write request: {error}")),
    })
}

fn answer(verdict: &Verdict, details: &[(u32, String)]) -> Response {
    let Some((first, reason)) = verdict.rejected.first() else { return StatusCode::NO_CONTENT.into_response() };
    let detail = details.iter().find(|(sample, _)| sample == first).map(|(_, text)| format!(" ({text})"));
    let (rejected, stored) = (verdict.rejected.len(), verdict.accepted + verdict.duplicate);
    let message = format!(
        "{rejected} of {} samples were rejected, the first, number {first}, as {}{}; the other {stored} are stored",
        rejected as u64 + stored,
        reason.as_str(),
        detail.unwrap_or_default(),
    );
    ApiError::bad_data(message).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn the_message_is_told_from_others() {
        let check = |kind: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
            check_kind(&headers)
        };
        assert!(check_kind(&HeaderMap::new()).is_ok());
        assert!(check("application/x-protobuf").is_ok());
        assert!(check("application/x-protobuf; proto=prometheus.WriteRequest").is_ok());
        for other in ["application/json", "application/x-protobuf;proto=io.prometheus.write.v2.Request", ""] {
            assert_eq!(check(other).unwrap_err().status, StatusCode::UNSUPPORTED_MEDIA_TYPE, "{other:?}");
        }
    }
}
