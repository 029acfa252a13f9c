//! Live packets of an interface, read where the kernel puts them.
//!
//! - [`Ring`]: a `TPACKET_V3` ring of one interface; several with the same fan-out group share its connections.
//! - [`Filter`]: a classic BPF program made from ports, so that the kernel drops the rest.
//!
//! Threads: a ring belongs to one thread. Limits: the ring has a [`Shape`]; what does not fit is dropped by the kernel
//! and counted in [`Counts`]. Failure: without `CAP_NET_RAW` opening gives [`Error::Permission`], which says how to get
//! it. `unsafe` stands in `ring.rs` alone.
#![deny(unsafe_code)]

mod filter;
mod ring;

pub use filter::{Filter, Instruction, MAX_PORTS};
pub use ring::{Counts, Error, Fanout, Frame, Hardware, Ring, Shape};
