//! Files of other systems: read into numbered batches that can be sent twice and count once, and written.
//!
//! Invariants: the batches of a file follow from its bytes and the options alone, so that a second reading gives the
//! same ones under the same numbers; no reader panics. A line or sample that breaks a rule spoils only itself, and is
//! counted with its place.
//! Limits: a batch ([`batches::SAMPLES_MAX`], [`batches::BYTES_MAX`]), a line ([`lines::LINE_BYTES_MAX`]), and of a
//! block what [`blocks`] says; so memory does not grow with the file.
#![forbid(unsafe_code)]

pub mod batches;
pub mod blocks;
pub mod circllhist;
pub mod csv;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
pub mod hdr_log;
pub mod identity;
pub mod irondb;
pub mod lines;
pub mod openmetrics;
pub mod openmetrics_writer;
pub mod parquet;
pub mod sample_table;
mod scheme_text;
pub mod table;
#[cfg(test)]
mod tests;
pub mod victoria;

#[cfg(test)]
#[path = "../../protocol/src/mutations.rs"]
mod mutations;

pub use batches::{Batches, Numbered};

/// Why a file is not read to its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It could not be read.
    #[error("the file cannot be read: {0}")]
    Read(#[from] std::io::Error),
    /// It is not what it was said to be, or is damaged.
    #[error("{0}")]
    Unreadable(String),
    /// The receiver of the batches stopped, for a reason of its own.
    #[error("stopped")]
    Stopped,
}
