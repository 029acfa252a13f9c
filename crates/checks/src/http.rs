//! HTTP and HTTPS: phases resolve, connect, tls, first_byte and body; status and content are compared with what the
//! check expects.
//!
//! Limits: `body_bytes_max` of a request. The rest of a body is not read; a pattern must match within the limit.

use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{self, HeaderValue};
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use ogive_outgoing::Body;

use super::account::Account;
use super::cookies::Jar;
use super::extract::{Answer, report};
use super::net::{Network, Stream};
use super::request::Http;
use super::run::{Failure, Reason, Run};
use super::target::{HostAndPort, Trust};
use ogive_outgoing::{AGENT, Origin, Secret, authority, redirected, target};

/// Asks once, and reports what is in the answer.
pub(super) async fn run(network: &Network, run: &mut Run, http: &Http) -> Result<(), Failure> {
    let (status, body) = fetch(network, run, http, None).await?;
    run.gauge("ogive_check_http_status", "", f64::from(status.as_u16()));
    run.gauge("ogive_check_body_bytes", "By", body.bytes.len() as f64);
    judged(http, status, &body)?;
    report(run, &http.extract, &Answer::new(&String::from_utf8_lossy(&body.bytes)), &[])
}

/// The whole text of an answer that has a good status.
pub(super) async fn text(network: &Network, run: &mut Run, http: &Http) -> Result<String, Failure> {
    let (status, body) = fetch(network, run, http, None).await?;
    if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        return Err(Failure::new(Reason::Login, format!("the answer has status {status}")));
    }
    judged(http, status, &body)?;
    if body.is_cut {
        return Err(Failure::new(Reason::Limit, format!("the answer has more than {} bytes", http.body_bytes_max)));
    }
    Ok(String::from_utf8_lossy(&body.bytes).into_owned())
}

/// Asks, and follows as many redirects as it may; where there is a jar, with its cookies.
pub(super) async fn fetch(
    network: &Network,
    run: &mut Run,
    http: &Http,
    mut jar: Option<&mut Jar>,
) -> Result<(StatusCode, BodyOutcome), Failure> {
    let (mut url, mut method) = (http.url.clone(), http.method.clone());
    for left in (0..=http.redirects).rev() {
        let mut request = request(network, http, &url, &method).await?;
        if let Some(cookies) = jar.as_deref().and_then(|jar| jar.header(&url)) {
            request.headers_mut().insert(header::COOKIE, cookies);
        }
        let response = send(network, run, &url, &http.trust, request).await?;
        if let Some(jar) = &mut jar {
            jar.take(&url, response.headers()).map_err(|sentence| Failure::new(Reason::Limit, sentence))?;
        }
        let status = response.status();
        if left > 0
            && let Some(to) = led(&url, &response)
        {
            url = to?;
            if !matches!(status.as_u16(), 307 | 308) && method != Method::HEAD {
                method = Method::GET;
            }
            continue;
        }
        run.phase("body");
        return Ok((status, body(response, http.body_bytes_max).await?));
    }
    unreachable!("the last turn follows no redirect")
}

/// What came of a body.
pub(super) struct BodyOutcome {
    pub(super) bytes: Vec<u8>,
    /// There was more.
    pub(super) is_cut: bool,
}

pub(super) fn judged(http: &Http, status: StatusCode, body: &BodyOutcome) -> Result<(), Failure> {
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

/// What stands in a request, its body too, may be a secret of the server that the check asks: others hear none of it.
async fn request(network: &Network, http: &Http, url: &Uri, method: &Method) -> Result<Request<Body>, Failure> {
    let local = |sentence: String| Failure::new(Reason::Local, sentence);
    let is_first = Origin::from_url(url).map_err(local)? == Origin::from_url(&http.url).map_err(local)?;
    let mut request = Request::builder().method(method).uri(target(url));
    request = request.header(header::HOST, authority(url)).header(header::USER_AGENT, AGENT);
    if is_first {
        for (name, value) in &http.headers {
            request = request.header(name, value);
        }
        if let Some(path) = &http.token {
            request = request.header(header::AUTHORIZATION, bearer(network, path).await?);
        }
        if let Some(login) = &http.login {
            request = request.header(header::AUTHORIZATION, basic(network, login).await?);
        }
    }
    let body = if is_first && *method == http.method { http.body.clone() } else { String::new() };
    request.body(Body::from(body)).map_err(|error| local(error.to_string()))
}

/// What the header `Authorization` says with the token of a file.
pub(super) async fn bearer(network: &Network, path: &Path) -> Result<HeaderValue, Failure> {
    let token = network.words(&Secret::In(path.to_owned())).await?;
    let value = HeaderValue::try_from(format!("Bearer {token}"));
    let wrong = "the token has characters that no header may have";
    let mut value = value.map_err(|_| Failure::new(Reason::Local, wrong))?;
    value.set_sensitive(true);
    Ok(value)
}

/// What the header `Authorization` says with a name and a password.
async fn basic(network: &Network, login: &Account) -> Result<HeaderValue, Failure> {
    let password = network.words(&login.password).await?;
    let encoded = BASE64_STANDARD.encode(format!("{}:{password}", login.user));
    let mut value = HeaderValue::try_from(format!("Basic {encoded}")).expect("base64 is made of letters");
    value.set_sensitive(true);
    Ok(value)
}

/// Sends a request on a connection of its own and waits for the head of the answer.
pub(super) async fn send(
    network: &Network,
    run: &mut Run,
    url: &Uri,
    trust: &Trust,
    request: Request<Body>,
) -> Result<Response<Incoming>, Failure> {
    let Origin { is_tls, host, port } =
        Origin::from_url(url).map_err(|sentence| Failure::new(Reason::Local, sentence))?;
    let place = HostAndPort { host, port };
    let stream = network.open(run, &place, is_tls.then_some(trust)).await?;
    run.phase("first_byte");
    exchange(stream, request).await
}

/// Sends a request over a connection and waits for the head of the answer.
pub(super) async fn exchange(stream: Box<dyn Stream>, request: Request<Body>) -> Result<Response<Incoming>, Failure> {
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| hyper_failure(&error))?;
    // It ends when the sender and the body are dropped.
    tokio::spawn(connection);
    sender.send_request(request).await.map_err(|error| hyper_failure(&error))
}

