//! Snapshots from one store to another, file by file.
//!
//! The sender lists the files of a snapshot with their checksums ([`Inventory`]); the receiver answers which bytes it
//! lacks ([`begin`]), accepts them ([`put`]), and creates the snapshot when all are there ([`finish`]); [`receive`]
//! does all of this with a stream. Files that it has under the same name in its own blocks or in another snapshot are
//! linked instead of sent: after the first, a snapshot costs only its changes.
//!
//! Invariants: a received snapshot exists (its file `SNAPSHOT` does) only when every file has its length and its
//! SHA-256, read back after an fsync. An interrupted transfer resumes where it was: the received part of a file is
//! kept, and a file with a wrong checksum starts over. Blocks are scrubbed before they are sent.
//! Limits: [`FILES_MAX`] files, [`PIECE_BYTES_MAX`] bytes a piece.
//! Failure: `Error::Refused` for invalid requests (a path that leaves the directory, a gap between pieces, another
//! snapshot of that name); otherwise the disk's errors.
//! Format: docs/formats/snapshot-stream.md. The caller ensures that there is one transfer of a name at a time.

mod inventory;
mod receiver;
mod stream;

pub use inventory::{FileEntry, Inventory, Sha256};
pub use receiver::{Missing, Progress, begin, begun, finish, put, receive};
pub use stream::{Piece, StreamReader, StreamWriter};

/// 50,000 files of 60 bytes each stay below the 4 MiB of a frame; a store with that many blocks holds years.
pub const FILES_MAX: usize = 50_000;

/// 1 MiB a piece: a piece that is sent again costs little, and a piece's headers nothing.
pub const PIECE_BYTES_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests;
