//! Bytes that nobody can predict, for what a server or an attacker must not guess: nonces, identifiers of questions, tokens.
//!
//! The schedule of the checks has its own numbers in `plan`, which only look random; they stay there.

use ring::rand::{SecureRandom as _, SystemRandom};

use super::run::{Failure, Reason};

/// `N` bytes of the system's generator.
pub(super) fn bytes<const N: usize>() -> Result<[u8; N], Failure> {
    let mut bytes = [0; N];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| Failure::new(Reason::Local, "the system gives no random bytes"))?;
    Ok(bytes)
}
