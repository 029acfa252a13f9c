//! `POST /api/v1/read`: Prometheus remote read.
//!
//! Format: a snappy block with a `prometheus.ReadRequest` in, one with a `prometheus.ReadResponse` out; samples, also to
//! clients that would take chunks.
//! Limits: [`BODY_BYTES_MAX`] for a request, [`SAMPLES_MAX`] for an answer; a larger one is refused, never cut off.

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use ogive_model::Selection;
use ogive_protocol::remote_read::{Answer, queries};
use ogive_protocol::snappy;

use super::App;
use super::ask::ask;
use super::body;
use super::error::ApiError;
use super::params;

/// 1 MiB: matchers, not data.
const BODY_BYTES_MAX: usize = 1 << 20;
/// 2,000,000 samples, a histogram counting as its bins: 64 MB while they are written.
const SAMPLES_MAX: usize = 2_000_000;

pub(super) async fn post(State(app): State<App>, request: Request) -> Result<Response, ApiError> {
    let tenant = params::tenant(request.headers())?.unwrap_or_default();
    let body = body::form(&app, request, BODY_BYTES_MAX).await?;
    let wrong = |error: ogive_protocol::Error| {
        ApiError::bad_data(format!("the body is not a remote read request in one snappy block: {error}"))
    };
    let message = snappy::unpack(&body.bytes, BODY_BYTES_MAX).map_err(wrong)?;
    let queries = queries(&message).map_err(wrong)?;
    let packed = ask(&app, None, move |app, cancel| {
        let store = app.backend.of(&tenant);
        let mut answer = Answer::default();
        let mut samples_max = SAMPLES_MAX;
        for query in queries {
            if cancel.is_set() {
                return Err(ApiError::timeout("the query was cancelled"));
            }
            let series = store.select(&Selection {
                matchers: query.matchers,
                range: query.range,
                samples_max,
                labels_only: false,
                resolution: Default::default(),
            })?;
            samples_max -= series.iter().map(|one| one.floats.times.len() + one.histograms.times.len()).sum::<usize>();
            answer.push(&series);
        }
        snappy::pack(answer.bytes()).map_err(|error| ApiError::execution(format!("{error}; narrow the time range")))
    })
    .await?;
    let headers = [(header::CONTENT_TYPE, "application/x-protobuf"), (header::CONTENT_ENCODING, "snappy")];
    Ok((StatusCode::OK, headers, packed).into_response())
}
