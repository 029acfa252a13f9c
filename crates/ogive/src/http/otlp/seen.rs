//! Requests with log records that are stored already, so that one that is sent again counts once.
//!
//! A text has nothing but itself to tell it from the same text of another moment. A request that comes again is the same bytes, and
//! its records have times; one with a record that has none is not remembered: two of those may well be two.
//! Invariants: a request is remembered when it is durable, so what is known here is stored.
//! Threads: any; under one lock, for some 50 ns.
//! Limits: the last [`REQUESTS_MAX`] to twice as many; a restart forgets them.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// 32,768 requests, twice: senders try for some minutes, and a hundred requests a second are much for logs. 1.5 MiB.
const REQUESTS_MAX: usize = 1 << 15;

/// Fingerprints of requests: the newer ones, and those before.
#[derive(Default)]
pub(crate) struct Seen(Mutex<[HashSet<u128>; 2]>);

impl Seen {
    pub(super) fn has(&self, fingerprint: u128) -> bool {
        self.generations().iter().any(|generation| generation.contains(&fingerprint))
    }

    pub(super) fn remember(&self, fingerprint: u128) {
        let mut generations = self.generations();
        if generations[0].len() == REQUESTS_MAX {
            generations.swap(0, 1);
            generations[0].clear();
        }
        generations[0].insert(fingerprint);
    }

    fn generations(&self) -> MutexGuard<'_, [HashSet<u128>; 2]> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_requests_are_known_and_older_ones_forgotten() {
        let seen = Seen::default();
        let count = 2 * REQUESTS_MAX as u128 + 1;
        for fingerprint in 0..count {
            assert!(!seen.has(fingerprint));
            seen.remember(fingerprint);
            assert!(seen.has(fingerprint));
        }
        assert!(!seen.has(0) && seen.has(count - 1 - REQUESTS_MAX as u128));
    }
}
