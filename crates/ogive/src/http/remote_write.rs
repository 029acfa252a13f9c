//! `POST /api/v1/write`: Prometheus remote write 1.0.
//!
//! Invariants: the answer comes after the samples are durable; each sample is counted once, whatever becomes of it.
//! Failure: a sender drops what is answered 4xx and sends again what is answered 429 or 5xx. So 400 is for requests of which
//! a part can never be stored (the rest of it is), 429, 503 and 507 for those to come back with.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ogive_model::{SourceId, Tenant, Verdict};
use ogive_protocol::remote_write::{self, Read};

use super::App;
use super::ask::blocking;
use super::batch::{refused, stored, unreadable};
use super::body::{self, Held};
use super::error::ApiError;
use super::params;
use crate::backend::Refusal;
use crate::counters::Protocol;
use crate::ingest_path::{OnTheWay, Publisher};

/// A message with what is needed to read it.
struct Message {
    app: App,
    held: Held,
    tenant: Tenant,
    number: (SourceId, u64),
}

pub(super) async fn post(State(app): State<App>, request: Request) -> Response {
    let mut way = app.meters.ingest.begin();
    let answered = match arrived(&app, request, &mut way).await {
        Ok((message, read)) => write(message, read, &way).await,
        Err(error) => {
            unreadable(&app, Protocol::RemoteWrite, &error);
            return error.into_response();
        }
    };
    match answered {
        Ok(Some(answer)) => {
            app.meters.ingest.finish(way, Publisher::Of(Protocol::RemoteWrite));
            answer
        }
        Ok(None) => StatusCode::NO_CONTENT.into_response(),
        Err(error) => error,
    }
}

/// Stores what was read; no answer when there is nothing to store.
async fn write(message: Message, read: Read, way: &OnTheWay) -> Result<Option<Response>, Response> {
    let app = message.app.clone();
    app.counters.of(Protocol::RemoteWrite).unreadable("exemplar", read.exemplars);
    if read.batch.samples.is_empty() {
        return Ok(None);
    }
    let stored = match store(&app, read, way).await {
        // The store has forgotten some of the series since they were written: say again which they are.
        Err(Refusal::UnknownSeries { .. }) => {
            let (_, read) = message.read(Whose::Declared).await.map_err(IntoResponse::into_response)?;
            store(&app, read, way).await
        }
        stored => stored,
    };
    stored.map(Some).map_err(|refusal| refused(&refusal))
}

async fn store(app: &App, read: Read, way: &OnTheWay) -> Result<Response, Refusal> {
    let frame = read.batch.encode().map_err(|error| Refusal::TooLarge(error.to_string()))?;
    let verdict = stored(app, Protocol::RemoteWrite, read.batch, frame, way).await?;
    if verdict.folded == 0 && verdict.rejected.is_empty() {
        app.written.remember(&read.declared);
    }
    Ok(answer(&verdict, &read.details))
}

async fn arrived(app: &App, request: Request, way: &mut OnTheWay) -> Result<(Message, Read), ApiError> {
    check_kind(request.headers())?;
    let tenant = params::tenant(request.headers())?.unwrap_or_default();
    let mut held = body::read(app, Protocol::RemoteWrite, request).await?;
    held.assume_snappy();
    way.read();
    let message = Message { app: app.clone(), held, tenant, number: app.numbers.next() };
    let read = message.read(Whose::Known).await;
    way.decoded();
    read
}

/// How the series of a request are named in its batch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// By identity, those that were written before.
    Known,
    /// By their labels, all of them.
    Declared,
}

impl Message {
    async fn read(mut self, whose: Whose) -> Result<(Self, Read), ApiError> {
        // Even a small body may unfold to a large one.
        let read = move || {
            self.held.unpack()?;
            let (source, sequence) = self.number;
            let known = (whose == Whose::Known).then_some(&self.app.written);
            let learn = |told: &remote_write::Metadata<'_>| {
                self.app.metadata.learn(&self.tenant, told.family, told.kind, told.help, told.unit);
            };
            remote_write::read(&self.held.bytes, &self.tenant, source, sequence, known, learn)
                .map(|read| (self, read))
                .map_err(|error| match error {
                    ogive_protocol::Error::TooLarge { .. } => ApiError::too_large(error.to_string()),
                    error => ApiError::bad_data(format!("the body is not a remote write request: {error}")),
                })
        };
        blocking("reading the request", read).await
    }
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
    use super::super::tests::Server;
    use super::*;
    use axum::http::HeaderValue;

    /// `up` at `time` as one snappy block: a literal of 36 bytes.
    fn body(value: f64, time_ms: u64) -> Vec<u8> {
        let mut body = vec![36, 35 << 2, 0x0a, 34, 0x0a, 14, 0x0a, 8];
        body.extend_from_slice(b"__name__\x12\x02up\x12\x10\x09");
        body.extend_from_slice(&value.to_le_bytes());
        body.push(0x10);
        // Times of these years have six groups of seven bits.
        body.extend((0..6).map(|group| (time_ms >> (7 * group)) as u8 & 0x7f | if group < 5 { 0x80 } else { 0 }));
        body
    }

    #[tokio::test]
    async fn series_that_the_store_forgot_are_declared_again() {
        let server = Server::new();
        for (sent, time_ms) in [(1, 1_700_000_000_000), (2, 1_700_000_001_000)] {
            let request = Request::post("/api/v1/write").body(body(1.5, time_ms).into()).unwrap();
            assert_eq!(server.send(request).await.status(), StatusCode::NO_CONTENT);
            assert_eq!(server.app.written.len(), 1);
            // The store of these tests refuses every identity: the second request was tried with one and read again.
            let ledger = server.app.counters.of(Protocol::RemoteWrite);
            assert_eq!((ledger.accepted.get(), ledger.refused_total()), (sent, sent - 1));
        }
    }

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
