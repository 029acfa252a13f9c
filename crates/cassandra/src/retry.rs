//! Retry policy: any failure of one coordinator is retried on another one, a bounded number of times.
//!
//! Every statement of ours is idempotent, because a row's key determines its content. The driver's own policy does not
//! retry after a replica failed to read, for which one corrupt replica is enough.

use scylla::policies::retry::{RequestInfo, RetryDecision, RetryPolicy, RetrySession};

/// 3 coordinators: each copy's own, of the usual three.
const ATTEMPTS_MAX: u32 = 3;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct NextCoordinator;

#[derive(Debug, Default)]
struct Attempts(u32);

impl RetryPolicy for NextCoordinator {
    fn new_session(&self) -> Box<dyn RetrySession> {
        Box::new(Attempts::default())
    }
}

impl RetrySession for Attempts {
    fn decide_should_retry(&mut self, request: RequestInfo<'_>) -> RetryDecision {
        self.0 += 1;
        if request.is_idempotent && self.0 < ATTEMPTS_MAX {
            RetryDecision::RetryNextTarget(None)
        } else {
            RetryDecision::DontRetry
        }
    }

    fn reset(&mut self) {
        self.0 = 0;
    }
}
