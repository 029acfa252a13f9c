//! The options of evaluation, and its limits.

use std::sync::Arc;

use ogive_model::{Memory, MemoryScope, Ms};

/// 1 GiB.
const MEMORY_BYTES: usize = 1 << 30;

/// How an [`Engine`](crate::Engine) evaluates.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// How far back an instant selector looks for a sample.
    pub lookback: Ms,
    /// Step of a subquery that does not state one.
    pub subquery_step: Ms,
    /// Most points that one intermediate value may hold, a histogram counting as one for each bin and 8 more.
    pub samples_max: usize,
    /// Most samples that one selector may read from the store at once, a histogram counting as one for each bin. Longer
    /// range queries are read in slices of time.
    pub samples_read_max: usize,
    /// Most series that one selector may read from the store.
    pub series_max: usize,
    /// Most instants at which one expression may be evaluated.
    pub instants_max: usize,
    /// Metric names are removed when the query ends, rather than by the operator that invalidates them.
    pub delayed_name_removal: bool,
    /// Counter resets are decided by the start times of samples.
    pub start_times: bool,
    /// Count the samples that each instant looks at.
    pub step_stats: bool,
    /// The budget to which queries are charged: their labels, samples, rows, groups and results.
    pub memory: Arc<Memory>,
    /// Threads that evaluate the series of one selector; they do not change the result.
    pub threads: usize,
}

impl Default for EngineOptions {
    /// 5 min of lookback and 1 min between a subquery's instants are Prometheus' own. 50,000,000 points of 16
    /// bytes are 800 MB, the most that one value may take, and 20,000,000 samples at once a third of that; 1,000,000
    /// series are a whole large installation. 2,000,000 instants are 23 days of seconds, and 32 MB for each series. 1
    /// GiB of memory holds one such value and its inputs.
    fn default() -> Self {
        Self {
            lookback: Ms::from_secs(5 * 60),
            subquery_step: Ms::from_secs(60),
            samples_max: 50_000_000,
            samples_read_max: 20_000_000,
            series_max: 1_000_000,
            instants_max: 2_000_000,
            delayed_name_removal: false,
            start_times: true,
            step_stats: false,
            memory: Memory::new(MemoryScope::Query, MEMORY_BYTES),
            threads: 1,
        }
    }
}
