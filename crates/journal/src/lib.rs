//! Durable records: an append-only, checksummed journal on a [`Disk`] that is real or simulated.
//!
//! [`Journal`] is what a server writes before it acknowledges; [`disk`] is how every file of Ogive is reached, so that
//! tests can cut the power in the middle of any operation.
#![forbid(unsafe_code)]

mod error;
mod finding;
mod format;
mod journal;
#[cfg(test)]
mod journal_tests;
#[cfg(test)]
#[path = "../../protocol/src/mutations.rs"]
mod mutations;
mod scrub;
mod sealed;
mod segment;

pub mod disk;

pub use disk::{
    BadCopy, DirectoryLock, Disk, DiskFile, Faults, LOCK_FILE, MIRROR_FILE, Member, MemberState, MirrorDisk,
    MirrorOptions, MirrorStatus, Pace, Piece, Progress, RealDisk, SimulatedDisk, Space, Verified, added_members,
    fill_new, heal_from, read_twinned, read_verified, scrub_piece,
};
pub use error::Error;
pub use finding::Finding;
pub use format::{RECORD_BYTES_MAX, SEGMENT_BYTES_MAX};
pub use journal::{CORRUPTIONS_MAX, Journal, Options, Position, Recovery, Replay, SegmentRange, read_journal};
pub use scrub::{Until, scrub_journal, scrub_presence};
#[doc(hidden)]
pub use sealed::sealed;
pub use segment::{Corruption, segment_number};
