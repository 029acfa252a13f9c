//! Live packets of an interface, read where the kernel puts them.
//!
//! - [`Ring`]: a `TPACKET_V3` ring of one interface; several with the same fan-out group share its connections.
//! - [`Filter`]: a classic BPF program made from ports, so that the kernel drops the rest.
//!
//! Threads: a ring belongs to one thread. Limits: [`BLOCKS`] blocks of [`BLOCK_BYTES`]; what does not fit is dropped by the kernel and
//! counted in [`Counts`]. Failure: without `CAP_NET_RAW` opening gives [`Error::Permission`], which says how to get it.
//! `unsafe` stands in `ring.rs` alone.
#![deny(unsafe_code)]

mod filter;
mod ring;

pub use filter::{Filter, Instruction, MAX_PORTS};
pub use ring::{BLOCK_BYTES, BLOCKS, Counts, Error, Fanout, Frame, Hardware, RETIRE_MS, Ring};
