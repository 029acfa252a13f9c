//! A user of SNMP v3: what its messages are signed and encrypted with.
//!
//! Invariants: privacy needs authentication.
//! Limits: [`USER_BYTES_MAX`], [`PASSWORD_BYTES_MIN`].

use async_snmp::{AuthProtocol, CryptoResult, MasterKeys, PrivProtocol};

/// RFC 3414, section 11.2.
const PASSWORD_BYTES_MIN: usize = 8;

/// RFC 3414, section 2.4.
const USER_BYTES_MAX: usize = 32;

/// DES, which RFC 3414 also has, is missing: its salt must survive restarts, and a key of 56 bits protects nothing.
const PRIVACIES: [(&str, PrivProtocol); 5] = [
    ("aes128", PrivProtocol::Aes128),
    ("aes192", PrivProtocol::Aes192Blumenthal),
    ("aes256", PrivProtocol::Aes256Blumenthal),
    ("aes192c", PrivProtocol::Aes192Reeder),
    ("aes256c", PrivProtocol::Aes256Reeder),
];

const AUTHENTICATIONS: [(&str, AuthProtocol); 6] = [
    ("md5", AuthProtocol::Md5),
    ("sha1", AuthProtocol::Sha1),
    ("sha224", AuthProtocol::Sha224),
    ("sha256", AuthProtocol::Sha256),
    ("sha384", AuthProtocol::Sha384),
    ("sha512", AuthProtocol::Sha512),
];

/// A user. `S` is how a password is kept.
#[derive(Clone, Debug)]
pub struct User<S> {
    /// Its name.
    pub name: String,
    /// What signs its messages.
    pub authentication: Option<Protection<AuthProtocol, S>>,
    /// What encrypts them.
    pub privacy: Option<Protection<PrivProtocol, S>>,
}

/// A protocol with the password that its key is made of.
#[derive(Clone, Debug)]
pub struct Protection<P, S> {
    /// The protocol.
    pub protocol: P,
    /// The password.
    pub password: S,
}

/// What a table says of a user beside its name.
#[derive(Debug)]
pub struct UserKeys<S> {
    /// The name of a protocol.
    pub authentication: Option<String>,
    /// Its password.
    pub password: Option<S>,
    /// The name of a protocol.
    pub privacy: Option<String>,
    /// Its password.
    pub privacy_password: Option<S>,
}

impl<S> User<S> {
    /// The user of a table.
    ///
    /// # Errors
    /// What is wrong in the table.
    pub fn new(name: String, keys: UserKeys<S>) -> Result<Self, String> {
        if name.is_empty() || name.len() > USER_BYTES_MAX {
            return Err(format!("user has {} bytes, and not 1 to {USER_BYTES_MAX}", name.len()));
        }
        let authentication = match (keys.authentication, keys.password) {
            (Some(name), password) => Some(Protection {
                protocol: named("authentication", &name, &AUTHENTICATIONS)?,
                password: password.ok_or("password or password_file is missing")?,
            }),
            (None, Some(_)) => {
                return Err("a password needs authentication, such as authentication = \"sha256\"".into());
            }
            (None, None) => None,
        };
        let privacy = match (keys.privacy, keys.privacy_password) {
            (Some(_), _) if authentication.is_none() => {
                return Err("privacy needs authentication, such as authentication = \"sha256\"".into());
            }
            (Some(name), password) => Some(Protection {
                protocol: named("privacy", &name, &PRIVACIES)?,
                password: password.ok_or("privacy_password or privacy_password_file is missing")?,
            }),
            (None, Some(_)) => return Err("privacy_password needs privacy, such as privacy = \"aes128\"".into()),
            (None, None) => None,
        };
        Ok(Self { name, authentication, privacy })
    }
}

/// The protocol of that name.
fn named<P: Copy>(key: &str, text: &str, known: &[(&str, P)]) -> Result<P, String> {
    let found = known.iter().find(|(name, _)| *name == text);
    found.map(|(_, protocol)| *protocol).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        format!("{key} {text:?} is none; there are {}", names.join(", "))
    })
}

/// Refuses a password that SNMP v3 forbids.
///
/// # Errors
/// A sentence with the key, without the password.
pub fn long_enough(key: &str, password: &str) -> Result<(), String> {
    if password.len() < PASSWORD_BYTES_MIN {
        return Err(format!("{key} has fewer than {PASSWORD_BYTES_MIN} bytes, which SNMP v3 forbids"));
    }
    Ok(())
}

/// The keys of passwords, before they are localised. Each is the hash of a MiB made of its password: milliseconds.
///
/// # Errors
/// What the library says of a password.
pub fn master_keys(
    authentication: (AuthProtocol, &str),
    privacy: Option<(PrivProtocol, &str)>,
) -> CryptoResult<MasterKeys> {
    let (protocol, password) = authentication;
    let keys = MasterKeys::new(protocol, password.as_bytes())?;
    match privacy {
        Some((protocol, password)) => keys.with_privacy(protocol, password.as_bytes()),
        None => Ok(keys),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_protocol_makes_keys() {
        for (_, privacy) in PRIVACIES {
            let keys =
                master_keys((AuthProtocol::Sha256, "hunter2hunter2"), Some((privacy, "2retnuh2retnuh"))).unwrap();
            assert_eq!(keys.priv_protocol(), Some(privacy));
            assert!(keys.localize(b"\x80\0\0\0\x05engine").is_ok());
        }
    }

    #[test]
    fn a_password_has_eight_bytes() {
        assert_eq!(long_enough("password", "hunter2h"), Ok(()));
        let sentence = long_enough("password", "hunter2").unwrap_err();
        assert!(sentence.starts_with("password has fewer than 8 bytes") && !sentence.contains("hunter2"), "{sentence}");
    }
}
