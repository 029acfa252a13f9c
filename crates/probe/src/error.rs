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
}
