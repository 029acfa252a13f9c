//! Errors of the store, named after what the caller can do.

use std::path::PathBuf;

use ogive_model::SelectError;

/// Why the store did not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Stored bytes are not what was written. Repair the file from a copy, or leave it out.
    #[error("{} is corrupt at byte {offset}: {problem}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// What was expected and what was found.
        problem: String,
    },
    /// The file was written by a newer Ogive. Use that one.
    #[error("{} has format version {found}; this build reads up to version {known}: use a newer one", path.display())]
    TooNew {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The newest that is known here.
        known: u32,
    },
    /// The selection is to end: it reads more than it may, or who asked no longer waits.
    #[error(transparent)]
    Selection(#[from] SelectError),
    /// A block could not be opened when the store was. Look at its file, then start again.
    #[error("block {block:016x} could not be opened: {problem}")]
    Unreadable {
        /// Its id.
        block: u64,
        /// What the disk said then.
        problem: String,
    },
    /// More deletions wait to be carried out than may. Try again later.
    #[error("{limit} deletions are not carried out yet; try again when the server has cleaned up")]
    TooManyDeletions {
        /// The limit.
        limit: usize,
    },
    /// What is in memory could not be written as blocks. Look after the disk, then try again.
    #[error("what is in memory could not be written: {problem}")]
    Unflushed {
        /// What the disk said.
        problem: String,
    },
    /// The store is shutting down. Open it again.
    #[error("the store is shutting down")]
    Ending,
    /// It cannot be done as it was asked. The sentence says what to do.
    #[error("{problem}")]
    Refused {
        /// Why, and what to do.
        problem: String,
    },
    /// The disk did not do what was asked.
    #[error(transparent)]
    Disk(#[from] ogive_journal::Error),
}

impl Error {
    /// Whether space was missing: the same call can succeed later.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        matches!(self, Self::Disk(error) if error.is_full())
    }
}

impl From<Error> for SelectError {
    fn from(error: Error) -> Self {
        match error {
            Error::Selection(error) => error,
            Error::Corrupt { .. } => Self::Corrupt(error.to_string()),
            Error::TooNew { .. }
            | Error::Unreadable { .. }
            | Error::TooManyDeletions { .. }
            | Error::Unflushed { .. }
            | Error::Ending
            | Error::Refused { .. }
            | Error::Disk(_) => Self::Unavailable(error.to_string()),
        }
    }
}
