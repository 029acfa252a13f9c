//! Errors between a batch and its destinations.

use std::path::PathBuf;

/// Why an operation of the spool or a cursor failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error of the disk. When it is full, try again when there is space.
    #[error(transparent)]
    Disk(#[from] ogive_journal::Error),
    /// A cursor's bytes are damaged. Start over: what is sent twice counts once.
    #[error("{} is no cursor: {what}", path.display())]
    Cursor {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
}
