//! Records that survive: an append-only, checksummed journal on a [`Disk`] that is real or simulated.
#![forbid(unsafe_code)]

mod error;

pub mod disk;

pub use disk::{DirectoryLock, Disk, DiskFile, Faults, RealDisk, SimulatedDisk};
pub use error::Error;
