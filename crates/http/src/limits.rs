//! What may go on at once.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use super::place::{self, QueryPlaces};
use super::room::Room;
use super::stream_places::Streams;

/// Limits on concurrent work.
pub struct Limits {
    /// Kibibytes of request bodies that are being read or decoded.
    pub(super) ingest_kib: Arc<Room>,
    /// Kibibytes of decompressed bodies, until the store has them.
    pub(super) unfolded_kib: Arc<Semaphore>,
    /// Bodies that are being read into batches.
    pub(super) reading: Arc<Semaphore>,
    /// Kibibytes of forms that are being read.
    pub(super) forms_kib: Arc<Room>,
    /// The longest time that a query may take, and its default.
    pub(super) query_timeout: Duration,
    /// Bytes that one query may hold.
    pub(super) query_memory_bytes: usize,
    /// Queries that run or wait.
    pub(super) queries: QueryPlaces,
    /// Live streams.
    pub(super) streams: Arc<Streams>,
}

impl Limits {
    /// 64 MiB of bodies: two of the largest.
    pub const INGEST_KIB: u32 = 64 * 1024;
    /// 256 MiB of batches and their frames between a body and the store's response: two of the worst that a request may
    /// decompress to.
    pub const UNFOLDED_KIB: usize = ogive_door::room::UNFOLDED_KIB;
    /// 4 bodies are decoded at once unless `--listener-threads` sets the number, twice the processors of a small
    /// machine: the worst of them take [`READ_BYTES_MAX`] each, the rest wait undecoded.
    ///
    /// [`READ_BYTES_MAX`]: ogive_protocol::READ_BYTES_MAX
    pub const READING: usize = 4;
    /// 32 MiB of forms with expressions: 32 of the largest, thousands of usual ones.
    pub const FORMS_KIB: usize = 32 * 1024;
    /// Queries that run or wait on a thread.
    pub const QUERIES: usize = place::SMALL + place::LARGE + place::WAITING;
    /// 1 GiB for what one query holds: a million series with their labels, some samples of each, and the results of an
    /// operator over them.
    pub const QUERY_MEMORY_MIB: usize = 1024;
    /// 2 GiB for what all queries hold together: two of the largest, or a great many ordinary ones.
    pub const QUERIES_MEMORY_MIB: usize = 2048;
    /// 64 live streams: each costs one small query a second.
    pub const STREAMS: usize = 64;

    /// 2 minutes, as in Prometheus.
    pub const QUERY_TIMEOUT: Duration = Duration::from_secs(120);

    /// Sets how many bodies are decoded at once.
    pub fn with_reading(self, bodies: usize) -> Self {
        Self { reading: Arc::new(Semaphore::new(bodies)), ..self }
    }

    /// Sets how many bytes one query may hold.
    pub fn with_query_memory(self, bytes: usize) -> Self {
        Self { query_memory_bytes: bytes, ..self }
    }

    /// The longest time that a query may take.
    pub fn query_timeout(&self) -> Duration {
        self.query_timeout
    }

    /// The limits of a server whose queries take no longer than `query_timeout`.
    pub fn new(query_timeout: Duration) -> Self {
        let semaphore = |permits| Arc::new(Semaphore::new(permits));
        Self {
            query_timeout,
            forms_kib: Room::new(Self::FORMS_KIB),
            ingest_kib: Room::new(Self::INGEST_KIB as usize),
            unfolded_kib: semaphore(Self::UNFOLDED_KIB),
            reading: semaphore(Self::READING),
            query_memory_bytes: Self::QUERY_MEMORY_MIB << 20,
            queries: QueryPlaces::new(),
            streams: Streams::new(Self::STREAMS),
        }
    }
}
