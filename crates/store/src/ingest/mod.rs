//! Ingest: from a submitted batch to durable, queryable samples.
//!
//! A batch waits in a bounded queue for the journal writer, which decides about each sample, appends the accepted ones
//! to the journal, makes them durable together with what arrived within the same 10 ms, and hands them to the shards;
//! the last shard to apply them sends the replies. A flush turns the heads of all shards, split at one journal
//! position, into a block.
//!
//! Invariants: a reply of acceptance is sent after the batch is durable *and* applied; a batch takes effect once,
//! however often it is sent and whatever crashes in between; everything in the journal was accepted.
//! Threads: any number submit and read; one journal writer; [`Options::shards`] shards; one flusher. The only locks
//! between the writer and the shards are those of their queues.
//! Limits: the constants here and the fields of [`Options`].
//! Failure: a full queue or head refuses with [`Refusal::Busy`]; a full disk with [`Refusal::DiskFull`] until there is
//! space; a failed fsync answers [`Refusal::Failed`], and what it left in doubt is void: sent again, it counts once.

mod apply;
mod check;
mod clock;
mod column;
mod core;
mod families;
mod flush_wish;
pub(crate) mod flusher;
pub(crate) mod follow;
pub(crate) mod head;
mod index;
mod late_parts;
#[cfg(test)]
mod late_tests;
mod overflow;
mod owned;
mod pack;
mod packed;
mod packed_histograms;
mod packed_texts;
mod queue;
pub(crate) mod recall;
pub(crate) mod registry;
pub(crate) mod request;
mod room;
pub(crate) mod shard;
pub(crate) mod spans;
pub(crate) mod stats;
mod table;
mod text_runs;
pub(crate) mod writer;

use std::sync::Arc;
use std::time::Duration;

use ogive_model::sequence::SourceTable;
use ogive_model::{Ms, Ns, Verdict};

use crate::retention::Retention;

pub use check::{TIME_AHEAD_MAX, TIME_NS_MIN, check};
pub use clock::{Clock, ManualClock};
pub(crate) use flush_wish::{FlushWish, Flushed};
pub use follow::{Audience, Followed, Follower, Watch};
pub(crate) use queue::{Queue, Refused};
pub(crate) use registry::{Limits, Registry};

/// The limit on labels that a series is beyond, as its overflow series names it.
#[cfg(test)]
pub(crate) fn beyond(def: &ogive_model::SeriesDef, limits: &TenantLimits) -> Option<&'static str> {
    overflow::Beyond::labels(def, limits).map(overflow::Beyond::as_str)
}

/// What happens with a batch's outcome. Called once, on a thread of the store, so it must not wait.
pub type Reply = Box<dyn FnOnce(Result<Verdict, Refusal>) + Send>;

/// Why a batch was not taken. Nothing of it counts; sent again it may.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// More waits than may. Send again in a second.
    #[error("the store takes in as much as it can; send the batch again in a second")]
    Busy,
    /// Send again when there is space.
    #[error("the disk is full; free some space, then send the batch again")]
    DiskFull,
    /// Send less at once.
    #[error("{0}")]
    TooLarge(String),
    /// The batch names series by their identity that are not known here, by index into [`ogive_model::Batch::known`].
    /// Send it again, under its number, with those declared.
    #[error("{} of the batch's series are not known here; send it again with their labels", .0.len())]
    UnknownSeries(Vec<u32>),
    /// The disk failed. Send again: it counts once.
    #[error("the batch could not be made durable: {0}; send it again")]
    Failed(String),
}

/// Hears how long things took. Called on the store's threads, so it must not wait.
pub trait Observer: Send + Sync {
    /// A journal fsync.
    fn fsync(&self, _took: Ns) {}
    /// A flush, from the marker to the truncated journal.
    fn flush(&self, _took: Ns) {}
    /// A flush failed; it is tried again, and what it would have written stays in the journal.
    fn flush_failed(&self, _error: &crate::Error) {}
    /// The wall clock is so far ahead of the time that retention goes by, and nothing is dropped by it until it is
    /// confirmed; 0: it is no longer.
    fn clock_doubted(&self, _lag: Ms) {}
    /// The journal was replayed: what is marked now was stored before this start.
    fn recovered(&self, _sources: &SourceTable) {}
}

/// What each tenant may have. What is beyond folds into the series `ogive_overflow` of the tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TenantLimits {
    /// Series that can get samples.
    pub series: usize,
    /// Labels of a series, its name included.
    pub labels: usize,
    /// Bytes of a series' label names and values.
    pub label_bytes: usize,
}

impl TenantLimits {
    /// None but those that every label set keeps.
    pub const NONE: Self = Self { series: usize::MAX, labels: usize::MAX, label_bytes: usize::MAX };
}

