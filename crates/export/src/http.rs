//! `POST /v1/batch` over HTTP/1.1, on connections that are kept.
//!
//! - [`Client`]: for who sends to several servers himself (the broker).
//! - `HttpLink`: the exporter's way to one server.
//!
//! *Limits*: an answer of [`ClientOptions::answer_bytes_max`]; a connection is waited for at most [`CONNECT`]. No proxy
//! is taken from the environment and no redirect is followed: the address given is the one that gets the measurements.
//! *Failure*: 400, 415 and 422 of a server that says why, and 413 of anybody, speak of the batch, which is given up;
//! everything else (429, 5xx, and 401, 403, 404 too, which speak of the address) is tried again, until the bound on
//! what waits decides.

use std::net::SocketAddr;
use std::time::Duration;

use ureq::config::Config;
use ureq::http::{HeaderMap, HeaderValue, Uri};
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};

use crate::{Answer, Error, Link, Outcome};

/// The content type of one batch, docs/formats/batch.md.
pub const FRAME: &str = "application/x-ogive-batch-flatbuffer";

/// The content type of several concatenated batches; their responses come in one list.
pub const FRAMES: &str = "application/x-ogive-batch-frames";

/// 1 MiB: a verdict on each of 5,000 samples, and a sentence on a hundred.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// 3 s: a lost first packet is retransmitted after one.
const CONNECT: Duration = Duration::from_secs(3);

/// 300 bytes of a server's message for people.
const SENTENCE_BYTES_MAX: usize = 300;

/// 60 s: whatever `Retry-After` says, the request is retried then.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

/// How a [`Client`] connects to servers.
#[derive(Clone, Copy, Debug)]
pub struct ClientOptions<'a> {
    /// A token of `ogive token new`.
    pub token: Option<&'a str>,
    /// The certificate authorities for the servers, in place of the usual ones.
    pub ca_pem: Option<&'a [u8]>,
    /// The client's certificates and its key.
    pub identity_pem: Option<(&'a [u8], &'a [u8])>,
    /// The user agent.
    pub user_agent: &'a str,
    /// Idle connections to a server that are kept open.
    pub idle_connections: usize,
    /// The largest response that is read.
    pub answer_bytes_max: u64,
}

/// Sends to servers over kept-alive connections; for any number of threads.
pub struct Client {
    agent: ureq::Agent,
    /// The value of the header `Authorization`.
    authorization: Option<HeaderValue>,
    answer_bytes_max: u64,
}

/// The token must not be shown.
impl std::fmt::Debug for Client {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Client").finish_non_exhaustive()
    }
}

/// A body to send.
#[derive(Clone, Copy, Debug)]
pub struct Body<'a> {
    /// The content type.
    pub kind: &'a str,
    /// How the bytes are packed, if they are.
    pub encoding: Option<&'a str>,
    /// The bytes.
    pub bytes: &'a [u8],
}

/// A server's response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// `Retry-After`, if it is in seconds.
    pub after: Option<Duration>,
    /// The body.
    pub body: Vec<u8>,
}

