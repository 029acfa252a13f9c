//! A request of HTTP/1.1 after which its connection carries another protocol, if the server agrees.
//!
//! Format: RFC 9110 section 7.8. Threads: the connection is a task of the current runtime.
//! Limits: [`ANSWER_BYTES_MAX`] of an answer that is no agreement. A time limit is the caller's.
//! Failure: no redirect is followed; an answer without agreement is returned with its status.

use std::fmt;
use std::sync::Arc;

use http_body_util::{BodyExt as _, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{self, HeaderValue};
use hyper::upgrade::Upgraded;
use hyper::{Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::address::{Origin, authority};
use super::tls::client_config;
use super::{AGENT, Body};

/// 64 KiB: an error envelope with a sentence in it.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// How to reach a server.
#[derive(Clone, Copy, Debug)]
pub struct UpgradeOptions<'a> {
    /// The value of `Authorization` behind `Bearer`.
    pub token: Option<&'a str>,
    /// Who vouches for the server, in place of the system's authorities.
    pub ca_pem: Option<&'a [u8]>,
    /// What is shown to it: certificates and their key.
    pub identity_pem: Option<(&'a [u8], &'a [u8])>,
}

/// Makes requests to one server, each on a connection of its own. `Debug` shows no token.
pub struct Upgrader {
    url: Uri,
    origin: Origin,
    tls: Option<Arc<ClientConfig>>,
    authorization: Option<HeaderValue>,
}

/// What a server answered.
#[derive(Debug)]
pub enum Reply {
    /// It agreed: the connection carries the other protocol.
    Upgraded(TokioIo<Upgraded>),
    /// It did not, or was not asked to.
    Answered {
        /// The status.
        status: u16,
        /// The body.
        body: Vec<u8>,
    },
}

impl fmt::Debug for Upgrader {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Upgrader").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Upgrader {
    /// For the server at `url`, an http or https address.
    ///
    /// # Errors
    /// A sentence on what of it is wrong.
    pub fn new(url: &str, options: UpgradeOptions<'_>) -> Result<Self, String> {
        let url: Uri = url.parse().map_err(|error| format!("{url:?}: {error}"))?;
        let origin = Origin::from_url(&url)?;
        let tls =
            if origin.is_tls { Some(Arc::new(client_config(options.ca_pem, options.identity_pem)?)) } else { None };
        let authorization = options.token.map(|token| {
            let mut value = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| "the token is no header")?;
            value.set_sensitive(true);
            Ok::<_, String>(value)
        });
        Ok(Self { url, origin, tls, authorization: authorization.transpose()? })
    }

    /// Posts `body`, a JSON document or nothing, to `path`, and asks for `protocol`, if that is given.
    ///
    /// # Errors
    /// A sentence when there is no answer.
    pub async fn post(&self, path: &str, protocol: Option<&'static str>, body: Vec<u8>) -> Result<Reply, String> {
        let request = self.request(path, protocol, body)?;
        let Origin { host, port, .. } = &self.origin;
        let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(|error| self.wrong(error))?;
        let _ = stream.set_nodelay(true);
        let reply = match &self.tls {
            None => exchange(stream, request, protocol).await,
            Some(tls) => {
                let name = ServerName::try_from(host.clone()).map_err(|error| self.wrong(error))?;
                let stream = TlsConnector::from(tls.clone()).connect(name, stream).await;
                exchange(stream.map_err(|error| self.wrong(error))?, request, protocol).await
            }
        };
        reply.map_err(|error| self.wrong(error))
    }

    fn wrong(&self, error: impl fmt::Display) -> String {
        format!("{}: {error}", authority(&self.url))
    }

    fn request(&self, path: &str, protocol: Option<&'static str>, body: Vec<u8>) -> Result<Request<Body>, String> {
        // The server may be below a path of a proxy.
        let target = format!("{}{path}", self.url.path().trim_end_matches('/'));
        let mut request = Request::post(target)
            .header(header::HOST, authority(&self.url))
            .header(header::USER_AGENT, AGENT)
            .header(header::CONTENT_LENGTH, body.len());
        if !body.is_empty() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        if let Some(protocol) = protocol {
            request = request.header(header::CONNECTION, "Upgrade").header(header::UPGRADE, protocol);
        }
        if let Some(login) = &self.authorization {
            request = request.header(header::AUTHORIZATION, login);
        }
        request.body(Body::new(Bytes::from(body))).map_err(|error| error.to_string())
    }
}

async fn exchange<S>(stream: S, request: Request<Body>, protocol: Option<&'static str>) -> Result<Reply, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    // It ends when it hands over its stream, or when the sender is dropped.
    tokio::spawn(connection.with_upgrades());
    let answer = sender.send_request(request).await.map_err(|error| error.to_string())?;
    let status = answer.status();
    if status == StatusCode::SWITCHING_PROTOCOLS {
        let chosen = answer.headers().get(header::UPGRADE).map_or(&b""[..], |chosen| chosen.as_bytes());
        if !protocol.is_some_and(|protocol| chosen.eq_ignore_ascii_case(protocol.as_bytes())) {
            return Err("the server switches to a protocol that was not asked for".into());
        }
        let upgraded = hyper::upgrade::on(answer).await.map_err(|error| error.to_string())?;
        return Ok(Reply::Upgraded(TokioIo::new(upgraded)));
    }
    let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
    let body = body.map_err(|error| error.to_string())?.to_bytes().to_vec();
    Ok(Reply::Answered { status: status.as_u16(), body })
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    const OPTIONS: UpgradeOptions<'_> = UpgradeOptions { token: Some("secret"), ca_pem: None, identity_pem: None };

    /// What is returned when a server answers with `answer`, and the head that it received.
    async fn replied(answer: &'static str) -> (Result<Reply, String>, String) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/ogive/", listener.local_addr().unwrap());
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            stream.write_all(answer.as_bytes()).await.unwrap();
            String::from_utf8(head).unwrap()
        });
        let reply = Upgrader::new(&url, OPTIONS).unwrap().post("/v1/x?a=b", Some("ogive-stream"), Vec::new()).await;
        (reply, server.await.unwrap())
    }

    #[tokio::test]
    async fn a_server_agrees_or_says_why_not() {
        let agreed = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: Ogive-Stream\r\n\r\nhello";
        let (reply, head) = replied(agreed).await;
        let Reply::Upgraded(mut stream) = reply.unwrap() else { panic!("no agreement") };
        let mut said = String::new();
        stream.read_to_string(&mut said).await.unwrap();
        assert_eq!(said, "hello");
        assert!(head.starts_with("POST /ogive/v1/x?a=b HTTP/1.1\r\n"), "{head}");
        let head = head.to_ascii_lowercase();
        for line in ["upgrade: ogive-stream", "connection: upgrade", "authorization: bearer secret"] {
            assert!(head.contains(&format!("\r\n{line}\r\n")), "{line} is not in {head}");
        }
        let (reply, _) = replied("HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\n\r\nno").await;
        let Reply::Answered { status, body } = reply.unwrap() else { panic!("an agreement") };
        assert_eq!((status, &body[..]), (403, &b"no"[..]));
        let (reply, _) =
            replied("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n").await;
        assert!(reply.unwrap_err().contains("was not asked for"));
        assert!(Upgrader::new("ftp://a/", OPTIONS).is_err());
        assert!(!format!("{:?}", Upgrader::new("http://a/", OPTIONS).unwrap()).contains("secret"));
    }
}
