//! The core of the broker: batches wait in a spool on a [`Disk`](ogive_journal::Disk) until each of several
//! destinations has received them.
//!
//! - [`Spool`]: the journal of batches and its one writer; [`Board`]: the readers' view of it.
//! - [`Delivery`]: one destination: what it has received ([`Cursor`], durable) and what it gets next (a live and a
//!   backlog lane).
//! - [`Gap`]: dropped data, as a record that the destination itself stores.
//! - [`Endpoints`]: chooses the address of a cluster for the next batch.
//!
//! The crate has no sockets, no clock and no threads: bytes and instants go in, decisions come out.
#![forbid(unsafe_code)]

mod board;
mod bytes;
mod cursor;
mod delivery;
mod endpoints;
mod error;
mod gap;
#[cfg(test)]
mod life_tests;

mod ranges;
mod record;
mod registry;
mod retry;
mod spool;

pub use board::{Board, Entry, Loaded, SegmentState};
pub use cursor::{Cursor, GapTotals, QueuedGap, RANGES_MAX};
pub use delivery::{Delivery, Job, Lag, Lane, Most, Order, Snapshot, Turn};
pub use endpoints::{Endpoint, Endpoints, Result as EndpointResult, Target};
pub use error::Error;
pub use gap::{GAP_METRIC, GAP_SAMPLES_METRIC, GAP_SERIES_MAX, Gap, GapBuilder, GapReason, Names, SeriesGap};
pub use ranges::Ranges;
pub use registry::Registry;
pub use spool::{Appended, Limits, Options, Prepared, Refusal, Spool};