impl Client {
    /// # Errors
    /// [`Error::Setting`] for an invalid token, certificate or key.
    pub fn new(options: &ClientOptions<'_>) -> Result<Self, Error> {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .timeout_connect(Some(CONNECT))
            .max_idle_connections(usize::MAX)
            .max_idle_connections_per_host(options.idle_connections)
            .user_agent(options.user_agent);
        let config = with_tls(config, options)?.build();
        let authorization = options.token.map(|token| {
            let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| Error::Setting {
                what: TOKEN,
                found: "one with signs that no header may have".into(),
                wanted: "as `ogive token new` shows it",
            })?;
            value.set_sensitive(true);
            Ok(value)
        });
        let authorization = authorization.transpose()?;
        Ok(Self { agent: config.into(), authorization, answer_bytes_max: options.answer_bytes_max })
    }

    /// A client with connections of its own that all go to `address`, whatever names its URLs have.
    #[must_use]
    pub fn to(&self, address: SocketAddr) -> Self {
        let config = self.agent.config().clone();
        let agent = ureq::Agent::with_parts(config, DefaultConnector::default(), Fixed(address));
        Self { agent, authorization: self.authorization.clone(), answer_bytes_max: self.answer_bytes_max }
    }

    /// Sends a body to `url` and waits at most `timeout` for the response.
    ///
    /// # Errors
    /// Without a response: [`Outcome::Later`].
    pub fn post(&self, url: &str, timeout: Duration, body: Body<'_>) -> Result<Reply, Outcome> {
        self.post_with(url, timeout, body, &[])
    }

    /// As [`Client::post`], with more headers: names and values.
    ///
    /// # Errors
    /// As [`Client::post`].
    pub fn post_with(
        &self,
        url: &str,
        timeout: Duration,
        body: Body<'_>,
        headers: &[(&str, &str)],
    ) -> Result<Reply, Outcome> {
        self.request(url, timeout, body, headers).map_err(Outcome::from)
    }

    /// As [`Client::post_with`], for who asks why there is no response.
    ///
    /// # Errors
    /// There is no response.
    pub fn request(
        &self,
        url: &str,
        timeout: Duration,
        body: Body<'_>,
        headers: &[(&str, &str)],
    ) -> Result<Reply, NoReply> {
        let request = self.agent.post(url).config().timeout_global(Some(timeout)).build();
        let mut request = request.header("content-type", body.kind);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(encoding) = body.encoding {
            request = request.header("content-encoding", encoding);
        }
        if let Some(value) = &self.authorization {
            request = request.header("authorization", value.clone());
        }
        let mut response = request.send(body.bytes).map_err(|error| failed(url, &error))?;
        let (status, after) = (response.status().as_u16(), retry_after(response.headers()));
        let body = response.body_mut().with_config().limit(self.answer_bytes_max).read_to_vec();
        let body = body.map_err(|error| failed(url, &error))?;
        Ok(Reply { status, after, body })
    }
}

/// Why there is no response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoReply {
    /// The server may have received the request.
    pub in_doubt: bool,
    /// The host is there, and nothing listens at the address.
    pub is_refused: bool,
    /// A sentence for people.
    pub detail: String,
}

impl From<NoReply> for Outcome {
    fn from(NoReply { in_doubt, detail, .. }: NoReply) -> Self {
        Self::Later { after: None, in_doubt, detail }
    }
}

impl Reply {
    /// The outcome for the batch that was sent.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        outcome(self.status, self.after, Answer::read(&self.body), &self.body)
    }

    /// The outcome for each of `count` batches that were sent in one body ([`FRAMES`]).
    #[must_use]
    pub fn outcomes(&self, count: usize) -> Vec<Outcome> {
        match self.each(count) {
            Some(each) => each.into_iter().map(|(code, answer)| outcome(code, self.after, Some(answer), b"")).collect(),
            None => vec![self.outcome(); count],
        }
    }

    /// Whether it covers each of `count` batches.
    #[must_use]
    pub fn speaks_of(&self, count: usize) -> bool {
        self.each(count).is_some()
    }

    fn each(&self, count: usize) -> Option<Vec<(u16, Answer)>> {
        Answer::read_each(&self.body).filter(|each| each.len() == count)
    }
}

/// Every name is at one address.
#[derive(Debug)]
struct Fixed(SocketAddr);

impl Resolver for Fixed {
    fn resolve(&self, _uri: &Uri, _config: &Config, _timeout: NextTimeout) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let mut addresses = self.empty();
        addresses.push(self.0);
        Ok(addresses)
    }
}

/// The connection to one server.
#[derive(Debug)]
pub(crate) struct HttpLink {
    client: Client,
    address: String,
}

