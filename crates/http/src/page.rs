//! The page and the book: files built from `ui/` and `docs/`, embedded in the binary, distinguished by their ETag.
//!
//! Format: text of 1 KiB and more is embedded compressed by gzip, as the build script wrote it. A client that accepts
//! gzip gets these bytes; for any other they are decompressed, request by request.
//! Invariants: a response whose bytes depend on `Accept-Encoding` names it in `Vary`, and the forms of one file differ
//! in their ETag.

use std::io::Read as _;

use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};

use super::App;
use super::compression;
use super::error::ApiError;
use super::otlp;

/// A file of the page or of the book.
struct File {
    /// Its path below `/`.
    name: &'static str,
    /// Of its contents, in hexadecimal digits.
    hash: &'static str,
    /// Bytes of its contents, not compressed.
    size: usize,
    /// Whether `bytes` are its contents compressed by gzip.
    is_compressed: bool,
    bytes: &'static [u8],
}

/// Sorted by name; made by the build script.
static FILES: &[File] = include!(concat!(env!("OUT_DIR"), "/page.rs"));

/// A file of the page, or a 404 that points to the API.
pub(super) async fn get(State(app): State<App>, request: Request) -> Response {
    let path = request.uri().path().trim_start_matches('/');
    if path == "docs" {
        // Links in the book are relative to the slash.
        return Redirect::permanent("docs/").into_response();
    }
    let index = format!("{path}index.html");
    let name = match path {
        "" => first(app.backend.page()),
        path if path.ends_with('/') => &index,
        path => path,
    };
    let Some(file) = FILES.iter().find(|file| file.name == name) else {
        let message = format!(
            "nothing is at /{path}; the page is at /, the API below /api/v1/ and /v1/, the documentation at /docs/"
        );
        return otlp::unknown_call(request.headers(), &message)
            .unwrap_or_else(|| ApiError::not_found(message).into_response());
    };
    let mut response = match *request.method() {
        Method::GET | Method::HEAD => return file.response(request.headers()),
        Method::OPTIONS => StatusCode::NO_CONTENT.into_response(),
        _ => {
            let method = request.method();
            let message = format!("{method} is not for the page; the header Allow names what is, docs/http.md the API");
            ApiError::method(message).into_response()
        }
    };
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET,HEAD"));
    response
}

