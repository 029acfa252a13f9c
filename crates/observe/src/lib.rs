//! What a server or a broker measures of itself, and how it gets into its own store.
//!
//! What may be in it: own series and their help texts, the state of the host's clock, the process' memory. What may not: a protocol, HTTP, files
//! (what the kernel says of its clocks is an argument).
#![deny(unsafe_code)]

pub mod broker;
pub mod clock;
mod facts;
mod help;
pub mod memory;
mod observer;
#[allow(unsafe_code, reason = "the allocator's control has no safe wrapper for this call")]
mod purge;

pub use facts::{facts, memory_parts};
pub use help::{TURNED_AWAY, UNREADABLE, help};
pub use observer::Observer;
