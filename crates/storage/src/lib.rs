//! The embedded store as a backend of the door, and its background work.
//!
//! Belongs here: [`Embedded`], the directories and their upkeep, retention options, live cells, the quantizer, samples
//! that arrive after a forward's reads, and each sender's progress. Does not belong here: a protocol, HTTP, a query
//! language, or a file named in a configuration.
#![forbid(unsafe_code)]

pub mod disk_space;
mod embedded;
pub mod keeping;
pub mod late;
pub mod late_log;
#[cfg(test)]
mod late_log_tests;
mod late_sample;
mod limits;
pub mod live;
pub mod quantize;
mod source_times;
pub mod upkeep;

pub use embedded::{Embedded, Settings, Time};
pub use limits::IngestLimits;
pub use source_times::SourceTimes;
