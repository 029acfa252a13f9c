//! The handshake of a connection whose client has to know the shared key.
//!
//! Invariants: each connection has a nonce of its own; a digest is compared in a time that does not depend on where it
//! differs.

use ogive_protocol::fluent::handshake::{Ping, Pong, SERVER_NAME, helo};
use ring::digest::{Context, SHA512};
use ring::rand::{SecureRandom as _, SystemRandom};
use subtle::ConstantTimeEq;

use crate::shared_key::SharedKey;

/// What a client has to answer before it may send.
pub(super) struct Challenge {
    key: SharedKey,
    nonce: [u8; 16],
}

/// What becomes of an answer.
pub(super) struct Outcome {
    /// What the server says of it.
    pub(super) pong: Vec<u8>,
    pub(super) is_right: bool,
}

impl Challenge {
    /// None when the system has no random numbers.
    pub(super) fn new(key: SharedKey) -> Option<Self> {
        let mut nonce = [0; 16];
        SystemRandom::new().fill(&mut nonce).ok()?;
        Some(Self { key, nonce })
    }

    /// What the server sends first.
    pub(super) fn helo(&self) -> Vec<u8> {
        helo(&self.nonce)
    }

    /// Judges the first message of a client.
    pub(super) fn outcome(&self, message: &[u8]) -> Outcome {
        let Ok(ping) = Ping::read(message) else {
            return Outcome { pong: Pong::Wrong("give the shared key: PING").encode(), is_right: false };
        };
        let expected = self.digest(ping.salt, ping.hostname);
        if !bool::from(expected.as_bytes().ct_eq(ping.digest)) {
            return Outcome { pong: Pong::Wrong("shared key mismatch").encode(), is_right: false };
        }
        let own = self.digest(ping.salt, SERVER_NAME.as_bytes());
        Outcome { pong: Pong::Right(&own).encode(), is_right: true }
    }

    fn digest(&self, salt: &[u8], hostname: &[u8]) -> String {
        let mut context = Context::new(&SHA512);
        [salt, hostname, &self.nonce, self.key.as_bytes()].iter().for_each(|part| context.update(part));
        ogive_text::hex::write(context.finish().as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the specification has it, computed with Python's hashlib.
    #[test]
    fn a_digest_is_of_the_salt_the_host_the_nonce_and_the_key() {
        let challenge = Challenge { key: "key".parse().unwrap(), nonce: *b"0123456789abcdef" };
        let digest = challenge.digest(b"salt", b"host");
        assert_eq!(digest, DIGEST);
        let ping = |digest: &str| {
            let digest = [&[0xd9, 128][..], digest.as_bytes()].concat();
            [b"\x96\xa4PING\xa4host\xa4salt", &digest[..], b"\xa0\xa0"].concat()
        };
        let right = challenge.outcome(&ping(&digest));
        assert!(right.is_right && right.pong.starts_with(b"\x95\xa4PONG\xc3\xa0"));
        let own = challenge.digest(b"salt", SERVER_NAME.as_bytes());
        assert!(right.pong.ends_with(own.as_bytes()));
        for wrong in [ping(&own), ping(&digest)[..20].to_vec(), b"\x93\xa1t\x01\x80".to_vec(), b"\xc0".to_vec()] {
            let outcome = challenge.outcome(&wrong);
            assert!(!outcome.is_right && outcome.pong.starts_with(b"\x95\xa4PONG\xc2"), "{}", wrong.escape_ascii());
        }
    }

    #[test]
    fn each_connection_has_a_nonce_of_its_own() {
        let of = || Challenge::new("key".parse().unwrap()).unwrap().helo();
        assert_ne!(of(), of());
    }

    const DIGEST: &str = "6e84660ac5c0d492cd7151824ff9f47d2a3eac4de54e93f29024062857cf684cd7eeb4ee4926ac029dbf0eaa2ff53bcb149ffa3b854e73e2cf99d098f4f2b3b7";
}
