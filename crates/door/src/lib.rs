//! The single entry for samples: what HTTP, the line protocols, scraping, checks and queues share to submit batches to
//! a backend.
//!
//! Belongs here: the ledger by protocol and by sender, numbers for batches without one, metadata, the audit, timing of
//! each batch's stages, the memory limit of batches in flight, and submission. Does not belong here: a protocol, a
//! socket, a file, a configuration, or an HTTP status: nothing about a request decides what happens to a sample.
#![forbid(unsafe_code)]

pub mod audit;
pub mod backend;
pub mod counter;
pub mod counters;
pub mod differences;
pub mod division;
pub mod doorkeeper;
pub mod filtered;
pub mod fleet_figures;
pub mod forwarded;
pub mod ingest_path;
#[cfg(any(test, feature = "memory"))]
pub mod memory;
pub mod metadata;
pub mod meters;
pub mod numbers;
pub mod outbox;
pub mod own_value;
mod protocol;
pub mod reload;
pub mod room;
pub mod senders;
pub mod submission;

use std::sync::Arc;

use ogive_probe::Clock;
use tokio::sync::watch;

use backend::Backend;
use counters::Counters;
use metadata::Metadata;
use meters::Meters;
use numbers::Numbers;

/// State for everything that submits samples.
pub struct Door {
    /// The store, or the spool of a broker.
    pub backend: Arc<dyn Backend>,
    /// What was received, and its outcome.
    pub counters: Arc<Counters>,
    /// How long everything takes.
    pub meters: Arc<Meters>,
    /// The clock for all stored times.
    pub clock: Clock,
    /// Series that one batch may declare or name.
    pub batch_series_max: usize,
    /// Sequence numbers for batches without one.
    pub numbers: Numbers,
    /// Metadata that senders supply about their metrics.
    pub metadata: Arc<Metadata>,
    /// True when the server is stopping: streams end, and no new work begins.
    pub ending: watch::Receiver<bool>,
}
