//! The allocator of the process.
//!
//! jemalloc with background purging: pages that were freed go back to the system within some ten seconds, also when
//! nobody allocates meanwhile. The system's allocator keeps them: docs/decisions/allocator.md has the measurement.

/// A counter in front of the allocator wants the system's.
#[cfg(not(feature = "count-allocations"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
