//! Answers in IRONdb's shapes.

use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::Response;
use serde_json::{Value as Json, json};

use crate::error::{ApiError, json as json_answer};

/// A refusal: `{"error": ..}`.
pub(super) fn refusal(error: &ApiError) -> Response {
    with_members(error, json!({}))
}

/// The response to a refused write: with the counts that its clients read.
pub(super) fn refused_write(error: &ApiError, errors: u64) -> Response {
    with_members(error, json!({"records": 0, "updated": 0, "misdirected": 0, "errors": errors.max(1)}))
}

fn with_members(error: &ApiError, mut body: Json) -> Response {
    body["error"] = error.message.clone().into();
    let mut response = json_answer(error.status, body.to_string() + "\n");
    if matches!(error.status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// JSON, or the refusal.
pub(super) fn from_result(answer: Result<Json, ApiError>) -> Response {
    match answer {
        Ok(body) => json_answer(StatusCode::OK, body.to_string()),
        Err(error) => refusal(&error),
    }
}

/// A number in JSON: whole ones without a point, because clients read them as integers; null for NaN and infinity.
pub(super) fn number(value: f64) -> Json {
    if value.fract() == 0.0 && value.abs() < 9_007_199_254_740_992.0 {
        return Json::from(value as i64);
    }
    serde_json::Number::from_f64(value).map_or(Json::Null, Json::Number)
}

/// Milliseconds as seconds.
pub(super) fn seconds(ms: i64) -> Json {
    number(ms as f64 / 1_000.0)
}

pub(super) async fn unknown(uri: Uri) -> Response {
    let message = format!("{:?} is no address of IRONdb's API here; docs/irondb.md names those that are", uri.path());
    refusal(&ApiError::not_found(message))
}
