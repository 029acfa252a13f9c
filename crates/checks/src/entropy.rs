//! Unpredictable random bytes, for values that neither a server nor an attacker may guess: nonces, query identifiers,
//! tokens.
//!
//! The schedule of the checks has its own pseudo-random numbers in `plan`; they are not used for anything else.

use ring::rand::{SecureRandom as _, SystemRandom};

use super::run::{Failure, Reason};

/// `N` bytes of the system's generator.
pub(super) fn bytes<const N: usize>() -> Result<[u8; N], Failure> {
    let mut bytes = [0; N];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| Failure::new(Reason::Local, "the system gives no random bytes"))?;
    Ok(bytes)
}
