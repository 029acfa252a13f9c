//! Text that people write and read: durations, sizes, dates, hexadecimal digits, near misses, quotes, options without
//! their secrets, mistakes in TOML files with their lines, and numbers for names.
//!
//! Belongs here: pure functions from text to values and back, one notation for the whole project. Does not belong here:
//! files, sockets, clocks, a command line, or anything that knows the purpose of a value.
#![forbid(unsafe_code)]

pub mod calendar;
pub mod duration;
pub mod fnv;
pub mod hex;
pub mod instant;
pub mod mistake;
pub mod near;
pub mod quoted;
pub mod secrets;
pub mod size;
