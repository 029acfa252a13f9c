//! WebSocket: the opening handshake, a message and its reply if configured, a ping, and the closing handshake.
//!
//! Format: RFC 6455. Phases handshake, reply, ping and close; `ogive_check_websocket_closed` is 1 when the server
//! answered the closing handshake, 0 when it did not, which fails no run.
//! Limits: [`MESSAGE_BYTES_MAX`], [`SEND_BYTES_MAX`], [`MESSAGES_MAX`], [`CLOSE_MAX`].

use std::borrow::Cow;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use hyper::Uri;
use ogive_outgoing::Origin;
use ogive_probe::Clock;
use regex::Regex;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::{Error, ProtocolError};
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Message, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Bytes, Utf8Bytes};

use super::entropy;
use super::http::bearer;
use super::net::{Network, Stream};
use super::raw::Raw;
use super::request::headers;
use super::run::{Failure, Reason, Run, usable};
use super::target::{HostAndPort, Trust, target, trust};
use super::upgrade::{Handshake, own_header, upgrade};

/// 1 MiB of a message, as of the body of a page; 128 checks hold 128 MiB at most.
const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// 64 KiB that are sent: a login or a subscription.
const SEND_BYTES_MAX: usize = 64 << 10;
/// 1,000 messages before the one that is waited for: a busy feed during the time of a check.
const MESSAGES_MAX: usize = 1_000;
/// A second for the closing handshake: whether the server is up is known by then.
const CLOSE_MAX: Duration = Duration::from_secs(1);
/// 16 KiB, which is allocated for each connection; a larger message enlarges it.
const READ_BYTES: usize = 16 << 10;

/// A server of WebSocket.
#[derive(Clone)]
pub(super) struct WebSocket {
    /// With http in place of ws, and https in place of wss.
    url: Uri,
    place: HostAndPort,
    /// Over TLS, if at all.
    trust: Option<Trust>,
    headers: Vec<(String, String)>,
    token: Option<PathBuf>,
    send: Option<String>,
    /// All of these are to be in one message.
    expect: Vec<String>,
    pattern: Option<Regex>,
}

impl std::fmt::Debug for WebSocket {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // What is sent may be a secret.
        out.debug_struct("WebSocket").field("url", &self.url).finish_non_exhaustive()
    }
}

impl WebSocket {
    /// What a table of this kind says.
    pub(super) fn from_raw(raw: &mut Raw) -> Result<Self, String> {
        let url = url(&target(raw)?)?;
        let Origin { is_tls, host, port } = Origin::from_url(&url)?;
        let headers = headers(raw.headers.take())?;
        if let Some(own) = own_header(&headers) {
            return Err(format!("the header {own:?} is the handshake's own"));
        }
        let send = raw.send.take();
        if send.as_ref().is_some_and(|text| text.len() > SEND_BYTES_MAX) {
            return Err(format!("send has more than {SEND_BYTES_MAX} bytes"));
        }
        let pattern = match raw.expect_regex.take() {
            Some(text) => Some(Regex::new(&text).map_err(|error| format!("expect_regex: {error}"))?),
            None => None,
        };
        Ok(Self {
            url,
            place: HostAndPort { host, port },
            trust: is_tls.then(|| trust(raw)),
            headers,
            token: raw.token_file.take(),
            send,
            expect: raw.expect.take().unwrap_or_default(),
            pattern,
        })
    }

    fn is_reply_due(&self) -> bool {
        self.send.is_some() || !self.expect.is_empty() || self.pattern.is_some()
    }

    fn fits(&self, text: &str) -> bool {
        let has_all = self.expect.iter().all(|part| text.contains(part));
        has_all && self.pattern.as_ref().is_none_or(|pattern| pattern.is_match(text))
    }

    /// What no message was.
    fn missing(&self, count: usize) -> Failure {
        let parts = self.expect.iter().map(|part| format!("contain {part:?}"));
        let pattern = self.pattern.iter().map(|pattern| format!("match {:?}", pattern.as_str()));
        let wanted: Vec<String> = parts.chain(pattern).collect();
        let messages = if count == 1 { "1 message".to_owned() } else { format!("{count} messages") };
        let sentence = format!("{messages} came, and none was one to {}", wanted.join(" and "));
        Failure::new(Reason::Content, sentence)
    }
}

