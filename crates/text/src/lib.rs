//! Text that people write and read: durations, sizes, dates, near misses, options without their secrets, and mistakes in TOML
//! files with their lines.
//!
//! What may be in it: pure functions from text to values and back, each notation once for the whole project. What may not: files,
//! sockets, clocks, a command line, or anything that knows what a value is for.
#![forbid(unsafe_code)]

pub mod calendar;
pub mod duration;
pub mod instant;
pub mod mistake;
pub mod near;
pub mod secrets;
pub mod size;
