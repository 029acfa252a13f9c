//! The store as everything in front of it sees it: something to select from and to submit batches to.

use std::sync::Arc;

use ogive_model::{Batch, BatchId, Matcher, Tenant, TimeRange, Verdict, WallMs};
pub use ogive_model::{Reader, Stamps, Step};

use crate::own_value::OwnValue;

/// Why a batch was refused, now or for good. Nothing of it is durable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The queue is full: retry soon.
    #[error("the server takes no more batches right now; send it again in a second")]
    Busy,
    /// The disk is full: retry when space has been freed.
    #[error("{0}")]
    DiskFull(String),
    /// More than the store accepts in one batch: send less at once.
    #[error("{0}")]
    TooLarge(String),
    /// The batch names series that the store does not know, by index into its `known`.
    #[error("{message}")]
    UnknownSeries {
        /// What to do.
        message: String,
        /// Which.
        unknown: Vec<u32>,
    },
    /// Writing failed: retry when an operator has repaired the server.
    #[error("{0}")]
    Failed(String),
}

impl Refusal {
    /// The value of the label `reason`.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::DiskFull(_) => "disk_full",
            Self::Failed(_) => "failed",
            Self::TooLarge(_) => "too_large",
            Self::UnknownSeries { .. } => "unknown_series",
        }
    }
}

/// Called once, when the batch is durable and visible to queries, or refused.
pub type Reply = Box<dyn FnOnce(Result<Verdict, Refusal>) + Send>;

/// The frame of a batch: the one in which it arrived, or a new one.
pub fn frame_of(batch: &Batch, frame: Option<Vec<u8>>) -> Result<Vec<u8>, Refusal> {
    frame.map_or_else(|| batch.encode().map_err(|error| Refusal::TooLarge(error.to_string())), Ok)
}

/// A figure of the store for `/v1/status` and `/metrics`.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    /// Name in `/v1/status`.
    pub name: &'static str,
    /// Its value; in bytes or seconds where the name says so.
    pub value: f64,
}

/// A deletion request.
#[derive(Clone, Copy, Debug)]
pub struct Deletion<'a> {
    /// As it was requested.
    pub text: &'a str,
    /// Whose series.
    pub tenant: &'a Tenant,
    /// The deleted series: those that one of the selectors matches.
    pub selectors: &'a [Vec<Matcher>],
    /// Samples in it.
    pub range: TimeRange,
}

/// A store.
pub trait Backend: Send + Sync {
    /// Whether it takes batches now. Asked before a body is read and decoded: a store that is full is not to spend its
    /// time on what it refuses.
    ///
    /// # Errors
    /// [`Refusal::Busy`] or [`Refusal::DiskFull`], as [`Backend::submit`] would have it.
    fn admit(&self) -> Result<(), Refusal> {
        Ok(())
    }

    /// Submits a batch, with the frame that it was decoded from or encoded to, if there is one.
    /// `stamps` records its progress, if the store reports it.
    fn submit(
        &self,
        batch: Batch,
        frame: Option<Vec<u8>>,
        stamps: Arc<dyn Stamps>,
        reply: Reply,
    ) -> Result<(), Refusal>;

    /// Deletes the samples in `range` of the series of `tenant` that one of `selectors` selects; durable when it
    /// returns.
    fn delete(&self, _tenant: &Tenant, _selectors: &[Vec<Matcher>], _range: TimeRange) -> Result<(), Refusal> {
        Err(Refusal::Failed("this store does not delete".into()))
    }

    /// As [`Backend::delete`], for cells that are rewritten immediately: followers are not notified.
    fn correct(&self, tenant: &Tenant, selectors: &[Vec<Matcher>], range: TimeRange) -> Result<(), Refusal> {
        self.delete(tenant, selectors, range)
    }

    /// The numbers of requests without times that it had when it was opened, as [`crate::numbers::recalled`] finds
    /// them.
    fn arrivals(&self) -> Vec<BatchId> {
        Vec::new()
    }

    /// The snapshots that may contain what [`Backend::delete`] with the same arguments deletes.
    fn snapshots_holding(
        &self,
        _tenant: &Tenant,
        _selectors: &[Vec<Matcher>],
        _range: TimeRange,
    ) -> Result<Vec<String>, Refusal> {
        Ok(Vec::new())
    }

    /// Records in each of the snapshots what was deleted after it, as requested and as passed to [`Backend::delete`],
    /// or removes them.
    fn after_deletion(&self, _snapshots: &[String], _remove: bool, _deletion: Deletion<'_>) -> Result<(), Refusal> {
        Ok(())
    }

    /// A source outside of this process brought data of this time, on its own clock.
    fn witness(&self, _source: u128, _time: WallMs) {}

    /// Waits until the deleted data is removed.
    fn clean(&self) -> Result<(), Refusal> {
        Ok(())
    }

    /// The data of `tenant`.
    fn of<'a>(&'a self, tenant: &'a Tenant) -> Box<dyn Reader + 'a>;

    /// Tenants that are known to have data; there may be others.
    fn tenants(&self) -> Vec<Tenant> {
        Vec::new()
    }

    /// Facts about its state, for people.
    fn facts(&self) -> Vec<Fact>;

    /// Its own series in addition to [`Backend::facts`].
    fn own_values(&self) -> Vec<OwnValue> {
        Vec::new()
    }

    /// The label that distinguishes this process's own series from those of the servers to which they are sent.
    fn own_label(&self) -> Option<(&'static str, String)> {
        None
    }

    /// The page that shows it.
    fn page(&self) -> &'static str {
        "index.html"
    }

    /// The clusters behind it with their nodes, as `/v1/cluster` shows them; of a store of several machines alone.
    fn cluster(&self) -> Option<serde_json::Value> {
        None
    }

    /// The state of a broker's spool and destinations; gaps of `tenant`, or all.
    fn broker(&self, _tenant: Option<&Tenant>) -> Option<serde_json::Value> {
        None
    }
}
