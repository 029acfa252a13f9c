//! HTTP and HTTPS: phases resolve, connect, tls, first_byte and body; status and content as they were asked for.
//!
//! Limits: [`BODY_BYTES_MAX`]. What is beyond is not read, and a pattern is looked for before it.

use axum::body::Body;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{self, HeaderValue};
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;

use super::config::{Http, Place, Trust};
use super::net::{Network, Stream};
use super::run::{Failure, Reason, Run};
use crate::outgoing::Secret;

/// 1 MiB of a body: a page of health, not a download.
pub(super) const BODY_BYTES_MAX: usize = 1 << 20;

pub(super) const AGENT: &str = concat!("Ogive/", env!("CARGO_PKG_VERSION"));

/// Asks, and follows as many redirects as it may.
pub(super) async fn run(network: &Network, run: &mut Run, http: &Http) -> Result<(), Failure> {
    let mut url = http.url.clone();
    for left in (0..=http.redirects).rev() {
        let is_first = url.authority() == http.url.authority() && url.scheme() == http.url.scheme();
        let request = request(network, http, &url, is_first).await?;
        let response = send(network, run, &url, &http.trust, request).await?;
        let status = response.status();
        if left > 0
            && let Some(to) = led(&url, &response)
        {
            url = to?;
            continue;
        }
        run.phase("body");
        let body = body(response, BODY_BYTES_MAX).await?;
        run.gauge("ogive_check_http_status", "", f64::from(status.as_u16()));
        run.gauge("ogive_check_body_bytes", "By", body.bytes.len() as f64);
        return judged(http, status, &body);
    }
    unreachable!("the last turn follows no redirect")
}

/// What came of a body.
pub(super) struct Read {
    pub(super) bytes: Vec<u8>,
    /// There was more.
    pub(super) is_cut: bool,
}

pub(super) fn judged(http: &Http, status: StatusCode, body: &Read) -> Result<(), Failure> {
    let is_right = match http.status.is_empty() {
        true => status.as_u16() < 400,
        false => http.status.contains(&status.as_u16()),
    };
    if !is_right {
        return Err(Failure::new(Reason::Status, format!("the answer has status {status}")));
    }
    if let Some(pattern) = &http.pattern
        && !pattern.is_match(&String::from_utf8_lossy(&body.bytes))
    {
        let part = if body.is_cut { "the first MiB of the body" } else { "the body" };
        return Err(Failure::new(Reason::Content, format!("{part} does not match {:?}", pattern.as_str())));
    }
    Ok(())
}

async fn request(network: &Network, http: &Http, url: &Uri, with_secrets: bool) -> Result<Request<Body>, Failure> {
    let local = |sentence: String| Failure::new(Reason::Local, sentence);
    let mut request = Request::builder().method(http.method.clone()).uri(target(url));
    request = request.header(header::HOST, authority(url)).header(header::USER_AGENT, AGENT);
    if with_secrets {
        for (name, value) in &http.headers {
            request = request.header(name, value);
        }
        if let Some(path) = &http.token {
            let token = network.words(&Secret::In(path.clone())).await?;
            let value = HeaderValue::try_from(format!("Bearer {token}"));
            let mut value = value.map_err(|_| local("the token has characters that no header may have".into()))?;
            value.set_sensitive(true);
            request = request.header(header::AUTHORIZATION, value);
        }
    }
    request.body(Body::from(http.body.clone())).map_err(|error| local(error.to_string()))
}

/// Sends a request on a connection of its own and waits for the head of the answer.
pub(super) async fn send(
    network: &Network,
    run: &mut Run,
    url: &Uri,
    trust: &Trust,
    request: Request<Body>,
) -> Result<Response<Incoming>, Failure> {
    let is_tls = url.scheme_str() == Some("https");
    let host = url.host().unwrap_or_default();
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host).to_owned();
    let place = Place { host, port: url.port_u16().unwrap_or(if is_tls { 443 } else { 80 }) };
    let stream = network.open(run, &place, is_tls.then_some(trust)).await?;
    run.phase("first_byte");
    exchange(stream, request).await
}

/// Sends a request over a connection and waits for the head of the answer.
pub(super) async fn exchange(stream: Box<dyn Stream>, request: Request<Body>) -> Result<Response<Incoming>, Failure> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| of_hyper(&error))?;
    // It ends when the sender and the body are dropped.
    tokio::spawn(connection);
    sender.send_request(request).await.map_err(|error| of_hyper(&error))
}

/// The body of an answer, up to a limit.
pub(super) async fn body(mut response: Response<Incoming>, bytes_max: usize) -> Result<Read, Failure> {
    let mut bytes = Vec::new();
    while let Some(frame) = response.body_mut().frame().await {
        let Ok(data) = frame.map_err(|error| of_hyper(&error))?.into_data() else { continue };
        let room = bytes_max - bytes.len();
        bytes.extend_from_slice(&data[..data.len().min(room)]);
        if data.len() > room {
            return Ok(Read { bytes, is_cut: true });
        }
    }
    Ok(Read { bytes, is_cut: false })
}

fn of_hyper(error: &hyper::Error) -> Failure {
    let reason = if error.is_parse() { Reason::Protocol } else { Reason::Closed };
    let mut sentence = error.to_string();
    if let Some(cause) = std::error::Error::source(error) {
        sentence = format!("{sentence}: {cause}");
    }
    Failure::new(reason, sentence)
}

pub(super) fn target(url: &Uri) -> String {
    url.path_and_query().map_or("/", |path| path.as_str()).to_owned()
}

pub(super) fn authority(url: &Uri) -> String {
    url.authority().map_or_else(String::new, |authority| authority.as_str().to_owned())
}

/// Where an answer leads, if it is a redirect.
pub(super) fn led(from: &Uri, response: &Response<Incoming>) -> Option<Result<Uri, Failure>> {
    let location = response.headers().get(header::LOCATION).filter(|_| response.status().is_redirection())?;
    Some(redirected(from, location.to_str().ok()?))
}

/// Where a redirect leads.
fn redirected(from: &Uri, location: &str) -> Result<Uri, Failure> {
    let wrong = || Failure::new(Reason::Protocol, format!("the redirect to {location:?} leads nowhere"));
    let (scheme, authority) = (from.scheme_str().unwrap_or("http"), authority(from));
    let absolute = if location.contains("://") {
        location.to_owned()
    } else if let Some(rest) = location.strip_prefix("//") {
        format!("{scheme}://{rest}")
    } else if location.starts_with('/') {
        format!("{scheme}://{authority}{location}")
    } else {
        let path = from.path();
        let directory = &path[..=path.rfind('/').unwrap_or(0)];
        format!("{scheme}://{authority}{directory}{location}")
    };
    let absolute = absolute.split('#').next().unwrap_or_default();
    let url: Uri = absolute.parse().map_err(|_| wrong())?;
    if matches!(url.scheme_str(), Some("http" | "https")) && url.host().is_some() { Ok(url) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_lead_where_browsers_go() {
        let from: Uri = "https://a.example:8443/x/y?z".parse().unwrap();
        for (location, to) in [
            ("/b", "https://a.example:8443/b"),
            ("b?c#d", "https://a.example:8443/x/b?c"),
            ("//b.example/c", "https://b.example/c"),
            ("http://b.example/c", "http://b.example/c"),
        ] {
            assert_eq!(redirected(&from, location).unwrap().to_string(), to, "{location}");
        }
        for location in ["ftp://a/", "http:// /"] {
            assert_eq!(redirected(&from, location).unwrap_err().reason, Reason::Protocol, "{location}");
        }
    }
}
