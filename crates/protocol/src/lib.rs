//! Decoders of the protocols that other people's senders speak.
//!
//! Invariants: pure functions of bytes; no decoder panics, and none allocates more than a small multiple of the bytes it was
//! given. What cannot be read is an [`Error`] that says where and why.
//! Limits: every length is checked against the bytes that are there before it is believed.
#![forbid(unsafe_code)]

mod error;
pub mod exposition;
mod gather;
pub mod graphite;
pub mod influx;
pub mod lines;
#[cfg(test)]
mod mutations;
pub mod otlp;
mod protobuf;
pub mod remote_read;
pub mod remote_write;
pub mod snappy;
pub mod statsd;

pub use error::Error;
pub use gather::{Gather, LABEL_BYTES_MAX};
