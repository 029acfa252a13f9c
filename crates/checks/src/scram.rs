//! The client's side of SCRAM (RFC 5802, RFC 7677), without channel binding: a login in which both sides prove that
//! they know a password, and neither says it.
//!
//! Invariants: a password is hashed once in a login, also for a server that asks again.
//! Limits: [`ITERATIONS_MAX`], and as many rounds as the caller wants at least. Passwords are used unchanged: login
//! fails with non-ASCII passwords that SASLprep would change.

use std::num::NonZeroU32;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ring::{digest, hmac, pbkdf2};

use super::entropy;
use super::run::{Failure, Reason};

/// 100,000 rounds of a password's hash, 25 times the usual of PostgreSQL and seven times that of MongoDB: 50 ms.
const ITERATIONS_MAX: u32 = 100_000;
/// 18 bytes, 24 letters of base64: as PostgreSQL's own client sends.
const NONCE_BYTES: usize = 18;

/// What makes a login unlike every other: whoever plays the server could prepare its answers to one that can be
/// predicted.
pub(super) fn nonce() -> Result<String, Failure> {
    Ok(BASE64_STANDARD.encode(entropy::bytes::<NONCE_BYTES>()?))
}

/// The hash that a mechanism is named after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hash {
    Sha1,
    Sha256,
}

impl Hash {
    /// The mechanism, as servers call it.
    pub(super) const fn mechanism(self) -> &'static str {
        match self {
            Self::Sha1 => "SCRAM-SHA-1",
            Self::Sha256 => "SCRAM-SHA-256",
        }
    }

    fn digest(self) -> &'static digest::Algorithm {
        match self {
            Self::Sha1 => &digest::SHA1_FOR_LEGACY_USE_ONLY,
            Self::Sha256 => &digest::SHA256,
        }
    }

    fn sign(self, key: &[u8], words: &[u8]) -> hmac::Tag {
        let algorithm = match self {
            Self::Sha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
            Self::Sha256 => hmac::HMAC_SHA256,
        };
        hmac::sign(&hmac::Key::new(algorithm, key), words)
    }

    fn salted(self, password: &str, salt: &[u8], iterations: NonZeroU32) -> Vec<u8> {
        let algorithm = match self {
            Self::Sha1 => pbkdf2::PBKDF2_HMAC_SHA1,
            Self::Sha256 => pbkdf2::PBKDF2_HMAC_SHA256,
        };
        let mut out = vec![0; self.digest().output_len()];
        pbkdf2::derive(algorithm, iterations, salt, password.as_bytes(), &mut out);
        out
    }
}

/// A login.
pub(super) struct Scram {
    hash: Hash,
    password: String,
    /// The first message without its head.
    first: String,
    nonce: String,
    iterations_min: u32,
    /// What the server's last message has to be; empty until the password was hashed.
    expected: String,
}

impl Scram {
    /// A login of `user`, who is empty where the server knows the name already.
    pub(super) fn new(hash: Hash, user: &str, password: &str, nonce: &str) -> Self {
        let user = user.replace('=', "=3D").replace(',', "=2C");
        let first = format!("n={user},r={nonce}");
        let (password, nonce) = (password.into(), nonce.into());
        Self { hash, password, first, nonce, iterations_min: 1, expected: String::new() }
    }

    /// The same that refuses a server that wants fewer rounds of hashing: who plays it could guess the password from
    /// its proof, the faster the fewer there are.
    pub(super) fn with_iterations_min(self, iterations_min: u32) -> Self {
        Self { iterations_min, ..self }
    }

    /// The first message.
    pub(super) fn first(&self) -> String {
        format!("n,,{}", self.first)
    }

    /// Whether the password was hashed: up to 50 ms of a processor, as the server wants it.
    pub(super) fn is_answered(&self) -> bool {
        !self.expected.is_empty()
    }

