//! `POST /v1/batch` with several batches in one body: frames one behind the other, each with its own answer.
//!
//! Invariants: the body is cut into frames before the first is taken, so that one that was cut off or mixed up is
//! refused whole; each batch is counted and answered as if it had come alone.
//! Limits: [`FRAMES_MAX`](wire::FRAMES_MAX) frames; of what they unfold to in memory [`UNFOLDED_BYTES_MAX`], and always
//! one batch, waits for the disk at a time.
//! Failure: a frame that cannot be read, or that the store refuses, concerns itself alone. The response has the status
//! that all batches have, and 200 when they differ.

use std::collections::VecDeque;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ogive_model::{Tenant, Verdict, wire};
use tokio::sync::oneshot;

use super::App;
use super::ask::reading;
use super::batch::{self, Body, Decoded, FRAMES, unreadable};
use super::body::{self, ChargedBody};
use super::error::{ApiError, json};
use super::params;
use ogive_door::backend::Refusal;
use ogive_door::counters::Protocol;
use ogive_door::division::Piece;
use ogive_door::ingest_path::{OnTheWay, Publisher};
use ogive_door::room::Unfolded;
use ogive_door::submission;

/// 16 MiB: usually a broker's whole request, and no more than a few bodies of the usual size.
const UNFOLDED_BYTES_MAX: usize = 16 << 20;

/// True when the body holds several batches.
fn is_asked(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    kind.is_some_and(|kind| kind.split(';').next().is_some_and(|kind| kind.trim() == FRAMES))
}

/// Accepts the contents of a body: several batches, or one.
pub(super) async fn post(State(app): State<App>, request: Request) -> Response {
    let mut way = app.meters.ingest.begin();
    if !is_asked(request.headers()) {
        return batch::post(app, request, way).await;
    }
    match all(&app, request, &mut way).await {
        Ok(answers) => response(&answers),
        Err(error) => {
            unreadable(&app, Protocol::Batch, &error);
            error.into_response()
        }
    }
}

/// The status and the object of the response for one batch.
type Answer = (StatusCode, String);

async fn all(app: &App, request: Request, way: &mut OnTheWay) -> Result<Vec<Answer>, ApiError> {
    let tenant = params::tenant(request.headers())?;
    let held = body::read(app, Protocol::Batch, request).await?;
    way.read();
    let shared = app.clone();
    let mut frames = reading(app, "reading the batches", move || Frames::new(shared, held, tenant)).await?;
    let mut answers = Vec::new();
    while !frames.left.is_empty() {
        let window;
        (frames, window) = reading(app, "reading the batches", move || {
            let window = frames.window();
            Ok((frames, window))
        })
        .await?;
        answers.extend(stored(app, window, way).await);
    }
    Ok(answers)
}

/// A body, and the lengths of its remaining frames.
struct Frames {
    app: App,
    held: ChargedBody,
    at: usize,
    left: VecDeque<usize>,
    tenant: Option<Tenant>,
}

impl Frames {
    fn new(app: App, mut held: ChargedBody, tenant: Option<Tenant>) -> Result<Self, ApiError> {
        held.unpack()?;
        let left = wire::frames(&held.bytes).map_err(batch::no_batch)?.iter().map(|frame| frame.len()).collect();
        Ok(Self { app, held, at: 0, left, tenant })
    }

    /// Reads as many frames as may unfold at a time.
    fn window(&mut self) -> Vec<Result<Body, ApiError>> {
        let (mut out, mut unfolded) = (Vec::new(), 0);
        while unfolded < UNFOLDED_BYTES_MAX {
            let Some(length) = self.left.pop_front() else { break };
            let frame = self.held.bytes[self.at..self.at + length].to_vec();
            self.at += length;
            let room = Unfolded::new(&self.app.limits.unfolded_kib, length);
            let mut decoded = room
                .map_err(ApiError::from)
                .and_then(|room| batch::from_frame(&self.app, frame, self.tenant.clone(), room));
            match &mut decoded {
                Ok(Body::One(Decoded { batch, frame, unfolded: room, .. })) => {
                    let bytes = ogive_protocol::batch_bytes(batch) + frame.len();
                    unfolded += bytes;
                    // Whatever does not fit is refused when it is submitted.
                    let _ = room.settle(bytes);
                }
                // It ends the window: it is stored alone, one piece after the other.
                Ok(Body::Pieces { .. }) => unfolded = UNFOLDED_BYTES_MAX,
                Err(_) => {}
            }
            out.push(decoded);
        }
        out
    }
}

/// The state of a batch after submission.
enum Open {
    Submitted(Result<oneshot::Receiver<Result<Verdict, Refusal>>, Refusal>),
    /// It is submitted when those before it are done.
    Pieces(Vec<Piece>, Unfolded),
}

/// Submits a window to the store before it waits for the first result, so that one fsync makes all durable.
async fn stored(app: &App, window: Vec<Result<Body, ApiError>>, way: &OnTheWay) -> Vec<Answer> {
    let mut open = Vec::new();
    for decoded in window {
        let mut way = way.another();
        way.decoded();
        open.push(decoded.map(|body| match body {
            Body::One(Decoded { batch, frame, details, unfolded }) => {
                let receiver = submission::submitted(app, Protocol::Batch, batch, frame, &way, Some(unfolded));
                (Open::Submitted(receiver), details, way)
            }
            Body::Pieces { pieces, details, unfolded } => (Open::Pieces(pieces, unfolded), details, way),
        }));
    }
    let mut answers = Vec::new();
    for one in open {
        answers.push(match one {
            Ok((open, details, way)) => match word(app, open, &way).await {
                Ok(verdict) => {
                    let answer = batch::answer(&verdict, &details);
                    app.meters.ingest.finish(way, Publisher::Of(Protocol::Batch));
                    answer
                }
                Err(refusal) => batch::refusal(&refusal),
            },
            Err(error) => {
                unreadable(app, Protocol::Batch, &error);
                (error.status, error.body(&[]))
            }
        });
    }
    answers
}

async fn word(app: &App, open: Open, way: &OnTheWay) -> Result<Verdict, Refusal> {
    match open {
        Open::Submitted(receiver) => submission::word(receiver?).await,
        Open::Pieces(pieces, unfolded) => {
            // Their decompressed size counts until the last piece is stored.
            let stored = submission::stored_in_pieces(app, Protocol::Batch, pieces, way).await;
            drop(unfolded);
            stored
        }
    }
}

/// `{"batches":[{"code":200,..},..]}`: each object is the response that the batch would have received alone, after its
/// status.
fn response(answers: &[Answer]) -> Response {
    let each: Vec<String> = answers
        .iter()
        .map(|(status, body)| format!("{{\"code\":{},{}", status.as_u16(), body.trim_end().trim_start_matches('{')))
        .collect();
    let first = answers.first().map_or(StatusCode::OK, |(status, _)| *status);
    let status = if answers.iter().all(|(status, _)| *status == first) { first } else { StatusCode::OK };
    let mut response = json(status, format!("{{\"batches\":[{}]}}\n", each.join(",")));
    if answers.iter().any(|(status, _)| *status == StatusCode::TOO_MANY_REQUESTS) {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}
