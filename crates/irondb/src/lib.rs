//! What senders of IRONdb and Circonus put on the wire.
//!
//! In here: the names of metrics with their stream tags, and the bodies of HTTPTrap, as batches. Not in here: sockets, HTTP, secrets
//! and storage, which are the server's.
//!
//! Invariants: pure functions of bytes; no decoder panics, and none allocates more than a small multiple of the bytes it was given.
#![forbid(unsafe_code)]

pub mod httptrap;
pub mod name;