/// An address of ws or wss, as one of http or https.
fn url(text: &str) -> Result<Uri, String> {
    let (scheme, rest) = match text.split_once("://") {
        Some(("ws", rest)) => ("http", rest),
        Some(("wss", rest)) => ("https", rest),
        _ => return Err("target is no ws or wss address".into()),
    };
    if rest.split(['/', '?', '#']).next().is_some_and(|authority| authority.contains('@')) {
        return Err("a password does not belong in an address; use headers or token_file".into());
    }
    if rest.contains('#') {
        return Err(format!("target {text:?}: an address of WebSocket has no part behind #"));
    }
    let url: Uri = format!("{scheme}://{rest}").parse().map_err(|error| format!("target {text:?}: {error}"))?;
    Origin::from_url(&url).map_err(|_| format!("target {text:?} has no host"))?;
    Ok(url)
}

pub(super) type Socket = WebSocketStream<Box<dyn Stream>>;

pub(super) async fn run(
    network: &Network,
    run: &mut Run,
    check: &WebSocket,
    timeout: Duration,
    clock: Clock,
) -> Result<(), Failure> {
    let from = clock.now();
    let left = || usable(timeout).saturating_sub(Duration::from_nanos(clock.now().saturating_sub(from)));
    let authorization = match &check.token {
        Some(path) => Some(bearer(network, path).await?),
        None => None,
    };
    let stream = network.open(run, &check.place, check.trust.as_ref()).await?;
    run.phase("handshake");
    let handshake = Handshake { url: &check.url, headers: &check.headers, authorization };
    let mut socket = socket(upgrade(stream, handshake).await?).await;
    if check.is_reply_due() {
        run.phase("reply");
        reply(&mut socket, check, left()).await?;
    }
    run.phase("ping");
    ping(&mut socket).await?;
    run.phase("close");
    let closed = tokio::time::timeout(CLOSE_MAX.min(left()), close(&mut socket)).await;
    run.gauge("ogive_check_websocket_closed", "", f64::from(u8::from(closed.unwrap_or(false))));
    Ok(())
}

/// WebSocket over a connection whose opening handshake is done.
pub(super) async fn socket(stream: Box<dyn Stream>) -> Socket {
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BYTES)
        .max_message_size(Some(MESSAGE_BYTES_MAX))
        .max_frame_size(Some(MESSAGE_BYTES_MAX));
    WebSocketStream::from_raw_socket(stream, Role::Client, Some(config)).await
}

/// Sends what the check has to say, and waits for the message that it expects.
async fn reply(socket: &mut Socket, check: &WebSocket, patience: Duration) -> Result<(), Failure> {
    let mut seen = 0;
    let work = async {
        if let Some(text) = &check.send {
            socket.send(Message::text(text.as_str())).await.map_err(websocket_failure)?;
        }
        find(socket, check, &mut seen).await
    };
    let ended = tokio::time::timeout(patience, work).await;
    match ended {
        Ok(ended) => ended,
        Err(_) if seen > 0 => Err(check.missing(seen)),
        Err(_) => {
            let seconds = patience.as_secs_f64();
            Err(Failure::new(Reason::Timeout, format!("no message came within {seconds:.3} s of the phase reply")))
        }
    }
}

/// Reads until the message that is expected; counts the others in `seen`.
pub(super) async fn find(socket: &mut Socket, check: &WebSocket, seen: &mut usize) -> Result<(), Failure> {
    for _ in 0..MESSAGES_MAX {
        let message = next(socket).await?;
        let text = match &message {
            Message::Text(text) => Cow::Borrowed(text.as_str()),
            Message::Binary(bytes) => String::from_utf8_lossy(bytes),
            _ => continue,
        };
        if check.fits(&text) {
            return Ok(());
        }
        *seen += 1;
    }
    Err(too_many())
}

