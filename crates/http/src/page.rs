//! The page: files built from `ui/`, embedded in the binary, distinguished by their ETag.

use std::io::Write as _;
use std::sync::LazyLock;

use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use tokio::sync::OnceCell;

use super::App;
use super::compression::{BYTES_MIN, Encoding};
use super::error::ApiError;
use super::otlp;

/// `(path, etag, bytes)`, sorted by path; made by the build script.
static FILES: &[(&str, &str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/page.rs"));

/// The compressed form of each file, made at the first request for it.
static COMPRESSED: LazyLock<Vec<[OnceCell<Bytes>; 2]>> =
    LazyLock::new(|| FILES.iter().map(|_| Default::default()).collect());

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
    let Some(at) = FILES.iter().position(|file| file.0 == name) else {
        let message = format!(
            "nothing is at /{path}; the page is at /, the API below /api/v1/ and /v1/, the documentation at /docs/"
        );
        return otlp::unknown_call(request.headers(), &message)
            .unwrap_or_else(|| ApiError::not_found(message).into_response());
    };
    let mut response = match *request.method() {
        Method::GET | Method::HEAD => return sent(at, request.headers()).await,
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
    if FILES.iter().any(|file| file.0 == wanted) { wanted } else { "index.html" }
}

/// File `at`, in an encoding that the sender of `headers` accepts.
async fn sent(at: usize, headers: &HeaderMap) -> Response {
    let (name, etag, bytes) = FILES[at];
    let is_worth_it = bytes.len() >= usize::from(BYTES_MIN) && is_text(content_type(name));
    let encoding = Encoding::accepted(headers).filter(|_| is_worth_it);
    let mut response = head(name, &tag(etag, encoding), headers);
    if is_worth_it {
        response.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    }
    if response.status() == StatusCode::NOT_MODIFIED {
        return response;
    }
    match encoding {
        None => *response.body_mut() = Bytes::from_static(bytes).into(),
        Some(encoding) => {
            let whole = COMPRESSED[at][encoding as usize].get_or_init(|| compressed(bytes, encoding)).await;
            response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static(encoding.name()));
            *response.body_mut() = whole.clone().into();
        }
    }
    response
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
        .any(|one| one == "*" || one.trim_start_matches("W/") == tag)
}

/// The tag of a file in this encoding: different bytes need a different tag.
fn tag(etag: &str, encoding: Option<Encoding>) -> String {
    encoding.map_or_else(|| etag.to_owned(), |encoding| format!("{}-{}\"", etag.trim_end_matches('"'), encoding.name()))
}

/// Compressed well: it is done once and sent often.
async fn compressed(bytes: &'static [u8], encoding: Encoding) -> Bytes {
    const WORKS: &str = "writing to memory works";
    let compress = move || match encoding {
        Encoding::Zstd => zstd::encode_all(bytes, 12).expect(WORKS),
        Encoding::Gzip => {
            let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
            out.write_all(bytes).expect(WORKS);
            out.finish().expect(WORKS)
        }
    };
    tokio::task::spawn_blocking(compress).await.expect("compressing does not panic").into()
}

fn is_text(content_type: &str) -> bool {
    content_type.starts_with("text/") || matches!(content_type, "application/json" | "image/svg+xml")
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

    #[test]
    fn the_book_is_there_or_says_how_it_is_made() {
        let (_, _, bytes) = FILES.iter().find(|file| file.0 == "docs/index.html").expect("there is a first chapter");
        let text = std::str::from_utf8(bytes).unwrap();
        let is_book = FILES.iter().any(|file| file.0 == "docs/operations.html");
        assert!(is_book || text.contains("make book"), "{text}");
        if is_book {
            let is_index = |name: &str| name.starts_with("docs/searchindex");
            assert!(FILES.iter().any(|file| is_index(file.0)), "it can be searched");
        }
    }

    #[test]
    fn there_is_a_first_page() {
        let page = FILES.iter().find(|file| file.0 == "index.html").unwrap();
        assert!(String::from_utf8_lossy(page.2).contains("<html"));
    }

    #[test]
    fn a_file_that_is_known_is_not_sent_again() {
        let mut headers = HeaderMap::new();
        let status = |tag: &str, headers: &HeaderMap| head("assets/a.js", tag, headers).status();
        assert_eq!(status("\"1\"", &headers), StatusCode::OK);
        for known in ["\"1\"", "W/\"1\"", "\"0\", \"1\"", "*"] {
            headers.insert(header::IF_NONE_MATCH, known.parse().unwrap());
            assert_eq!(status("\"1\"", &headers), StatusCode::NOT_MODIFIED, "{known}");
        }
        headers.insert(header::IF_NONE_MATCH, "\"1\"".parse().unwrap());
        assert_eq!(status("\"2\"", &headers), StatusCode::OK);
        // The same file in other bytes is another.
        assert_eq!(status(&tag("\"1\"", Some(Encoding::Gzip)), &headers), StatusCode::OK);
    }

    #[tokio::test]
    async fn a_file_comes_as_its_reader_takes_it() {
        let at = FILES.iter().position(|file| file.0 == "index.html").unwrap();
        let whole = FILES[at].2;
        for (accepts, encoding) in [("", None), ("gzip", Some("gzip")), ("gzip, zstd", Some("zstd"))] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, accepts.parse().unwrap());
            let response = sent(at, &headers).await;
            let found =
                response.headers().get(header::CONTENT_ENCODING).map(|value| value.to_str().unwrap().to_owned());
            let is_worth_it = whole.len() >= usize::from(BYTES_MIN);
            assert_eq!(found.as_deref(), encoding.filter(|_| is_worth_it));
            let etag = response.headers()[header::ETAG].clone();
            let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
            let plain = match found.as_deref() {
                Some("gzip") => {
                    let mut out = Vec::new();
                    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&body[..]), &mut out).unwrap();
                    out
                }
                Some(_) => zstd::decode_all(&body[..]).unwrap(),
                None => body.to_vec(),
            };
            assert_eq!(plain, whole);
            headers.insert(header::IF_NONE_MATCH, etag);
            assert_eq!(sent(at, &headers).await.status(), StatusCode::NOT_MODIFIED);
        }
    }
}
