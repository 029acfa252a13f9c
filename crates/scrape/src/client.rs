//! The HTTP client of scraping: one connection a target, kept open between scrapes.
//!
//! Why own code over hyper: the server has hyper and rustls already, tasks cost a target some KiB where a blocking
//! client would cost it a thread, and a body is cut off at its limit as it arrives.
//! Limits: the job's `body_size_limit`, on the wire and unpacked; [`REDIRECTS_MAX`]. The caller bounds the time.
//! Failure: a sentence, which becomes the target's `lastError`.

use std::io::Read;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use ogive_outgoing::Body;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::config::{Access, Login};
use ogive_outgoing::{AGENT, Files, Origin, Secret, authority, redirected, target};

/// 10, as browsers and Prometheus have it.
const REDIRECTS_MAX: usize = 10;

/// The properties of a request other than the address.
#[derive(Clone, Debug)]
pub(super) struct FetchOptions<'a> {
    pub(super) accept: &'a str,
    pub(super) compression: bool,
    /// Most bytes of the body, packed or not.
    pub(super) bytes_max: u64,
    /// Headers of this kind of request.
    pub(super) headers: &'a [(&'static str, String)],
}

/// A response.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) body: Vec<u8>,
    pub(super) content_type: String,
    pub(super) headers: HeaderMap,
    /// The transport indicated where the body ends: nothing is missing.
    pub(super) is_whole: bool,
}

/// A client with at most one connection.
pub(super) struct Client {
    access: Access,
    files: Files,
    tls: Arc<ClientConfig>,
    open: Option<Connection>,
}

struct Connection {
    sender: http1::SendRequest<Body>,
    origin: Origin,
}

/// A bidirectional stream.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

impl Client {
    pub(super) fn new(access: Access, files: Files, tls: Arc<ClientConfig>) -> Self {
        Self { access, files, tls, open: None }
    }

    /// Requests `url`, follows redirects, and waits for the whole response.
    pub(super) async fn get(&mut self, url: &Uri, ask: &FetchOptions<'_>) -> Result<Answer, String> {
        let first = Origin::from_url(url)?;
        let mut url = url.clone();
        for _ in 0..=REDIRECTS_MAX {
            // Secrets stay with the server that they are for.
            let origin = Origin::from_url(&url)?;
            let is_first = origin == first;
            let response = self.send(&url, origin, ask, is_first).await?;
            let status = response.status();
            if status.is_redirection() && self.access.redirects {
                let location = response.headers().get(header::LOCATION).and_then(|to| to.to_str().ok());
                url = redirected(&url, location.ok_or("the server redirects to nowhere")?)?;
                self.open = None;
                continue;
            }
            if status != StatusCode::OK {
                self.open = None;
                return Err(format!("server returned HTTP status {status}"));
            }
            let answer = read(response, ask.bytes_max).await;
            if answer.is_err() {
                self.open = None;
            }
            return answer;
        }
        Err(format!("stopped after {REDIRECTS_MAX} redirects"))
    }

    async fn send(
        &mut self,
        url: &Uri,
        origin: Origin,
        ask: &FetchOptions<'_>,
        is_first: bool,
    ) -> Result<Response<Incoming>, String> {
        let mut was_open = self.open.as_ref().is_some_and(|open| open.origin == origin);
        loop {
            let mut connection = match self.open.take().filter(|_| was_open) {
                Some(connection) => connection,
                None => self.connect(&origin).await?,
            };
            let request = self.request(url, ask, is_first).await?;
            let ready = connection.sender.ready().await;
            let sent = match ready {
                Ok(()) => connection.sender.send_request(request).await,
                Err(error) => Err(error),
            };
            match sent {
                Ok(response) => {
                    self.open = Some(connection);
                    return Ok(response);
                }
                // The server closed a kept-alive connection: that says nothing about this request.
                Err(_) if was_open => was_open = false,
                Err(error) => return Err(format!("{}: {}", authority(url), causes(&error))),
            }
        }
    }