/// Sends a ping and waits for its own pong.
pub(super) async fn ping(socket: &mut Socket) -> Result<(), Failure> {
    let token: [u8; 8] = entropy::bytes()?;
    socket.send(Message::Ping(Bytes::copy_from_slice(&token))).await.map_err(websocket_failure)?;
    for _ in 0..MESSAGES_MAX {
        if let Message::Pong(payload) = next(socket).await?
            && payload[..] == token
        {
            return Ok(());
        }
    }
    Err(too_many())
}

/// Begins the closing handshake; whether the server answered it.
async fn close(socket: &mut Socket) -> bool {
    let frame = CloseFrame { code: CloseCode::Normal, reason: Utf8Bytes::from_static("") };
    if socket.close(Some(frame)).await.is_err() {
        return false;
    }
    for _ in 0..MESSAGES_MAX {
        match socket.next().await {
            Some(Ok(Message::Close(_))) => return true,
            Some(Ok(_)) => {}
            Some(Err(_)) | None => return false,
        }
    }
    false
}

/// The next message, which is not the end.
async fn next(socket: &mut Socket) -> Result<Message, Failure> {
    match socket.next().await {
        Some(Ok(Message::Close(frame))) => {
            // The answer to it; a server that is gone does not miss it.
            let _ = socket.flush().await;
            Err(closed(frame.as_ref()))
        }
        Some(Ok(message)) => Ok(message),
        Some(Err(error)) => Err(websocket_failure(error)),
        None => Err(Failure::new(Reason::Closed, "the server closed the connection")),
    }
}

fn too_many() -> Failure {
    Failure::new(Reason::Limit, format!("the server sends more than {MESSAGES_MAX} messages beside the expected one"))
}

/// An end that the server announced.
fn closed(frame: Option<&CloseFrame>) -> Failure {
    let Some(CloseFrame { code, reason }) = frame else {
        return Failure::new(Reason::Status, "the server closed the connection without a code");
    };
    let why = if reason.is_empty() { String::new() } else { format!(": {:?}", reason.as_str()) };
    Failure::new(Reason::Status, format!("the server closed the connection with the code {}{why}", u16::from(*code)))
}

