//! The page: files built from `ui/`, embedded in the binary, told apart by their ETag.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::App;
use super::error::ApiError;

/// `(path, etag, bytes)`, sorted by path; made by the build script.
static FILES: &[(&str, &str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/page.rs"));

/// A file of the page, or a 404 that says where the API is.
pub(super) async fn get(State(app): State<App>, request: Request) -> Response {
    let path = request.uri().path().trim_start_matches('/');
    let name = if path.is_empty() { first(app.backend.page()) } else { path };
    let found = FILES.iter().find(|file| file.0 == name);
    match found {
        Some((name, etag, bytes)) if matches!(*request.method(), Method::GET | Method::HEAD) => {
            file(name, etag, bytes, request.headers())
        }
        Some(_) => ApiError::method(format!("{} is not for the page", request.method())).into_response(),
        None => ApiError::not_found(format!(
            "nothing is at /{path}; the page is at /, the API below /api/v1/ and /v1/, the documentation in docs/"
        ))
        .into_response(),
    }
}

/// The page called `wanted`; the one that says how the page is built where it is not.
fn first(wanted: &'static str) -> &'static str {
    if FILES.iter().any(|file| file.0 == wanted) { wanted } else { "index.html" }
}

fn file(name: &str, etag: &'static str, bytes: &'static [u8], headers: &HeaderMap) -> Response {
    // Names of built assets carry a hash of what they hold; the others may change with the next binary.
    let cache = if name.starts_with("assets/") { "public, max-age=31536000, immutable" } else { "no-cache" };
    let known = [(header::ETAG, etag), (header::CACHE_CONTROL, cache)];
    if headers.get(header::IF_NONE_MATCH).is_some_and(|value| value.as_bytes() == etag.as_bytes()) {
        return (StatusCode::NOT_MODIFIED, known).into_response();
    }
    (StatusCode::OK, known, [(header::CONTENT_TYPE, content_type(name))], bytes).into_response()
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
    fn there_is_a_first_page() {
        let page = FILES.iter().find(|file| file.0 == "index.html").unwrap();
        assert!(String::from_utf8_lossy(page.2).contains("<html"));
    }

    #[test]
    fn a_file_that_is_known_is_not_sent_again() {
        let mut headers = HeaderMap::new();
        assert_eq!(file("assets/a.js", "\"1\"", b"x", &headers).status(), StatusCode::OK);
        headers.insert(header::IF_NONE_MATCH, "\"1\"".parse().unwrap());
        assert_eq!(file("assets/a.js", "\"1\"", b"x", &headers).status(), StatusCode::NOT_MODIFIED);
        assert_eq!(file("assets/a.js", "\"2\"", b"x", &headers).status(), StatusCode::OK);
    }
}
