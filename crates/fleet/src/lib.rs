//! Central management of brokers: the server keeps what the brokers of a group shall do, and brokers fetch it.
//!
//! - `package`: a version of a group's configuration, signed by the server; `record`: files with a checksum, in every
//!   data directory.
//! - Server: `group_store` (every version of every group), `credential` (one-time tickets, tokens of brokers), `task`
//!   (requests to a broker), `member` (a broker as the server knows it), `spread` and `division` (checks that only some
//!   brokers of a group run, and who may run them now), `dials` (connections through brokers), `fleet` (all of it, and
//!   the long poll).
//! - Broker: `broker` (what the fleet needs of it), `broker_store` (its credential, the last good version and the
//!   requests that it has seen), `lease` (the checks that it runs for the group, and until when), `link` (the loop that
//!   asks the server).
//! - Both: `target` (what a broker may be asked to connect to), `relay` (bytes both ways between two streams), `watch`
//!   (what a broker shows while it is watched) and `lines` (lines over such a stream).
//!
//! Invariants: a configuration is accepted only after it was validated as a broker validates it; a broker applies only
//! what the key of its server has signed, for its own group, and newer than what it has; what it cannot apply leaves
//! the last good version in force. A ticket enrols one broker. A token is known to the server by its hash alone.
//! Belongs here: the state of both sides and the bytes between them. Does not belong here: HTTP routes, the meaning of
//! a configuration (whoever opens a [`Fleet`] says how it is validated), and running it.
//! Failure: every refusal is a sentence that says what to do.
#![forbid(unsafe_code)]

mod broker;
mod broker_store;
mod credential;
mod dials;
mod division;
mod error;
mod fleet;
mod group_store;
mod lease;
mod lines;
mod link;
mod member;
mod package;
mod record;
mod relay;
mod report;
mod secret;
mod spread;
mod target;
mod task;
#[cfg(test)]
mod testing;
mod watch;
mod wire;

pub use broker::{Broker, Home};
pub use broker_store::{BrokerStore, Credential};
pub use credential::{Enrolment, NewTicket, TicketView};
pub use dials::{Arrival, BROKER_CONNECTIONS_MAX, Connection, DIAL, Duplex, Place, Refusal};
pub use error::Error;
pub use fleet::{Applied, Fleet, GroupRow, POLL_BYTES_MAX, Validate, WAIT_MAX};
pub use lines::{Lines, send_line};
pub use link::{Link, LinkOptions, enrol};
pub use package::{CONTENTS_BYTES_MAX, Contents, Package, PublicKey, Signed};
pub use record::Restrict;
pub use relay::{End, IDLE, Relayed, Side, relay};
pub use report::{Destination, Refused, Report};
pub use secret::TOKEN_PREFIX;
pub use spread::Spread;
pub use target::{Host, Reachable, Target};
pub use task::{Order, Outcome, Task, TaskView};
pub use watch::{
    BROKER_WATCHES_MAX, LeftOut, WATCH_BYTES_MAX, WATCH_CELLS_MAX, WATCH_SERIES_MAX, WATCH_SUM_BINS_MAX, Watch,
    WatchCell, WatchColumn, WatchDistribution,
};
pub use wire::{Answer, Connect, Declined, Enroled, Poll, Share, any as read_any};

/// 64 letters: a name is a label, part of an address and a file name.
const NAME_BYTES_MAX: usize = 64;

/// What is wrong with the name of a group or a broker, if anything is.
///
/// # Errors
/// A sentence on what a name may be.
pub fn check_name(name: &str) -> Result<(), String> {
    let letters = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(letters) || name.starts_with('.') {
        return Err(format!("{name:?} is no name; use 1 to {NAME_BYTES_MAX} letters, digits and -_."));
    }
    Ok(())
}
