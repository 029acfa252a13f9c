//! How long to wait before a batch is sent again: twice as long each time, and never in step with other processes.

use std::time::Duration;

/// 100 ms: a server that restarts is found at once.
const FIRST_NS: u64 = 100_000_000;

/// 10 s: after a long outage, waiting batches are sent within that time.
const LONGEST_NS: u64 = 10_000_000_000;

/// The waits.
#[derive(Debug)]
pub(crate) struct Backoff {
    failures: u32,
    random: fastrand::Rng,
}

impl Backoff {
    pub(crate) fn new(seed: u64) -> Self {
        Self { failures: 0, random: fastrand::Rng::with_seed(seed) }
    }

    /// It went well.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }

    /// The wait after another failure: between half of the step and all of it, and at least `after`.
    pub(crate) fn next_ns(&mut self, after: Option<Duration>) -> u64 {
        let step = FIRST_NS.checked_shl(self.failures).map_or(LONGEST_NS, |step| step.min(LONGEST_NS));
        self.failures = (self.failures + 1).min(32);
        let wait = step / 2 + self.random.u64(..step / 2);
        after.map_or(wait, |after| wait.max(after.as_nanos() as u64 + wait / 4))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_the_longest_and_differ() {
        let mut one = Backoff::new(1);
        for failure in 0..100 {
            let step = (FIRST_NS << failure.min(20)).min(LONGEST_NS);
            let wait = one.next_ns(None);
            assert!((step / 2..=step).contains(&wait), "{failure}: {wait}");
        }
        one.reset();
        assert!(one.next_ns(None) <= FIRST_NS);
        assert!(one.next_ns(Some(Duration::from_secs(5))) >= 5_000_000_000);
        let (mut two, mut three) = (Backoff::new(2), Backoff::new(4));
        assert_ne!(two.next_ns(None), three.next_ns(None));
    }
}