/// The body of an answer, up to a limit.
pub(super) async fn body(mut response: Response<Incoming>, bytes_max: usize) -> Result<BodyOutcome, Failure> {
    let mut bytes = Vec::new();
    while let Some(frame) = response.body_mut().frame().await {
        let Ok(data) = frame.map_err(|error| hyper_failure(&error))?.into_data() else { continue };
        let room = bytes_max - bytes.len();
        bytes.extend_from_slice(&data[..data.len().min(room)]);
        if data.len() > room {
            return Ok(BodyOutcome { bytes, is_cut: true });
        }
    }
    Ok(BodyOutcome { bytes, is_cut: false })
}

pub(super) fn hyper_failure(error: &hyper::Error) -> Failure {
    let reason = if error.is_parse() { Reason::Protocol } else { Reason::Closed };
    let mut sentence = error.to_string();
    if let Some(cause) = std::error::Error::source(error) {
        sentence = format!("{sentence}: {cause}");
    }
    Failure::new(reason, sentence)
}

/// Where an answer leads, if it is a redirect.
pub(super) fn led(from: &Uri, response: &Response<Incoming>) -> Option<Result<Uri, Failure>> {
    let location = response.headers().get(header::LOCATION).filter(|_| response.status().is_redirection())?;
    let leads = redirected(from, location.to_str().ok()?);
    Some(leads.map_err(|sentence| Failure::new(Reason::Protocol, sentence)))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::thread::JoinHandle;

    use ogive_probe::Clock;

    use super::*;
    use crate::config::{Config, Probe};

    /// Answers one request; what it was.
    fn server(answer: impl FnOnce(u16) -> String + Send + 'static) -> (u16, JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let serving = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut bytes = vec![0; 4_096];
            let mut length = 0;
            while !bytes[..length].windows(4).any(|end| end == b"\r\n\r\n") {
                length += stream.read(&mut bytes[length..]).unwrap();
            }
            stream.write_all(answer(port).as_bytes()).unwrap();
            // What comes behind the head.
            let _ = stream.shutdown(std::net::Shutdown::Write);
            while let Ok(more @ 1..) = stream.read(&mut bytes[length..]) {
                length += more;
            }
            String::from_utf8_lossy(&bytes[..length]).into_owned()
        });
        (port, serving)
    }

    /// A login was posted, and who answered sent the check on to another server: that one got the login.
    #[test]
    fn secrets_stay_with_the_server_that_is_asked() {
        for (status, method) in [(302, "GET"), (303, "GET"), (307, "POST")] {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let (other, requested) = server(|_| "HTTP/1.1 200 x\r\ncontent-length: 0\r\n\r\n".into());
            let moved = format!("HTTP/1.1 {status} x\r\nlocation: //127.0.0.1:{other}/y\r\ncontent-length: 0\r\n\r\n");
            let (first, _) = server(move |_| moved);
            let table = format!(
                "[[check]]\nname = 'a'\nkind = 'http'\ntarget = 'http://127.0.0.1:{first}/x'\nmethod = 'POST'\n\
                 body = 'hunter2'\nheaders = {{x-key = 'hunter2'}}\nredirects = 1"
            );
            let Probe::Http(http) = Config::parse(&table).unwrap().check.remove(0).ask else { panic!() };
            let network = Network::new(crate::testing::FILES);
            let ended = runtime.block_on(run(&network, &mut Run::begin(Clock::global()), &http));
            assert_eq!(ended, Ok(()), "{status}");
            // Its connections end with it.
            drop(runtime);
            let requested = requested.join().unwrap();
            assert!(requested.starts_with(&format!("{method} /y ")) && !requested.contains("hunter2"), "{requested}");
        }
    }
}
