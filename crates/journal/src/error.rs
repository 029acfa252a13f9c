//! Errors between a record and the disk, named after what the caller can do.

use std::path::PathBuf;

/// Why the disk or the journal did not do what was asked. Each variant names its file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No such file. Look elsewhere, or create it.
    #[error("{} does not exist", path.display())]
    NotFound {
        /// What was asked for.
        path: PathBuf,
    },
    /// The file is there already. Choose another name.
    #[error("{} exists already", path.display())]
    AlreadyExists {
        /// What was to be created.
        path: PathBuf,
    },
    /// No space left. Try again when there is space: nothing of what was refused stays.
    #[error("no space left on the disk of {} (at byte {offset}); free some space", path.display())]
    Full {
        /// The file that was to grow.
        path: PathBuf,
        /// Where it was to grow.
        offset: u64,
    },
    /// Another process, or another part of this one, holds the directory.
    #[error("{} is in use by another server; stop it or choose another directory", path.display())]
    Locked {
        /// The directory.
        path: PathBuf,
    },
    /// An earlier write or fsync of this file failed, so what it holds past its last good fsync is unknown.
    #[error("{} took a failed write or fsync and is closed for writing; reopen the journal", path.display())]
    Poisoned {
        /// The file.
        path: PathBuf,
    },
    /// The record is larger than a journal takes. Split it.
    #[error("a record of {found} bytes is above the limit of {limit}; split it")]
    RecordTooLarge {
        /// Its bytes.
        found: usize,
        /// The most that is taken.
        limit: usize,
    },
    /// The journal's numbers are at their end, or what says where it begins is not what was written.
    #[error("a record of sequence {found} is above the limit of {limit}; no reader would take it")]
    SequenceTooLarge {
        /// The sequence.
        found: u64,
        /// The highest that is taken.
        limit: u64,
    },
    /// The file ends before the bytes that must be there.
    #[error("{} ends before byte {end} (read from {offset})", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Where the read began.
        offset: u64,
        /// Where it was to end.
        end: u64,
    },
    /// Records that were read a moment ago are on no live disk any more, and nobody was notified that they were safe.
    /// Open the journal again.
    #[error("{} no longer holds the records {from}..{to} on any live disk; open the journal again", path.display())]
    Gone {
        /// The segment.
        path: PathBuf,
        /// The first of them.
        from: u64,
        /// Behind the last.
        to: u64,
    },
    /// Only a mirror has copies, and each of its members one. Give the store a second directory.
    #[error("{} has no copy {copy} here", path.display())]
    NoCopy {
        /// The file.
        path: PathBuf,
        /// Which copy was asked for.
        copy: usize,
    },
    /// The directories of a mirror do not fit together, so none of them may be written. The sentence says what to do.
    #[error("{problem}")]
    Mirror {
        /// What does not fit, and what to do.
        problem: String,
    },
    /// The operating system's word on anything else.
    #[error("cannot {operation} {}: {source}", path.display())]
    Io {
        /// What was tried, as a verb.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// What the operating system says.
        source: std::io::Error,
    },
}

impl Error {
    /// Whether space was missing: the same call can succeed later.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        matches!(self, Self::Full { .. })
    }
}
