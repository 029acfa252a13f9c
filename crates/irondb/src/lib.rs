//! What senders of IRONdb and Circonus put on the wire.
//!
//! In here: the names of metrics with their stream tags, the bodies of HTTPTrap and of IRONdb's ways to write, as
//! batches, and what IRONdb's ways to read ask for. Not in here: sockets, HTTP, secrets and storage, which are the
//! server's.
//!
//! Invariants: pure functions of bytes; no decoder panics, and none allocates more than a small multiple of the bytes
//! it was given.
#![forbid(unsafe_code)]

pub mod body;
pub mod caql;
pub mod df4;
pub mod fetch;
pub mod flat;
pub mod frame;
mod glob;
pub mod graphite;
pub mod httptrap;
pub mod identity;
pub mod intake;
pub mod legacy;
pub mod metric_list;
#[cfg(test)]
#[path = "../../protocol/src/mutations.rs"]
mod mutations;
pub mod name;
pub mod nntbs;
pub mod record;
pub mod rollup;
pub mod tag_query;
pub mod topology;
pub mod tsv;
