//! Readers' requests to a shard.

use ogive_model::{Matcher, Tenant, TimeRange};

/// 4,096 series are a millisecond of a shard, in which neither batches nor other readers go on.
pub(crate) const PAGE_SERIES: usize = if cfg!(test) { 3 } else { 4096 };

/// What a reader wants to know.
pub(crate) struct ReadRequest {
    pub(crate) tenant: Tenant,
    pub(crate) matchers: Vec<Matcher>,
    pub(crate) range: TimeRange,
    /// Epochs up to this are in the blocks that the reader knows of.
    pub(crate) flushed: u64,
}
