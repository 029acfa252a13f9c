//! Cross-origin requests: which pages of other sites may read answers, and what a browser asks before it lets them.
//!
//! Format: fetch.spec.whatwg.org, "HTTP-CORS protocol". The option and what matches it are Prometheus'
//! `--web.cors.origin`.
//! Invariants: no page reads anything unless the option names its origin; a page of another site still changes nothing
//! ([`access`](super::access)), and credentials of the browser are never shared. An answer that differs by origin says
//! so in `Vary`.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use regex::Regex;

const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, OPTIONS");
/// The headers that Prometheus permits, the tenant, and the position at which a stream resumes.
const HEADERS: HeaderValue =
    HeaderValue::from_static("Accept, Authorization, Content-Type, Last-Event-ID, Origin, X-Scope-OrgID");
/// Headers that a page may read in addition to those that every page may.
const EXPOSED: HeaderValue = HeaderValue::from_static("Date, Retry-After");
/// 10 minutes: browsers cache the response for at most two hours, and a changed option takes effect soon.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");

/// The origins whose pages may read responses.
#[derive(Clone, Debug)]
pub enum Cors {
    /// All of them: the response does not depend on the origin.
    Any,
    /// Those that match completely.
    Matching(Regex),
}

impl Cors {
    /// Parses the option: a regular expression for a whole origin, such as `https?://(a|b)\.example\.com`.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text == ".*" {
            return Ok(Self::Any);
        }
        let regex = Regex::new(&format!("^(?s:{text})$")).map_err(|error| error.to_string())?;
        Ok(Self::Matching(regex))
    }

    /// The value of `Access-Control-Allow-Origin` for a page of `origin`.
    fn allowed(&self, origin: &HeaderValue) -> Option<HeaderValue> {
        match self {
            Self::Any => Some(HeaderValue::from_static("*")),
            Self::Matching(regex) => origin.to_str().is_ok_and(|text| regex.is_match(text)).then(|| origin.clone()),
        }
    }

    /// Adds the headers of every response to a page of `origin`.
    fn put(&self, origin: Option<&HeaderValue>, headers: &mut HeaderMap) {
        if matches!(self, Self::Matching(_)) {
            headers.append(header::VARY, HeaderValue::from_static("Origin"));
        }
        if let Some(allowed) = origin.and_then(|origin| self.allowed(origin)) {
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, allowed);
            headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
        }
    }

    /// The response to a preflight request from a page of `origin`. It needs no login: browsers send none with it.
    fn preflight(&self, origin: &HeaderValue) -> Response {
        let mut response = StatusCode::NO_CONTENT.into_response();
        let headers = response.headers_mut();
        self.put(Some(origin), headers);
        if headers.contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN) {
            headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, METHODS);
            headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HEADERS);
            headers.insert(header::ACCESS_CONTROL_MAX_AGE, MAX_AGE);
        }
        response
    }
}

