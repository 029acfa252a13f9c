//! The handshake of the Forward protocol, with which a client shows that it knows the shared key.
//!
//! Format: the server sends `["HELO", {nonce, auth, keepalive}]`; the client `["PING", hostname, salt, digest, user,
//! password]`; the server `["PONG", is right, reason, hostname, digest]`. A digest is the SHA-512, in hexadecimal
//! digits, of the salt, the name of the host that makes it, the nonce and the key. Who computes it is no part of this
//! module.

use super::error::MessageError;
use crate::msgpack::{Reader, Token, Writer};

/// The name of the server in its digest; Fluentd refuses a server with the name that it has itself.
pub const SERVER_NAME: &str = "ogive-server";

/// What the server sends first.
#[must_use]
pub fn helo(nonce: &[u8]) -> Vec<u8> {
    // No user is asked for: the salt of the password is empty.
    let options = Writer::default().list(2).text("HELO").map(3).text("nonce").binary(nonce);
    options.text("auth").text("").text("keepalive").bool(true).into_bytes()
}

/// What a client answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ping<'m> {
    /// The name that it gives itself.
    pub hostname: &'m [u8],
    /// Its part of both digests.
    pub salt: &'m [u8],
    /// In hexadecimal digits.
    pub digest: &'m [u8],
}

impl<'m> Ping<'m> {
    /// Reads a message of [`Messages`](super::message::Messages).
    ///
    /// # Errors
    /// [`MessageError::Login`] where it is no answer.
    pub fn read(bytes: &'m [u8]) -> Result<Self, MessageError> {
        let mut reader = Reader::new(bytes);
        if reader.token()? != Token::List(6) {
            return Err(MessageError::Login);
        }
        let mut next = || reader.text()?.ok_or(MessageError::Login);
        let (name, ping) = (next()?, Self { hostname: next()?, salt: next()?, digest: next()? });
        if name == b"PING" { Ok(ping) } else { Err(MessageError::Login) }
    }
}

/// What the server says of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pong<'p> {
    /// It is right; with the server's own digest.
    Right(&'p str),
    /// It is not; with a reason.
    Wrong(&'p str),
}

impl Pong<'_> {
    /// The message.
    #[must_use]
    pub fn encode(self) -> Vec<u8> {
        let (is_right, reason, name, digest) = match self {
            Self::Right(digest) => (true, "", SERVER_NAME, digest),
            Self::Wrong(reason) => (false, reason, "", ""),
        };
        let begin = Writer::default().list(5).text("PONG").bool(is_right).text(reason);
        begin.text(name).text(digest).into_bytes()
    }
}