impl HttpLink {
    /// `ca_pem`: the certificate authorities for the server, in place of the usual ones.
    pub(crate) fn new(address: &str, token: Option<&str>, ca_pem: Option<&[u8]>) -> Result<Self, Error> {
        let wrong = |what: &str| Error::Address { address: address.into(), what: what.into() };
        let uri: Uri = address.parse().map_err(|error| wrong(&format!("{error}")))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") if cfg!(feature = "tls") => {}
            Some("https") => return Err(wrong("https needs the feature `tls` of ogive-export")),
            _ => return Err(wrong("it does not begin with http://")),
        }
        if uri.host().is_none_or(str::is_empty) || uri.query().is_some() {
            return Err(wrong("it has no host, or more than a host and a path"));
        }
        let client = Client::new(&ClientOptions {
            token,
            ca_pem,
            identity_pem: None,
            user_agent: concat!("ogive-export/", env!("CARGO_PKG_VERSION")),
            idle_connections: 1,
            answer_bytes_max: ANSWER_BYTES_MAX,
        })?;
        Ok(Self { client, address: format!("{}/v1/batch", address.trim_end_matches('/')) })
    }
}

impl Link for HttpLink {
    fn send(&mut self, frame: &[u8], timeout: Duration) -> Outcome {
        let body = Body { kind: FRAME, encoding: None, bytes: frame };
        self.client.post(&self.address, timeout, body).map_or_else(|outcome| outcome, |reply| reply.outcome())
    }
}

/// The names of settings in [`Error::Setting`].
const TOKEN: &str = "the token";
const CA: &str = "ca_pem";
const IDENTITY: &str = "identity_pem";

type Builder = ureq::config::ConfigBuilder<ureq::typestate::AgentScope>;

/// Sets the certificate authorities for the servers, and the client's certificate.
#[cfg(feature = "tls")]
fn with_tls(config: Builder, options: &ClientOptions<'_>) -> Result<Builder, Error> {
    use ureq::tls::{ClientCert, PrivateKey, RootCerts, TlsConfig};
    let mut tls = TlsConfig::builder();
    if let Some(pem) = options.ca_pem {
        tls = tls.root_certs(RootCerts::new_with_certs(&certificates(CA, pem)?));
    }
    if let Some((chain, key)) = options.identity_pem {
        let wrong = |error: ureq::Error| Error::Setting {
            what: IDENTITY,
            found: error.to_string(),
            wanted: "certificates and a private key in PEM",
        };
        let key = PrivateKey::from_pem(key).map_err(wrong)?;
        tls = tls.client_cert(Some(ClientCert::new_with_certs(&certificates(IDENTITY, chain)?, key)));
    }
    Ok(config.tls_config(tls.build()))
}

