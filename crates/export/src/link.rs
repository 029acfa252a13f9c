//! The way to a server, as the exporter sees it.

use std::time::Duration;

use crate::Answer;

/// The outcome of an attempt to send a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The server gave a verdict on every sample, and what it accepted is durable.
    Answered(Answer),
    /// The batch is invalid and will never be accepted.
    Refused {
        /// A reason for counters.
        reason: String,
        /// A sentence for people.
        detail: String,
    },
    /// The server asks for less at once (429): nothing of it is durable, and the same bytes are to be retried.
    Busy {
        /// Not before this has passed.
        after: Option<Duration>,
        /// A sentence for people.
        detail: String,
    },
    /// The same bytes are to be retried.
    Later {
        /// Not before this has passed.
        after: Option<Duration>,
        /// The server may have accepted the batch: it must not be counted as dropped.
        in_doubt: bool,
        /// A sentence for people.
        detail: String,
    },
}

/// Sends batches, one at a time.
pub trait Link: Send + 'static {
    /// Sends a frame (docs/formats/batch.md) and waits at most `timeout` for the response.
    fn send(&mut self, frame: &[u8], timeout: Duration) -> Outcome;
}

impl<F: FnMut(&[u8], Duration) -> Outcome + Send + 'static> Link for F {
    fn send(&mut self, frame: &[u8], timeout: Duration) -> Outcome {
        self(frame, timeout)
    }
}
