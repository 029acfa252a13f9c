//! Options of `ogive serve`: what writers may have.

/// What writers may have. Beyond it the series `ogive_overflow` stands for the rest, or the sender hears 429.
#[derive(clap::Args, Clone, Copy, Debug)]
pub struct IngestLimits {
    /// Memory for series and samples that are not in blocks yet, in MiB; above it, batches are answered 429.
    #[arg(long, value_name = "MIB", default_value_t = 1536, env = "OGIVE_INGEST_MEMORY_MIB", value_parser = clap::value_parser!(u64).range(16..))]
    pub ingest_memory_mib: u64,
    /// Active series of a tenant; further ones fold into its series ogive_overflow. All tenants together may have as
    /// many, and at least 2,000,000.
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000, env = "OGIVE_LIMIT_SERIES")]
    pub limit_series: usize,
    /// Labels of a series, its name included; series with more fold into ogive_overflow.
    #[arg(long, value_name = "COUNT", default_value_t = 64, env = "OGIVE_LIMIT_LABELS")]
    pub limit_labels: usize,
    /// Bytes of a series' label names and values; series with more fold into ogive_overflow.
    #[arg(long, value_name = "BYTES", default_value_t = 16_384, env = "OGIVE_LIMIT_LABEL_BYTES")]
    pub limit_label_bytes: usize,
    /// Series that one batch may declare or name; larger batches are answered 413.
    #[arg(long, value_name = "COUNT", default_value_t = ogive_model::wire::SERIES_MAX, env = "OGIVE_LIMIT_BATCH_SERIES")]
    pub limit_batch_series: usize,
}
