//! Snapshots from one store to another, file by file.
//!
//! The sender lists the files of a snapshot with their checksums ([`Inventory`]); the receiver answers which bytes it lacks
//! ([`begin`]), takes them ([`put`]), and makes the snapshot when all are there ([`finish`]); [`receive`] does all of it with a stream. What it has under the same
//! name in its own blocks or in another snapshot gets a second name and is not sent: after the first, a snapshot costs what changed.
//!
//! *Invariants*: a received snapshot is there (its file `SNAPSHOT` is) only when every file has its length and its SHA-256, read back after
//! an fsync. A transfer that ended anywhere goes on where it was: what is there of a file is kept, and a file whose checksum is wrong
//! begins anew. What is sent of a block was scrubbed first.
//!
//! *Limits*: [`FILES_MAX`] files, [`PIECE_BYTES_MAX`] bytes a piece. *Failure*: `Error::Refused` for what cannot be so (a path that leaves the
//! directory, a gap between pieces, another snapshot of that name); else the disk's.
//!
//! *Format*: docs/formats/snapshot-stream.md. One transfer of a name at a time; the caller sees to that.

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