    /// The answer to the server's first message.
    pub(super) fn answer(&mut self, server: &str) -> Result<String, Failure> {
        let field = |name: char| server.split(',').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
        let nonce = field('r').filter(|nonce| nonce.starts_with(&self.nonce) && nonce.len() > self.nonce.len());
        let salt = field('s').and_then(|salt| BASE64_STANDARD.decode(salt).ok());
        let iterations = field('i').and_then(|count| count.parse::<NonZeroU32>().ok());
        let (false, Some(nonce), Some(salt), Some(iterations)) = (self.is_answered(), nonce, salt, iterations) else {
            return Err(Failure::new(Reason::Protocol, "what answers breaks the rules of SCRAM"));
        };
        if iterations.get() > ITERATIONS_MAX {
            return Err(Failure::new(Reason::Limit, format!("the server wants {iterations} rounds of hashing")));
        }
        if iterations.get() < self.iterations_min {
            let sentence = format!("the server wants {iterations} rounds of hashing, below {}", self.iterations_min);
            return Err(Failure::new(Reason::Login, sentence));
        }
        let hash = self.hash;
        let salted = hash.salted(&self.password, &salt, iterations);
        let last = format!("c=biws,r={nonce}");
        let all = format!("{},{server},{last}", self.first);
        let client_key = hash.sign(&salted, b"Client Key");
        let stored = digest::digest(hash.digest(), client_key.as_ref());
        let signature = hash.sign(stored.as_ref(), all.as_bytes());
        let proof: Vec<u8> = client_key.as_ref().iter().zip(signature.as_ref()).map(|(key, sign)| key ^ sign).collect();
        let server_key = hash.sign(&salted, b"Server Key");
        self.expected = format!("v={}", BASE64_STANDARD.encode(hash.sign(server_key.as_ref(), all.as_bytes())));
        Ok(format!("{last},p={}", BASE64_STANDARD.encode(proof)))
    }

    /// Whether the server knows the password too.
    pub(super) fn check(&self, server: &str) -> Result<(), Failure> {
        match self.is_answered() && server == self.expected {
            true => Ok(()),
            false => Err(Failure::new(Reason::Login, "the server does not know the password that it asks for")),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn logins_are_those_of_the_rfcs() {
        // RFC 7677, section 3.
        let mut scram = Scram::new(Hash::Sha256, "user", "pencil", "rOprNGfwEbeRWgbNEkqO");
        assert_eq!(scram.first(), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let server = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        assert_eq!(
            scram.answer(server).unwrap(),
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
             p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        );
        assert_eq!(scram.check("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="), Ok(()));
        assert_eq!(scram.check("v=x").unwrap_err().reason, Reason::Login);
        // RFC 5802, section 5.
        let mut scram = Scram::new(Hash::Sha1, "user", "pencil", "fyko+d2lbbFgONRv9qkxdawL");
        let server = "r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096";
        assert_eq!(
            scram.answer(server).unwrap(),
            "c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts="
        );
        assert_eq!(scram.check("v=rmF9pqV8S7suAoZWja4dJRkFsKQ="), Ok(()));
    }

    #[test]
    fn a_name_ends_no_field() {
        assert_eq!(Scram::new(Hash::Sha256, "a,b=c", "x", "n").first(), "n,,n=a=2Cb=3Dc,r=n");
    }

    /// The nonce came from the numbers of the schedule, 64 bits of state that each answer showed: whoever saw one knew
    /// the next.
    #[test]
    fn a_nonce_is_of_the_system_and_each_its_own() {
        let nonces: Vec<String> = (0..100).map(|_| nonce().unwrap()).collect();
        let different: std::collections::BTreeSet<_> = nonces.iter().collect();
        assert_eq!(different.len(), nonces.len());
        assert!(nonces.iter().all(|nonce| BASE64_STANDARD.decode(nonce).unwrap().len() == NONCE_BYTES));
    }

    #[test]
    fn a_server_that_cheats_is_reported() {
        for hash in [Hash::Sha1, Hash::Sha256] {
            let scram = || Scram::new(hash, "", "x", "abc");
            let answer = |server: &str| scram().answer(server).unwrap_err().reason;
            assert_eq!(answer("r=other,s=W22Z,i=1"), Reason::Protocol);
            assert_eq!(answer("r=abc,s=W22Z,i=1"), Reason::Protocol);
            assert_eq!(answer("r=abcd,s=W22Z,i=100001"), Reason::Limit);
            assert_eq!(answer("r=abcd,s=W22Z,i=0"), Reason::Protocol);
            let strict = |server: &str| scram().with_iterations_min(2).answer(server).map_err(|failure| failure.reason);
            assert_eq!(strict("r=abcd,s=W22Z,i=1"), Err(Reason::Login));
            assert!(strict("r=abcd,s=W22Z,i=2").is_ok());
            assert_eq!(scram().check("").unwrap_err().reason, Reason::Login);
            let mut twice = scram();
            assert!(twice.answer("r=abcd,s=W22Z,i=1").is_ok());
            assert_eq!(twice.answer("r=abcd,s=W22Z,i=1").unwrap_err().reason, Reason::Protocol);
        }
    }

    proptest! {
        #[test]
        fn anything_may_come(text in ".*") {
            for hash in [Hash::Sha1, Hash::Sha256] {
                let mut scram = Scram::new(hash, "", "x", "a");
                let _ = (scram.answer(&text), scram.check(&text));
            }
        }
    }
}
