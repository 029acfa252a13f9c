//! `POST /api/v1/read`: Prometheus remote read.
//!
//! Format: a snappy block with a `prometheus.ReadRequest` in; out, as the client would have it, one with a
//! `prometheus.ReadResponse` or a stream of frames with chunks (docs/http.md).
//! Threads: a stream is made on a blocking thread, [`FRAMES_WAITING`] ahead of its reader, a series at a time.
//! Limits: [`BODY_BYTES_MAX`] for a request. [`SAMPLES_MAX`] for an answer of samples; a larger one is refused, never cut off.
//! [`STREAM_SAMPLES_MAX`] for a stream, of which the server holds one series and [`FRAMES_WAITING`] frames.
//! Failure: a stream that breaks after it began ends without its end, so that no reader takes it for whole.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_core::Stream;
use ogive_model::{Opening, Selection, Tenant};
use ogive_protocol::remote_read::{self, Answer, FRAME_BYTES_MAX, Query, frames};
use ogive_protocol::snappy;
use tokio::sync::mpsc;

use super::App;
use super::ask::{Cancel, ask};
use super::body;
use super::error::ApiError;
use super::params;

/// 1 MiB: matchers, not data.
const BODY_BYTES_MAX: usize = 1 << 20;
/// 2,000,000 samples, a histogram counting as its bins: 64 MB while they are written.
const SAMPLES_MAX: usize = 2_000_000;
/// 50,000,000 samples of a stream: 144 series of a sample a second over four days. Only one series is held at a time.
const STREAM_SAMPLES_MAX: usize = 50_000_000;
/// 4 frames of 1 MiB: what one slow write may leave waiting.
const FRAMES_WAITING: usize = 4;

pub(super) async fn post(State(app): State<App>, request: Request) -> Result<Response, ApiError> {
    let tenant = params::tenant(request.headers())?.unwrap_or_default();
    let body = body::form(&app, request, BODY_BYTES_MAX).await?;
    let wrong = |error: ogive_protocol::Error| {
        ApiError::bad_data(format!("the body is not a remote read request in one snappy block: {error}"))
    };
    let message = snappy::unpack(&body.bytes, BODY_BYTES_MAX).map_err(wrong)?;
    let asked = remote_read::request(&message).map_err(wrong)?;
    if asked.chunks { stream(app, tenant, asked.queries).await } else { samples(app, tenant, asked.queries).await }
}

fn selection(query: Query, samples_max: usize) -> Selection {
    let (matchers, range) = (query.matchers, query.range);
    Selection { matchers, range, samples_max, labels_only: false, resolution: Default::default() }
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
            if cancel.is_set() {
                return Err(cancelled());
            }
            let series = store.select(&selection(query, samples_max))?;
            samples_max -= series.iter().map(|one| one.floats.times.len() + one.histograms.times.len()).sum::<usize>();
            answer.push(&series);
        }
        snappy::pack(answer.bytes()).map_err(|error| ApiError::execution(format!("{error}; narrow the time range")))
    })
    .await?;
    let headers = [(header::CONTENT_TYPE, "application/x-protobuf"), (header::CONTENT_ENCODING, "snappy")];
    Ok((StatusCode::OK, headers, packed).into_response())
}

/// A frame, or why there are no more.
type Piece = Result<Vec<u8>, ApiError>;

/// Series after series. What goes wrong before the first frame has a status of its own.
async fn stream(app: App, tenant: Tenant, queries: Vec<Query>) -> Result<Response, ApiError> {
    let (sender, mut receiver) = mpsc::channel::<Piece>(FRAMES_WAITING);
    tokio::spawn(async move {
        let frames = sender.clone();
        let told = ask(&app, None, move |app, cancel| tell(app, &tenant, queries, cancel, &frames)).await;
        if let Err(error) = told {
            // Nobody may listen any more.
            let _ = sender.send(Err(error)).await;
        }
    });
    let first = receiver.recv().await.transpose()?;
    let headers = [(header::CONTENT_TYPE, "application/x-streamed-protobuf; proto=prometheus.ChunkedReadResponse")];
    Ok((StatusCode::OK, headers, Body::from_stream(Frames { first, receiver })).into_response())
}

/// Sends the frames of every query.
fn tell(
    app: &App,
    tenant: &Tenant,
    queries: Vec<Query>,
    cancel: &Cancel,
    out: &mpsc::Sender<Piece>,
) -> Result<(), ApiError> {
    let store = app.backend.of(tenant);
    for (at, query) in queries.into_iter().enumerate() {
        let gone = || cancel.is_set();
        let opening = Opening { series_max: usize::MAX, cancelled: &gone };
        let set = store.open(&selection(query, STREAM_SAMPLES_MAX), &opening)?;
        for number in 0..set.count() {
            let series = set.take(number)?;
            let put = &mut |frame| !cancel.is_set() && out.blocking_send(Ok(frame)).is_ok();
            if !frames(at, &series, FRAME_BYTES_MAX, put) || cancel.is_set() {
                return Err(cancelled());
            }
        }
        // Half of an answer is none: a stream has no place for a warning.
        if let Some(missing) = set.warnings().into_iter().next() {
            return Err(ApiError::execution(missing));
        }
    }
    Ok(())
}

/// The frames as a body.
struct Frames {
    first: Option<Vec<u8>>,
    receiver: mpsc::Receiver<Piece>,
}

impl Stream for Frames {
    type Item = Result<Bytes, std::io::Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(first.into())));
        }
        let broken = |error: ApiError| std::io::Error::other(error.message);
        self.receiver.poll_recv(context).map(|piece| piece.map(|piece| piece.map(Bytes::from).map_err(broken)))
    }
}