impl Default for TenantLimits {
    fn default() -> Self {
        // As many series as the store takes; 64 labels and 16 KiB: twice what crowded Kubernetes series carry.
        Self { series: 1_000_000, labels: 64, label_bytes: 16 << 10 }
    }
}

/// How a store is kept.
#[derive(Clone)]
pub struct Options {
    /// Threads that own a part of the head each.
    pub shards: usize,
    /// Bytes of series and samples in memory, frozen heads included. At half of what the series leave of it a flush
    /// begins; above it batches are refused as busy.
    pub head_bytes_max: u64,
    /// A flush begins at the latest this long after the one before, so that a restart replays little.
    pub flush_interval: Duration,
    /// A flush that failed is tried again after this long.
    pub flush_retry: Duration,
    /// The shortest window of a block, milliseconds.
    pub window: Ms,
    /// How long after its end a window gets no more data but late data.
    pub lateness: Duration,
    /// Bytes of batches, as they came, after which a flush begins, so that a start after a crash replays no more than
    /// about that. The journal has a sixth of them where they are floats by identity.
    pub replay_bytes_max: u64,
    /// Widths of the rollups that are made, milliseconds, ascending; each divides the next one and the shortest window,
    /// or is a multiple of it.
    pub rollups: Vec<u32>,
    /// Reading a cell of a rollup of floats takes as long as reading so many samples: where a rollup does not save more
    /// than that, queries read the samples. 0 for rollups wherever they serve.
    pub float_cell_cost: u64,
    /// Bytes for what queries decoded of blocks, to be used again; 0 for none.
    pub query_cache_bytes: u64,
    /// What is kept.
    pub retention: Retention,
    /// This many blocks of like size in a window that still gets data become one; below 2 none ever do.
    pub compact_blocks: usize,
    /// The least time between two fsyncs of the journal while batches keep coming, and the longest that one waits
    /// for company. One that comes alone does not wait.
    pub group_interval: Duration,
    /// Batches that wait for the journal.
    pub queue_batches_max: usize,
    /// Bytes of batches that wait for the journal, with what they unfold to.
    pub queue_bytes_max: usize,
    /// Series that can get samples, of all tenants. One that gets none for an hour makes room.
    pub series_max: usize,
    /// What each tenant may have.
    pub tenant_limits: TenantLimits,
    /// Bytes of a journal segment.
    pub segment_bytes: u64,
    /// Bytes of the disk that are kept for what makes room when it is full; 0 for none.
    pub reserve_bytes: u64,
    /// Stands at the head of the journal's records; see its format. `None` for a random one.
    pub journal_mark: Option<u32>,
    /// The journal says when batches arrived, to the millisecond: for replays of what was recorded.
    pub journal_arrivals: bool,
    /// Hears how long things took.
    pub observer: Option<Arc<dyn Observer>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            // Two: applying costs far less than decoding and the journal, which have their own threads.
            shards: 2,
            // 1.5 GiB: a million series take 350 MiB, and a million float samples a minute 16 MiB a minute.
            head_bytes_max: 3 << 29,
            flush_interval: Duration::from_secs(600),
            // A second: a full disk is looked at often, and costs nothing meanwhile.
            flush_retry: Duration::from_secs(1),
            // 2 h: twelve flushes; what a question about the last hours opens is one block or two.
            window: Ms::from_secs(2 * 3600),
            // 15 minutes: a sender that was cut off for a while; and a flush that came just before its end.
            lateness: Duration::from_secs(900),
            // 128 MiB: a second or two of one core.
            replay_bytes_max: 128 << 20,
            rollups: vec![60_000, 3_600_000],
            // Eight: ten columns where samples have two. 1,440 cells of each of 1,000 series take 120 ms, 2,880 samples
            // 31 ms.
            float_cell_cost: 8,
            // 64 MiB: a day of eight thousand series each 30 s, or 40 minutes of a thousand histograms each 10 s.
            query_cache_bytes: 64 << 20,
            retention: Retention::default(),
            // Six: flushes of ten minutes become an hour, and a window when it is over.
            compact_blocks: 6,
            // 10 ms: at most a hundred fsyncs a second.
            group_interval: Duration::from_millis(10),
            // 4,096: each connection of a large site has one in progress.
            queue_batches_max: 4096,
            // 64 MiB: two of the largest frames.
            queue_bytes_max: 64 << 20,
            // Two million: 700 MiB of labels and indexes.
            series_max: 2_000_000,
            tenant_limits: TenantLimits::default(),
            segment_bytes: ogive_journal::SEGMENT_BYTES_MAX,
            reserve_bytes: 0,
            journal_mark: None,
            journal_arrivals: false,
            observer: None,
        }
    }
}
