//! The disk as Ogive uses it: append, fsync, read, rename. Every file goes through [`Disk`], so one seed of the
//! simulated disk replays a whole store with its faults.
//!
//! Invariants: a file only grows at its end or is truncated; bytes are safe after `sync` of the file, names (created,
//! renamed, removed) after `sync_dir` of their directory.
//! Failure: a write may accept fewer bytes than given; after a failed `sync` the file's unsynced bytes are in an
//! unknown state permanently, and no later `sync` of it proves anything about them.

mod file;
mod medium;
mod mirror;
mod real;
mod simulated;
#[cfg(test)]
mod simulated_tests;
mod verified;

pub use file::{DirectoryLock, Disk, DiskFile, Space};
pub use mirror::{
    MIRROR_FILE, Member, MemberState, MirrorDisk, MirrorOptions, MirrorStatus, Pace, Progress, added_members, fill_new,
};
pub use real::{LOCK_FILE, RealDisk};
pub use simulated::{Faults, SimulatedDisk};
pub use verified::{BadCopy, Piece, Verified, heal_from, read_twinned, read_verified, scrub_piece};
