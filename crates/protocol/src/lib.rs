//! Decoders of other systems' ingest protocols.
//!
//! Invariants: pure functions of bytes; no decoder panics, and none allocates more than a small multiple of the bytes
//! it was given. Undecodable input is an [`Error`] that says where and why.
//! Limits: every length is checked against the available bytes before it is trusted; the memory of a decoded request is
//! bounded by its bytes, at most [`READ_BYTES_MAX`].
#![forbid(unsafe_code)]

pub mod batch_json;
pub mod batch_message;
pub mod beats;
mod error;
mod event;
pub mod exposition;
pub mod families;
pub mod fluent;
mod gather;
pub mod gelf;
pub mod graphite;
pub mod inflate;
pub mod influx;
pub mod journald;
pub mod lines;
mod members;
mod msgpack;
#[cfg(test)]
mod mutations;
pub mod notification;
pub mod otlp;
pub mod parts;
mod protobuf;
pub mod remote_read;
pub mod remote_write;
mod room;
pub mod snappy;
pub mod statsd;
pub mod syslog;
mod tsdb_bits;
pub mod tsdb_chunk;

use twox_hash::{XxHash3_64, XxHash3_128};

pub use error::Error;
pub use gather::{Gather, untyped};
pub use room::{BYTES_MAX as READ_BYTES_MAX, batch_bytes, bytes_max as read_bytes_max};

/// What distinguishes a request of `tenant` with the body `message` from others: one that is sent again is the same
/// bytes. `about` is what stands beside the body and says what its bytes mean.
#[must_use]
pub fn fingerprint(tenant: &ogive_model::Tenant, about: &str, message: &[u8]) -> u128 {
    let tenant = XxHash3_64::oneshot(tenant.as_str().as_bytes());
    let seed = if about.is_empty() { tenant } else { XxHash3_64::oneshot_with_seed(tenant, about.as_bytes()) };
    XxHash3_128::oneshot_with_seed(seed, message)
}

#[cfg(test)]
mod tests {
    use ogive_model::Tenant;

    use super::*;

    #[test]
    fn a_request_is_distinguished_from_others_by_its_bytes_and_its_tenant() {
        let (one, other) = (Tenant::default(), Tenant::new("other").unwrap());
        assert_eq!(fingerprint(&one, "", b"a"), fingerprint(&one, "", b"a"));
        assert_ne!(fingerprint(&one, "", b"a"), fingerprint(&one, "", b"b"));
        assert_ne!(fingerprint(&one, "", b"a"), fingerprint(&other, "", b"a"));
        assert_ne!(fingerprint(&one, "", b"a"), fingerprint(&one, "db", b"a"));
        assert_ne!(fingerprint(&one, "db", b"a"), fingerprint(&other, "db", b"a"));
    }
}
