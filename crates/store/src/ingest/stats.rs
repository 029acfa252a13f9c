//! The store's counters, and how they are reported.

use std::sync::atomic::{AtomicU64, Ordering};

use ogive_model::{Ms, Reason, Verdict, WallMs};

use crate::manifest::Horizon;

/// A number that only grows, or a gauge that is set. Each is read by itself.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        // ORDERING: Relaxed; a counter publishes nothing beside itself.
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn set(&self, value: u64) {
        // ORDERING: Relaxed, as above.
        self.0.store(value, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        // ORDERING: Relaxed, as above.
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters of a store.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    pub(crate) accepted: Counter,
    pub(crate) duplicate: Counter,
    pub(crate) folded: Counter,
    pub(crate) unknown_series: Counter,
    rejected: [Counter; Reason::ALL.len()],
    pub(crate) refused: Counter,
    pub(crate) series: Counter,
    /// Bytes of the table of sequences.
    pub(crate) sequence_bytes: Counter,
    pub(crate) journal_bytes: Counter,
    /// Sequence behind the last record that is durable.
    pub(crate) journal_durable: Counter,
    pub(crate) journal_failures: Counter,
    pub(crate) flushes: Counter,
    pub(crate) flush_failures: Counter,
    pub(crate) compactions: Counter,
    pub(crate) compaction_failures: Counter,
    pub(crate) rollups: Counter,
    pub(crate) rollup_failures: Counter,
    pub(crate) drops: Counter,
    pub(crate) drop_failures: Counter,
    pub(crate) dropped_blocks: Counter,
    pub(crate) dropped_bytes: Counter,
    pub(crate) erasures: Counter,
    pub(crate) erasure_failures: Counter,
    pub(crate) recall_failures: Counter,
    pub(crate) read_clashes: Counter,
    pub(crate) written_clashes: Counter,
    /// 1 while something would be dropped if the wall clock were believed.
    pub(crate) drops_held: Counter,
    /// 1 while the last flush failed for want of space.
    pub(crate) flush_full: Counter,
}

impl Stats {
    pub(crate) fn count(&self, verdict: &Verdict) {
        self.accepted.add(verdict.accepted);
        self.duplicate.add(verdict.duplicate);
        self.folded.add(verdict.folded);
        for (_, reason) in &verdict.rejected {
            let at = Reason::ALL.iter().position(|one| one == reason).expect("ALL has every reason");
            self.rejected[at].add(1);
        }
    }

    pub(crate) fn rejected(&self) -> Vec<(Reason, u64)> {
        Reason::ALL.into_iter().zip(self.rejected.iter().map(Counter::get)).collect()
    }
}

/// What opening the store found in its journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Batches replayed.
    pub batches: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Samples applied.
    pub samples: u64,
    /// What was cut off the journal's end or could not be read, one sentence each; nothing is passed over in silence.
    pub findings: Vec<String>,
}

/// How a store is, at one moment. Each number by itself is true; they are not read at one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Series that had samples within the last hour or so.
    pub series: u64,
    /// Samples in memory.
    pub head_samples: u64,
    /// Their bytes, with the room that is allocated for more.
    pub head_bytes: u64,
    /// Bytes of the series themselves: labels, index, and where their samples are.
    pub series_bytes: u64,
    /// Bytes of the label indexes of blocks that are in memory.
    pub block_index_bytes: u64,
    /// Chunks and series pages that queries found decoded since the start.
    pub query_cache_hits: u64,
    /// Those that they did not find so, but for small ones and those of texts.
    pub query_cache_misses: u64,
    /// Bytes of what is kept decoded.
    pub query_cache_bytes: u64,
    /// Bytes of the table of sequences, about.
    pub sequence_bytes: u64,
    /// What heads and series may have together.
    pub head_bytes_max: u64,
    /// Live blocks.
    pub blocks: u64,
    /// Bytes of their files.
    pub block_bytes: u64,
    /// Blocks that cannot be read, one sentence each.
    pub block_failures: Vec<String>,
    /// Bytes of the journal's segments.
    pub journal_bytes: u64,
    /// Batches that wait for the journal.
    pub queue_batches: u64,
    /// Samples accepted since the start.
    pub accepted: u64,
    /// Samples that had been accepted before.
    pub duplicate: u64,
    /// Of the accepted, those that went into a series that stands for those beyond a limit.
    pub folded: u64,
    /// Batches refused because they name series that are not known here.
    pub unknown_series: u64,
    /// Samples rejected, for every reason.
    pub rejected: Vec<(Reason, u64)>,
    /// Batches refused: busy, disk full or failed.
    pub refused: u64,
    /// Journal writes and fsyncs that failed.
    pub journal_failures: u64,
    /// Flushes done.
    pub flushes: u64,
    /// Flushes that failed; each is tried again.
    pub flush_failures: u64,
    /// Times that several blocks became one.
    pub compactions: u64,
    /// Times that this failed; the blocks stay as they are.
    pub compaction_failures: u64,
    /// Rollups made, or made again.
    pub rollups: u64,
    /// Rollups that failed; queries read what they would have been made of.
    pub rollup_failures: u64,
    /// Times that blocks were dropped for their age or their size.
    pub drops: u64,
    /// Times that this failed; it is tried again.
    pub drop_failures: u64,
    /// Blocks dropped so.
    pub dropped_blocks: u64,
    /// Their bytes.
    pub dropped_bytes: u64,
    /// Deletions that are not carried out in every block.
    pub tombstones: u64,
    /// Times that deletions were carried out in a block, or forgotten as done.
    pub erasures: u64,
    /// Blocks in which deletions could not be carried out; they are hidden all the same.
    pub erasure_failures: u64,
    /// Blocks whose series could not be read when a batch named some of them.
    pub recall_failures: u64,
    /// Cells that answers gave without the part whose scheme does not merge, and series of several temporalities in
    /// them.
    pub read_clashes: u64,
    /// The same, in blocks that were made of several, or in memory: such a part is gone.
    pub written_clashes: u64,
    /// The time that retention goes by, milliseconds since 1970.
    pub retention_clock: WallMs,
    /// How far the wall clock is ahead of it and not confirmed, milliseconds.
    pub retention_lag: Ms,
    /// Whether something would be dropped if the wall clock were believed.
    pub drops_held: bool,
    /// What was dropped of each tenant and resolution, up to when.
    pub horizons: Vec<Horizon>,
    /// What the start found.
    pub recovered: Recovered,
    /// Findings that nobody has acknowledged.
    pub findings: u64,
}
