//! How a request or message to a destination ended.

use std::time::Duration;

/// 10 s for a response, as in Prometheus: a destination that hangs blocks only itself.
pub const TIMEOUT: Duration = Duration::from_secs(10);

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It was accepted.
    Taken,
    /// It will never be accepted in this form.
    Refused(String),
    /// It is to be retried.
    Failed(String),
}
