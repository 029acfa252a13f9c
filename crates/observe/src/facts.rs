//! The figures of a store, and how much memory the process holds.

use ogive_door::backend::{Backend, Fact};

use crate::memory;

/// Figures of a store that are bytes of memory.
const MEMORY_PARTS: [&str; 5] =
    ["head_bytes", "series_bytes", "block_index_bytes", "query_cache_bytes", "sequence_bytes"];

/// The figures of a store, and how much memory the process holds.
pub fn facts(backend: &dyn Backend) -> Vec<Fact> {
    let mut facts = backend.facts();
    let memory = memory::figures(memory_parts(&facts)).into_iter();
    facts.extend(memory.map(|(name, bytes)| Fact { name, value: bytes as f64 }));
    facts
}

/// Bytes of memory that these figures count.
pub fn memory_parts(facts: &[Fact]) -> u64 {
    facts.iter().filter(|fact| MEMORY_PARTS.contains(&fact.name)).map(|fact| fact.value as u64).sum()
}