fn websocket_failure(error: Error) -> Failure {
    match error {
        Error::Io(error) => error.into(),
        Error::ConnectionClosed | Error::AlreadyClosed => {
            Failure::new(Reason::Closed, "the server closed the connection")
        }
        Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => {
            Failure::new(Reason::Closed, "the server closed the connection without a closing handshake")
        }
        Error::Capacity(_) => {
            Failure::new(Reason::Limit, format!("the server sends a message of more than {MESSAGE_BYTES_MAX} bytes"))
        }
        other => Failure::new(Reason::Protocol, other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Probe};

    fn read(keys: &str) -> Result<WebSocket, String> {
        match Config::parse(&format!("[[check]]\nname = 'a'\nkind = 'websocket'\n{keys}"))?.check.remove(0).ask {
            Probe::WebSocket(check) => Ok(*check),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn tables_are_read_and_mistakes_are_refused() {
        let check = read("target = 'ws://[::1]/x?y'\nsend = 'hello'\nexpect = 'world'").unwrap();
        assert_eq!((check.url.to_string().as_str(), check.place.host.as_str()), ("http://[::1]/x?y", "::1"));
        assert_eq!((check.place.port, check.trust.is_none(), &check.expect[..]), (80, true, &["world".to_owned()][..]));
        let check = read("target = 'wss://h'\nca_file = '/ca.pem'\nexpect = ['a', 'b']\nexpect_regex = 'c+'").unwrap();
        assert_eq!((check.place.port, check.trust.is_some(), check.expect.len()), (443, true, 2));
        let secret = read("target = 'ws://h'\nsend = 'hunter2'\nheaders = {x-key = 'hunter2'}").unwrap();
        assert!(!format!("{secret:?}").contains("hunter2"));
        let long = |bytes: usize| read(&format!("target = 'ws://h'\nsend = '{}'", "x".repeat(bytes)));
        assert!(long(SEND_BYTES_MAX).is_ok());
        assert!(long(SEND_BYTES_MAX + 1).unwrap_err().contains("more than 65536 bytes"));
        for (keys, sentence) in [
            ("", "target is missing"),
            ("target = 'http://h/'", "target is no ws or wss address"),
            ("target = 'ws:///x'", "target \"ws:///x\""),
            ("target = 'ws://h/#x'", "no part behind #"),
            ("target = 'ws://h/'\ninsecure = true", "insecure means nothing to the kind websocket"),
            ("target = 'ws://h/'\nexpect_regex = '('", "expect_regex: "),
            ("target = 'ws://h/'\nexpect = 3", "a string or a list of strings"),
            ("target = 'ws://h/'\nheaders = {Upgrade = 'h2c'}", "the header \"Upgrade\" is the handshake's own"),
            ("target = 'ws://h/'\nheaders = {'a b' = 'c'}", "header \"a b\" is none"),
        ] {
            let found = read(keys).unwrap_err();
            assert!(found.contains(sentence), "{found}");
        }
        let found = read("target = 'wss://u:hunter2@h/'").unwrap_err();
        assert!(found.contains("a password does not belong") && !found.contains("hunter2"), "{found}");
    }

    /// What comes of frames, where a message with "ok" is expected; and how many others were seen.
    async fn found(frames: &[u8]) -> (Result<(), Reason>, usize) {
        let bytes = std::io::Cursor::new(frames.to_vec());
        let mut socket = socket(Box::new(tokio::io::join(bytes, tokio::io::sink()))).await;
        let mut seen = 0;
        let check = read("target = 'ws://h'\nexpect = 'ok'").unwrap();
        let ended = find(&mut socket, &check, &mut seen).await;
        (ended.map_err(|failure| failure.reason), seen)
    }

    #[tokio::test]
    async fn frames_are_read_until_the_one_that_is_expected() {
        let claimed = |length: u64| [&[0x82, 127][..], &length.to_be_bytes()].concat();
        for (frames, expected, seen) in [
            (&b"\x81\x02ok"[..], Ok(()), 0),
            (b"\x81\x02no\x89\x01x\x82\x03\xffok", Ok(()), 1),
            (b"\x01\x01o\x80\x01k", Ok(()), 0),
            (b"\x81\x02no", Err(Reason::Closed), 1),
            (b"", Err(Reason::Closed), 0),
            (b"\x81\x05ok", Err(Reason::Closed), 0),
            (b"\x88\x02\x03\xe8", Err(Reason::Status), 0),
            (b"\x88\x00", Err(Reason::Status), 0),
            (b"\x81\x82\0\0\0\0ok", Err(Reason::Protocol), 0),
            (b"\xc1\x02ok", Err(Reason::Protocol), 0),
            (b"\x81\x02\xff\xff", Err(Reason::Protocol), 0),
            (&claimed(MESSAGE_BYTES_MAX as u64), Err(Reason::Closed), 0),
            (&claimed(MESSAGE_BYTES_MAX as u64 + 1), Err(Reason::Limit), 0),
            (&b"\x81\x01x".repeat(MESSAGES_MAX), Err(Reason::Limit), MESSAGES_MAX),
        ] {
            assert_eq!(found(frames).await, (expected, seen), "{:?}", &frames[..frames.len().min(20)]);
        }
    }

    #[test]
    fn what_did_not_come_is_named() {
        let check = read("target = 'ws://h'\nexpect = ['a', 'b']\nexpect_regex = 'c+'").unwrap();
        let expected = "content: 3 messages came, and none was one to contain \"a\" and contain \"b\" and match \"c+\"";
        assert_eq!(check.missing(3).to_string(), expected);
        assert!(check.fits("b cc a") && !check.fits("b a") && !check.fits("a cc"));
        let frame = CloseFrame { code: CloseCode::Policy, reason: "no".into() };
        assert_eq!(
            closed(Some(&frame)).to_string(),
            "status: the server closed the connection with the code 1008: \"no\""
        );
    }
}
