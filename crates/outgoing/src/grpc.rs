//! Calls of gRPC with one message each way, over one HTTP/2 connection: [`Connection`] over any open stream, [`Caller`]
//! over one that it opens and keeps.
//!
//! Format: github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md. Threads: a call of a [`Caller`] waits on the thread
//! that makes it; the connection is a task of the runtime. Limits: [`CallOptions::answer_bytes_max`] of an answer.
//! Failure: after a call without an answer the connection is made again by the next one.

use std::error::Error as _;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http2::{self, SendRequest};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Request, StatusCode, Uri, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

use super::address::{Origin, authority};
use super::tls::client_config;
use super::{AGENT, Body};

/// The byte that says whether a message is packed, and its length.
const PREFIX: usize = 5;
/// 300 bytes of what a server says of a failure.
const SAID_BYTES_MAX: usize = 300;

/// How to reach a server.
#[derive(Clone, Copy, Debug)]
pub struct CallOptions<'a> {
    /// The value of `Authorization` behind `Bearer`.
    pub token: Option<&'a str>,
    /// Who vouches for the server, in place of the system's authorities.
    pub ca_pem: Option<&'a [u8]>,
    /// What is shown to it: certificates and their key.
    pub identity_pem: Option<(&'a [u8], &'a [u8])>,
    /// The largest answer that is read.
    pub answer_bytes_max: usize,
}

/// See the module. `Debug` shows no token.
pub struct Caller {
    url: Uri,
    origin: Origin,
    tls: Option<Arc<ClientConfig>>,
    authorization: Option<HeaderValue>,
    answer_bytes_max: usize,
    connection: Mutex<Option<Connection>>,
}

/// How a call ended: with a status of github.com/grpc/grpc/blob/master/doc/statuscodes.md, and a message if that is 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallResult {
    /// 0 when it went well.
    pub code: u32,
    /// What the server says of it.
    pub said: String,
    /// The message; empty when it did not go well.
    pub message: Vec<u8>,
}

/// One call.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// Whom it is for and which method: `http://host:port/package.Service/Method`, or https.
    pub url: &'a Uri,
    /// The value of `Authorization`.
    pub authorization: Option<&'a HeaderValue>,
    /// What is sent.
    pub message: &'a [u8],
    /// How long the server may take, as it is asked to; nothing here waits for it.
    pub timeout: Duration,
    /// The largest answer that is read.
    pub answer_bytes_max: usize,
}

/// Why a call has no result.
#[derive(Debug)]
#[non_exhaustive]
pub enum CallError {
    /// It cannot be sent as it is.
    Request(String),
    /// The connection did not come about, or failed before an answer began.
    Connection(hyper::Error),
    /// An answer began and broke off.
    Interrupted(hyper::Error),
    /// The server answered with a status of HTTP and none of gRPC.
    Http(StatusCode),
    /// The answer is longer than this.
    TooLong(usize),
    /// The answer is none of gRPC.
    Malformed(String),
}

impl fmt::Display for CallError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request(sentence) | Self::Malformed(sentence) => out.write_str(sentence),
            Self::Connection(error) | Self::Interrupted(error) => match error.source() {
                Some(cause) => write!(out, "{error}: {cause}"),
                None => write!(out, "{error}"),
            },
            Self::Http(status) => write!(out, "the server answered {status}, which no server of gRPC does"),
            Self::TooLong(bytes_max) => write!(out, "the answer has more than {bytes_max} bytes"),
        }
    }
}

impl std::error::Error for CallError {}

/// HTTP/2 over an open stream, whose other end may know nothing of it. It ends when this is dropped.
pub struct Connection {
    sender: SendRequest<Body>,
    task: JoinHandle<Result<(), hyper::Error>>,
}

