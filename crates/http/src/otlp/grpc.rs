//! gRPC as far as OTLP needs it: one message in, one out, over HTTP/2 of the same listener.
//!
//! Format: github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md. A message stands behind a byte that says whether it
//! is packed and its length in four bytes; what became of the call is in trailers, or in the head of an answer that has
//! no body.
//! Own code: a client's stream is one message, so that what `tonic` would bring is these hundred lines and thirty
//! crates.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use hyper::body::Frame;

use super::super::body::ChargedBody;
use super::super::error::ApiError;

/// The byte and the length in front of a message.
const PREFIX: usize = 5;

/// Codes of github.com/grpc/grpc/blob/master/doc/statuscodes.md.
pub(super) mod code {
    pub(in super::super) const INVALID_ARGUMENT: u32 = 3;
    pub(in super::super) const DEADLINE_EXCEEDED: u32 = 4;
    pub(in super::super) const PERMISSION_DENIED: u32 = 7;
    pub(in super::super) const RESOURCE_EXHAUSTED: u32 = 8;
    pub(in super::super) const UNIMPLEMENTED: u32 = 12;
    pub(in super::super) const INTERNAL: u32 = 13;
    pub(in super::super) const UNAVAILABLE: u32 = 14;
    pub(in super::super) const UNAUTHENTICATED: u32 = 16;
}

/// Whether a request is a call.
pub(super) fn is_call(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    matches!(kind.strip_prefix(b"application/grpc"), Some([] | [b'+' | b';', ..]))
}

/// Extracts the message from a call's body.
pub(super) fn unwrap(held: &mut ChargedBody, encoding: Option<&HeaderValue>) -> Result<(), ApiError> {
    let Some((prefix, message)) = held.bytes.split_first_chunk::<PREFIX>() else {
        return Err(ApiError::bad_data("the call has no message"));
    };
    let length = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]) as usize;
    if length != message.len() {
        let found = message.len();
        return Err(ApiError::bad_data(format!("the call's message declares {length} bytes and has {found}")));
    }
    let is_packed = match (prefix[0], encoding.map(HeaderValue::as_bytes)) {
        (0, _) => false,
        (1, Some(b"gzip")) => true,
        (1, _) => return Err(ApiError::unsupported("the message is not compressed with gzip; use gzip or none")),
        _ => return Err(ApiError::bad_data("the byte in front of the call's message is neither 0 nor 1")),
    };
    held.bytes.drain(..PREFIX);
    if is_packed {
        held.assume_gzip();
    }
    Ok(())
}

/// The response to a successful call.
pub(super) fn answer(message: &[u8]) -> Response {
    let mut framed = Vec::with_capacity(PREFIX + message.len());
    framed.push(0);
    framed.extend_from_slice(&u32::try_from(message.len()).expect("an answer is short").to_be_bytes());
    framed.extend_from_slice(message);
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    let body = Framed { message: Some(framed.into()), trailers: Some(trailers) };
    (StatusCode::OK, [(header::CONTENT_TYPE, "application/grpc")], Body::new(body)).into_response()
}

/// The response to a failed call: `status` is the complete `google.rpc.Status`.
pub(super) fn failed(code: u32, message: &str, status: &[u8]) -> Response {
    let mut response = (StatusCode::OK, [(header::CONTENT_TYPE, "application/grpc")]).into_response();
    let headers = response.headers_mut();
    headers.insert("grpc-status", HeaderValue::from(code));
    let mut encoded = String::with_capacity(message.len());
    for byte in message.bytes() {
        match byte {
            b' '..=b'$' | b'&'..=b'~' => encoded.push(char::from(byte)),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    for (name, value) in [("grpc-message", encoded), ("grpc-status-details-bin", STANDARD_NO_PAD.encode(status))] {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(name, value);
        }
    }
    response
}

/// A message and its trailers.
struct Framed {
    message: Option<Bytes>,
    trailers: Option<HeaderMap>,
}

impl hyper::body::Body for Framed {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let message = self.message.take().map(Frame::data);
        Poll::Ready(message.or_else(|| self.trailers.take().map(Frame::trailers)).map(Ok))
    }
}
