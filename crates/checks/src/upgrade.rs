//! The opening handshake of WebSocket: a request of HTTP/1.1 after which the connection speaks another protocol.
//!
//! Format: RFC 6455 section 4.
//! Invariants: neither an extension nor a subprotocol that was not offered is taken.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::client::conn::http1;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use ogive_outgoing::{AGENT, Body, authority, target};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

use super::entropy;
use super::http::hyper_failure;
use super::net::Stream;
use super::run::{Failure, Reason};

/// What the server appends to the key before it hashes it.
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Headers that the handshake itself sets, or that a request without a body does not have.
const OWN_HEADERS: [&str; 9] = [
    "connection",
    "content-length",
    "host",
    "sec-websocket-accept",
    "sec-websocket-extensions",
    "sec-websocket-key",
    "sec-websocket-version",
    "transfer-encoding",
    "upgrade",
];

/// What a handshake asks for.
pub(super) struct Handshake<'a> {
    /// An address of http or https in place of ws or wss.
    pub(super) url: &'a Uri,
    pub(super) headers: &'a [(String, String)],
    pub(super) authorization: Option<HeaderValue>,
}

/// A header of a table that is not for the table to set.
pub(super) fn own_header(headers: &[(String, String)]) -> Option<&str> {
    let is_own = |name: &str| OWN_HEADERS.iter().any(|own| own.eq_ignore_ascii_case(name));
    headers.iter().map(|(name, _)| name.as_str()).find(|name| is_own(name))
}

/// Makes a connection one of WebSocket.
pub(super) async fn upgrade(stream: Box<dyn Stream>, handshake: Handshake<'_>) -> Result<Box<dyn Stream>, Failure> {
    let key = STANDARD.encode(entropy::bytes::<16>()?);
    let request = request(&handshake, &key)?;
    let offered = request.headers().get(header::SEC_WEBSOCKET_PROTOCOL).cloned();
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| hyper_failure(&error))?;
    // It ends when it hands over its stream, or when the sender is dropped.
    tokio::spawn(connection.with_upgrades());
    let answer = sender.send_request(request).await.map_err(|error| hyper_failure(&error))?;
    verify(&answer, &key, offered.as_ref())?;
    let upgraded = hyper::upgrade::on(answer).await.map_err(|error| hyper_failure(&error))?;
    Ok(Box::new(TokioIo::new(upgraded)))
}

fn request(handshake: &Handshake<'_>, key: &str) -> Result<Request<Body>, Failure> {
    let mut request = Request::get(target(handshake.url))
        .header(header::HOST, authority(handshake.url))
        .header(header::USER_AGENT, AGENT)
        .header(header::CONNECTION, "Upgrade")
        .header(header::UPGRADE, "websocket")
        .header(header::SEC_WEBSOCKET_VERSION, "13")
        .header(header::SEC_WEBSOCKET_KEY, key);
    for (name, value) in handshake.headers {
        request = request.header(name, value);
    }
    if let Some(login) = &handshake.authorization {
        request = request.header(header::AUTHORIZATION, login);
    }
    request.body(Body::default()).map_err(|error| Failure::new(Reason::Local, error.to_string()))
}

/// Whether an answer agrees to what was asked for with `key`, and with these subprotocols.
fn verify<B>(answer: &Response<B>, key: &str, offered: Option<&HeaderValue>) -> Result<(), Failure> {
    let wrong = |sentence: &str| Failure::new(Reason::Protocol, format!("the answer to the handshake {sentence}"));
    let (status, headers) = (answer.status(), answer.headers());
    if status != StatusCode::SWITCHING_PROTOCOLS {
        return Err(Failure::new(Reason::Status, format!("the answer to the handshake has status {status}")));
    }
    if !has_word(headers, header::UPGRADE, "websocket") || !has_word(headers, header::CONNECTION, "upgrade") {
        return Err(wrong("does not switch to WebSocket"));
    }
    if headers.get(header::SEC_WEBSOCKET_ACCEPT).is_none_or(|accept| accept.as_bytes() != accepted(key).as_bytes()) {
        return Err(wrong("has no Sec-WebSocket-Accept that belongs to the key"));
    }
    if headers.contains_key(header::SEC_WEBSOCKET_EXTENSIONS) {
        return Err(wrong("chooses an extension, and none was offered"));
    }
    let Some(chosen) = headers.get(header::SEC_WEBSOCKET_PROTOCOL) else { return Ok(()) };
    let is_offered = offered.is_some_and(|offered| words(offered).any(|word| word.as_bytes() == chosen.as_bytes()));
    if is_offered { Ok(()) } else { Err(wrong("chooses a subprotocol that was not offered")) }
}

/// The key as a server of WebSocket returns it.
fn accepted(key: &str) -> String {
    STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, format!("{key}{GUID}").as_bytes()))
}

fn has_word(headers: &HeaderMap, name: HeaderName, word: &str) -> bool {
    headers.get_all(name).iter().any(|value| words(value).any(|found| found.eq_ignore_ascii_case(word)))
}

/// The parts of a list; those of a header that is no text are none.
fn words(value: &HeaderValue) -> impl Iterator<Item = &str> {
    value.to_str().unwrap_or_default().split(',').map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 6455 section 1.3.
    const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
    const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

    fn verified(status: u16, headers: &[(&str, &str)], offered: Option<&str>) -> Result<(), String> {
        let mut answer = Response::builder().status(status);
        for (name, value) in headers {
            answer = answer.header(*name, *value);
        }
        let offered = offered.map(|offered| HeaderValue::try_from(offered).unwrap());
        verify(&answer.body(()).unwrap(), KEY, offered.as_ref()).map_err(|failure| failure.to_string())
    }

    #[test]
    fn only_an_answer_to_this_handshake_is_taken() {
        let [upgrade, connection, accept] =
            [("upgrade", "WebSocket"), ("connection", "keep-alive, Upgrade"), ("sec-websocket-accept", ACCEPT)];
        let good = [upgrade, connection, accept];
        assert_eq!(verified(101, &good, None), Ok(()));
        let chosen = [upgrade, connection, accept, ("sec-websocket-protocol", "b")];
        assert_eq!(verified(101, &chosen, Some("a, b")), Ok(()));
        for (status, headers, offered, sentence) in [
            (403, &good[..], None, "status: the answer to the handshake has status 403 Forbidden"),
            (200, &good, None, "status 200"),
            (101, &[connection, accept], None, "does not switch"),
            (101, &[upgrade, accept], None, "does not switch"),
            (101, &[upgrade, connection], None, "no Sec-WebSocket-Accept"),
            (101, &[upgrade, connection, ("sec-websocket-accept", KEY)], None, "no Sec-WebSocket-Accept"),
            (101, &chosen, None, "a subprotocol that was not offered"),
            (101, &chosen, Some("a, bb"), "a subprotocol that was not offered"),
            (
                101,
                &[upgrade, connection, accept, ("sec-websocket-extensions", "permessage-deflate")],
                None,
                "chooses an extension",
            ),
        ] {
            let found = verified(status, headers, offered).unwrap_err();
            assert!(found.contains(sentence), "{found}");
        }
    }

    #[test]
    fn headers_of_the_handshake_are_its_own() {
        let header = |name: &str| [(name.to_owned(), "x".to_owned())];
        assert_eq!(own_header(&header("Sec-WebSocket-Key")), Some("Sec-WebSocket-Key"));
        assert_eq!(own_header(&header("sec-websocket-protocol")), None);
        assert_eq!(own_header(&header("origin")), None);
    }
}
