//! Measurements that a server or a broker takes of itself, and their path into its own store.
//!
//! Belongs here: own series and their help texts, the state of the host's clock, the process's memory. Does not belong
//! here: a protocol, HTTP, files (what the kernel reports about its clocks is an argument).
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
