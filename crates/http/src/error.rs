//! The error answer of a request: a status, a type and a sentence that says what to do.

use axum::extract::rejection::PathRejection;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ogive_door::backend::Refusal;
use ogive_model::{MemoryExceeded, MemoryScope, SelectError};

/// Why a request failed. The types are those of the Prometheus API, so that its clients know them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    pub(crate) error_type: &'static str,
    pub(crate) message: String,
}

impl ApiError {
    /// Which options limit how many samples a query may read.
    const SAMPLES_HELP: &str = "the server's limits are set by --query-samples and --query-memory-mib";

    fn new(status: StatusCode, error_type: &'static str, message: impl Into<String>) -> Self {
        Self { status, error_type, message: message.into() }
    }

    /// The request is wrong: 400.
    pub(crate) fn bad_data(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_data", message)
    }

    /// The query is right but cannot be evaluated: 422.
    pub(crate) fn execution(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "execution", message)
    }

    /// It took too long: 503.
    pub(crate) fn timeout(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "timeout", message)
    }

    /// A part of the server does not work: 503.
    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message)
    }

    /// The batch names series that are unknown here: 409.
    pub(crate) fn unknown_series(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "unknown_series", message)
    }

    /// The limit of concurrent work is reached: 429, try again.
    pub(crate) fn busy(message: impl Into<String>) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "busy", message)
    }

    /// More bytes than a request may have: 413.
    pub(crate) fn too_large(message: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "bad_data", message)
    }

    /// The response to a Circonus client for a body that cannot be read: 406.
    pub(crate) fn not_acceptable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_ACCEPTABLE, "bad_data", message)
    }

    /// An unsupported content type or encoding: 415.
    pub(crate) fn unsupported(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "bad_data", message)
    }

    /// Nothing is at this address: 404.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    /// The address supports other methods: 405.
    pub(crate) fn method(message: impl Into<String>) -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "bad_data", message)
    }

    /// The client is not authenticated: 401.
    pub(crate) fn unauthorized(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
    }

    /// The server does not answer for the requested host: 421.
    pub(crate) fn misdirected(message: impl Into<String>) -> Self {
        Self::new(StatusCode::MISDIRECTED_REQUEST, "forbidden", message)
    }

    /// The client lacks the permission: 403.
    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", message)
    }

    /// The disk is full: 507.
    pub(crate) fn disk_full(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INSUFFICIENT_STORAGE, "disk_full", message)
    }

    /// A broken promise of our own: 500.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message)
    }

    /// The envelope, with `more` members behind the standard ones.
    pub(crate) fn body(&self, more: &[(&str, serde_json::Value)]) -> String {
        let mut object = serde_json::Map::new();
        object.insert("status".into(), "error".into());
        object.insert("errorType".into(), self.error_type.into());
        object.insert("error".into(), self.message.clone().into());
        object.extend(more.iter().map(|(name, value)| ((*name).to_string(), value.clone())));
        serde_json::Value::Object(object).to_string() + "\n"
    }

    /// The response with the members `more` in its body.
    pub(crate) fn with(&self, more: &[(&str, serde_json::Value)]) -> Response {
        let mut response = json(self.status, self.body(more));
        if self.status == StatusCode::TOO_MANY_REQUESTS {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        self.with(&[])
    }
}

impl From<ogive_door::room::Error> for ApiError {
    fn from(error: ogive_door::room::Error) -> Self {
        match error {
            ogive_door::room::Error::Busy => Self::busy(error.to_string()),
            error => Self::too_large(error.to_string()),
        }
    }
}

impl From<&Refusal> for ApiError {
    fn from(refusal: &Refusal) -> Self {
        let message = refusal.to_string();
        match refusal {
            Refusal::Busy => Self::busy(message),
            Refusal::DiskFull(_) => Self::disk_full(message),
            Refusal::TooLarge(_) => Self::too_large(message),
            Refusal::UnknownSeries { .. } => Self::unknown_series(message),
            Refusal::Failed(_) => Self::unavailable(message),
        }
    }
}

impl From<PathRejection> for ApiError {
    fn from(rejection: PathRejection) -> Self {
        Self::bad_data(format!("the address cannot be read: {}", rejection.body_text()))
    }
}

impl From<ogive_query::Error> for ApiError {
    fn from(error: ogive_query::Error) -> Self {
        use ogive_query::Error;
        match error {
            Error::Parse(error) => Self::bad_data(format!("invalid parameter \"query\": {error}")),
            Error::NoRange(message) => Self::bad_data(format!("invalid parameter \"query\": {message}")),
            Error::Select(error) => error.into(),
            Error::TooMuchMemory(exceeded) => exceeded.into(),
            Error::TooManySamples { .. } => Self::execution(format!("{error}; {}", Self::SAMPLES_HELP)),
            Error::TooManySeries { .. } => Self::execution(format!("{error} or raise the server's --query-series")),
            error => Self::execution(error.to_string()),
        }
    }
}

impl From<MemoryExceeded> for ApiError {
    fn from(exceeded: MemoryExceeded) -> Self {
        match exceeded.scope {
            MemoryScope::Query => Self::execution(format!("{exceeded}, or raise the server's --query-memory-mib")),
            MemoryScope::All => {
                Self::busy(format!("{exceeded}; try again in a second, or raise the server's --queries-memory-mib"))
            }
        }
    }
}

impl From<SelectError> for ApiError {
    fn from(error: SelectError) -> Self {
        match error {
            SelectError::TooManySamples { .. } => Self::execution(format!("{error}; {}", Self::SAMPLES_HELP)),
            SelectError::TooManySeries { .. } => {
                Self::execution(format!("{error} or raise the server's --query-series"))
            }
            SelectError::TooMuchMemory(exceeded) => exceeded.into(),
            SelectError::Cancelled => Self::timeout(error.to_string()),
            error => Self::unavailable(error.to_string()),
        }
    }
}

/// A result in the form of the Prometheus API.
pub(crate) fn success(data: &serde_json::Value) -> Response {
    json(StatusCode::OK, serde_json::json!({"status": "success", "data": data}).to_string())
}

/// A JSON response.
pub(crate) fn json(status: StatusCode, body: impl Into<axum::body::Body>) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body.into()).into_response()
}

/// A plain text response.
pub(super) fn text(status: StatusCode, text: impl Into<String>) -> Response {
    (status, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text.into()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_envelope_is_that_of_the_prometheus_api() {
        let body: serde_json::Value =
            serde_json::from_str(&ApiError::bad_data("say \"more\"").body(&[("accepted", 3.into())])).unwrap();
        assert_eq!(
            body,
            serde_json::json!({"status":"error","errorType":"bad_data","error":"say \"more\"","accepted":3})
        );
    }

    #[test]
    fn busy_says_when_to_come_back() {
        assert_eq!(ApiError::busy("x").into_response().headers()["retry-after"], "1");
    }
}
