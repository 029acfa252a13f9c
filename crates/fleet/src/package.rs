//! A version of a group's configuration, as the server signs it and a broker checks it.
//!
//! Format: docs/formats/fleet.md. The signature is Ed25519 over [`CONTEXT`] and the exact bytes of the package's JSON.
//! Invariants: nothing of a package is parsed before its signature was verified.
//! Limits: [`CONTENTS_BYTES_MAX`] of each part, [`WHY_BYTES_MAX`].

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ogive_text::hex;
use ring::rand::SystemRandom;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use serde::{Deserialize, Serialize};

use crate::secret::sha256;

/// 2 MiB of each part: five thousand checks.
pub const CONTENTS_BYTES_MAX: usize = 2 << 20;
/// 1 KiB: a sentence and a link to a ticket system.
pub(crate) const WHY_BYTES_MAX: usize = 1 << 10;
/// 16 MiB: both parts, with every byte escaped, would have 24; texts of configurations grow by a tenth.
const PACKAGE_BYTES_MAX: usize = 16 << 20;
/// What is signed in front of the package, so that the key's signatures mean nothing elsewhere.
const CONTEXT: &[u8] = b"ogive fleet package 1\n";
/// 32 hexadecimal digits of a key's hash stand in a ticket.
pub(crate) const FINGERPRINT_DIGITS: usize = 32;

/// What brokers of a group shall do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contents {
    /// Checks, filters, labels and limits, as in a broker.toml.
    pub toml: String,
    /// `scrape_configs` in Prometheus' format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scrape: Option<String>,
}

impl Contents {
    /// Whether it has its size.
    ///
    /// # Errors
    /// A sentence with the limit.
    pub fn check_size(&self) -> Result<(), String> {
        for (what, bytes) in [("TOML", self.toml.len()), ("scrape", self.scrape.as_ref().map_or(0, String::len))] {
            if bytes > CONTENTS_BYTES_MAX {
                return Err(format!(
                    "the {what} part has {bytes} bytes, more than {CONTENTS_BYTES_MAX}; divide the group"
                ));
            }
        }
        Ok(())
    }
}

/// A version of a group's configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Package {
    /// The group.
    pub group: String,
    /// From 1; it only grows, also by a rollback.
    pub version: u64,
    /// When it was applied, on the server's clock.
    pub time_ms: i64,
    /// By whom.
    pub by: String,
    /// Why, in their words.
    pub why: String,
    /// What it says.
    pub contents: Contents,
}

/// A package and its signature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signed {
    /// The package in JSON, byte for byte as it was signed.
    pub package: String,
    /// The signature in base64.
    pub signature: String,
}

impl Signed {
    /// The package, if `key` has signed it.
    ///
    /// # Errors
    /// A sentence; the signature is wrong, or the package is none.
    pub fn verify(&self, key: &PublicKey) -> Result<Package, String> {
        if self.package.len() > PACKAGE_BYTES_MAX {
            return Err(format!("the package has more than {PACKAGE_BYTES_MAX} bytes"));
        }
        let signature =
            BASE64_STANDARD.decode(&self.signature).map_err(|_| "the signature is not base64".to_owned())?;
        let message = [CONTEXT, self.package.as_bytes()].concat();
        let found = UnparsedPublicKey::new(&ED25519, &key.0).verify(&message, &signature);
        found.map_err(|_| "the key of the server has not signed this".to_owned())?;
        let package: Package =
            serde_json::from_str(&self.package).map_err(|error| format!("this is no package: {error}"))?;
        package.contents.check_size()?;
        Ok(package)
    }
}

/// The key that signatures are checked with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    /// From base64.
    ///
    /// # Errors
    /// It is no key.
    pub fn parse(text: &str) -> Result<Self, String> {
        let bytes = BASE64_STANDARD.decode(text).ok().and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or_else(|| format!("{text:?} is no public key of Ed25519 in base64"))
    }

    /// As base64.
    #[must_use]
    pub fn text(&self) -> String {
        BASE64_STANDARD.encode(self.0)
    }

    /// The beginning of its SHA-256, by which a ticket names it.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        sha256(&hex::write(&self.0))[..FINGERPRINT_DIGITS].to_owned()
    }
}

/// The server's key.
pub(crate) struct SigningKey(Ed25519KeyPair);

impl SigningKey {
    /// A new one, in PKCS#8.
    pub(crate) fn generate() -> Result<Vec<u8>, String> {
        let made = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new());
        made.map(|document| document.as_ref().to_vec()).map_err(|_| "the system gives no random bytes".into())
    }

    pub(crate) fn parse(pkcs8: &[u8]) -> Result<Self, String> {
        Ed25519KeyPair::from_pkcs8(pkcs8).map(Self).map_err(|error| format!("it is no key of Ed25519: {error}"))
    }

    pub(crate) fn public(&self) -> PublicKey {
        PublicKey(self.0.public_key().as_ref().try_into().expect("a public key of Ed25519 has 32 bytes"))
    }

    /// Signs a package.
    pub(crate) fn sign(&self, package: &Package) -> Result<Signed, String> {
        let json = serde_json::to_string(package).map_err(|error| error.to_string())?;
        if json.len() > PACKAGE_BYTES_MAX {
            return Err(format!(
                "the package has {} bytes, more than {PACKAGE_BYTES_MAX}; divide the group",
                json.len()
            ));
        }
        let signature = self.0.sign(&[CONTEXT, json.as_bytes()].concat());
        Ok(Signed { package: json, signature: BASE64_STANDARD.encode(signature) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package() -> Package {
        let contents = Contents { toml: "[[check]]\n".into(), scrape: None };
        Package { group: "edge".into(), version: 3, time_ms: 1, by: "amy".into(), why: "because".into(), contents }
    }

    #[test]
    fn what_is_signed_is_read_and_nothing_else() {
        let key = SigningKey::parse(&SigningKey::generate().unwrap()).unwrap();
        let other = SigningKey::parse(&SigningKey::generate().unwrap()).unwrap();
        let signed = key.sign(&package()).unwrap();
        assert_eq!(signed.verify(&key.public()).unwrap(), package());
        assert!(signed.verify(&other.public()).unwrap_err().contains("has not signed"));
        for at in 0..signed.package.len() {
            let mut bytes = signed.package.clone().into_bytes();
            bytes[at] ^= 1;
            if let Ok(package) = String::from_utf8(bytes) {
                assert!(Signed { package, ..signed.clone() }.verify(&key.public()).is_err(), "{at}");
            }
        }
        assert!(Signed { signature: "?".into(), ..signed.clone() }.verify(&key.public()).is_err());
        assert!(Signed { signature: String::new(), ..signed }.verify(&key.public()).is_err());
        let text = key.public().text();
        assert_eq!(PublicKey::parse(&text), Ok(key.public()));
        assert!(PublicKey::parse(&text[1..]).is_err() && PublicKey::parse("").is_err());
    }

    #[test]
    fn a_part_has_its_limit() {
        let of = |bytes| Contents { toml: "x".repeat(bytes), scrape: None }.check_size();
        assert_eq!(of(CONTENTS_BYTES_MAX), Ok(()));
        assert!(of(CONTENTS_BYTES_MAX + 1).unwrap_err().contains("divide the group"));
        let scrape = Contents { toml: String::new(), scrape: Some("x".repeat(CONTENTS_BYTES_MAX + 1)) };
        assert!(scrape.check_size().unwrap_err().contains("scrape part"));
    }
}
