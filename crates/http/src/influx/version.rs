//! What the answers of each version's endpoints look like.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use serde_json::json;

use super::super::error::{ApiError, json};

/// Lines that a response describes.
pub(super) const LINES_TOLD: usize = 20;

/// The version reported to InfluxDB clients: one in which both endpoints behave as here.
pub(super) const VERSION: &str = "2.7.0-ogive";

/// Which version's endpoint a request used: they report errors differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Api {
    V1,
    V2,
}

impl Api {
    pub(super) fn answer(self, status: StatusCode, code: &str, message: &str) -> Response {
        let body = match self {
            Self::V1 => json!({ "error": message }),
            Self::V2 => json!({ "code": code, "message": message }),
        };
        let mut answer = versioned(json(status, body.to_string() + "\n"));
        if let (Self::V1, Ok(value)) = (self, HeaderValue::from_str(&message.replace('\n', "; "))) {
            answer.headers_mut().insert("x-influxdb-error", value);
        }
        if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        answer
    }

    pub(super) fn error(self, error: &ApiError) -> Response {
        let code = match error.status {
            StatusCode::PAYLOAD_TOO_LARGE => "request too large",
            StatusCode::TOO_MANY_REQUESTS => "too many requests",
            StatusCode::UNAUTHORIZED => "unauthorized",
            StatusCode::FORBIDDEN => "forbidden",
            status if status.is_client_error() => "invalid",
            StatusCode::INTERNAL_SERVER_ERROR => "internal error",
            _ => "unavailable",
        };
        self.answer(error.status, code, &error.message)
    }

    /// Some of `all` lines were not stored.
    pub(super) fn partial(self, wrong: &mut Vec<(usize, String)>, dropped: u64, all: u64) -> Response {
        wrong.sort();
        wrong.truncate(LINES_TOLD);
        let reported: Vec<String> = wrong.iter().map(|(line, what)| format!("line {line}: {what}")).collect();
        let more = dropped.saturating_sub(reported.len() as u64);
        let more = if more > 0 { format!("\nand {more} more lines") } else { String::new() };
        let message = format!("partial write: {dropped} of {all} lines dropped\n{}{more}", reported.join("\n"));
        self.answer(StatusCode::BAD_REQUEST, "invalid", &message)
    }
}

pub(super) fn versioned(mut answer: Response) -> Response {
    answer.headers_mut().insert("x-influxdb-version", HeaderValue::from_static(VERSION));
    answer.headers_mut().insert("x-influxdb-build", HeaderValue::from_static("Ogive"));
    answer
}
