//! How a request or message to a destination ended.

use std::time::Duration;

/// 10 s for an answer, as in Prometheus: a destination that hangs holds up only itself.
pub const TIMEOUT: Duration = Duration::from_secs(10);

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It was taken.
    Taken,
    /// It will never be taken so.
    Refused(String),
    /// It is to be sent again.
    Failed(String),
}