/// The page called `wanted`; if it was not built, the one that explains how to build it.
fn first(wanted: &'static str) -> &'static str {
    if FILES.iter().any(|file| file.name == wanted) { wanted } else { "index.html" }
}

impl File {
    /// The response to a client that sent `headers`: compressed, whole, or 304 when the client has it already.
    fn response(&self, headers: &HeaderMap) -> Response {
        let as_gzip = self.is_compressed && compression::accepts_gzip(headers);
        let mut response = head(self.name, &self.tag(as_gzip), headers);
        if self.is_compressed {
            response.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
        }
        if response.status() == StatusCode::NOT_MODIFIED {
            return response;
        }
        if as_gzip {
            response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        let body = if as_gzip { Bytes::from_static(self.bytes) } else { self.contents() };
        *response.body_mut() = body.into();
        response
    }

    /// The ETag of the form that is sent. It is weak where the file goes out as it is, because the server may still
    /// compress such a response (`compression::service`).
    fn tag(&self, as_gzip: bool) -> String {
        let hash = self.hash;
        match (self.is_compressed, as_gzip) {
            (true, true) => format!("\"{hash}-gzip\""),
            (true, false) => format!("W/\"{hash}\""),
            (false, _) => format!("\"{hash}\""),
        }
    }

    /// The file, not compressed.
    fn contents(&self) -> Bytes {
        if !self.is_compressed {
            return Bytes::from_static(self.bytes);
        }
        let mut contents = Vec::with_capacity(self.size);
        let read = flate2::read::GzDecoder::new(self.bytes).read_to_end(&mut contents);
        read.expect("the build script wrote valid gzip");
        assert_eq!(contents.len(), self.size, "{} has the size that the build script saw", self.name);
        contents.into()
    }
}

/// The headers of a file's response; 304 when the sender of `headers` has it already.
fn head(name: &str, tag: &str, headers: &HeaderMap) -> Response {
    // Names of built assets contain a hash of their contents; the others may change with the next binary.
    let cache = if name.starts_with("assets/") { "public, max-age=31536000, immutable" } else { "no-cache" };
    let known = [(header::ETAG, tag), (header::CACHE_CONTROL, cache)];
    if is_known(tag, headers) {
        return (StatusCode::NOT_MODIFIED, known).into_response();
    }
    (StatusCode::OK, known, [(header::CONTENT_TYPE, content_type(name))]).into_response()
}

/// Whether `If-None-Match` names the tag, weak or not, or any.
fn is_known(tag: &str, headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    values
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .any(|one| one == "*" || one.trim_start_matches("W/") == tag.trim_start_matches("W/"))
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "json" | "map" => "application/json",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str) -> &'static File {
        FILES.iter().find(|file| file.name == name).expect("it is among the files")
    }

    fn text(name: &str) -> String {
        String::from_utf8(file(name).contents().to_vec()).unwrap()
    }

    fn accepting(encodings: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static(encodings))])
    }

    async fn body(response: Response) -> Bytes {
        axum::body::to_bytes(response.into_body(), 8 << 20).await.unwrap()
    }

    /// 1000 lines, compressed as the build script does it.
    fn large() -> (String, File) {
        let contents = "<p>one line of a page</p>\n".repeat(1_000);
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        std::io::Write::write_all(&mut encoder, contents.as_bytes()).unwrap();
        let bytes = encoder.finish().unwrap().leak();
        let size = contents.len();
        (contents, File { name: "large.html", hash: "0123", size, is_compressed: true, bytes })
    }

    #[test]
    fn the_book_is_there_or_says_how_it_is_made() {
        let first = text("docs/index.html");
        let is_book = FILES.iter().any(|file| file.name == "docs/operations.html");
        assert!(is_book || first.contains("make book"), "{first}");
        if is_book {
            let is_index = |name: &str| name.starts_with("docs/searchindex");
            assert!(FILES.iter().any(|file| is_index(file.name)), "it can be searched");
        }
    }

    #[test]
    fn there_is_a_first_page() {
        assert!(text("index.html").contains("<html"));
    }

    /// Whatever is embedded can be read, and large text is embedded compressed.
    #[test]
    fn every_file_has_its_contents() {
        for file in FILES {
            assert_eq!(file.contents().len(), file.size, "{}", file.name);
            let is_text = content_type(file.name).starts_with("text/") || file.name.ends_with(".svg");
            assert_eq!(
                file.is_compressed,
                is_text && file.size >= usize::from(compression::BYTES_MIN),
                "{}",
                file.name
            );
        }
    }

    #[test]
    fn a_file_that_is_known_is_not_sent_again() {
        let mut headers = HeaderMap::new();
        let status = |tag: &str, headers: &HeaderMap| head("assets/a.js", tag, headers).status();
        assert_eq!(status("\"1\"", &headers), StatusCode::OK);
        for known in ["\"1\"", "W/\"1\"", "\"0\", \"1\"", "*"] {
            headers.insert(header::IF_NONE_MATCH, known.parse().unwrap());
            assert_eq!(status("\"1\"", &headers), StatusCode::NOT_MODIFIED, "{known}");
            assert_eq!(status("W/\"1\"", &headers), StatusCode::NOT_MODIFIED, "{known}");
        }
        headers.insert(header::IF_NONE_MATCH, "\"1\"".parse().unwrap());
        assert_eq!(status("\"2\"", &headers), StatusCode::OK);
        // The same file in other bytes is another.
        let (_, file) = large();
        headers.insert(header::IF_NONE_MATCH, file.tag(false).parse().unwrap());
        assert_eq!(status(&file.tag(true), &headers), StatusCode::OK);
    }

    #[tokio::test]
    async fn a_file_comes_compressed_to_a_client_that_accepts_it_and_whole_to_any_other() {
        let (contents, file) = large();
        for (accepts, encoding) in [
            ("gzip, deflate, br, zstd", Some("gzip")),
            ("gzip", Some("gzip")),
            ("br", None),
            ("identity", None),
            ("gzip;q=0", None),
            ("", None),
        ] {
            let mut headers = accepting(accepts);
            let response = file.response(&headers);
            assert_eq!(response.status(), StatusCode::OK);
            let found = response.headers().get(header::CONTENT_ENCODING).map(|value| value.to_str().unwrap());
            assert_eq!(found, encoding, "{accepts}");
            assert_eq!(response.headers()[header::VARY], "Accept-Encoding");
            let etag = response.headers()[header::ETAG].clone();
            let bytes = body(response).await;
            if encoding.is_some() {
                assert_eq!(bytes, file.bytes, "as it is embedded");
                assert!(bytes.len() * 10 < contents.len(), "{} bytes", bytes.len());
            } else {
                assert_eq!(bytes, contents.as_bytes());
            }
            headers.insert(header::IF_NONE_MATCH, etag.clone());
            let again = file.response(&headers);
            assert_eq!(again.status(), StatusCode::NOT_MODIFIED, "{accepts}");
            assert_eq!(
                (&again.headers()[header::ETAG], &again.headers()[header::VARY]),
                (&etag, &"Accept-Encoding".parse().unwrap())
            );
            assert!(body(again).await.is_empty());
        }
    }

    /// A picture, a font or a small file is the same for everybody.
    #[tokio::test]
    async fn what_is_not_compressed_does_not_vary() {
        let file = File { name: "a.png", hash: "0123", size: 4, is_compressed: false, bytes: b"\x89PNG" };
        for accepts in ["gzip", ""] {
            let response = file.response(&accepting(accepts));
            for absent in [header::VARY, header::CONTENT_ENCODING] {
                assert!(!response.headers().contains_key(&absent), "{absent}");
            }
            assert_eq!(response.headers()[header::ETAG], "\"0123\"");
            assert_eq!(body(response).await, file.bytes);
        }
    }
}
