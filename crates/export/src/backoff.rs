//! How long to wait before a batch is sent again: twice as long each time, and never in step with other processes.

use std::time::Duration;

use ogive_model::Ns;

/// 100 ms: a server that restarts is found at once.
const FIRST: Ns = Ns(100_000_000);

/// 10 s: after a long outage, waiting batches are sent within that time.
const LONGEST: Ns = Ns::from_secs(10);

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
    pub(crate) fn next_wait(&mut self, after: Option<Duration>) -> Ns {
        let step = FIRST.0.checked_shl(self.failures).map_or(LONGEST, |step| Ns(step).min(LONGEST));
        self.failures = (self.failures + 1).min(32);
        let half = step / 2;
        let wait = half + Ns(self.random.i64(0..half.0));
        after.map_or(wait, |after| wait.max(Ns::from(after).saturating_add(wait / 4)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_the_longest_and_differ() {
        let mut one = Backoff::new(1);
        for failure in 0..100 {
            let step = FIRST.saturating_mul(1_i64 << failure.min(20)).min(LONGEST);
            let wait = one.next_wait(None);
            assert!((step / 2..=step).contains(&wait), "{failure}: {wait}");
        }
        one.reset();
        assert!(one.next_wait(None) <= FIRST);
        assert!(one.next_wait(Some(Duration::from_secs(5))) >= Ns::from_secs(5));
        let (mut two, mut three) = (Backoff::new(2), Backoff::new(4));
        assert_ne!(two.next_wait(None), three.next_wait(None));
    }
}
