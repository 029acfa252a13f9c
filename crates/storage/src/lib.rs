//! The embedded store as a backend of the door, and the work on what it holds.
//!
//! What may be in it: [`Embedded`], the directories and their upkeep, options of retention, live cells, the quantizer, what
//! comes behind a forward's reads, and how far senders have come. What may not: a protocol, HTTP, a query language, or a file that people name in a configuration.
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
