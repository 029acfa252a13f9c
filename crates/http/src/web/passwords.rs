//! Passwords against their bcrypt hashes, which is slow on purpose: off the async threads, a few at once, and
//! remembered.
//!
//! Limits: [`RUNNING_MAX`] are checked at once, [`WAITING_MAX`] wait; [`KNOWN_MAX`] right answers are remembered, wrong
//! ones never, so that nobody who guesses can push out who knows.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use ring::digest::{Context, SHA256};
use ring::rand::{SecureRandom, SystemRandom};
use tokio::sync::Semaphore;

/// 2 at once: each takes a processor for 50 to 500 ms.
const RUNNING_MAX: usize = 2;

/// 32 wait: another would wait for more than ten seconds.
const WAITING_MAX: usize = 32;

/// 256 users of 32 bytes; when more than that are known, they are forgotten and checked again.
const KNOWN_MAX: usize = 256;

/// The hash of no password that anybody gives: unknown users cost the same. Its cost is that of `htpasswd -B -C 10`.
const NOBODY: &str = "$2y$10$abcdefghijklmnopqrstuuWJYB5VKrtzvZbZuG1xh7O4OmwTPhL5S";

/// Too many are being checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Busy;

/// Checks passwords.
pub(super) struct Passwords {
    running: Arc<Semaphore>,
    waiting: Semaphore,
    /// Hashes of (hash, user, password) that were right.
    known: Mutex<HashSet<[u8; 32]>>,
    /// Makes the cache useless to an attacker who reads the memory of another process of ours.
    salt: [u8; 32],
}

impl Default for Passwords {
    fn default() -> Self {
        let mut salt = [0; 32];
        SystemRandom::new().fill(&mut salt).expect("the system gives random bytes");
        Self {
            running: Arc::new(Semaphore::new(RUNNING_MAX)),
            waiting: Semaphore::new(RUNNING_MAX + WAITING_MAX),
            known: Mutex::default(),
            salt,
        }
    }
}

impl Passwords {
    /// Whether `password` matches `hash`; for a user without a hash the same work is done, and the result is always
    /// false.
    pub(super) async fn check(&self, user: &str, password: &str, hash: Option<&str>) -> Result<bool, Busy> {
        let key = self.key(user, password, hash.unwrap_or(NOBODY));
        if hash.is_some() && self.known().contains(&key) {
            return Ok(true);
        }
        let _waiting = self.waiting.try_acquire().map_err(|_| Busy)?;
        let running = self.running.clone().acquire_owned().await.expect("the semaphore is never closed");
        let (password, hashed) = (password.to_owned(), hash.unwrap_or(NOBODY).to_owned());
        let checked = tokio::task::spawn_blocking(move || {
            // Held by the work itself: abandoned work still counts until it has ended.
            let _running = running;
            bcrypt::verify(password, &hashed).unwrap_or(false)
        });
        let is_right = checked.await.unwrap_or(false) && hash.is_some();
        if is_right {
            let mut known = self.known();
            if known.len() >= KNOWN_MAX {
                known.clear();
            }
            known.insert(key);
        }
        Ok(is_right)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashSet<[u8; 32]>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Each part is preceded by its length, so that no two combinations give the same key.
    fn key(&self, user: &str, password: &str, hash: &str) -> [u8; 32] {
        let mut context = Context::new(&SHA256);
        context.update(&self.salt);
        for part in [hash, user, password] {
            context.update(&(part.len() as u64).to_le_bytes());
            context.update(part.as_bytes());
        }
        context.finish().as_ref().try_into().expect("SHA-256 has 32 bytes")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn right_ones_are_remembered_and_wrong_ones_are_not() {
        let passwords = Passwords::default();
        let hash = bcrypt::hash("secret", 4).unwrap();
        for _ in 0..2 {
            assert_eq!(passwords.check("alice", "secret", Some(&hash)).await, Ok(true));
            assert_eq!(passwords.check("alice", "wrong", Some(&hash)).await, Ok(false));
            assert_eq!(passwords.known().len(), 1);
        }
        // What was right for one hash says nothing of the next.
        let next = bcrypt::hash("other", 4).unwrap();
        assert_eq!(passwords.check("alice", "secret", Some(&next)).await, Ok(false));
        assert_eq!(passwords.check("nobody", "secret", None).await, Ok(false));
    }

    #[test]
    fn nobody_has_a_hash_that_can_be_read() {
        assert_eq!(bcrypt::verify("x", NOBODY).ok(), Some(false));
    }

    #[tokio::test]
    async fn more_than_may_wait_are_told_to_come_back() {
        let passwords = Passwords::default();
        let _all = passwords.waiting.try_acquire_many((RUNNING_MAX + WAITING_MAX) as u32).unwrap();
        assert_eq!(passwords.check("alice", "secret", Some(NOBODY)).await, Err(Busy));
    }
}
