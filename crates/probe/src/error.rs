//! What can go wrong in the probe.

/// An error of the probe. Reading a clock and recording cannot fail.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system gave no thread; try again later, or do without what the thread is for.
    #[error("cannot start the thread {name}: {source}")]
    Spawn {
        /// The thread's name.
        name: String,
        /// Why.
        source: std::io::Error,
    },
    /// A line that is not a slow trace as [`SlowTrace`](crate::SlowTrace) writes it; do not use it.
    #[error("not a slow trace: {what} at {at:?}")]
    Trace {
        /// What was expected there.
        what: &'static str,
        /// The field that is wrong, its first 64 bytes.
        at: String,
    },
}
