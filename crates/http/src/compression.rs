//! Compression of answers, with zstd, brotli or gzip as their reader accepts them.
//!
//! Format: `Accept-Encoding` and `Content-Encoding` of RFC 9110; an answer that differs by what is accepted says so in
//! `Vary`.
//! Invariants: a stream of events goes as it is made, never held back by a compressor; a call of gRPC has its own
//! compression; what is compressed already is left alone.
//! Limits: answers below [`BYTES_MIN`] stay as they are.

use axum::http::{HeaderMap, header};
use tower_http::compression::predicate::{NotForContentType, Predicate, SizeAbove};
use tower_http::compression::{Compression, CompressionLevel};

/// 1 KiB: less fits into one packet with its head, whatever it is compressed to.
pub(super) const BYTES_MIN: u16 = 1024;

/// Content types that gain nothing: streams of events, calls, frames of chunks that are compressed inside, pictures and
/// fonts.
const PLAIN: [&str; 3] = ["text/event-stream", "application/x-streamed-protobuf", "font/"];

/// `answers`, each compressed if the client accepts it and it pays off.
pub(super) fn service<S>(answers: S) -> Compression<S, impl Predicate> {
    let [events, frames, fonts] = PLAIN.map(NotForContentType::const_new);
    let worth_it = SizeAbove::new(BYTES_MIN)
        .and(NotForContentType::GRPC)
        .and(NotForContentType::IMAGES)
        .and(events)
        .and(frames)
        .and(fonts);
    // Responses are made once and read once: half the time for a few percent more bytes.
    Compression::new(answers).quality(CompressionLevel::Fastest).compress_when(worth_it)
}

/// Whether the sender of `headers` accepts gzip.
pub(super) fn accepts_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let (mut gzip, mut others) = (None, None);
    for part in values.flat_map(|value| value.split(',')) {
        let (name, weight) = part.split_once(';').unwrap_or((part, ""));
        let weight = weight.trim().strip_prefix("q=").map_or(Some(1.0), |weight| weight.trim().parse::<f32>().ok());
        let Some(weight) = weight else { continue };
        match name.trim().to_ascii_lowercase().as_str() {
            "gzip" | "x-gzip" => gzip = Some(weight),
            "*" => others = Some(weight),
            _ => {}
        }
    }
    gzip.or(others).is_some_and(|weight| weight > 0.0)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::io::Read as _;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use axum::body::{Body, Bytes, HttpBody};
    use axum::extract::Request;
    use axum::http::HeaderValue;
    use axum::response::{IntoResponse, Response};
    use hyper::body::Frame;
    use tokio::sync::mpsc;
    use tower::ServiceExt;

    use super::*;

    /// A body whose pieces come when somebody sends them.
    struct Pieces(mpsc::Receiver<Bytes>);

    impl HttpBody for Pieces {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            self.0.poll_recv(context).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
        }
    }

    async fn answered(response: Response, accepts: &'static str) -> (Option<String>, Option<String>, Body) {
        let mut response = Some(response);
        let answers = tower::service_fn(move |_: Request| {
            let response = response.take().expect("one request");
            async move { Ok::<_, Infallible>(response) }
        });
        let request = Request::get("/").header(header::ACCEPT_ENCODING, accepts).body(Body::empty()).unwrap();
        let (head, body) = service(answers).oneshot(request).await.unwrap().into_parts();
        let header = |name| head.headers.get(name).map(|value: &HeaderValue| value.to_str().unwrap().to_lowercase());
        (header(header::CONTENT_ENCODING), header(header::VARY), Body::new(body))
    }

    fn response(kind: &'static str, body: impl Into<Body>) -> Response {
        ([(header::CONTENT_TYPE, kind)], body.into()).into_response()
    }

    #[tokio::test]
    async fn answers_are_compressed_as_their_reader_wants() {
        let whole = "{\"value\": 1.5}".repeat(1_000);
        for (accepts, expected) in [
            ("gzip", Some("gzip")),
            ("gzip, zstd", Some("zstd")),
            ("gzip;q=0.5, br", Some("br")),
            ("identity", None),
            ("", None),
        ] {
            let (encoding, vary, body) = answered(response("application/json", whole.clone()), accepts).await;
            assert_eq!((encoding.as_deref(), vary.as_deref()), (expected, Some("accept-encoding")), "{accepts}");
            let bytes = axum::body::to_bytes(body, 1 << 20).await.unwrap();
            let plain = match expected {
                // No decoder of brotli is among the dependencies; the page's tests read it in Chromium.
                Some("br") => {
                    assert!(bytes.len() * 10 < whole.len(), "{} bytes", bytes.len());
                    continue;
                }
                Some("gzip") => {
                    let mut out = Vec::new();
                    flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut out).unwrap();
                    out
                }
                Some(_) => zstd::decode_all(&bytes[..]).unwrap(),
                None => bytes.to_vec(),
            };
            assert_eq!(String::from_utf8(plain).unwrap(), whole);
            assert!(expected.is_none() || bytes.len() * 10 < whole.len(), "{} bytes", bytes.len());
        }
        for (kind, bytes) in [
            ("application/json", usize::from(BYTES_MIN) - 1),
            ("text/event-stream", 10_000),
            ("application/grpc", 10_000),
            ("font/woff2", 10_000),
            ("image/png", 10_000),
            ("application/x-streamed-protobuf; proto=prometheus.ChunkedReadResponse", 10_000),
        ] {
            let (encoding, ..) = answered(response(kind, "x".repeat(bytes)), "gzip, zstd").await;
            assert_eq!(encoding, None, "{kind}");
        }
        let mut packed = response("application/x-protobuf", "x".repeat(10_000));
        packed.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("snappy"));
        assert_eq!(answered(packed, "gzip").await.0.as_deref(), Some("snappy"));
    }

    /// What a stream has sent is readable before it goes on.
    #[tokio::test]
    async fn a_stream_is_not_held_back() {
        let (sender, receiver) = mpsc::channel(1);
        let (encoding, _, mut body) = answered(response("application/json", Body::new(Pieces(receiver))), "gzip").await;
        assert_eq!(encoding.as_deref(), Some("gzip"));
        let mut decoder = flate2::write::GzDecoder::new(Vec::new());
        for round in 1..=2 {
            sender.send(Bytes::from("x".repeat(5_000))).await.unwrap();
            while decoder.get_ref().len() < round * 5_000 {
                let frame = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context));
                let frame = tokio::time::timeout(std::time::Duration::from_secs(120), frame).await;
                let data = frame.expect("it is not held back").unwrap().unwrap().into_data().unwrap();
                std::io::Write::write_all(&mut decoder, &data).unwrap();
                std::io::Write::flush(&mut decoder).unwrap();
            }
        }
    }

    #[test]
    fn gzip_is_accepted_by_its_name_or_with_any_encoding() {
        for (accepts, expected) in [
            ("", false),
            ("identity", false),
            ("br, zstd", false),
            ("gzip", true),
            ("GZip, deflate, br", true),
            ("x-gzip", true),
            ("gzip;q=0.5, zstd;q=1.0", true),
            ("gzip;q=0", false),
            ("gzip;q=0, *", false),
            ("br;q=0, *", true),
            ("*;q=0", false),
            ("*", true),
            ("gzip;q=x", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(accepts));
            assert_eq!(accepts_gzip(&headers), expected, "{accepts:?}");
        }
        let mut both = HeaderMap::new();
        both.append(header::ACCEPT_ENCODING, HeaderValue::from_static("zstd"));
        both.append(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        assert!(accepts_gzip(&both));
        assert!(!accepts_gzip(&HeaderMap::new()));
    }
}