impl Connection {
    /// Begins HTTP/2 on `stream`; the connection is a task of the current runtime.
    ///
    /// # Errors
    /// The stream is closed.
    pub async fn open<S>(stream: S) -> Result<Self, CallError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let builder = http2::Builder::new(TokioExecutor::new());
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(CallError::Connection)?;
        Ok(Self { sender, task: tokio::spawn(connection) })
    }

    /// Sends a call and waits for its answer.
    ///
    /// # Errors
    /// There is no answer, or none of gRPC. Nothing more can be called then.
    pub async fn call(&mut self, call: Call<'_>) -> Result<CallResult, CallError> {
        let request = request(&call)?;
        let sent = self.sender.send_request(request).await;
        let (head, body) = match sent {
            Ok(answer) => answer.into_parts(),
            Err(error) => return Err(self.cause(error).await),
        };
        if head.status != StatusCode::OK {
            return Err(CallError::Http(head.status));
        }
        let collected = Limited::new(body, call.answer_bytes_max).collect().await;
        let collected = collected.map_err(|error| match error.downcast::<hyper::Error>() {
            Ok(error) => CallError::Interrupted(*error),
            Err(error) if error.is::<LengthLimitError>() => CallError::TooLong(call.answer_bytes_max),
            Err(error) => CallError::Malformed(error.to_string()),
        })?;
        let trailers = collected.trailers().cloned().unwrap_or_default();
        let status = if trailers.contains_key("grpc-status") { &trailers } else { &head.headers };
        ended(status, &collected.to_bytes()).map_err(CallError::Malformed)
    }

    /// Why a request got no answer: one that the connection's end overtook does not say, the connection does.
    async fn cause(&mut self, error: hyper::Error) -> CallError {
        if !error.is_canceled() && !error.is_closed() {
            return CallError::Connection(error);
        }
        match (&mut self.task).await {
            Ok(Err(cause)) => CallError::Connection(cause),
            _ => CallError::Connection(error),
        }
    }
}

fn request(call: &Call<'_>) -> Result<Request<Body>, CallError> {
    let mut request = Request::post(call.url.clone())
        .version(Version::HTTP_2)
        .header(header::CONTENT_TYPE, "application/grpc+proto")
        .header(header::TE, "trailers")
        .header(header::USER_AGENT, AGENT)
        .header("grpc-accept-encoding", "identity")
        // At most eight digits: of milliseconds a day.
        .header("grpc-timeout", format!("{}m", call.timeout.as_millis().clamp(1, 86_400_000)));
    if let Some(login) = call.authorization {
        request = request.header(header::AUTHORIZATION, login);
    }
    let body = Body::new(framed(call.message).map_err(CallError::Request)?);
    request.body(body).map_err(|error| CallError::Request(error.to_string()))
}

impl fmt::Debug for Caller {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Caller").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Caller {
    /// Calls of `method`, a path such as `/package.Service/Method`, at `to`, an http or https address whose path is not
    /// looked at.
    ///
    /// # Errors
    /// A sentence on what of it is wrong.
    pub fn new(to: &str, method: &str, options: CallOptions<'_>) -> Result<Self, String> {
        let to: Uri = to.parse().map_err(|error| format!("{to:?}: {error}"))?;
        let origin = Origin::from_url(&to)?;
        let scheme = if origin.is_tls { "https" } else { "http" };
        let url = format!("{scheme}://{}{method}", authority(&to)).parse().map_err(|error| format!("{to}: {error}"))?;
        let authorization = options.token.map(|token| {
            let mut value = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| "the token is no header")?;
            value.set_sensitive(true);
            Ok::<_, String>(value)
        });
        Ok(Self {
            tls: if origin.is_tls { Some(tls(&options)?) } else { None },
            url,
            origin,
            authorization: authorization.transpose()?,
            answer_bytes_max: options.answer_bytes_max,
            connection: Mutex::default(),
        })
    }

    /// Sends `message`, and waits for `timeout` at most; the connection is a task of `runtime`. Not to be called on a
    /// thread of that.
    ///
    /// # Errors
    /// A sentence when there is no answer, or none of gRPC.
    pub fn call(&self, runtime: &Handle, message: &[u8], timeout: Duration) -> Result<CallResult, String> {
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let open = connection.take().filter(|open| !open.sender.is_closed());
        let call = Call {
            url: &self.url,
            authorization: self.authorization.as_ref(),
            message,
            timeout,
            answer_bytes_max: self.answer_bytes_max,
        };
        let call = async {
            let mut open = match open {
                Some(open) => open,
                None => self.connect().await?,
            };
            let ended = open.call(call).await.map_err(|error| self.wrong(error))?;
            Ok::<_, String>((ended, open))
        };
        let call = async { tokio::time::timeout(timeout, call).await };
        let (ended, open) =
            runtime.block_on(call).map_err(|_| format!("{}: no answer within {timeout:?}", self.url))??;
        *connection = Some(open);
        Ok(ended)
    }

    fn wrong(&self, error: impl fmt::Display) -> String {
        format!("{}: {error}", self.url)
    }

    async fn connect(&self) -> Result<Connection, String> {
        let Origin { host, port, .. } = &self.origin;
        let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(|error| self.wrong(error))?;
        let _ = stream.set_nodelay(true);
        let opened = if let Some(tls) = &self.tls {
            let name = ServerName::try_from(host.clone()).map_err(|error| self.wrong(error))?;
            let stream = TlsConnector::from(tls.clone()).connect(name, stream).await;
            Connection::open(stream.map_err(|error| self.wrong(error))?).await
        } else {
            Connection::open(stream).await
        };
        opened.map_err(|error| self.wrong(error))
    }
}