#[cfg(feature = "tls")]
fn certificates(what: &'static str, pem: &[u8]) -> Result<Vec<ureq::tls::Certificate<'static>>, Error> {
    use ureq::tls::{PemItem, parse_pem};
    let wrong = |found: String| Error::Setting { what, found, wanted: "certificates in PEM" };
    let mut certificates = Vec::new();
    for item in parse_pem(pem) {
        if let PemItem::Certificate(certificate) = item.map_err(|error| wrong(error.to_string()))? {
            certificates.push(certificate);
        }
    }
    if certificates.is_empty() {
        return Err(wrong("without a certificate".into()));
    }
    Ok(certificates)
}

#[cfg(not(feature = "tls"))]
fn with_tls(config: Builder, options: &ClientOptions<'_>) -> Result<Builder, Error> {
    let what = match options {
        ClientOptions { ca_pem: Some(_), .. } => CA,
        ClientOptions { identity_pem: Some(_), .. } => IDENTITY,
        _ => return Ok(config),
    };
    let found = "given to a program without TLS".into();
    let wanted = "left out, or the feature `tls` of ogive-export switched on";
    Err(Error::Setting { what, found, wanted })
}

/// What an error says of a response that did not come.
fn failed(address: &str, error: &ureq::Error) -> NoReply {
    use ureq::{Error, Timeout};
    let is_refused = matches!(error, Error::Io(error) if error.kind() == std::io::ErrorKind::ConnectionRefused);
    let never_there = match error {
        Error::HostNotFound | Error::ConnectionFailed | Error::BadUri(_) | Error::Http(_) | Error::Tls(_) => true,
        Error::Timeout(when) => matches!(when, Timeout::Resolve | Timeout::Connect),
        _ => is_refused,
    };
    NoReply { in_doubt: !never_there, is_refused, detail: format!("no response from {address}: {error}") }
}

/// Whether every address of the host of `url` refuses connections: nobody listens there. One that does not answer
/// within a second does not refuse.
pub fn refuses_everywhere(url: &str) -> bool {
    use std::net::{TcpStream, ToSocketAddrs};
    let Ok(uri) = url.parse::<ureq::http::Uri>() else { return false };
    let Some(host) = uri.host() else { return false };
    let usual = if uri.scheme_str() == Some("https") { 443 } else { 80 };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let Ok(all) = (host, uri.port_u16().unwrap_or(usual)).to_socket_addrs() else { return false };
    let refuses = |address| {
        let tried = TcpStream::connect_timeout(&address, Duration::from_secs(1));
        tried.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused)
    };
    let mut all = all.peekable();
    all.peek().is_some() && all.all(refuses)
}

/// The meaning of a response.
fn outcome(status: u16, after: Option<Duration>, answer: Option<Answer>, body: &[u8]) -> Outcome {
    let said = || {
        let text = answer.as_ref().and_then(|answer| answer.error.as_deref());
        text.map_or_else(|| sentence(&String::from_utf8_lossy(&body[..body.len().min(200)])), sentence)
    };
    // Something else at that address, which responds with a page or nothing, says nothing about the batch.
    let says_why = answer.as_ref().is_some_and(|answer| answer.error.is_some());
    let detail = || format!("status {status}: {}", said());
    match status {
        200..300 => match answer {
            Some(answer) if answer.accepted.is_some() => Outcome::Answered(answer),
            _ => Outcome::Later { after: None, in_doubt: true, detail: format!("{}: no word on the batch", detail()) },
        },
        // Nothing of it was accepted: each sample for a reason, or all as a whole.
        400 if answer.as_ref().is_some_and(|answer| answer.accepted.is_some()) => {
            Outcome::Answered(answer.unwrap_or_default())
        }
        413 => Outcome::Refused { reason: "status_413".into(), detail: detail() },
        400 | 415 | 422 if says_why => Outcome::Refused { reason: format!("status_{status}"), detail: detail() },
        429 => Outcome::Busy { after, detail: detail() },
        // The server reports that nothing of it is durable.
        507 => Outcome::Later { after, in_doubt: false, detail: detail() },
        // A proxy in front of the server may not know.
        500.. => Outcome::Later { after, in_doubt: true, detail: detail() },
        _ => Outcome::Later { after, in_doubt: false, detail: detail() },
    }
}

/// Foreign words as one line of a log.
fn sentence(text: &str) -> String {
    let line = text[..text.floor_char_boundary(SENTENCE_BYTES_MAX)].replace(|letter: char| letter.is_control(), " ");
    line.trim().to_owned()
}

