//! SNMP without sockets: users and their keys, values as text, and notifications from datagrams to records.
//!
//! - `user`: who may ask or send in version 3; `text`: bytes as text. Checks and listeners share these.
//! - `access`: the file that says who may send notifications; `engine`: boots and times of engines (RFC 3414).
//! - `receiver`: a datagram becomes a notification, an answer or a refusal; `sealed`: messages of version 3 that are
//!   sent; `record`: the objects of a message as a notification, those of version 1 converted (RFC 3584).
//!
//! Format: RFC 1157, RFC 3416 and RFC 3414, by the library async-snmp.
//! Invariants: nothing here opens a socket or a file, or reads a clock: datagrams, contents and times are passed in. No
//! message changes a state before its digest is verified. No secret is shown.
//! Belongs here: what SNMP is on the wire, and its logins. Does not belong here: sockets, checks, storing.
#![forbid(unsafe_code)]

mod access;
mod engine;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
#[cfg(test)]
#[path = "../../protocol/src/mutations.rs"]
mod mutations;
mod receiver;
mod record;
mod refusal;
mod sealed;
#[cfg(test)]
mod testing;
mod text;
mod user;

pub use access::Access;
pub use receiver::{Inform, Received, Receiver};
pub use refusal::Refusal;
pub use text::words;
pub use user::{Protection, User, UserKeys, long_enough, master_keys};