fn tls(options: &CallOptions<'_>) -> Result<Arc<ClientConfig>, String> {
    let mut config = client_config(options.ca_pem, options.identity_pem)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Arc::new(config))
}

fn framed(message: &[u8]) -> Result<Bytes, String> {
    let length = u32::try_from(message.len()).map_err(|_| "the message has 4 GiB or more".to_owned())?;
    let mut out = Vec::with_capacity(PREFIX + message.len());
    out.push(0);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(message);
    Ok(out.into())
}

/// What `status`, the trailers or a head without a body, and `body` say.
fn ended(status: &HeaderMap, body: &[u8]) -> Result<CallResult, String> {
    let code = status.get("grpc-status").and_then(|code| code.to_str().ok()?.parse().ok());
    let code: u32 = code.ok_or("the answer has no status of gRPC")?;
    let said = status.get("grpc-message").map_or(String::new(), |said| decoded(said.as_bytes()));
    if code != 0 {
        return Ok(CallResult { code, said, message: Vec::new() });
    }
    let (prefix, message) = body.split_first_chunk::<PREFIX>().ok_or("the answer has no message")?;
    let length = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]) as usize;
    match (prefix[0], length == message.len()) {
        (0, true) => Ok(CallResult { code, said, message: message.to_vec() }),
        (0, false) => Err(format!("the answer's message declares {length} bytes and has {}", message.len())),
        _ => Err("the answer's message is compressed, which was not offered".into()),
    }
}

/// A text without its percent signs.
fn decoded(text: &[u8]) -> String {
    let (mut out, mut at) = (Vec::new(), 0);
    while at < text.len() && out.len() < SAID_BYTES_MAX {
        let digits = text.get(at + 1..at + 3).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.filter(|_| text[at] == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok());
        out.push(byte.unwrap_or(text[at]));
        at += if byte.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Reads any bytes as an answer: a line for the status, one for what is said, then the body.
pub fn read_any(bytes: &[u8]) {
    let mut parts = bytes.splitn(3, |byte| *byte == b'\n');
    let mut status = HeaderMap::new();
    for name in ["grpc-status", "grpc-message"] {
        if let Ok(value) = HeaderValue::from_bytes(parts.next().unwrap_or_default()) {
            status.insert(name, value);
        }
    }
    let _ = ended(&status, parts.next().unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_and_what_is_none_is_said() {
        let of = |status: &[(&'static str, &'static str)], body: &[u8]| {
            let status = status.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
            ended(&status.collect::<HeaderMap>(), body)
        };
        let well = [("grpc-status", "0")];
        assert_eq!(of(&well, b"\0\0\0\0\x02ab").unwrap().message, b"ab");
        assert_eq!(of(&well, b"\0\0\0\0\0").unwrap().message, b"");
        let failed = of(&[("grpc-status", "14"), ("grpc-message", "gone %C3%BC%zz%")], b"").unwrap();
        assert_eq!((failed.code, &*failed.said), (14, "gone ü%zz%"));
        for (status, body, word) in [
            (&[][..], &b""[..], "no status"),
            (&[("grpc-status", "x")], b"", "no status"),
            (&well, b"\0\0\0", "no message"),
            (&well, b"\0\0\0\0\x03ab", "declares 3"),
            (&well, b"\x01\0\0\0\x02ab", "compressed"),
        ] {
            let error = of(status, body).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
        let long = decoded(&b"%41".repeat(1_000));
        assert_eq!(long.len(), SAID_BYTES_MAX);
    }

    #[test]
    fn what_a_server_answers_may_be_anything() {
        let mut seed = 7_u64;
        for _ in 0..5_000 {
            let mut bytes = b"0\nwell %20\n\0\0\0\0\x02ab".to_vec();
            for _ in 0..3 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let at = (seed >> 33) as usize % bytes.len();
                bytes[at] = (seed >> 24) as u8;
            }
            read_any(&bytes);
        }
    }
}
