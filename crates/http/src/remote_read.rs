//! `POST /api/v1/read`: Prometheus remote read.
//!
//! Format: a snappy block with a `prometheus.ReadRequest` in; out, as the client would have it, one with a
//! `prometheus.ReadResponse` or a stream of frames with chunks (docs/http.md).
//! Threads: a stream is made on a blocking thread, some frames ahead of its reader, a series at a time, for as long as
//! a query may take: the place of one is not a slow reader's for ever.
//! Limits: [`BODY_BYTES_MAX`] for a request. [`SAMPLES_MAX`] for an answer of samples; a larger one is refused, never
//! cut off. [`STREAM_SAMPLES_MAX`] for a stream, of which the server holds one series and some frames of 1 MiB.
//! Failure: a stream that breaks after it began ends without its end, so that no reader takes it for whole.

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use ogive_model::{Selection, Tenant};
use ogive_protocol::remote_read::{self, Answer, FRAME_BYTES_MAX, Query, frames};
use ogive_protocol::snappy;
use ogive_query::series_bytes;

use super::App;
use super::ask::{Cancel, ask, whole};
use super::body;
use super::error::ApiError;
use super::params;
use super::pieces::{self, Out};

/// 1 MiB: matchers, not data.
const BODY_BYTES_MAX: usize = 1 << 20;
/// 2,000,000 samples, a histogram counting as its bins: 64 MB while they are written.
const SAMPLES_MAX: usize = 2_000_000;
/// 50,000,000 samples of a stream: 144 series of a sample a second over four days. Only one series is held at a time.
const STREAM_SAMPLES_MAX: usize = 50_000_000;

pub(super) async fn post(State(app): State<App>, request: Request) -> Result<Response, ApiError> {
    let tenant = params::tenant(request.headers())?.unwrap_or_default();
    let body = body::form(&app, request, BODY_BYTES_MAX).await?;
    let wrong = |error: ogive_protocol::Error| {
        ApiError::bad_data(format!("the body is not a remote read request in one snappy block: {error}"))
    };
    let message = snappy::unpack(&body.bytes, BODY_BYTES_MAX).map_err(wrong)?;
    let requested = remote_read::request(&message).map_err(wrong)?;
    if requested.chunks {
        stream(app, tenant, requested.queries).await
    } else {
        samples(app, tenant, requested.queries).await
    }
}

fn selection(query: Query, samples_max: usize) -> Selection {
    let (matchers, range) = (query.matchers, query.range);
    Selection { samples_max, ..Selection::new(matchers, range) }
}

fn cancelled() -> ApiError {
    ApiError::timeout("the query was cancelled")
}

/// Everything in one message.
async fn samples(app: App, tenant: Tenant, queries: Vec<Query>) -> Result<Response, ApiError> {
    let packed = ask(&app, None, move |app, cancel| {
        let store = app.backend.of(&tenant);
        let mut answer = Answer::default();
        let mut samples_max = SAMPLES_MAX;
        for query in queries {
            let mut series = Vec::new();
            let mut left = samples_max;
            let warnings = cancel.each_series(&*store, &selection(query, samples_max), |one| {
                left -= (one.floats.times.len() + one.histograms.times.len()).min(left);
                // Its message, its part of the response, and that compressed.
                cancel.hold(2 * series_bytes(&one))?;
                series.push(one);
                Ok(())
            })?;
            whole(warnings)?;
            samples_max = left;
            answer.push(&series);
        }
        snappy::pack(answer.bytes()).map_err(|error| ApiError::execution(format!("{error}; narrow the time range")))
    })
    .await?;
    let headers = [(header::CONTENT_TYPE, "application/x-protobuf"), (header::CONTENT_ENCODING, "snappy")];
    Ok((StatusCode::OK, headers, packed).into_response())
}

/// Sends series after series. An error before the first frame has a status of its own.
async fn stream(app: App, tenant: Tenant, queries: Vec<Query>) -> Result<Response, ApiError> {
    let body = pieces::stream(&app, None, move |app, cancel, out| tell(app, &tenant, queries, cancel, out)).await?;
    let headers = [(header::CONTENT_TYPE, "application/x-streamed-protobuf; proto=prometheus.ChunkedReadResponse")];
    Ok((StatusCode::OK, headers, body).into_response())
}

/// Sends the frames of every query.
fn tell(app: &App, tenant: &Tenant, queries: Vec<Query>, cancel: &Cancel, out: &Out) -> Result<(), ApiError> {
    let store = app.backend.of(tenant);
    for (at, query) in queries.into_iter().enumerate() {
        let set = cancel.opening(|opening| store.open(&selection(query, STREAM_SAMPLES_MAX), opening))?;
        cancel.fit(set.count(), set.samples_about());
        for number in 0..set.count() {
            let series = set.take(number)?;
            let _held = cancel.charge(series.iter().map(series_bytes).sum())?;
            let put = &mut |frame| out.send(frame).is_ok();
            if !frames(at, &series, FRAME_BYTES_MAX, put) || cancel.is_set() {
                return Err(cancelled());
            }
        }
        // A partial result is an error here: a stream cannot carry a warning.
        if let Some(missing) = set.warnings().into_iter().next() {
            return Err(ApiError::execution(missing));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use axum::body::Body;
    use axum::http::Request;
    use serde_json::json;

    use super::super::tests::Server;
    use super::super::{Limits, place};
    use super::*;

    /// A request for everything as a stream of chunks, in one literal of snappy.
    fn everything() -> Vec<u8> {
        let matcher = [&[0x08, 2, 0x12, 8][..], b"__name__", &[0x1a, 2], b".+"].concat();
        let query =
            [&[0x10][..], &[0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], &[0x1a, matcher.len() as u8], &matcher].concat();
        let message = [&[0x0a, query.len() as u8][..], &query, &[0x10, 1]].concat();
        [&[message.len() as u8, (message.len() as u8 - 1) << 2][..], &message].concat()
    }

    /// Readers that take a frame and then nothing held the places of queries for as long as they kept their connection:
    /// four of them, and nobody could ask anything. A place is free when the time of its query is over.
    #[tokio::test(flavor = "multi_thread")]
    async fn who_does_not_read_a_stream_holds_no_place_for_ever() {
        let mut server = Server::new();
        Arc::get_mut(&mut server.app).expect("nobody else has it").limits = Limits::new(Duration::from_secs(3));
        let series: Vec<_> =
            (0..20).map(|at| json!({"labels": {"__name__": format!("m{at}")}, "kind": "float"})).collect();
        let samples: Vec<_> =
            (0..20).map(|at| json!({"series": at, "time_ms": 1_700_000_000_000_i64, "float": 1})).collect();
        assert_eq!(server.batch(1, json!(series), json!(samples)).await.0, StatusCode::OK);
        let request = || Request::post("/api/v1/read").body(Body::from(everything())).unwrap();
        let unread = server.send(request()).await;
        assert_eq!(unread.status(), StatusCode::OK);
        let places = &server.app.limits.queries;
        let is_free = async {
            while places.free_small() < place::SMALL {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        // A deadline that only a place that is never free reaches.
        tokio::time::timeout(Duration::from_secs(60), is_free).await.expect("the place is free");
        let broken = axum::body::to_bytes(unread.into_body(), usize::MAX).await;
        assert!(broken.is_err(), "an unknown end is not taken for the end");
    }
}
