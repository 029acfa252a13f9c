//! Options of `ogive serve`: what one query may take.

use ogive_model::{Memory, MemoryScope};
use ogive_query::EngineOptions;

use super::limits::Limits;

/// 8 threads for one query, and no more than there are processors: four queries at once then have 32.
const QUERY_THREADS_MAX: usize = 8;

/// Bytes.
const MIB: usize = 1 << 20;

/// What one query may take. Beyond it the answer is an error that names the limit.
#[derive(clap::Args, Clone, Copy, Debug)]
pub struct QueryLimits {
    /// Samples that one query may hold; a histogram counts as one per bin.
    #[arg(long, value_name = "COUNT", default_value_t = 50_000_000, env = "OGIVE_QUERY_SAMPLES")]
    query_samples: usize,
    /// Memory for one query, in MiB: labels, samples, histograms, groups and the answer.
    #[arg(long, value_name = "MIB", default_value_t = Limits::QUERY_MEMORY_MIB, env = "OGIVE_QUERY_MEMORY_MIB")]
    query_memory_mib: usize,
    /// Memory for all queries together, in MiB; a query that does not fit is answered 429.
    #[arg(long, value_name = "MIB", default_value_t = Limits::QUERIES_MEMORY_MIB, env = "OGIVE_QUERIES_MEMORY_MIB")]
    queries_memory_mib: usize,
    /// Memory for what queries decoded of blocks, in MiB, so that a repeated query does not decode it again; 0 for
    /// none.
    #[arg(long, value_name = "MIB", default_value_t = 64, env = "OGIVE_QUERY_CACHE_MIB")]
    query_cache_mib: u64,
    /// Series that one selector may read.
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000, env = "OGIVE_QUERY_SERIES")]
    query_series: usize,
    /// Query timeout in seconds; a query also ends when its client disconnects.
    #[arg(long, value_name = "SECONDS", default_value_t = Limits::QUERY_TIMEOUT.as_secs(), env = "OGIVE_QUERY_TIMEOUT_S", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub query_timeout_s: u64,
}

impl QueryLimits {
    /// How queries are evaluated.
    pub fn engine(&self) -> EngineOptions {
        let usual = EngineOptions::default();
        let memory = Memory::new(MemoryScope::All, self.queries_memory_mib.saturating_mul(MIB));
        // 16 bytes: a time and a value.
        let samples_max = self.query_samples.min(self.query_memory_bytes() / 16);
        let samples_read_max = usual.samples_read_max.min(samples_max);
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(QUERY_THREADS_MAX);
        EngineOptions { samples_max, samples_read_max, memory, series_max: self.query_series, threads, ..usual }
    }

    /// Memory for what was decoded of blocks.
    pub fn query_cache_bytes(&self) -> u64 {
        self.query_cache_mib.saturating_mul(MIB as u64)
    }

    /// The memory limit of one query: no more than that of all together.
    pub fn query_memory_bytes(&self) -> usize {
        self.query_memory_mib.min(self.queries_memory_mib).saturating_mul(MIB)
    }
}