/// Answers preflight requests, and marks the responses that pages of other sites may read.
pub(super) async fn apply(State(cors): State<Option<Cors>>, request: Request, next: Next) -> Response {
    let Some(cors) = &cors else { return next.run(request).await };
    let origin = request.headers().get(header::ORIGIN).cloned();
    if let Some(origin) = &origin
        && request.method() == Method::OPTIONS
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
    {
        return cors.preflight(origin);
    }
    let mut response = next.run(request).await;
    cors.put(origin.as_ref(), response.headers_mut());
    response
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::body::Body;

    use super::super::tests::Server;
    use super::*;

    fn server(origins: Option<&str>) -> Server {
        let mut server = Server::new();
        Arc::get_mut(&mut server.app).expect("nobody else has it").cors =
            origins.map(|text| Cors::parse(text).unwrap());
        server
    }

    async fn ask(server: &Server, method: Method, path: &str, headers: &[(&str, &str)]) -> Response {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        server.send(request.body(Body::empty()).unwrap()).await
    }

    fn header<'r>(response: &'r Response, name: &str) -> Option<&'r str> {
        response.headers().get(name).map(|value| value.to_str().unwrap())
    }

    const QUERY: &str = "/api/v1/query?query=1";
    const ALLOWED: &str = "access-control-allow-origin";

    #[tokio::test]
    async fn a_page_of_another_site_reads_what_the_option_lets_it() {
        for (option, origin, expected, vary) in [
            (None, "https://a.example", None, None),
            (Some(".*"), "https://a.example", Some("*"), None),
            (Some(r"https?://(a|b)\.example"), "https://a.example", Some("https://a.example"), Some("Origin")),
            (Some(r"https?://(a|b)\.example"), "https://a.example.evil", None, Some("Origin")),
            (Some(r"https?://(a|b)\.example"), "x-https://a.example", None, Some("Origin")),
            (Some("a|b"), "ab", None, Some("Origin")),
        ] {
            let server = server(option);
            for path in [QUERY, "/api/v1/query", "/api/v1/nothing"] {
                let response = ask(&server, Method::GET, path, &[("origin", origin)]).await;
                assert_eq!(header(&response, ALLOWED), expected, "{option:?} {path}");
                assert_eq!(header(&response, "vary"), vary, "{option:?} {path}");
                assert!(header(&response, "access-control-allow-credentials").is_none());
            }
        }
        // A cache must not give the answer for nobody's page to a page.
        let response = ask(&server(Some("https://a.example")), Method::GET, QUERY, &[]).await;
        assert_eq!((header(&response, ALLOWED), header(&response, "vary")), (None, Some("Origin")));
        assert!(Cors::parse("(").is_err());
    }

    #[tokio::test]
    async fn a_browser_that_asks_first_is_answered() {
        let server = server(Some("https://a.example"));
        let asks = |origin| [("origin", origin), ("access-control-request-method", "POST")];
        let response = ask(&server, Method::OPTIONS, QUERY, &asks("https://a.example")).await;
        assert_eq!(response.status(), StatusCode::NO_CONTENT);
        assert_eq!(header(&response, ALLOWED), Some("https://a.example"));
        assert!(header(&response, "access-control-allow-methods").unwrap().contains("POST"));
        assert!(header(&response, "access-control-allow-headers").unwrap().contains("Authorization"));
        let response = ask(&server, Method::OPTIONS, QUERY, &asks("https://b.example")).await;
        assert_eq!((response.status(), header(&response, ALLOWED)), (StatusCode::NO_CONTENT, None));
        assert!(header(&response, "access-control-allow-methods").is_none());
        // Reading is all that it is let: what it sends is refused as before.
        let post = [("origin", "https://a.example"), ("sec-fetch-site", "cross-site")];
        assert_eq!(ask(&server, Method::POST, "/v1/batch", &post).await.status(), StatusCode::FORBIDDEN);
    }

    /// OPTIONS was answered with 405 at every address.
    #[tokio::test]
    async fn options_names_the_methods_of_an_address() {
        let server = server(None);
        for (path, status, allow) in [
            ("/api/v1/query", StatusCode::NO_CONTENT, Some("GET,HEAD,POST")),
            ("/v1/batch", StatusCode::NO_CONTENT, Some("POST")),
            ("/v1/snapshots/x", StatusCode::NO_CONTENT, Some("DELETE")),
            ("/", StatusCode::NO_CONTENT, Some("GET,HEAD")),
            ("/api/v1/nothing", StatusCode::NOT_FOUND, None),
        ] {
            let response = ask(&server, Method::OPTIONS, path, &[]).await;
            assert_eq!((response.status(), header(&response, "allow")), (status, allow), "{path}");
        }
    }

    #[tokio::test]
    async fn wrong_methods_are_told_in_one_form() {
        let server = server(None);
        for (method, path, allow) in [
            (Method::PUT, "/api/v1/query", "GET,HEAD,POST"),
            (Method::GET, "/api/v1/write", "POST"),
            (Method::DELETE, "/v1/status", "GET,HEAD"),
            (Method::PATCH, "/v1/snapshots/x", "DELETE"),
            (Method::POST, "/", "GET,HEAD"),
        ] {
            let response = ask(&server, method.clone(), path, &[]).await;
            assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED, "{method} {path}");
            assert_eq!(header(&response, "allow"), Some(allow), "{method} {path}");
            assert_eq!(header(&response, "content-type"), Some("application/json"));
            let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
            let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
            let message = body["error"].as_str().unwrap();
            assert!(message.contains(method.as_str()) && message.contains("docs/http.md"), "{message}");
        }
        // What stands in an address and is no text is wrong in the same form.
        let response = ask(&server, Method::GET, "/api/v1/label/%ff/values", &[]).await;
        assert_eq!(header(&response, "content-type"), Some("application/json"));
        assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    }

    /// A client of gRPC understands no status but its own.
    #[tokio::test]
    async fn calls_that_are_not_there_are_told_so() {
        let server = server(None);
        for (method, path) in [(Method::POST, "/a.Service/Call"), (Method::PUT, "/v1/batch")] {
            let response = ask(&server, method, path, &[("content-type", "application/grpc")]).await;
            assert_eq!((response.status(), header(&response, "grpc-status")), (StatusCode::OK, Some("12")));
        }
    }
}
