//! What can go wrong in the probe.

/// An error of the probe. Reading a clock and recording cannot fail.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system could not create a thread; try again later, or do without the purpose of the thread.
    #[error("cannot start the thread {name}: {source}")]
    Spawn {
        /// The thread's name.
        name: String,
        /// Why.
        source: std::io::Error,
    },
    /// A line that is not a slow trace as written by [`SlowTrace`](crate::SlowTrace); do not use it.
    #[error("not a slow trace: {what} at {at:?}")]
    Trace {
        /// What was expected there.
        what: &'static str,
        /// The first 64 bytes of the invalid field.
        at: String,
    },
    /// A clock page cannot be published to or read from this file: choose another path, or go on without.
    #[error("the clock page {}: {source}", path.display())]
    Share {
        /// The file.
        path: std::path::PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Bytes that are not a clock page of a known version; do not use them.
    #[error("not a clock page: {what} is {found:#x}")]
    Page {
        /// Which field is wrong.
        what: &'static str,
        /// The value found.
        found: u64,
    },
}
