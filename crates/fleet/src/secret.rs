//! Random secrets and their hashes.

use ogive_text::hex;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};

/// How the token of a broker begins.
pub const TOKEN_PREFIX: &str = "ogb_";
/// 32 bytes cannot be guessed, so that one round of a quick hash protects them.
const TOKEN_BYTES: usize = 32;

/// `count` random bytes as hexadecimal digits.
///
/// # Errors
/// The system has none.
pub(crate) fn random_hex(count: usize) -> Result<String, String> {
    let mut bytes = vec![0; count];
    SystemRandom::new().fill(&mut bytes).map_err(|_| "the system gives no random bytes".to_owned())?;
    Ok(hex::write(&bytes))
}

/// A new token of a broker.
pub(crate) fn token() -> Result<String, String> {
    Ok(format!("{TOKEN_PREFIX}{}", random_hex(TOKEN_BYTES)?))
}

/// The SHA-256 of a text as hexadecimal digits.
pub(crate) fn sha256(text: &str) -> String {
    hex::write(digest(&SHA256, text.as_bytes()).as_ref())
}

/// Whether this is a SHA-256 as [`sha256`] writes it.
pub(crate) fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}
