//! The store as everything in front of it sees it: something to select from and to submit batches to.

use std::sync::Arc;

use ogive_model::{Batch, Matcher, SourceId, Tenant, TimeRange, Verdict};
pub use ogive_model::{Reader, Stamps, Step};

use crate::own_value::OwnValue;

/// Why a batch was not taken, now or at all. Nothing of it is durable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The queue is full: send it again in a moment.
    #[error("the server takes no more batches right now; send it again in a second")]
    Busy,
    /// The disk is full: send it again when somebody made room.
    #[error("{0}")]
    DiskFull(String),
    /// More than the store takes in one batch: send less at once.
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
    /// Writing failed: send it again when the server was looked after.
    #[error("{0}")]
    Failed(String),
}

/// Called once, when the batch is durable and visible to queries, or refused.
pub type Reply = Box<dyn FnOnce(Result<Verdict, Refusal>) + Send>;

/// The frame of a batch: the one that it came in, or a new one.
pub fn frame_of(batch: &Batch, frame: Option<Vec<u8>>) -> Result<Vec<u8>, Refusal> {
    frame.map_or_else(|| batch.encode().map_err(|error| Refusal::TooLarge(error.to_string())), Ok)
}

/// A figure of the store for `/v1/status` and `/metrics`.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    /// Name in `/v1/status`.
    pub name: &'static str,
    /// Its value; bytes and seconds where the name says so.
    pub value: f64,
}

/// What a request deleted.
#[derive(Clone, Copy, Debug)]
pub struct Deletion<'a> {
    /// As it was requested.
    pub text: &'a str,
    /// Whose series.
    pub tenant: &'a Tenant,
    /// A series that one of them selects.
    pub selectors: &'a [Vec<Matcher>],
    /// Samples in it.
    pub range: TimeRange,
}

/// A store.
pub trait Backend: Send + Sync {
    /// Hands a batch over, with the frame that it was decoded from or encoded to when there is one.
    /// `stamps` hears how far it is, when the store reports it.
    fn submit(
        &self,
        batch: Batch,
        frame: Option<Vec<u8>>,
        stamps: Arc<dyn Stamps>,
        reply: Reply,
    ) -> Result<(), Refusal>;

    /// Deletes the samples in `range` of the series of `tenant` that one of `selectors` selects; durable when it returns.
    fn delete(&self, _tenant: &Tenant, _selectors: &[Vec<Matcher>], _range: TimeRange) -> Result<(), Refusal> {
        Err(Refusal::Failed("this store does not delete".into()))
    }

    /// As [`Backend::delete`], of cells that are written anew at once: nobody follows them.
    fn correct(&self, tenant: &Tenant, selectors: &[Vec<Matcher>], range: TimeRange) -> Result<(), Refusal> {
        self.delete(tenant, selectors, range)
    }

    /// The numbers of requests without times that it had when it was opened, as [`crate::numbers::recalled`] finds them.
    fn arrivals(&self) -> Vec<(SourceId, u64)> {
        Vec::new()
    }

    /// The snapshots that may hold what [`Backend::delete`] with the same arguments deletes.
    fn snapshots_holding(
        &self,
        _tenant: &Tenant,
        _selectors: &[Vec<Matcher>],
        _range: TimeRange,
    ) -> Result<Vec<String>, Refusal> {
        Ok(Vec::new())
    }

    /// Says in each of the snapshots what was deleted after it, as it was asked for and what [`Backend::delete`] was given, or removes them.
    fn after_deletion(&self, _snapshots: &[String], _remove: bool, _deletion: Deletion<'_>) -> Result<(), Refusal> {
        Ok(())
    }

    /// A source outside of this process brought data of `time_ms`, on its own clock.
    fn witness(&self, _source: u128, _time_ms: i64) {}

    /// Waits until what was deleted is gone.
    fn clean(&self) -> Result<(), Refusal> {
        Ok(())
    }

    /// What it holds of `tenant`.
    fn of<'a>(&'a self, tenant: &'a Tenant) -> Box<dyn Reader + 'a>;

    /// What it holds, for people.
    fn facts(&self) -> Vec<Fact>;

    /// Its own series beside [`Backend::facts`].
    fn own_values(&self) -> Vec<OwnValue> {
        Vec::new()
    }

    /// The label that distinguishes the own series of this process from those of the servers that they go to.
    fn own_label(&self) -> Option<(&'static str, String)> {
        None
    }

    /// The page that shows it.
    fn page(&self) -> &'static str {
        "index.html"
    }

    /// The state of its spool and destinations, of a broker; of gaps those of `tenant`, or of all.
    fn broker(&self, _tenant: Option<&Tenant>) -> Option<serde_json::Value> {
        None
    }
}