    async fn connect(&self, origin: &Origin) -> Result<Connection, String> {
        let Origin { is_tls, host, port } = origin;
        let wrong = |error: &dyn std::fmt::Display| format!("{host}:{port}: {error}");
        let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(|error| wrong(&error))?;
        let _ = stream.set_nodelay(true);
        let stream: Box<dyn Stream> = if *is_tls {
            let name = self.access.tls.server_name.as_ref().unwrap_or(host).clone();
            let name = ServerName::try_from(name).map_err(|error| wrong(&error))?;
            Box::new(TlsConnector::from(self.tls.clone()).connect(name, stream).await.map_err(|error| wrong(&error))?)
        } else {
            Box::new(stream)
        };
        let (sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| wrong(&causes(&error)))?;
        // It ends when the sender is dropped.
        tokio::spawn(connection);
        Ok(Connection { sender, origin: origin.clone() })
    }

    async fn request(&self, url: &Uri, ask: &FetchOptions<'_>, with_secrets: bool) -> Result<Request<Body>, String> {
        let mut request = Request::get(target(url))
            .header(header::HOST, authority(url))
            .header(header::USER_AGENT, AGENT)
            .header(header::ACCEPT, ask.accept)
            .header(header::ACCEPT_ENCODING, if ask.compression { "gzip" } else { "identity" });
        for (name, value) in ask.headers {
            request = request.header(*name, value);
        }
        if with_secrets {
            if let Some(login) = self.login().await? {
                request = request.header(header::AUTHORIZATION, login);
            }
            for (name, secret) in &self.access.headers {
                let name = HeaderName::try_from(name.as_str()).map_err(|_| format!("{name:?} is no header"))?;
                request = request.header(name, value(&self.words(secret).await?)?);
            }
        }
        request.body(Body::default()).map_err(|error| error.to_string())
    }

    async fn login(&self) -> Result<Option<HeaderValue>, String> {
        let text = match &self.access.login {
            Login::None => return Ok(None),
            Login::Basic { user, password } => {
                let both = format!("{}:{}", self.words(user).await?, self.words(password).await?);
                format!("Basic {}", BASE64_STANDARD.encode(both))
            }
            Login::Authorization(kind, secret) => format!("{kind} {}", self.words(secret).await?),
        };
        let mut value = value(&text)?;
        value.set_sensitive(true);
        Ok(Some(value))
    }

    async fn words(&self, secret: &Secret) -> Result<String, String> {
        secret.words(self.files).await
    }
}

fn value(text: &str) -> Result<HeaderValue, String> {
    HeaderValue::try_from(text).map_err(|_| "a secret has characters that no header may have".into())
}

async fn read(response: Response<Incoming>, bytes_max: u64) -> Result<Answer, String> {
    let (head, mut body) = response.into_parts();
    let headers = head.headers;
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let (content_type, encoding) = (text(header::CONTENT_TYPE), text(header::CONTENT_ENCODING));
    let has_end = headers.contains_key(header::CONTENT_LENGTH) || headers.contains_key(header::TRANSFER_ENCODING);
    let too_large = || format!("the answer has more than body_size_limit {bytes_max} bytes");
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| format!("the answer breaks off: {}", causes(&error)))?;
        let Ok(data) = frame.into_data() else { continue };
        if (bytes.len() + data.len()) as u64 > bytes_max {
            return Err(too_large());
        }
        bytes.extend_from_slice(&data);
    }
    match encoding.as_str() {
        "" | "identity" => Ok(Answer { body: bytes, content_type, headers, is_whole: has_end }),
        "gzip" => {
            let mut unpacked = Vec::new();
            let packed = flate2::read::MultiGzDecoder::new(&bytes[..]);
            let read = packed.take(bytes_max.saturating_add(1)).read_to_end(&mut unpacked);
            read.map_err(|error| format!("the answer is no gzip: {error}"))?;
            if unpacked.len() as u64 > bytes_max {
                return Err(too_large());
            }
            // Gzip ends with a checksum.
            Ok(Answer { body: unpacked, content_type, headers, is_whole: true })
        }
        other => Err(format!("the answer is packed as {other:?}, which was not asked for")),
    }
}

/// An error with its causes.
fn causes(error: &dyn std::error::Error) -> String {
    let (mut out, mut at) = (error.to_string(), error.source());
    while let Some(cause) = at {
        let text = cause.to_string();
        if !out.contains(&text) {
            out.push_str(": ");
            out.push_str(&text);
        }
        at = cause.source();
    }
    out
}