/// Seconds; a date is not parsed, and the usual pause applies.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get("retry-after")?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(status: u16, body: &str) -> Outcome {
        Reply { status, after: Some(Duration::from_secs(7)), body: body.into() }.outcome()
    }

    #[test]
    fn a_status_says_what_to_do_with_the_batch() {
        let verdict = r#"{"accepted":0,"duplicate":0,"rejected":[{"sample":0,"reason":"time_too_new"}]}"#;
        assert!(matches!(outcome(200, verdict), Outcome::Answered(_)));
        assert!(matches!(outcome(400, verdict), Outcome::Answered(_)), "each sample has its reason");
        let Outcome::Refused { reason, detail } = outcome(400, r#"{"error":"cut"}"#) else { panic!("it is wrong") };
        assert_eq!((reason.as_str(), detail.as_str()), ("status_400", "status 400: cut"));
        for status in [415, 422] {
            assert!(matches!(outcome(status, r#"{"error":"x"}"#), Outcome::Refused { .. }), "{status}");
        }
        for body in ["{}", "<html>", ""] {
            assert!(matches!(outcome(413, body), Outcome::Refused { .. }), "{body}");
        }
        let doubt = |status, body| match outcome(status, body) {
            Outcome::Later { in_doubt, .. } => in_doubt,
            other => panic!("{status}: {other:?}"),
        };
        assert!(doubt(200, "welcome") && doubt(200, "{}") && doubt(503, "{}") && doubt(502, ""));
        assert!(!doubt(507, "{}") && !doubt(404, "") && !doubt(302, ""));
        let seven = Some(Duration::from_secs(7));
        assert!(matches!(outcome(429, ""), Outcome::Busy { after, .. } if after == seven));
        assert!(matches!(outcome(507, ""), Outcome::Later { after, .. } if after == seven));
    }

    /// A broker was given the plain port's scheme for a port that speaks TLS: what stands there answers 400 with a page
    /// of its own, and the broker gave up all it had. Who does not speak as a server of ours does says nothing of the
    /// batch.
    #[test]
    fn a_page_of_somebody_else_is_no_word_on_the_batch() {
        for status in [400, 415, 422] {
            for body in ["<html>The plain HTTP request was sent to HTTPS port", "", "{}", r#"{"message":"no"}"#] {
                assert!(matches!(outcome(status, body), Outcome::Later { in_doubt: false, .. }), "{status} {body}");
            }
        }
    }

    #[test]
    fn what_a_server_says_is_one_short_line() {
        let long = "\u{e4}".repeat(SENTENCE_BYTES_MAX);
        for body in [format!(r#"{{"error":"\u001b[2J\n{long}"}}"#), format!("\u{1b}[2J\n{long}")] {
            let Outcome::Later { detail, .. } = outcome(500, &body) else { panic!("{body}") };
            assert!(detail.len() < SENTENCE_BYTES_MAX + 20 && !detail.contains(char::is_control), "{detail:?}");
        }
    }

    #[test]
    fn each_batch_of_a_body_has_its_own_outcome() {
        let body = r#"{"batches":[{"code":200,"accepted":1,"duplicate":0,"rejected":[]},
            {"code":400,"status":"error","error":"cut"},{"code":429,"error":"full"},{"code":507,"error":"no room"}]}"#;
        let reply = Reply { status: 200, after: Some(Duration::from_secs(7)), body: body.into() };
        let outcomes = reply.outcomes(4);
        assert!(matches!(&outcomes[0], Outcome::Answered(answer) if answer.accepted == Some(1)));
        assert!(matches!(&outcomes[1], Outcome::Refused { detail, .. } if detail == "status 400: cut"));
        assert!(matches!(&outcomes[2], Outcome::Busy { after, .. } if *after == reply.after));
        assert!(matches!(&outcomes[3], Outcome::Later { in_doubt: false, .. }));
        // A list of another length speaks of none: nothing is known.
        assert!(!reply.speaks_of(3) && reply.speaks_of(4));
        assert!(reply.outcomes(3).iter().all(|one| matches!(one, Outcome::Later { in_doubt: true, .. })));
        let busy = Reply { status: 429, after: None, body: Vec::new() };
        assert_eq!(busy.outcomes(2), vec![Outcome::Busy { after: None, detail: "status 429: ".into() }; 2]);
    }

    #[test]
    fn addresses_that_cannot_be_sent_to_are_refused() {
        for address in ["", "host:6448", "ftp://host", "http://", "http://host/?x=1", "https://host"] {
            let wrong = HttpLink::new(address, None, None).is_err();
            assert!(wrong || (cfg!(feature = "tls") && address.starts_with("https")), "{address}");
        }
        assert_eq!(HttpLink::new("http://host:6448/", None, None).unwrap().address, "http://host:6448/v1/batch");
        assert_eq!(HttpLink::new("http://host/ogive", None, None).unwrap().address, "http://host/ogive/v1/batch");
    }

    #[test]
    fn a_token_and_certificates_are_looked_at_before_anything_is_sent() {
        let link = HttpLink::new("http://host", Some("ogive_secret"), None).unwrap();
        assert!(!format!("{link:?}").contains("secret"));
        assert!(matches!(
            HttpLink::new("http://host", Some("a\nb"), None),
            Err(Error::Setting { what: "the token", .. })
        ));
        for pem in [&b""[..], b"no PEM"] {
            assert!(matches!(
                HttpLink::new("http://host", None, Some(pem)),
                Err(Error::Setting { what: "ca_pem", .. })
            ));
            let identity_pem = Some((pem, pem));
            let (user_agent, idle_connections) = ("test", 1);
            let options = ClientOptions {
                token: None,
                ca_pem: None,
                identity_pem,
                user_agent,
                idle_connections,
                answer_bytes_max: ANSWER_BYTES_MAX,
            };
            assert!(matches!(Client::new(&options), Err(Error::Setting { what: "identity_pem", .. })));
        }
    }

    #[test]
    fn nobody_there_leaves_no_doubt() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let outcome = HttpLink::new(&address, None, None).unwrap().send(b"frame", Duration::from_secs(5));
        assert!(matches!(outcome, Outcome::Later { in_doubt: false, .. }), "{outcome:?}");
        let options = ClientOptions {
            token: None,
            ca_pem: None,
            identity_pem: None,
            user_agent: "test",
            idle_connections: 1,
            answer_bytes_max: ANSWER_BYTES_MAX,
        };
        let client = Client::new(&options).unwrap();
        let body = Body { kind: "text/plain", encoding: None, bytes: b"" };
        let found = client.request(&address, Duration::from_secs(5), body, &[]).unwrap_err();
        assert!(found.is_refused && !found.in_doubt, "{found:?}");
        assert!(refuses_everywhere(&address) && !refuses_everywhere("no address"));
        // Somebody who listens and says nothing does not refuse.
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", silent.local_addr().unwrap());
        let found = client.request(&address, Duration::from_millis(50), body, &[]).unwrap_err();
        assert!(!found.is_refused, "{found:?}");
    }

    #[test]
    fn a_client_of_an_address_goes_there_whatever_the_name_is() {
        use std::io::{Read, Write};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let (mut head, mut piece) = (Vec::new(), [0; 1_024]);
            while !head.ends_with(b"frame") {
                let count = stream.read(&mut piece).unwrap();
                head.extend_from_slice(&piece[..count]);
            }
            stream.write_all(b"HTTP/1.1 429 Later\r\nretry-after: 3\r\ncontent-length: 2\r\n\r\n{}").unwrap();
            String::from_utf8(head).unwrap()
        });
        let client = HttpLink::new("http://host", Some("ogive_x"), None).unwrap().client.to(address);
        let body = Body { kind: FRAME, encoding: Some("zstd"), bytes: b"frame" };
        let reply = client.post("http://nowhere.invalid:1/v1/batch", Duration::from_secs(30), body).unwrap();
        assert_eq!((reply.status, reply.after, &*reply.body), (429, Some(Duration::from_secs(3)), &b"{}"[..]));
        let head = server.join().unwrap().to_ascii_lowercase();
        for expected in ["host: nowhere.invalid:1", "content-encoding: zstd", "authorization: bearer ogive_x"] {
            assert!(head.contains(expected), "{head}");
        }
    }
}
